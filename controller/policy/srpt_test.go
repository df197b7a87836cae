package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func TestT09_SRPTStartsWithTheLastStage(t *testing.T) {
	tests := map[string]struct {
		law  policy.SRPT
		want string
	}{
		"exhaustive": {
			policy.SRPT{Form: policy.Polled, Bound: policy.NoBound},
			"3(0) 2(0) 1(2) 3(0) 2(2) 3(2) 3(0) 2(0) 1(0) |",
		},
		"the original": {
			policy.SRPT{Form: policy.Polled, Preset: policy.Cruz},
			"3(0) 2(0) 1(2) 3(0) 2(2) 3(2) 3(0) 2(0) 1(0) |",
		},
		"one at a time": {
			policy.SRPT{Form: policy.Polled},
			"3(0) 2(0) 1(1) 3(0) 2(1) 3(1) 3(0) 2(0) 1(1) 3(0) 2(1) 3(1) 3(0) 2(0) 1(0) |",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFake(tt.law, line(3)...)
			h.sound(t)
			require.Equal(t, tt.want, trace(h.plan(), 3, 2, 1))
		})
	}
	for _, law := range []policy.SRPT{{Bound: 1}, {Key: policy.ByRank, Bound: 1}, {Preset: policy.Cruz}} {
		t.Run(law.Name()+", global", func(t *testing.T) {
			h := newFake(law, line(3)...)
			h.sound(t)
			require.Equal(t, controller.SharedPriority, h.Pool(policy.SharedPool).Dispatch)
			require.Equal(t, "A1, A2, A3, B1, B2, B3", shared(h, 1, "A", "B"))
			require.Equal(t, "1 1 1", h.bounds())
		})
	}
	require.Equal(t, "0 0 0", newFake(policy.SRPT{}, line(3)...).bounds(), "a batch by default")
}

func priorities(h *fake) []int {
	all := make([]int, 0, len(h.Stages))
	for i := range h.Stages {
		all = append(all, h.Stages[i].Priority)
	}
	return all
}

// Stage 1 leads to 2 and to 3, and both lead to 4. The path over 3 is the short one, except in the second row.
func diamond() []controller.StageStats {
	stages := line(4)
	stages[0].Next = []controller.StageID{1, 2}
	stages[1].Next, stages[2].Next = []controller.StageID{3}, []controller.StageID{3}
	stages[1].Rank, stages[2].Rank, stages[3].Rank = 1, 1, 2
	return stages
}

func TestTheLessWorkRemainsTheEarlierAStageComes(t *testing.T) {
	us := time.Microsecond
	tests := map[string]struct {
		law      policy.SRPT
		services []time.Duration
		want     []int
		polled   string
	}{
		"nothing measured":  {policy.SRPT{}, []time.Duration{0, 0, 0, 0}, []int{1, 2, 3, 4}, "4 3 2 1"},
		"the short path":    {policy.SRPT{}, []time.Duration{us, 9 * us, us, us}, []int{1, 2, 3, 4}, "4 3 2 1"},
		"the other path":    {policy.SRPT{}, []time.Duration{us, us, 9 * us, us}, []int{1, 3, 2, 4}, "4 2 3 1"},
		"by rank":           {policy.SRPT{Key: policy.ByRank}, []time.Duration{us, us, 9 * us, us}, []int{1, 2, 3, 4}, "4 3 2 1"},
		"in the listing":    {policy.SRPT{Preset: policy.Cruz}, []time.Duration{us, us, 9 * us, us}, []int{1, 2, 3, 4}, "4 3 2 1"},
		"one part measured": {policy.SRPT{}, []time.Duration{0, 0, 0, us}, []int{1, 2, 3, 4}, "4 3 2 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			polled := tt.law
			polled.Form = policy.Polled
			g, p := newFake(tt.law, diamond()...), newFake(polled, diamond()...)
			for i, service := range tt.services {
				g.handled(i+1, 9, 9, service)
				p.handled(i+1, 9, 9, service)
			}
			g.tick(time.Second)
			p.tick(time.Second)
			g.sound(t)
			p.sound(t)
			require.Equal(t, tt.want, priorities(g))
			require.Equal(t, tt.polled, p.order())
		})
	}
}

