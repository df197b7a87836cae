package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/steer"
)

func TestT08_TheSlowestStageComesFirst(t *testing.T) {
	type stage struct {
		accepted, handled int
		each              time.Duration
	}
	ms := time.Millisecond
	ratios := []stage{{10, 10, ms}, {10, 4, ms}, {10, 7, ms}}
	times := []stage{{10, 10, ms}, {10, 10, 8 * ms}, {10, 10, 3 * ms}}
	tests := map[string]struct {
		law    policy.DBR
		stages []stage
		want   string
	}{
		"by completion":                      {policy.DBR{Rate: policy.ByCompletion}, ratios, "2 3 1"},
		"by completion, idle last":           {policy.DBR{Rate: policy.ByCompletion}, append(ratios, stage{}), "2 3 1 4"},
		"the original":                       {policy.DBR{Preset: policy.Cruz}, ratios, "2 3 1"},
		"the original, idle first":           {policy.DBR{Preset: policy.Cruz}, append(ratios, stage{}), "4 2 3 1"},
		"by service":                         {policy.DBR{}, times, "2 3 1"},
		"by service, idle last":              {policy.DBR{}, append(times, stage{}), "2 3 1 4"},
		"the original, a backlog is no rate": {policy.DBR{Preset: policy.Cruz}, []stage{{10, 9, ms}, {0, 5, ms}}, "2 1"},
		"gordon: the first twice":            {policy.DBR{Preset: policy.Gordon}, times, "2 2 3 1"},
		"gordon: the last one may be first":  {policy.DBR{Preset: policy.Gordon}, []stage{{9, 9, ms}, {9, 9, 2 * ms}, {9, 9, 3 * ms}}, "3 3 2 1"},
		"never measured, but in demand":      {policy.DBR{}, append(times, stage{accepted: 5}), "4 2 3 1"},
		"working off a backlog is fast":      {policy.DBR{Rate: policy.ByCompletion}, []stage{{0, 9, ms}, {10, 9, ms}}, "2 1"},
		"one stage":                          {policy.DBR{}, times[:1], "1"},
		"nothing to do":                      {policy.DBR{}, make([]stage, 3), "1 2 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFake(tt.law, line(len(tt.stages))...)
			for i, st := range tt.stages {
				h.handled(i+1, st.accepted, st.handled, st.each)
			}
			h.round(time.Second, policy.SharedPool)
			h.sound(t)
			require.Equal(t, tt.want, h.order())
		})
	}
	newFake(policy.DBR{}).sound(t) // no stages
}

// Yield has 64 places for stages, and sorts the first 63 of them.
func TestGordonLeavesTheSixtyFourthStageWhereItIs(t *testing.T) {
	for stages, want := range map[int][2]string{63: {"63 63 62", "2 1"}, 64: {"63 63 62", "1 64"}} {
		h := newFake(policy.DBR{Preset: policy.Gordon}, line(stages)...)
		for i := range stages {
			h.handled(i+1, 1, 1, time.Duration(i+1)*time.Millisecond)
		}
		h.round(time.Second, policy.SharedPool)
		h.sound(t)
		require.Equal(t, want[0], h.order()[:len(want[0])])
		require.Equal(t, want[1], h.order()[len(h.order())-len(want[1]):])
	}
}

// There are five commands at the first stage and a bound of four: after the visit that leaves one behind the worker
// goes on, after the others it goes back.
func TestAWorkerGoesBackAfterASuccessUnlessTheVisitWasBounded(t *testing.T) {
	h := newFake(policy.DBR{}, line(3)...)
	require.Equal(t, "1(4) 2(4) 1(1) 1(0) 2(1) 1(0) 2(0) 3(4) | 1(0) 2(0) 3(1) 1(0) 2(0) 3(0) |", trace(h.plan(), 3, 5, 2))
	require.True(t, h.plan().Now, "where workers go back to the first place, rounds may never end")

	original := newFake(policy.DBR{Preset: policy.Cruz}, line(3)...)
	require.Equal(t, "1(5) 1(0) 2(5) 1(0) 2(0) 3(5) 1(0) 2(0) 3(0) |", trace(original.plan(), 3, 5, 1))
	require.False(t, original.plan().Now)
}

