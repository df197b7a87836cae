package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func TestT01_ACohortGoesUpAndDown(t *testing.T) {
	tests := map[string]struct {
		preset policy.Preset
		orders []string // for one stage, two, …
	}{
		"no preset":    {"", []string{"1", "1 2", "1 2 3 2", "1 2 3 4 3 2"}},
		"cruz":         {policy.Cruz, []string{"1", "1 2", "1 2 3 2", "1 2 3 4 3 2"}},
		"gordon twice": {policy.Gordon, []string{"1 1", "2 2 1 1", "2 3 3 2 1 1", "2 3 4 4 3 2 1 1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			law := policy.Cohort{Preset: tt.preset}
			nobody := newFake(law)
			nobody.sound(t)
			require.Empty(t, nobody.Pools, "a pipeline without stages needs no pool")
			for i, order := range tt.orders {
				h := newFake(law, line(i+1)...)
				h.sound(t)
				require.Equal(t, order, h.order())
			}
		})
	}
}

func TestT02_ACohortStaysUntilTheQueueIsEmptyOrTheBoundIsReached(t *testing.T) {
	tests := map[string]struct {
		law     policy.Cohort
		waiting int
		want    string
	}{
		"exhaustive": {
			policy.Cohort{Gating: policy.Exhaustive},
			3,
			"1(3) 2(3) 3(3) 4(3) 3(0) 2(0) | 1(0) 2(0) 3(0) 4(0) 3(0) 2(0) |",
		},
		"the original": {
			policy.Cohort{Preset: policy.Cruz},
			3,
			"1(3) 2(3) 3(3) 4(3) 3(0) 2(0) | 1(0) 2(0) 3(0) 4(0) 3(0) 2(0) |",
		},
		"bound 2": {
			policy.Cohort{Bound: 2},
			5,
			"1(2) 2(2) 3(2) 4(2) 3(0) 2(0) | 1(2) 2(2) 3(2) 4(2) 3(0) 2(0) |",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFake(tt.law, line(4)...)
			require.Equal(t, tt.want, trace(h.plan(), 4, tt.waiting, 2))
		})
	}
}

func TestACohortsBoundIsWhatFitsIntoAQuantum(t *testing.T) {
	tests := map[string]struct {
		law     policy.Cohort
		service time.Duration
		want    string
	}{
		"nothing measured":          {policy.Cohort{}, 0, "8"},
		"exactly":                   {policy.Cohort{}, 50 * time.Microsecond, "2"},
		"rounded up":                {policy.Cohort{}, 49 * time.Microsecond, "3"},
		"one at least":              {policy.Cohort{}, time.Second, "1"},
		"64 at most":                {policy.Cohort{}, time.Nanosecond, "64"},
		"a quantum of its own":      {policy.Cohort{Quantum: time.Millisecond}, 50 * time.Microsecond, "20"},
		"a bound has precedence":    {policy.Cohort{Bound: 5}, 50 * time.Microsecond, "5"},
		"exhaustive":                {policy.Cohort{Gating: policy.Exhaustive}, time.Second, "0"},
		"gated":                     {policy.Cohort{Gating: policy.Gated}, time.Second, "0"},
		"bounded by time":           {policy.Cohort{Gating: policy.TimeBounded}, time.Second, "0"},
		"the original has no bound": {policy.Cohort{Preset: policy.Cruz}, time.Second, "0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFake(tt.law, line(1)...)
			h.handled(1, 10, 10, tt.service)
			h.tick(time.Second)
			h.sound(t)
			require.Equal(t, tt.want, h.bounds())
		})
	}
}

func TestACohortChangesABoundOnlyForADifferenceOfMoreThanAQuarter(t *testing.T) {
	h := newFake(policy.Cohort{}, line(2)...)
	h.handled(1, 1, 1, 10*time.Microsecond)
	h.handled(2, 1, 1, 100*time.Microsecond)
	h.tick(time.Second)
	require.Equal(t, "10 1", h.bounds())
	h.handled(1, 1, 1, 12*time.Microsecond)
	h.tick(time.Second)
	require.Equal(t, "10 1", h.bounds(), "noise")
	h.handled(1, 1, 1, 20*time.Microsecond)
	h.tick(time.Second)
	require.Equal(t, "5 1", h.bounds())
	h.sound(t)
}

