package policy_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// at returns a stage at which that many of 100 commands have ended in the last window.
func at(rate uint64, workers, instances int) controller.StageStats {
	st := pool(workers, 1, instances)
	st.Window = controller.Counters{Accepted: 100, OK: rate}
	return st
}

// plan makes one tick and returns the steals as text, the first thief first.
func plan(t *testing.T, law policy.Stealing, stages ...controller.StageStats) (plan []string, after []int) {
	t.Helper()
	f := newRow(law.New(), stages...)
	require.Empty(t, f.journal.Entries(), "the stages have their shares already")
	f.ask(controller.EventTick)
	for _, c := range f.journal.Entries() {
		plan = append(plan, fmt.Sprintf("%s %+d: %s", c.StageName, by(c), c.Why))
	}
	require.NoError(t, f.err)
	return plan, f.workers()
}

// Pools of 2 threads, 10 instances, rates 90, 40, 100, 70 and 120: sorted they are s2, s4, s1, s3, s5, so s2 steals
// from s5, and s4 from s3. The stages are called stage 0 to stage 4 here.
func TestT11_ThePlanOfCruzAndItsConservation(t *testing.T) {
	cruz := policy.Stealing{Preset: policy.Cruz}
	five := func(instances int) []controller.StageStats {
		return []controller.StageStats{
			at(90, 2, instances), at(40, 2, instances), at(100, 2, instances), at(70, 2, instances), at(120, 2, instances),
		}
	}
	t.Run("10 instances", func(t *testing.T) {
		plan, after := plan(t, cruz, five(10)...)
		require.Equal(t, []string{
			`stage 1 +1: steals from "stage 4": rate 40%, there 120%`,
			`stage 4 -1: gives to "stage 1": rate 120%, there 40%`,
			`stage 3 +1: steals from "stage 2": rate 70%, there 100%`,
			`stage 2 -1: gives to "stage 3": rate 100%, there 70%`,
		}, plan)
		require.Equal(t, []int{2, 3, 1, 3, 1}, after)
	})
	t.Run("2 instances", func(t *testing.T) {
		plan, after := plan(t, cruz, five(2)...)
		require.Empty(t, plan)
		require.Equal(t, []int{2, 2, 2, 2, 2}, after)
	})
	t.Run("3 stages", func(t *testing.T) {
		_, after := plan(t, cruz, five(10)[:3]...)
		require.Equal(t, []int{2, 3, 1}, after, "one steal, and no stage steals from itself")
	})
	t.Run("2 stages", func(t *testing.T) {
		_, after := plan(t, cruz, five(10)[:2]...)
		require.Equal(t, []int{1, 3}, after, "one steal, and it is not undone")
	})
	t.Run("1 stage", func(t *testing.T) {
		_, after := plan(t, cruz, five(10)[:1]...)
		require.Equal(t, []int{2}, after)
	})
	t.Run("no stage", func(t *testing.T) {
		f := newRow(cruz.New())
		f.stages = nil
		f.ask(controller.EventTick)
		require.NoError(t, f.err)
	})
	t.Run("one pair", func(t *testing.T) {
		_, after := plan(t, policy.Stealing{Preset: policy.Cruz, Pairs: 1}, five(10)...)
		require.Equal(t, []int{2, 3, 2, 2, 1}, after)
	})
	t.Run("a pair that may not exchange is left out without replacement", func(t *testing.T) {
		stages := five(10)
		stages[1].MaxWorkers = 2
		_, after := plan(t, cruz, stages...)
		require.Equal(t, []int{2, 2, 1, 3, 2}, after)
	})
	t.Run("tick after tick", func(t *testing.T) {
		f := newRow(cruz.New(), five(10)...)
		f.ask(controller.EventTick)
		f.ask(controller.EventTick)
		require.Equal(t, []int{2, 3, 1, 3, 1}, f.workers(), "the last worker of a stage is never stolen")
	})
}