// The program behind the dissertation's tables: a bound of 5 that lets 6 commands pass, a fixed order, and no way back.
func TestTheMeasuredPresetsHaveTheBoundOfTheProgram(t *testing.T) {
	h := newFake(policy.DBR{Preset: policy.Measured}, line(3)...)
	require.Equal(t, "1(6) 2(6) 3(6) | 1(1) 2(1) 3(1) | 1(0) 2(0) 3(0) |", trace(h.plan(), 3, 7, 3))
	h.handled(1, 10, 10, time.Second)
	h.handled(2, 10, 4, time.Millisecond)
	h.round(time.Second, policy.SharedPool)
	require.Equal(t, "1 2 3", h.order(), "it is never ordered again")
	h.sound(t)

	measured, listing := afterLoads(policy.LRB{Preset: policy.Measured, Size: 9}, 50, 30, 20), afterLoads(policy.LRB{Preset: policy.Cruz, Size: 9}, 50, 30, 20)
	require.Equal(t, "1 2 1 2 1 2 1 3 1 3", measured.order())
	require.Equal(t, listing.order(), measured.order())
	require.Equal(t, controller.Bounded, measured.plan().Gating)
	require.Equal(t, 6, measured.plan().Bound)
	require.Equal(t, controller.Exhaustive, listing.plan().Gating)
}

// Yield sorts again after a pass without success; the listing of section 4.5 sorts after any visit to the last stage.
func TestOnlyGordonWaitsForAPassWithoutSuccess(t *testing.T) {
	for preset, full := range map[policy.Preset]bool{"": false, policy.Cruz: false, policy.Gordon: true} {
		h := newFake(policy.DBR{Preset: preset}, line(3)...)
		require.Equal(t, full, h.plan().FullRounds, preset)
		var walk steer.Walk
		walk.Leave(nil, 3, 0, false)
		walk.Leave(nil, 3, 0, false)
		require.Equal(t, !full, walk.EndsRound(h.plan(), 3, 1, false), preset)
	}
}

func TestTheRopeLimitsTheEntryToTheBufferAndTheDrumsWorkers(t *testing.T) {
	tests := map[string]struct {
		law       policy.DBR
		capacity  int
		instances int
		want      int
	}{
		"half of the capacity": {policy.DBR{}, 100, 1, 51},
		"one for each worker":  {policy.DBR{}, 100, 9, 52}, // there are two workers
		"the least capacity":   {policy.DBR{}, 1, 1, 2},
		"an unknown capacity":  {policy.DBR{}, 0, 0, 514},
		"a buffer":             {policy.DBR{Buffer: 7}, 100, 2, 9},
		"none":                 {policy.DBR{Buffer: policy.NoRope}, 100, 1, 0},
		"none in cruz":         {policy.DBR{Preset: policy.Cruz}, 100, 1, 0},
		"one in cruz":          {policy.DBR{Preset: policy.Cruz, Buffer: 7}, 100, 1, 8},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stages := line(2)
			stages[1].QueueCap, stages[1].Instances = tt.capacity, tt.instances
			h := newFake(tt.law, stages...)
			require.Zero(t, h.Entry.Limit, "the drum is not known")
			h.handled(1, 10, 10, time.Millisecond)
			h.handled(2, 10, 5, 9*time.Millisecond)
			h.round(time.Second, policy.SharedPool)
			h.sound(t)
			require.Equal(t, tt.want, h.Entry.Limit)
		})
	}
}

func TestOnlyADBRWithARopeClaimsTheLimit(t *testing.T) {
	require.True(t, claims(policy.DBR{}, controller.KnobLimit))
	require.False(t, claims(policy.DBR{Buffer: policy.NoRope}, controller.KnobLimit))
	require.False(t, claims(policy.DBR{Preset: policy.Gordon}, controller.KnobLimit))
}

func TestAnOrderIsComputedAgainAfterARoundOrTenIntervals(t *testing.T) {
	h := newFake(policy.DBR{}, line(2)...)
	h.handled(2, 10, 10, time.Second)
	h.round(99*time.Millisecond, policy.SharedPool)
	require.Equal(t, "1 2", h.order(), "too young")
	h.tick(time.Millisecond)
	require.Equal(t, "2 1", h.order())
	h.handled(1, 10, 10, time.Minute)
	h.tick(999 * time.Millisecond)
	require.Equal(t, "2 1", h.order(), "no round has ended")
	h.tick(time.Millisecond)
	require.Equal(t, "1 2", h.order())
	h.sound(t)

	original := newFake(policy.DBR{Preset: policy.Cruz}, line(2)...)
	original.handled(1, 10, 10, time.Second)
	original.tick(time.Hour)
	require.Equal(t, "1 2", original.order(), "a round must end")
	original.round(0, policy.SharedPool)
	require.Equal(t, "2 1", original.order())
}

