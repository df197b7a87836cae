package leda_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
)

// step is a call of a method with some arguments.
type step func(l *leda.Leda)

// names are those of stages and pools, and of missing ones.
var names = []string{"s1", "s2", "s3", "leda", "leda-1", "leda-2", "group", "ghost", "*", ""}

func anyInt() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(-3, 12), rapid.SampledFrom([]int{math.MinInt, math.MaxInt}))
}

// anyStep draws one of the methods that decide. Some of them, the callbacks, call others.
func anyStep(t *rapid.T, depth int) step {
	st := leda.Stage(rapid.SampledFrom(names).Draw(t, "stage"))
	other := leda.Stage(rapid.SampledFrom(names).Draw(t, "other"))
	p := leda.Pool(rapid.SampledFrom(names).Draw(t, "pool"))
	n := anyInt().Draw(t, "n")
	steps := []step{
		func(l *leda.Leda) { l.UsePrivateQueues() },
		func(l *leda.Leda) { _ = l.SetQueueCapacity(st, n) },
		func(l *leda.Leda) { _ = l.DisableQueue(st) },
		func(l *leda.Leda) { _ = l.EnableQueue(st) },
		func(l *leda.Leda) { _ = l.Pool.New(n) },
		func(l *leda.Leda) { _ = l.Pool.SetPool(p, st) },
		func(l *leda.Leda) { _ = l.Pool.Add(p, n) },
		func(l *leda.Leda) { _ = l.Pool.Kill(p, n) },
		func(l *leda.Leda) { _ = l.Monitoring.ResetStatistics(st) },
		func(l *leda.Leda) { l.Monitoring.DoNotFireLastFocused() },
		func(l *leda.Leda) { _ = l.Scheduler.VisitOrder([]leda.Stage{st, other, st}) },
		func(l *leda.Leda) { _ = l.Scheduler.VisitOrder(nil) },
		func(l *leda.Leda) { _ = l.Scheduler.RestartAtIndex(n) },
		func(l *leda.Leda) { l.Scheduler.DoNotRestart() },
		func(l *leda.Leda) { _ = l.Scheduler.Steal(st, other, n) },
		func(l *leda.Leda) { _ = l.Scheduler.SetPriority(st, n) },
		func(l *leda.Leda) { _ = l.Scheduler.MaxEventsWhenFocused(st, n) },
		func(l *leda.Leda) { _ = l.Instances.Add(st, n) },
		func(l *leda.Leda) { _ = l.Instances.Kill(st, n) },
		func(l *leda.Leda) { look(l) },
	}
	if depth > 0 {
		var f func(l *leda.Leda)
		if rapid.Bool().Draw(t, "function") {
			f = anySteps(t, depth-1)
		}
		bind := func(l *leda.Leda) func() {
			if f == nil {
				return nil
			}
			return func() { f(l) }
		}
		steps = append(steps,
			func(l *leda.Leda) { _ = l.Monitoring.AddTimer(bind(l), time.Duration(n)*time.Millisecond) },
			func(l *leda.Leda) { _ = l.Monitoring.FireLastFocused(bind(l)) },
			func(l *leda.Leda) { _ = l.Scheduler.MaxVisits(n, bind(l)) },
		)
	}
	return rapid.SampledFrom(steps).Draw(t, "step")
}

func anySteps(t *rapid.T, depth int) step {
	var steps []step
	for range rapid.IntRange(0, 8).Draw(t, "steps") {
		steps = append(steps, anyStep(t, depth))
	}
	return func(l *leda.Leda) {
		for _, do := range steps {
			do(l)
		}
	}
}

// look returns as text all that a script can read of the state that it can change.
func look(l *leda.Leda) string {
	text := []string{fmt.Sprint(l.Monitoring.GetCpusCount(), l.Monitoring.GetCpuUsage(), l.GetQueueCapacity("ghost"))}
	for _, st := range l.Stages() {
		pool := l.Pool.GetPool(st)
		threads := l.Pool.GetThreadsCount(pool)
		if pool == leda.Global {
			threads = max(threads, 1) // the pool may be made only at the end of the call
		}
		text = append(text, fmt.Sprintf("%s in %s with %d: capacity %d %v, instances %d, %d free, priority %d", st, pool, threads,
			l.GetQueueCapacity(st), l.QueueIsEnabled(st),
			l.Instances.GetInstanceCount(st), l.Instances.GetFreeInstancesCount(st), l.Scheduler.GetPriority(st)))
		_, _, _ = l.Monitoring.GetQueueSize(st), l.Monitoring.GetInputCount(st), l.Monitoring.GetProcessedCount(st)
	}
	return strings.Join(text, "\n")
}

var anyKind = rapid.SampledFrom([]controller.EventKind{
	controller.EventStart, controller.EventTick, controller.EventTick, controller.EventRoundEnd, controller.EventVisits,
	controller.EventTopology, controller.EventQueueFull, controller.EventStop, 77,
})