// In the listing 0 / 0 is the slowest of all: idle stages stole from busy ones.
func TestCruzDoesNotLetIdleStagesSteal(t *testing.T) {
	cruz := policy.Stealing{Preset: policy.Cruz}
	idle := pool(2, 1, 10)
	leftovers := idle
	leftovers.QueueLen = 5
	tests := map[string]struct {
		stages []controller.StageStats
		want   []int
	}{
		"all idle":                      {[]controller.StageStats{idle, idle, idle, idle}, []int{2, 2, 2, 2}},
		"the idle ones are stolen from": {[]controller.StageStats{idle, at(50, 2, 10), idle}, []int{2, 3, 1}},
		"even if all but one are":       {[]controller.StageStats{at(100, 2, 10), idle, idle, idle}, []int{3, 2, 2, 1}},
		"what waits is work":            {[]controller.StageStats{at(90, 2, 10), leftovers}, []int{1, 3}},
		"the law sees only the order":   {[]controller.StageStats{at(100, 2, 10), at(100, 2, 10)}, []int{3, 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, after := plan(t, cruz, tt.stages...)
			require.Equal(t, tt.want, after)
		})
	}
}

// Section 4.8 counts processed events. Commands that were shed or dead-lettered ended without being processed.
func TestCruzCountsOnlyWhatHandlersAnswered(t *testing.T) {
	lost := pool(2, 1, 10)
	lost.Window = controller.Counters{Accepted: 100, OK: 20, Shed: 50, DeadLettered: 30}
	answered := pool(2, 1, 10)
	answered.Window = controller.Counters{Accepted: 100, OK: 20, Forwarded: 20, Errors: 10}
	plan, after := plan(t, policy.Stealing{Preset: policy.Cruz}, answered, lost)
	require.Equal(t, []string{
		`stage 1 +1: steals from "stage 0": rate 20%, there 50%`,
		`stage 0 -1: gives to "stage 1": rate 50%, there 20%`,
	}, plan)
	require.Equal(t, []int{1, 3}, after)
}

// The stages of the tests below: one has too much work, one none, and one just enough.
func swamped() controller.StageStats {
	st := pool(2, 1, 8)
	st.QueueLen, st.Busy, st.Window = 80, 2, controller.Counters{Accepted: 90, Forwarded: 40}
	return st
}

func quiet() controller.StageStats { return pool(2, 1, 8) }

func content() controller.StageStats {
	st := pool(2, 1, 8)
	st.QueueLen, st.Busy, st.Window = 2, 2, controller.Counters{Accepted: 50, OK: 49}
	return st
}

