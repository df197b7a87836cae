package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/steer"
)

// group returns a shared pool with that many workers, within those bounds.
func group(name string, workers, least, most int) controller.PoolStats {
	return controller.PoolStats{Name: name, Group: true, Workers: workers, MinWorkers: least, MaxWorkers: most}
}

// of returns a stage of that capacity that is bound to a pool.
func of(pool string, capacity int) controller.StageStats {
	return controller.StageStats{Pool: pool, QueueCap: capacity}
}

// newGroups is like newRow, with pools that stages share.
func newGroups(c controller.Controller, pools []controller.PoolStats, stages ...controller.StageStats) *row {
	f := &row{c: c, stages: stages, pools: pools, journal: steer.NewJournal(4096)}
	for i := range stages {
		stages[i] = furnished(stages[i], i)
		if st := &stages[i]; st.Pool != "" {
			st.Workers, st.MinWorkers, st.MaxWorkers = 0, 0, 0
		}
	}
	f.ask(controller.EventStart)
	return f
}

// looks lets a second pass for each row of queue lengths, and returns the workers of the first shared pool after each.
func (f *row) looks(rows ...[]int) []int {
	workers := make([]int, 0, len(rows))
	for _, row := range rows {
		f.now += time.Second
		for i, n := range row {
			f.stages[i].QueueLen = n
		}
		f.ask(controller.EventTick)
		if len(f.pools) > 0 {
			workers = append(workers, f.pools[0].Workers)
		}
	}
	return workers
}