// anySnapshot draws a snapshot that no real pipeline would have.
func anySnapshot(t *rapid.T) *controller.Snapshot {
	s := &controller.Snapshot{
		At: time.Duration(rapid.Int64().Draw(t, "at")), CPUs: anyInt().Draw(t, "CPUs"), CPUUsage: rapid.Float64().Draw(t, "usage"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "stages") {
		s.Stages = append(s.Stages, controller.StageStats{
			ID:   controller.StageID(anyInt().Draw(t, "id")),
			Name: rapid.SampledFrom(names).Draw(t, "name"), Pool: rapid.SampledFrom(names).Draw(t, "pool"),
			QueueLen: anyInt().Draw(t, "queue"), QueueCap: anyInt().Draw(t, "capacity"),
			Workers: anyInt().Draw(t, "workers"), MinWorkers: anyInt().Draw(t, "least"), MaxWorkers: anyInt().Draw(t, "most"),
			Instances: anyInt().Draw(t, "instances"), FreeInstances: anyInt().Draw(t, "free"),
			Priority: anyInt().Draw(t, "priority"), Enabled: rapid.Bool().Draw(t, "enabled"),
			Paused: rapid.Bool().Draw(t, "paused"), Blocking: rapid.Bool().Draw(t, "blocking"),
			Total: controller.Counters{Accepted: rapid.Uint64().Draw(t, "accepted"), OK: rapid.Uint64().Draw(t, "ok")},
		})
	}
	for range rapid.IntRange(0, 4).Draw(t, "pools") {
		s.Pools = append(s.Pools, controller.PoolStats{
			Name: rapid.SampledFrom(names).Draw(t, "name"),
			Own:  rapid.Bool().Draw(t, "own"), Group: rapid.Bool().Draw(t, "group"),
			Workers: anyInt().Draw(t, "workers"), MinWorkers: anyInt().Draw(t, "least"), MaxWorkers: anyInt().Draw(t, "most"),
			Rounds: rapid.Uint64().Draw(t, "rounds"),
		})
	}
	return s
}

func TestAnyScriptSeesAnythingAndNeitherPanicsNorIsAtFault(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := leda.New("any", anySteps(t, 2)).New()
		var d controller.Decisions
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			s := anySnapshot(t)
			ev := controller.Event{Kind: anyKind.Draw(t, "event"), Pool: rapid.SampledFrom(names).Draw(t, "of")}
			require.NoError(t, controller.Ask(c, ev, s, &d))
			_, faults := controller.Settle("any", s, &d)
			require.Empty(t, faults)
		}
	})
}

func anyWorld(t *rapid.T) *world {
	w := newWorld(t, 3)
	w.Pools = append(w.Pools, controller.PoolStats{Name: "group", Group: true, Workers: 4, MinWorkers: 2, MaxWorkers: 6})
	for i := range w.Stages {
		st := &w.Stages[i]
		st.FreeInstances = rapid.IntRange(0, st.Instances).Draw(t, "free")
		st.Blocking = rapid.Bool().Draw(t, "blocking")
		if rapid.Bool().Draw(t, "in a group") {
			w.move(st, "group")
		}
	}
	return w
}

// What a script reads after a decision is what it reads in the next call, after the decision was applied.
func TestAScriptReadsWhatBecomesOfItsDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		var first, last string
		do := anySteps(t, 0)
		call := func(l *leda.Leda) {
			first = look(l)
			do(l)
			last = look(l)
		}
		w.run(func(l *leda.Leda) {
			_ = l.Monitoring.AddTimer(func() { call(l) }, time.Second)
			call(l)
		})
		for range rapid.IntRange(1, 4).Draw(t, "ticks") {
			before := last
			do = anySteps(t, 0)
			w.tick(time.Second)
			require.Equal(t, before, first)
		}
	})
}

// For any thief and victim, no worker is made and none is lost.
func TestStealsKeepTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 4)
		sum := func() (n int) {
			for i := range w.Pools {
				n += w.Pools[i].Workers
			}
			return n
		}
		thefts := rapid.SliceOf(rapid.Custom(func(t *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 3).Draw(t, "thief"), rapid.IntRange(0, 3).Draw(t, "victim"), rapid.IntRange(0, 5).Draw(t, "n")}
		})).Draw(t, "thefts")
		w.run(func(l *leda.Leda) {
			for i, st := range l.Stages() {
				p := leda.Pool(st)
				if i < 2 {
					p = l.Pool.New(3)
				}
				_ = l.Pool.SetPool(p, st)
			}
			_ = l.Monitoring.AddTimer(func() {
				stages := l.Stages()
				for _, x := range thefts {
					require.NoError(t, l.Scheduler.Steal(stages[x[0]], stages[x[1]], x[2]))
				}
			}, time.Second)
		})
		before := sum()
		w.tick(time.Second)
		require.Equal(t, before, sum())
	})
}