func TestTheHungryStealFromTheReplete(t *testing.T) {
	change := func(st controller.StageStats, f func(st *controller.StageStats)) controller.StageStats {
		f(&st)
		return st
	}
	tests := map[string]struct {
		law    policy.Stealing
		stages []controller.StageStats
		want   [][]int // tick after tick
	}{
		"at the second consecutive tick": {
			policy.Stealing{},
			[]controller.StageStats{swamped(), content(), quiet()},
			[][]int{{2, 2, 2}, {3, 2, 1}, {3, 2, 1}, {3, 2, 1}},
		},
		"both start to count again": {
			policy.Stealing{Workers: 12},
			[]controller.StageStats{swamped(), quiet()},
			[][]int{{6, 6}, {7, 5}, {7, 5}, {8, 4}, {8, 4}, {8, 4}},
		},
		"at most two at one tick": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{swamped(), swamped(), swamped(), quiet(), quiet(), quiet()},
			[][]int{{3, 3, 2, 1, 1, 2}, {3, 3, 3, 1, 1, 1}},
		},
		"or the configured number": {
			policy.Stealing{Samples: 1, Pairs: 3},
			[]controller.StageStats{swamped(), swamped(), swamped(), quiet(), quiet(), quiet()},
			[][]int{{3, 3, 3, 1, 1, 1}},
		},
		"the most waiting for each worker comes first": {
			policy.Stealing{Samples: 1, Pairs: 1},
			[]controller.StageStats{
				swamped(), quiet(), change(swamped(), func(st *controller.StageStats) { st.QueueLen = 90 }),
			},
			[][]int{{2, 1, 3}},
		},
		"from the most free workers first": {
			policy.Stealing{Samples: 1, Pairs: 1},
			[]controller.StageStats{
				swamped(), change(quiet(), func(st *controller.StageStats) { st.Busy = 1 }), quiet(),
			},
			[][]int{{3, 2, 1}},
		},
		"no stage goes below MinVictim": {
			policy.Stealing{Workers: 8, MinVictim: 3, Samples: 1},
			[]controller.StageStats{swamped(), quiet()},
			[][]int{{5, 3}, {5, 3}},
		},
		"nor below its own bounds": {
			policy.Stealing{Workers: 8, Samples: 1},
			[]controller.StageStats{
				swamped(), change(quiet(), func(st *controller.StageStats) { st.MinWorkers = 4 }),
			},
			[][]int{{4, 4}, {4, 4}},
		},
		"no stage takes more than its bounds allow": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{
				change(swamped(), func(st *controller.StageStats) { st.MaxWorkers = 2 }), quiet(),
			},
			[][]int{{2, 2}, {2, 2}},
		},
		"a backlog that shrinks goes away by itself": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{
				change(swamped(), func(st *controller.StageStats) { st.Window.Forwarded = 91 }), quiet(),
			},
			[][]int{{2, 2}},
		},
		"but not where back-pressure limits it": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{
				change(swamped(), func(st *controller.StageStats) { st.Window.Forwarded, st.QueueCap = 91, 150 }), quiet(),
			},
			[][]int{{3, 1}},
		},
		"a capacity smaller than the pool": {
			policy.Stealing{Samples: 1, Workers: 8},
			[]controller.StageStats{
				change(swamped(), func(st *controller.StageStats) { st.QueueLen, st.QueueCap = 1, 1 }), quiet(),
			},
			[][]int{{5, 3}, {6, 2}, {7, 1}, {7, 1}},
		},
		"all are busy, so none gives": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{swamped(), content()},
			[][]int{{2, 2}},
		},
		"all are quiet, so none takes": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{quiet(), quiet()},
			[][]int{{2, 2}},
		},
		"no stage steals from itself": {
			policy.Stealing{Samples: 1},
			[]controller.StageStats{swamped()},
			[][]int{{2}, {2}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(tt.law.New(), tt.stages...)
			for _, want := range tt.want {
				f.now += time.Second
				for i := range f.stages {
					if st := &f.stages[i]; st.QueueLen > 0 {
						st.Busy = st.Workers
					}
				}
				f.ask(controller.EventTick)
				require.NoError(t, f.err)
				require.Equal(t, want, f.workers())
			}
		})
	}
}

func TestOneTickWithoutHungerRestartsTheCount(t *testing.T) {
	f := newRow(policy.Stealing{}.New(), swamped(), quiet())
	for _, waiting := range []int{80, 0, 80} {
		f.stages[0].QueueLen = waiting
		f.ask(controller.EventTick)
		require.Equal(t, []int{2, 2}, f.workers())
	}
	f.ask(controller.EventTick)
	require.Equal(t, []int{3, 1}, f.workers())
}

func TestAThiefAndItsVictimRestartTheirCountsAndTheOthersContinue(t *testing.T) {
	tests := map[string]struct {
		workers int
		stages  []controller.StageStats
		want    [][]int
	}{
		"the thief waits although another victim exists": {
			0,
			[]controller.StageStats{swamped(), quiet(), quiet()},
			[][]int{{2, 2, 2}, {3, 1, 2}, {3, 1, 2}, {4, 1, 1}},
		},
		"the victim is spared although another stage is hungry": {
			9,
			[]controller.StageStats{swamped(), swamped(), quiet()},
			[][]int{{3, 3, 3}, {4, 3, 2}, {4, 3, 2}, {4, 4, 1}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.Stealing{Pairs: 1, Workers: tt.workers}.New(), tt.stages...)
			for _, want := range tt.want {
				f.ask(controller.EventTick)
				require.Equal(t, want, f.workers())
			}
		})
	}
}

func TestAFreeWorkerAloneDoesNotMakeAVictim(t *testing.T) {
	waiting := quiet() // not hungry either: nothing is coming
	waiting.QueueLen = 3
	_, after := plan(t, policy.Stealing{Samples: 1}, swamped(), waiting)
	require.Equal(t, []int{2, 2}, after)
	waiting.QueueLen = 2
	_, after = plan(t, policy.Stealing{Samples: 1}, swamped(), waiting)
	require.Equal(t, []int{3, 1}, after, "one command for each worker is not a backlog")
}