func TestAGroupIsScaledAsOneByItsLongestQueue(t *testing.T) {
	erlda := policy.ERLDA{Cooldown: policy.NoCooldown}
	seda := policy.SEDA{Samples: 1, Cooldown: policy.NoCooldown, Idle: time.Second}
	three := []controller.StageStats{of("g", 1024), of("g", 1024), of("g", 1024)}
	small := []controller.StageStats{of("g", 10), of("g", 1024), of("g", 1024)}
	tests := map[string]struct {
		law    controller.Policy
		stages []controller.StageStats
		rows   [][]int
		want   []int
	}{
		"erlda: one long queue is enough, wherever":     {erlda, three, [][]int{{101, 0, 0}, {0, 0, 101}}, []int{5, 6}},
		"erlda: many short ones are not a long one":     {erlda, three, [][]int{{60, 60, 60}, {100, 100, 100}}, []int{4, 4}},
		"erlda: it is cold when all are":                {erlda, three, [][]int{{0, 10, 0}, {9, 9, 9}}, []int{4, 3}},
		"erlda: full is hot although another is longer": {erlda, small, [][]int{{10, 90, 0}}, []int{5}},
		"erlda: it keeps the pool's bounds":             {erlda, three, [][]int{{200, 0, 0}, {200, 0, 0}, {200, 0, 0}}, []int{5, 6, 6}},

		"seda: one long queue is enough, wherever": {seda, three, [][]int{{64, 0, 0}, {0, 0, 64}}, []int{5, 6}},
		"seda: many short ones are not a long one": {seda, three, [][]int{{60, 60, 60}, {63, 63, 63}}, []int{4, 4}},
		"seda: what waits anywhere is work":        {seda, three, [][]int{{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}, []int{4, 4, 4}},
		"seda: idle when all are":                  {seda, three, [][]int{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, []int{4, 3, 2}},
		"cruz: one long queue is enough":           {policy.SEDA{Preset: policy.Cruz}, three, [][]int{{0, 51, 0}, {50, 50, 50}}, []int{5, 4}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stages := append([]controller.StageStats{}, tt.stages...)
			f := newGroups(tt.law.New(), []controller.PoolStats{group("g", 4, 2, 6)}, stages...)
			require.Equal(t, tt.want, f.looks(tt.rows...))
			require.NoError(t, f.err)
			for _, c := range f.journal.Entries() {
				require.Equal(t, controller.NoStage, c.Stage)
				require.Equal(t, "g", c.StageName)
			}
		})
	}
}

func TestAGroupStatesWhichQueueWasTheLongest(t *testing.T) {
	f := newGroups(policy.ERLDA{}.New(), []controller.PoolStats{group("g", 4, 2, 6)}, of("g", 1024), of("g", 1024))
	f.looks([]int{120, 300})
	require.Len(t, f.journal.Entries(), 1)
	require.Equal(t, `1s test: pool "g": workers 4 to 5: queue 300 > 100 for 1 sample`, f.journal.Entries()[0].String())
}

func TestAGroupIsBroughtBackBetweenItsBounds(t *testing.T) {
	for name, law := range map[string]controller.Policy{"erlda": policy.ERLDA{}, "seda": policy.SEDA{}} {
		t.Run(name, func(t *testing.T) {
			f := newGroups(law.New(), []controller.PoolStats{group("g", 9, 2, 6), group("h", 1, 3, 6)}, of("g", 0), of("h", 0))
			require.Equal(t, []int{6}, f.looks([]int{30, 30}))
			require.Equal(t, 3, f.pools[1].Workers)
		})
	}
}

// Seven workers for a stage of its own, a group of two stages, and a group of none.
func TestGroupsStealAndAreStolenFromAsOne(t *testing.T) {
	newThree := func() *row {
		return newGroups(policy.Stealing{Workers: 7, Samples: 1}.New(),
			[]controller.PoolStats{group("g", 1, 1, 8), group("empty", 5, 1, 8)},
			pool(1, 1, 8), of("g", 1024), of("g", 1024))
	}
	t.Run("they have shares", func(t *testing.T) {
		f := newThree()
		require.Equal(t, 4, f.stages[0].Workers)
		require.Equal(t, 3, f.pools[0].Workers)
		require.Equal(t, 5, f.pools[1].Workers, "a pool without stages is left alone")
		require.Equal(t, "its share of 7 workers for 2 pools", f.journal.Entries()[1].Why)
	})
	t.Run("the group steals", func(t *testing.T) {
		f := newThree()
		f.stages[2].Window.Accepted = 90
		require.Equal(t, []int{4}, f.looks([]int{0, 0, 80}))
		require.Equal(t, 3, f.stages[0].Workers)
		require.Equal(t, `steals from "stage 0": queue 80 > 3 for 1 sample`, f.journal.Entries()[2].Why)
		require.Equal(t, `gives to "g": 4 of 4 workers free for 1 sample`, f.journal.Entries()[3].Why)
	})
	t.Run("the group is stolen from", func(t *testing.T) {
		f := newThree()
		f.stages[0].Window.Accepted = 90
		require.Equal(t, []int{2}, f.looks([]int{80, 0, 0}))
		require.Equal(t, 5, f.stages[0].Workers)
	})
	t.Run("but not while one of its stages has a backlog", func(t *testing.T) {
		f := newThree()
		f.stages[0].Window.Accepted = 90
		require.Equal(t, []int{3}, f.looks([]int{80, 0, 4}))
	})
	t.Run("nor while all its workers are busy", func(t *testing.T) {
		f := newThree()
		f.pools[0].Busy = 3
		f.stages[0].Window.Accepted = 90
		require.Equal(t, []int{3}, f.looks([]int{80, 0, 0}))
	})
	t.Run("cruz: the rate is that of all its stages", func(t *testing.T) {
		f := newGroups(policy.Stealing{Preset: policy.Cruz, Workers: 6}.New(),
			[]controller.PoolStats{group("g", 3, 1, 8)}, at(60, 3, 8), of("g", 1024), of("g", 1024))
		f.stages[1].Window = controller.Counters{Accepted: 100, OK: 10}
		f.stages[2].Window = controller.Counters{Accepted: 300, OK: 270}
		require.Equal(t, []int{2}, f.looks([]int{0, 0, 0}))
		require.Equal(t, `gives to "stage 0": rate 70%, there 60%`, f.journal.Entries()[1].Why)
	})
}

func TestAPausedStageIsLeftAlone(t *testing.T) {
	laws := map[string]controller.Policy{
		"erlda":    policy.ERLDA{Cooldown: policy.NoCooldown},
		"seda":     policy.SEDA{Samples: 1, Cooldown: policy.NoCooldown, Idle: 1},
		"cruz":     policy.SEDA{Preset: policy.Cruz},
		"stealing": policy.Stealing{Samples: 1, Workers: 8},
		"thefts":   policy.Stealing{Preset: policy.Cruz, Workers: 8},
		"batching": policy.Batching{Act: 1, Max: 9},
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			f := newRow(law.New(), pool(4, 1, 8), pool(4, 1, 8))
			before := len(f.journal.Entries())
			f.stages[0].Paused = true
			f.stages[0].MinWorkers = 5 // so that the number is out of bounds
			for range 3 {
				f.stages[0].Window, f.stages[1].Window = controller.Counters{Accepted: 100, OK: 10}, controller.Counters{Accepted: 100, OK: 90}
				f.looks([]int{900, 0})
			}
			for _, c := range f.journal.Entries()[before:] {
				require.NotEqual(t, controller.StageID(0), c.Stage, c.String())
			}
			require.NoError(t, f.err)
		})
	}
}