func TestTheStagesOfALoopAreAllAsFarFromTheEnd(t *testing.T) {
	stages := loop(line(4), 2, 3)
	for _, law := range []policy.SRPT{{}, {Key: policy.ByRank}} {
		h := newFake(law, stages...)
		for i := range stages {
			h.handled(i+1, 9, 9, time.Millisecond)
		}
		h.tick(time.Second)
		h.sound(t)
		require.Equal(t, []int{1, 2, 2, 3}, priorities(h), "stages of the loop come behind the stages on the way out")
	}
}

func TestWithoutKnownEdgesThePositionInThePipelineDecides(t *testing.T) {
	require.Equal(t, []int{1, 2, 3}, priorities(newFake(policy.SRPT{}, make([]controller.StageStats, 3)...)))
	polled := newFake(policy.SRPT{Form: policy.Polled}, make([]controller.StageStats, 3)...)
	require.Equal(t, "3 2 1", polled.order())
}

func TestAStageThatStarvesComesFirstUntilTheNextTick(t *testing.T) {
	starve := func(h *fake) {
		h.tell(controller.Event{Kind: controller.EventStarved, Stage: 0})
	}
	g := newFake(policy.SRPT{}, line(3)...)
	starve(g)
	starve(g)
	require.Equal(t, []int{4, 2, 3}, priorities(g))
	g.tick(100 * time.Millisecond)
	require.Equal(t, []int{1, 2, 3}, priorities(g))
	g.sound(t)

	p := newFake(policy.SRPT{Form: policy.Polled}, line(3)...)
	starve(p)
	require.Equal(t, "1 3 2", p.order())
	require.True(t, p.plan().Now, "no worker may ever come to the end of a round")
	p.tick(100 * time.Millisecond)
	require.Equal(t, "3 2 1", p.order())
	p.sound(t)

	for _, law := range []policy.SRPT{{NoAgeing: true}, {Preset: policy.Cruz}} {
		h := newFake(law, line(3)...)
		starve(h)
		require.Equal(t, []int{1, 2, 3}, priorities(h))
	}
}

func TestOnlyTheGlobalFormClaimsPriorities(t *testing.T) {
	require.True(t, claims(policy.SRPT{}, controller.KnobPriority))
	require.False(t, claims(policy.SRPT{Form: policy.Polled}, controller.KnobPriority))
}

func TestAStageThatKeepsItsWorkersKeepsItsPriority(t *testing.T) {
	stages := line(3)
	stages[1].Blocking, stages[1].Priority = true, 77
	h := newFake(policy.SRPT{}, stages...)
	h.sound(t)
	require.Equal(t, []int{1, 77, 3}, priorities(h))
}

func TestSRPTReturnsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, policy.SRPT{Form: policy.Global, Key: policy.ByRank, Bound: policy.NoBound}.Check())
	require.EqualError(t, policy.SRPT{
		Preset: "gordon", Form: "local", Workers: -1, Key: policy.ByArrivals, Bound: -2, Interval: -1,
	}.Check(),
		"policy: srpt: unknown Preset \"gordon\"; known is cruz\n"+
			"policy: srpt: unknown Form \"local\"; known are global, polled\n"+
			"policy: srpt: Workers -1 is negative\n"+
			"policy: srpt: unknown Key \"arrivals\"; known are work, rank\n"+
			"policy: srpt: Bound -2 is negative; use NoBound for none\n"+
			"policy: srpt: Interval -1ns is negative")
	require.EqualError(t, policy.SRPT{Preset: policy.Cruz, Key: policy.ByRank, Interval: 1}.Check(),
		"policy: srpt: Key \"rank\" has no effect with the preset cruz, which uses the position in the pipeline\n"+
			"policy: srpt: Interval 1ns has no effect with the preset cruz, which orders the stages once")
}