func TestStealingStatesItsReasons(t *testing.T) {
	f := newRow(policy.Stealing{Workers: 5}.New(), swamped(), quiet())
	f.ask(controller.EventTick)
	f.ask(controller.EventTick)
	reasons := make([]string, 0, 3)
	for _, c := range f.journal.Entries() {
		reasons = append(reasons, c.Why)
	}
	require.Equal(t, []string{
		"its share of 5 workers for 2 pools",
		`steals from "stage 1": queue 80 > 3 for 2 samples`,
		`gives to "stage 0": 2 of 2 workers free for 2 samples`,
	}, reasons)
	idle, busy := pool(2, 1, 8), at(50, 2, 8)
	thefts, _ := plan(t, policy.Stealing{Preset: policy.Cruz}, idle, busy)
	require.Equal(t, []string{
		`stage 1 +1: steals from "stage 0": rate 50%, there without work`,
		`stage 0 -1: gives to "stage 1": rate without work, there 50%`,
	}, thefts)
}

func TestStealingSharesOutAtTheStart(t *testing.T) {
	tests := map[string]struct {
		workers int
		stages  []controller.StageStats
		want    []int
	}{
		"two for each by default": {0, []controller.StageStats{pool(1, 1, 9), pool(1, 1, 9), pool(1, 1, 9)}, []int{2, 2, 2}},
		"the configured number":   {10, []controller.StageStats{pool(1, 1, 9), pool(1, 1, 9), pool(1, 1, 9)}, []int{4, 3, 3}},
		"after another policy":    {6, []controller.StageStats{pool(9, 1, 9), pool(1, 1, 9), pool(5, 1, 9)}, []int{2, 2, 2}},
		"within the bounds":       {12, []controller.StageStats{pool(1, 1, 1), pool(7, 7, 9), pool(1, 1, 9)}, []int{1, 7, 4}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.Stealing{Workers: tt.workers}.New(), tt.stages...)
			require.NoError(t, f.err)
			require.Equal(t, tt.want, f.workers())
		})
	}
}

func TestStealingSharesOutAgainWhenTheTotalIsWrong(t *testing.T) {
	law := policy.Stealing{Workers: 6, Samples: 1}
	moved := func() *row {
		f := newRow(law.New(), swamped(), quiet())
		f.ask(controller.EventTick)
		require.Equal(t, []int{4, 2}, f.workers())
		return f
	}
	t.Run("a stage is added", func(t *testing.T) {
		f := moved()
		f.stages = append(f.stages, furnished(pool(1, 1, 8), 2))
		f.ask(controller.EventTick)
		require.Equal(t, []int{2, 2, 2}, f.workers())
	})
	t.Run("a stage is removed", func(t *testing.T) {
		f := moved()
		f.stages = f.stages[:1]
		f.ask(controller.EventTick)
		require.Equal(t, []int{6}, f.workers())
	})
	t.Run("another controller changed it", func(t *testing.T) {
		f := moved()
		f.stages[0].Workers = 8
		f.ask(controller.EventTick)
		require.Equal(t, []int{3, 3}, f.workers())
	})
	t.Run("and restarts the counts", func(t *testing.T) {
		f := newRow(policy.Stealing{Workers: 6}.New(), swamped(), quiet())
		f.ask(controller.EventTick)
		f.stages[0].Workers = 8
		for range 2 {
			f.ask(controller.EventTick)
			require.Equal(t, []int{3, 3}, f.workers())
		}
		f.ask(controller.EventTick)
		require.Equal(t, []int{4, 2}, f.workers())
	})
	t.Run("the bounds changed", func(t *testing.T) {
		f := moved()
		f.stages[1].MinWorkers = 3
		f.ask(controller.EventTick)
		require.Equal(t, []int{3, 3}, f.workers())
	})
}

func TestStealingAsksForTicksAtTheStartAndOnlyThen(t *testing.T) {
	for law, want := range map[policy.Stealing]time.Duration{
		{}:                          time.Second,
		{Preset: policy.Cruz}:       10 * time.Second,
		{Interval: 5 * time.Second}: 5 * time.Second,
	} {
		requireTicksFromTheStart(t, law, want)
	}
}

