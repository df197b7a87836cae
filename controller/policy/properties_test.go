package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/steer"
)

func anyERLDA(t *rapid.T) policy.ERLDA {
	down := rapid.IntRange(1, 40).Draw(t, "down")
	law := policy.ERLDA{
		Cooldown: time.Duration(rapid.IntRange(1, 5000).Draw(t, "cooldown")) * time.Millisecond,
		Down:     down,
		Up:       down + rapid.IntRange(1, 40).Draw(t, "up"),
		Samples:  rapid.IntRange(0, 4).Draw(t, "samples"),
	}
	if rapid.Bool().Draw(t, "no cooldown") {
		law.Cooldown = policy.NoCooldown
	}
	require.NoError(t, law.Check())
	return law
}

func anyStage(t *rapid.T) controller.StageStats {
	least := rapid.IntRange(1, 5).Draw(t, "least")
	most := least + rapid.IntRange(0, 5).Draw(t, "span")
	return controller.StageStats{
		QueueCap:   rapid.IntRange(-1, 120).Draw(t, "capacity"),
		MinWorkers: least, MaxWorkers: most,
		Workers: rapid.IntRange(least, most).Draw(t, "workers"),
	}
}

// The test walks through any lengths at any times and checks the promises of the law.
func TestERLDAKeepsItsPromisesUnderAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anyERLDA(t)
		stages := rapid.SliceOfN(rapid.Custom(anyStage), 0, 3).Draw(t, "stages")
		f := newRow(law.New(), append(stages, anyStage(t))...)
		last := map[controller.StageID]time.Duration{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			f.now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			for i := range f.stages {
				f.stages[i].QueueLen = rapid.IntRange(0, 130).Draw(t, "queue")
			}
			before := f.journal.Entries()
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			for _, c := range f.journal.Entries()[len(before):] {
				requireALawfulStep(t, law, f, c, last)
			}
		}
	})
}

func requireALawfulStep(
	t *rapid.T, law policy.ERLDA, f *row, c controller.Change, last map[controller.StageID]time.Duration,
) {
	st := f.stages[c.Stage]
	require.GreaterOrEqual(t, c.After, st.MinWorkers)
	require.LessOrEqual(t, c.After, st.MaxWorkers)
	require.Contains(t, []int{1, -1}, by(c), "one step")
	require.NotContains(t, c.Why, "limited to the", "the law stays within the bounds by itself")
	if at, ok := last[c.Stage]; ok {
		require.GreaterOrEqual(t, c.At-at, law.Cooldown)
	}
	last[c.Stage] = c.At
	if by(c) > 0 {
		require.Positive(t, st.QueueLen, "a worker is added only when commands wait")
	}
}

// For any snapshot, each law decides without a panic and within bounds.
func TestEveryPolicyAcceptsAnySnapshot(t *testing.T) {
	forEveryPolicy(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			c := law.New()
			var d controller.Decisions
			for range rapid.IntRange(1, 10).Draw(t, "events") {
				s := &controller.Snapshot{At: time.Duration(rapid.Int64().Draw(t, "at"))}
				for i := range rapid.IntRange(0, 5).Draw(t, "stages") {
					s.Stages = append(s.Stages, anyStats(t, i))
				}
				for range rapid.IntRange(0, 3).Draw(t, "pools") {
					s.Pools = append(s.Pools, anyPool(t))
				}
				kind := rapid.SampledFrom([]controller.EventKind{controller.EventTick, controller.EventTick, controller.EventStart, controller.EventStop, 77})
				require.NoError(t, controller.Ask(c, controller.Event{Kind: kind.Draw(t, "event")}, s, &d))
				changes, faults := controller.Settle(law.Name(), s, &d)
				require.Empty(t, faults)
				for _, ch := range changes {
					requireLawful(t, law, s, ch)
				}
			}
		})
	})
}

// requireLawful checks what any policy promises of each change.
func requireLawful(t *rapid.T, law controller.Policy, s *controller.Snapshot, c controller.Change) {
	require.NotContains(t, []string{"", "no reason given"}, c.Why)
	if claimer, ok := law.(controller.Claimer); ok {
		require.Contains(t, claimer.Claims(), c.What, "only what was claimed")
	}
	if c.What != controller.KnobWorkers {
		return
	}
	least, most := 0, 0
	if p := s.Pool(c.StageName); c.Stage == controller.NoStage && p != nil {
		least, most = p.MinWorkers, p.MaxWorkers
	} else if c.Stage != controller.NoStage {
		least, most = s.Stages[c.Stage].MinWorkers, s.Stages[c.Stage].MaxWorkers
	}
	require.GreaterOrEqual(t, c.After, least)
	require.LessOrEqual(t, c.After, max(least, most))
}