// A custom policy may have bound a stage to the own pool of another stage.
func TestABoundStageCountsAtItsPool(t *testing.T) {
	host, bound := pool(4, 2, 6), of("stage 0", 1024)
	f := newGroups(policy.ERLDA{Cooldown: policy.NoCooldown}.New(),
		[]controller.PoolStats{{Name: "stage 0", Own: true, Workers: 4, MinWorkers: 2, MaxWorkers: 6}}, host, bound)
	f.looks([]int{50, 101}, []int{0, 50})
	require.NoError(t, f.err)
	require.Equal(t, 5, f.stages[0].Workers)
	require.Len(t, f.journal.Entries(), 1, "there is one pool")
}

func TestAThiefStatesWhichOfItsQueuesIsTheLongest(t *testing.T) {
	f := newGroups(policy.Stealing{Workers: 6, Samples: 1}.New(),
		[]controller.PoolStats{group("g", 3, 1, 8)}, pool(3, 1, 8), of("g", 1024), of("g", 1024), of("g", 1024))
	for i := range f.stages {
		f.stages[i].Window.Accepted = 90
	}
	f.looks([]int{0, 10, 80, 20})
	require.Equal(t, `steals from "stage 0": queue 80 > 3 for 1 sample`, f.journal.Entries()[0].Why)
}

func TestAPausedStageDoesNotAffectOthers(t *testing.T) {
	f := newRow(policy.Stealing{Preset: policy.Cruz, Pairs: 1}.New(), at(10, 2, 8), at(90, 2, 8), at(95, 2, 8))
	f.stages[2].Paused = true
	f.ask(controller.EventTick)
	require.Equal(t, []int{3, 1, 2}, f.workers())
}

func TestAPausedStageIsNotReplete(t *testing.T) {
	f := newRow(policy.Stealing{}.New(), swamped(), quiet())
	f.stages[1].Paused = true
	f.ask(controller.EventTick)
	f.ask(controller.EventTick)
	f.stages[1].Paused = false
	f.ask(controller.EventTick)
	require.Equal(t, []int{2, 2}, f.workers())
	f.ask(controller.EventTick)
	require.Equal(t, []int{3, 1}, f.workers())
}

func TestAPausedStageOfAGroupDoesNotCount(t *testing.T) {
	f := newGroups(policy.ERLDA{Cooldown: policy.NoCooldown}.New(), []controller.PoolStats{group("g", 4, 2, 6)}, of("g", 0), of("g", 0))
	f.stages[0].Paused = true
	require.Equal(t, []int{4, 3}, f.looks([]int{500, 50}, []int{500, 0}))
	f.stages[1].Paused = true
	require.Equal(t, []int{3, 3}, f.looks([]int{500, 500}, []int{0, 0}), "all are paused")
}

func TestAPauseRestartsTheSamplesAndTheIdleTime(t *testing.T) {
	hot := newRow(policy.ERLDA{Samples: 2}.New())
	hot.run(120)
	hot.stages[0].Paused = true
	hot.run(120)
	hot.stages[0].Paused = false
	require.Equal(t, []int{10, 11}, hot.run(120, 120))

	idle := newRow(policy.SEDA{}.New(), pool(4, 1, 9))
	idle.run(during(5, 0)...)
	idle.stages[0].Paused = true
	idle.run(0)
	idle.stages[0].Paused = false
	require.Equal(t, []int{4, 4, 4, 4, 4, 3}, idle.run(during(6, 0)...))
}