func TestCheckReturnsAllFaultsOfStealing(t *testing.T) {
	tests := map[string]struct {
		law  policy.Stealing
		want []string
	}{
		"the defaults are fine":  {policy.Stealing{}, nil},
		"cruz is fine":           {policy.Stealing{Preset: policy.Cruz}, nil},
		"the greatest are fine":  {policy.Stealing{Workers: math.MaxInt, Pairs: math.MaxInt, Interval: math.MaxInt64, MinVictim: math.MaxInt, Samples: math.MaxInt}, nil},
		"an unknown preset":      {policy.Stealing{Preset: policy.Welsh}, []string{`unknown Preset "welsh"; known is cruz`}},
		"samples have no effect": {policy.Stealing{Preset: policy.Cruz, Samples: 3}, []string{"Samples 3 has no effect with the preset cruz"}},
		"all at once": {
			policy.Stealing{Workers: -1, Pairs: -2, Interval: -3, MinVictim: -4, Samples: -5},
			[]string{"Workers -1", "Pairs -2", "Interval -3ns", "MinVictim -4", "Samples -5"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { requireFaults(t, tt.law, "policy: stealing: ", tt.want) })
	}
}

func TestStealingKeepsTheTotalUnderAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anyStealing(t)
		f := newRow(law.New(), rapid.SliceOfN(rapid.Custom(anyStage), 1, 6).Draw(t, "stages")...)
		require.NoError(t, f.err)
		total := sum(f.workers())
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			f.now += time.Second
			for i := range f.stages {
				f.anyLoad(t, i)
			}
			before := len(f.journal.Entries())
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			require.Equal(t, total, sum(f.workers()), "the total stays the same")
			changes := f.journal.Entries()[before:]
			require.LessOrEqual(t, len(changes), 2*max(2, law.Pairs))
			for i := 0; i < len(changes); i += 2 {
				thief, victim := changes[i], changes[i+1]
				requireAStep(t, f, thief)
				requireAStep(t, f, victim)
				require.Equal(t, 1, by(thief))
				require.Equal(t, -1, by(victim))
				require.GreaterOrEqual(t, victim.After, max(1, law.MinVictim))
				requireHunger(t, law, f, thief, victim)
			}
		}
	})
}

func anyStealing(t *rapid.T) policy.Stealing {
	law := policy.Stealing{
		Preset:    rapid.SampledFrom([]policy.Preset{"", policy.Cruz}).Draw(t, "preset"),
		Workers:   rapid.IntRange(0, 30).Draw(t, "workers of all"),
		Pairs:     rapid.IntRange(0, 4).Draw(t, "pairs"),
		MinVictim: rapid.IntRange(0, 3).Draw(t, "min victim"),
	}
	if law.Preset == "" {
		law.Samples = rapid.IntRange(0, 3).Draw(t, "samples")
	}
	require.NoError(t, law.Check())
	return law
}

func requireHunger(t *rapid.T, law policy.Stealing, f *row, thief, victim controller.Change) {
	if law.Preset == policy.Cruz {
		return
	}
	t1, v := f.stages[thief.Stage], f.stages[victim.Stage]
	require.Positive(t, t1.QueueLen, "no stage steals without work")
	require.Less(t, v.Busy, victim.Before, "only free workers are stolen")
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// The load moves from stage to stage: the workers follow it, and come back.
func TestWorkersFollowTheLoad(t *testing.T) {
	f := newRow(policy.Stealing{}.New(), quiet(), quiet(), quiet())
	load := func(busy int) []int {
		for range 20 {
			for i := range f.stages {
				st := &f.stages[i]
				st.QueueLen, st.Busy, st.Window = 0, 0, controller.Counters{}
				if i == busy {
					st.QueueLen, st.Busy, st.Window.Accepted = 100, st.Workers, 1
				}
			}
			f.now += time.Second
			f.ask(controller.EventTick)
		}
		return f.workers()
	}
	require.Equal(t, []int{4, 1, 1}, load(0))
	require.Equal(t, []int{1, 1, 4}, load(2))
	require.Equal(t, []int{1, 4, 1}, load(1))
	require.NoError(t, f.err)
}