func TestACohortsPlansSayWhenVisitsEnd(t *testing.T) {
	tests := map[policy.Gating]controller.Gating{
		policy.Exhaustive: controller.Exhaustive, policy.Gated: controller.Gated,
		policy.Bounded: controller.Bounded, policy.TimeBounded: controller.TimeBounded, "": controller.Bounded,
	}
	for gating, want := range tests {
		h := newFake(policy.Cohort{Gating: gating}, line(3)...)
		require.Equal(t, want, h.plan().Gating, gating)
		require.Equal(t, want == controller.TimeBounded, h.plan().Quantum == 100*time.Microsecond)
	}
}

func TestEachVisitOfALoopHasABound(t *testing.T) {
	h := newFake(policy.Cohort{Gating: policy.Exhaustive}, loop(line(4), 2, 3)...)
	h.sound(t)
	require.Equal(t, "2147483647 64 64 2147483647", h.bounds())
}

func TestACohortVisitsByRank(t *testing.T) {
	stages := line(4)
	for i, rank := range []int{3, 0, 2, 1} {
		stages[i].Rank, stages[i].Next = rank, nil
	}
	require.Equal(t, "2 4 3 1 3 4", newFake(policy.Cohort{}, stages...).order())
	require.Equal(t, "1 2 3 4 3 2", newFake(policy.Cohort{Preset: policy.Cruz}, stages...).order(), "the original uses the order of the pipeline")
}

// 1 > 3 > 2 > 4 with a back edge from 2 to 3: the two stages of the loop share a rank, and keep the order of the
// pipeline.
func TestTheStagesOfALoopShareARank(t *testing.T) {
	stages := loop(line(4), 2, 3)
	stages[0].Next, stages[2].Next, stages[1].Next = []controller.StageID{2}, []controller.StageID{1}, []controller.StageID{3}
	stages[2].Rank, stages[1].Rank = 1, 2
	require.Equal(t, "1 2 3 4 3 2", newFake(policy.Cohort{}, stages...).order())
}

func TestCohortReturnsAllFaultsAtOnce(t *testing.T) {
	tests := map[string]struct {
		law  policy.Cohort
		want string // empty: sound
	}{
		"zero": {policy.Cohort{}, ""},
		"cruz": {policy.Cohort{Preset: policy.Cruz, Gating: policy.Bounded, Bound: 4}, ""},
		"all": {
			policy.Cohort{Preset: "welsh", Workers: -1, Gating: "open", Bound: -2, Quantum: -1, Interval: -1},
			"policy: cohort: unknown Preset \"welsh\"; known are cruz, gordon\n" +
				"policy: cohort: Workers -1 is negative\n" +
				"policy: cohort: unknown Gating \"open\"; known are exhaustive, gated, bounded, time-bounded\n" +
				"policy: cohort: Bound -2 is negative; use Gating: Exhaustive for none\n" +
				"policy: cohort: Quantum -1ns is negative\n" +
				"policy: cohort: Interval -1ns is negative",
		},
		"a bound without effect": {
			policy.Cohort{Preset: policy.Cruz, Bound: 4},
			"policy: cohort: Bound 4 has no effect on exhaustive visits",
		},
		"too many workers": {policy.Cohort{Workers: 5000}, "policy: cohort: Workers 5000 is more than 4096"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.want == "" {
				require.NoError(t, tt.law.Check())
				return
			}
			require.EqualError(t, tt.law.Check(), tt.want)
		})
	}
}

// At the start a policy of visits decides on one pool, its workers, the stages that share them, and the plan.
func ExampleCohort() {
	h := newFake(policy.Cohort{Workers: 4, Bound: 16}, line(3)...)
	for _, change := range h.journal {
		fmt.Println(change)
	}
	// Output:
	// 0s cohort: pool "shared": workers 0 to 4: 4 workers are configured
	// 0s cohort: pool "shared": dispatch shared FIFO to polled: for its 3 stages
	// 0s cohort: stage "1": pool 1 to shared: one of 3 stages that share workers
	// 0s cohort: stage "2": pool 2 to shared: one of 3 stages that share workers
	// 0s cohort: stage "3": pool 3 to shared: one of 3 stages that share workers
	// 0s cohort: pool "shared": visit no plan to 1 2 3 2, bounded 16: a wave over 3 stages, bound 16
}

// Edges that were not declared are known when a command went along them.
func TestACohortLearnsItsOrder(t *testing.T) {
	h := newFake(policy.Cohort{Bound: 4}, make([]controller.StageStats, 3)...)
	require.Equal(t, "1 2 3 2", h.order())
	h.Stages[0].Rank = 2
	h.tick(time.Second)
	h.sound(t)
	require.Equal(t, "2 3 1 3", h.order())
}