// The rates of the listing are those of whole rounds. A round after which the order stays is followed by another one,
// which shows only in the pool's count.
func TestAnOrderThatStaysIsCheckedAgainAfterTheNextRound(t *testing.T) {
	for name, law := range map[string]controller.Policy{
		"dbr:cruz": policy.DBR{Preset: policy.Cruz}, "dbr:gordon": policy.DBR{Preset: policy.Gordon},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFake(law, line(2)...)
			before := h.plan()
			h.round(time.Second, policy.SharedPool)
			h.handled(1, 10, 10, 9*time.Millisecond)
			h.handled(2, 40, 10, 10*time.Millisecond)
			h.tick(time.Second)
			require.Same(t, before, h.plan(), "no further round has ended")
			h.Pool(policy.SharedPool).Rounds++
			h.tick(time.Second)
			require.NotEqual(t, before.Order, h.plan().Order)
			h.sound(t)
		})
	}
}

// The end of a plan that stays when a stage is added, removed or paused has been reported already.
func TestAnOrderThatStaysAfterATopologyChangeIsCheckedAgain(t *testing.T) {
	h := newFake(policy.DBR{Preset: policy.Cruz}, line(2)...)
	before := h.plan()
	h.ask(controller.EventTopology)
	require.Same(t, before, h.plan())
	h.handled(1, 10, 10, time.Millisecond)
	h.handled(2, 10, 5, time.Millisecond)
	h.Pool(policy.SharedPool).Rounds++
	h.tick(time.Second)
	require.Equal(t, "2 1", h.order())
	h.sound(t)
}

func TestNoiseInTheRatesDoesNotChangeTheOrder(t *testing.T) {
	h := newFake(policy.DBR{}, line(2)...)
	for _, each := range []time.Duration{90, 110, 95, 105} {
		h.handled(1, 10, 10, 100)
		h.handled(2, 10, 10, each)
		h.round(time.Second, policy.SharedPool)
	}
	h.sound(t)
	require.Equal(t, "1 2", h.order())
}

func TestNoWorkerGoesBackWhileAStageStarves(t *testing.T) {
	h := newFake(policy.DBR{}, line(3)...)
	require.True(t, h.plan().Restart)
	h.handled(1, 10, 10, time.Millisecond)
	h.tell(controller.Event{Kind: controller.EventStarved, Stage: 2})
	require.False(t, h.plan().Restart)
	h.tick(100 * time.Millisecond)
	require.True(t, h.plan().Restart)
	h.sound(t)
}

func TestDBRReturnsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, policy.DBR{Preset: policy.Gordon, Bound: 9, Buffer: policy.NoRope}.Check())
	require.EqualError(t, policy.DBR{
		Preset: "welsh", Workers: -1, Rate: policy.ByWork, Bound: policy.NoBound, Buffer: -2, Interval: -1,
	}.Check(),
		"policy: dbr: unknown Preset \"welsh\"; known are cruz, gordon, measured\n"+
			"policy: dbr: Workers -1 is negative\n"+
			"policy: dbr: unknown Rate \"work\"; known are service, completion\n"+
			"policy: dbr: Bound -1 is negative; without one the slowest stage keeps all workers\n"+
			"policy: dbr: Buffer -2 is negative; use NoRope for none\n"+
			"policy: dbr: Interval -1ns is negative")
}

// The slowest stage comes first, and no more commands are admitted than it can keep up with.
func ExampleDBR() {
	h := newFake(policy.DBR{Buffer: 32}, line(3)...)
	h.journal = nil
	h.handled(1, 100, 100, time.Millisecond)
	h.handled(2, 100, 60, 8*time.Millisecond)
	h.handled(3, 60, 60, 3*time.Millisecond)
	h.round(time.Second, policy.SharedPool)
	for _, change := range h.journal {
		fmt.Println(change)
	}
	// Output:
	// 1s dbr: pool "shared": visit 1 2 3, bounded 4, restart at 1 unless bounded, now to 2 3 1, bounded 4, restart at 1 unless bounded, now: 3 stages, the slowest is "2": 125.0 commands a second
	// 1s dbr: entry: limit 0 to 34: 32 for the buffer of "2", the drum, and 2 in hand there
}