func anyPool(t *rapid.T) controller.PoolStats {
	return controller.PoolStats{
		Name:  rapid.SampledFrom([]string{"", "a", "b", "g", "h"}).Draw(t, "pool"),
		Own:   rapid.Bool().Draw(t, "own"),
		Group: rapid.Bool().Draw(t, "group"),
		Stages: rapid.SliceOf(rapid.Custom(func(t *rapid.T) controller.StageID {
			return controller.StageID(rapid.IntRange(-1, 6).Draw(t, "stage"))
		})).Draw(t, "its stages"),
		Dispatch: controller.Dispatch(rapid.IntRange(0, 4).Draw(t, "dispatch")),
		Workers:  rapid.Int().Draw(t, "workers"), MinWorkers: rapid.Int().Draw(t, "least"), MaxWorkers: rapid.Int().Draw(t, "most"),
		Busy: rapid.Int().Draw(t, "busy"),
	}
}

func anyStats(t *rapid.T, i int) controller.StageStats {
	return controller.StageStats{
		Pool: rapid.SampledFrom([]string{"", "a", "b", "g", "h"}).Draw(t, "pool"), Paused: rapid.Bool().Draw(t, "paused"),
		Batch: controller.Batch{Max: rapid.Int().Draw(t, "batch")},
		Total: controller.Counters{Accepted: rapid.Uint64().Draw(t, "accepted ever"), OK: rapid.Uint64().Draw(t, "ok ever")},
		Bound: rapid.Bool().Draw(t, "bound"), Blocked: rapid.Int().Draw(t, "blocked"),
		ID: controller.StageID(i), Name: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "name"),
		QueueLen: rapid.Int().Draw(t, "queue"), QueueCap: rapid.Int().Draw(t, "capacity"),
		InHand: rapid.Int().Draw(t, "in hand"), Busy: rapid.Int().Draw(t, "busy"),
		Workers: rapid.Int().Draw(t, "workers"), MinWorkers: rapid.Int().Draw(t, "least"),
		MaxWorkers: rapid.Int().Draw(t, "most"),
		Window:     controller.Counters{Accepted: rapid.Uint64().Draw(t, "accepted"), OK: rapid.Uint64().Draw(t, "ok")},
	}
}

func forEveryPolicy(t *testing.T, check func(t *testing.T, law controller.Policy)) {
	t.Helper()
	for _, name := range policy.Names() {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		if claims(law, controller.KnobVisit) {
			continue // policies that share workers have forEveryVisitor
		}
		t.Run(name, func(t *testing.T) { check(t, law) })
	}
}

// One stage has endless work, the others any: the stage keeps a worker, and all it has if the law reads the queue.
func TestNoPolicyStarvesAStageWithEndlessWork(t *testing.T) {
	forEveryPolicy(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			f := newRow(law.New(), rapid.SliceOfN(rapid.Custom(anyStage), 1, 5).Draw(t, "stages")...)
			for range rapid.IntRange(1, 60).Draw(t, "ticks") {
				f.now += time.Second
				for i := range f.stages {
					f.anyLoad(t, i)
				}
				busy := &f.stages[0]
				busy.QueueLen, busy.Busy, busy.Window = busy.QueueCap, busy.Workers, controller.Counters{Accepted: 9, OK: 9}
				if busy.QueueCap <= 0 {
					busy.QueueLen, busy.Window.OK = 9999, 0
				}
				had := busy.Workers
				f.ask(controller.EventTick)
				require.NoError(t, f.err)
				require.GreaterOrEqual(t, f.stages[0].Workers, max(1, f.stages[0].MinWorkers))
				if law.Name() != "stealing:cruz" && law.Name() != "seda:cruz" { // they read only rates and the threshold of 50
					require.GreaterOrEqual(t, f.stages[0].Workers, had, "a full stage loses no worker")
				}
			}
		})
	})
}

func TestEveryPolicyTicksWithoutAllocating(t *testing.T) {
	forEveryPolicy(t, func(t *testing.T, law controller.Policy) {
		f := newRow(law.New(), pool(2, 2, 9), pool(2, 2, 9), pool(2, 2, 9))
		for i := range f.stages {
			f.stages[i].QueueLen, f.stages[i].Busy = 50, f.stages[i].Workers
		}
		f.journal = steer.NewJournal(0)
		s := &controller.Snapshot{Stages: f.stages}
		var d controller.Decisions
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = controller.Ask(f.c, controller.Event{Kind: controller.EventTick}, s, &d)
		}))
		require.Empty(t, f.journal.Entries())
		for i := range f.stages {
			_, _, wants := d.Wants(controller.StageID(i))
			require.False(t, wants)
		}
	})
}

func TestEveryPolicyIsDeterministicAndSharesNoMemory(t *testing.T) {
	forEveryPolicy(t, func(t *testing.T, law controller.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			once := newRow(law.New(), rapid.SliceOfN(rapid.Custom(anyStage), 1, 5).Draw(t, "stages")...)
			again := newRow(law.New(), slices.Clone(once.stages)...)
			again.stages = slices.Clone(once.stages)
			for range rapid.IntRange(1, 40).Draw(t, "ticks") {
				once.now += time.Second
				for i := range once.stages {
					once.anyLoad(t, i)
				}
				again.now, again.stages = once.now, slices.Clone(once.stages)
				once.ask(controller.EventTick)
				again.ask(controller.EventTick)
				require.Equal(t, once.stages, again.stages)
			}
		})
	})
}