// Commands that arrive during a pause do not count when it is over.
func TestAPauseIsNotAGrowingBacklog(t *testing.T) {
	f := newRow(policy.Stealing{Samples: 1}.New(), quiet(), quiet())
	f.stages[0].Paused = true
	f.stages[0].QueueLen, f.stages[0].Window.Accepted = 50, 50
	f.ask(controller.EventTick)
	f.stages[0].Paused, f.stages[0].Window.Accepted = false, 0
	f.ask(controller.EventTick)
	require.Equal(t, []int{2, 2}, f.workers())
	f.stages[0].Window.Accepted = 1
	f.ask(controller.EventTick)
	require.Equal(t, []int{3, 1}, f.workers())
}

// Other events end a window, too; a tick still sees everything that happened since the last tick.
func TestStealingCountsFromItsLastTick(t *testing.T) {
	f := newRow(policy.Stealing{Preset: policy.Cruz}.New(), at(10, 2, 8), at(90, 2, 8))
	for i := range f.stages {
		f.stages[i].Total = f.stages[i].Window
	}
	f.ask(controller.EventQueueFull)
	for i := range f.stages {
		f.stages[i].Window = controller.Counters{}
	}
	f.ask(controller.EventTick)
	require.Equal(t, []int{3, 1}, f.workers())
}

func TestAPolicyDecidesOnWhatItClaims(t *testing.T) {
	for name, want := range map[string][]controller.Knob{
		"erlda": {controller.KnobWorkers}, "seda": {controller.KnobWorkers}, "seda:cruz": {controller.KnobWorkers, controller.KnobGate},
		"seda:welsh": {controller.KnobWorkers}, "stealing": {controller.KnobWorkers}, "stealing:cruz": {controller.KnobWorkers},
		"batching": {controller.KnobBatch}, "batching:welsh": {controller.KnobBatch}, "fixed": nil,
	} {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		require.Implements(t, (*controller.Claimer)(nil), law)
		require.Equal(t, want, law.(controller.Claimer).Claims(), name)
	}
}

// The model is the simple way: a group with one stage behaves as the stage alone would.
func TestAGroupOfOneBehavesLikeTheStage(t *testing.T) {
	for _, name := range []string{"erlda", "seda", "seda:cruz", "seda:welsh"} {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				capacity := rapid.IntRange(1, 200).Draw(t, "capacity")
				alone := newRow(law.New(), controller.StageStats{QueueCap: capacity, Workers: 4, MinWorkers: 2, MaxWorkers: 9})
				shared := newGroups(law.New(), []controller.PoolStats{group("g", 4, 2, 9)}, of("g", capacity))
				for range rapid.IntRange(1, 40).Draw(t, "looks") {
					n := rapid.IntRange(0, capacity).Draw(t, "queue")
					busy := rapid.IntRange(0, alone.stages[0].Workers).Draw(t, "busy")
					alone.stages[0].Busy, shared.pools[0].Busy = busy, busy
					require.Equal(t, alone.run(n), shared.looks([]int{n}))
				}
			})
		})
	}
}

func TestTicksOverGroupsAllocateNothing(t *testing.T) {
	for _, name := range []string{"erlda", "seda", "seda:cruz", "stealing", "stealing:cruz"} {
		t.Run(name, func(t *testing.T) {
			law, err := policy.ByName(name)
			require.NoError(t, err)
			f := newGroups(law.New(), []controller.PoolStats{group("g", 2, 2, 9)}, pool(2, 2, 9), of("g", 1024), of("g", 1024))
			f.looks([]int{50, 50, 50})
			require.Empty(t, f.journal.Entries())
			s := &controller.Snapshot{Stages: f.stages, Pools: f.pools}
			var d controller.Decisions
			require.Zero(t, testing.AllocsPerRun(100, func() {
				_ = controller.Ask(f.c, controller.Event{Kind: controller.EventTick}, s, &d)
			}))
		})
	}
}
