package leda_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
)

func TestAScriptIsAPolicy(t *testing.T) {
	p := leda.New("mine", func(*leda.Leda) {})
	require.Equal(t, "mine", p.Name())
	require.NoError(t, p.Check())
	require.NotPanics(t, func() { _ = p == leda.New("mine", nil) }, "policies are compared, and functions are not comparable")
	err := leda.New("", nil).Check()
	require.ErrorContains(t, err, "a policy needs a name")
	require.ErrorContains(t, err, "a policy needs a script")
}

func TestAScriptClaimsTheKnobsOfItsMethods(t *testing.T) {
	claims := leda.New("mine", nil).(controller.Claimer).Claims()
	require.Contains(t, claims, controller.KnobVisit)
	require.NotContains(t, claims, controller.KnobGate, "another policy may set a gate")
	for _, listing := range []func(*leda.Leda){
		sedaListing, cohortListing, lrbListing, dbrListing, srptListing, srptPrivateListing, colorListing, stealingListing,
	} {
		for _, c := range start(t, 3, listing).changes {
			require.Contains(t, claims, c.What)
		}
	}
}

func TestTwoRunsOfOnePolicyShareNoState(t *testing.T) {
	p := leda.New("mine", func(l *leda.Leda) {
		require.Equal(t, leda.Pool("leda-1"), l.Pool.New(2))
		require.NoError(t, l.Monitoring.ResetStatistics("s1"))
	})
	for range 2 {
		w := newWorld(t, 1)
		w.c = p.New()
		w.tell(controller.Event{Kind: controller.EventStart})
	}
}

func TestAStageWithoutAPoolIsInTheGlobalOne(t *testing.T) {
	tests := map[string]struct {
		stage  controller.StageStats // replaces s2
		script func(l *leda.Leda)
		pools  string
	}{
		"an empty script":                   {script: func(*leda.Leda) {}, pools: "leda:1 leda:1 leda:1"},
		"as many workers as are added":      {script: func(l *leda.Leda) { _ = l.Pool.Add(leda.Global, 6) }, pools: "leda:6 leda:6 leda:6"},
		"not the stages that have one":      {script: func(l *leda.Leda) { _ = l.Pool.SetPool(l.Pool.New(2), "s1") }, pools: "leda-1:2 leda:1 leda:1"},
		"not a stage whose handlers block":  {stage: controller.StageStats{Blocking: true}, script: func(*leda.Leda) {}, pools: "leda:1 s2:2 leda:1"},
		"unless the script moves it":        {stage: controller.StageStats{Blocking: true}, script: func(l *leda.Leda) { _ = l.Pool.SetPool(leda.Global, "s2") }, pools: "leda:1 leda:1 leda:1"},
		"not one that is paused":            {stage: controller.StageStats{Paused: true}, script: func(*leda.Leda) {}, pools: "leda:1 s2:2 leda:1"},
		"not one of a declared group":       {stage: controller.StageStats{Pool: "group"}, script: func(*leda.Leda) {}, pools: "leda:1 group:5 leda:1"},
		"a stage that another policy moved": {stage: controller.StageStats{Pool: "theirs"}, script: func(*leda.Leda) {}, pools: "leda:1 leda:1 leda:1"},
		"a stage in a pool that is taken over": {stage: controller.StageStats{Pool: "leda-1"}, script: func(l *leda.Leda) {
			_ = l.Pool.SetPool(l.Pool.New(3), "s1")
		}, pools: "leda-1:3 leda:1 leda:1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.Pools = append(w.Pools,
				controller.PoolStats{Name: "group", Group: true, Workers: 5, MinWorkers: 1, MaxWorkers: 9},
				controller.PoolStats{Name: "theirs", Workers: 5, MinWorkers: 1, MaxWorkers: 9},
				controller.PoolStats{Name: "leda-1", Workers: 5, MinWorkers: 1, MaxWorkers: 9})
			w.stage(2).Blocking, w.stage(2).Paused = tt.stage.Blocking, tt.stage.Paused
			if tt.stage.Pool != "" {
				w.move(w.stage(2), tt.stage.Pool)
			}
			w.run(tt.script)
			require.Equal(t, tt.pools, w.pools())
			w.tick(time.Second)
			require.Empty(t, w.changes, "the second call changes nothing")
		})
	}
}

func TestAGlobalPoolIsMadeOnlyIfAStageNeedsIt(t *testing.T) {
	w := start(t, 3, sedaListing)
	require.Nil(t, w.Pool("leda"))
}

func TestAStageThatIsAddedLaterIsGathered(t *testing.T) {
	w := start(t, 2, cohortListing)
	w.add("s3")
	w.tell(controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage})
	require.Equal(t, "leda:2 leda:2 leda:2", w.pools())
	require.Equal(t, "1 2", w.order(), "the engine visits it at the end")
}

func TestAnOrderListsNamesNotIndexes(t *testing.T) {
	w := start(t, 3, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Scheduler.VisitOrder([]leda.Stage{"s3", "s1", "s2"})
		_ = l.Scheduler.MaxEventsWhenFocused("s3", 7)
		_ = l.Scheduler.RestartAtIndex(2)
	})
	require.Equal(t, "3 1 2, bounded 2147483647, 7 at 3, restart at 2 unless bounded", w.plan().String())
	w.Stages = w.Stages[1:] // s1 is removed
	w.tell(controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage})
	require.Equal(t, "2 1, bounded 2147483647, 7 at 2, restart at 2 unless bounded", w.plan().String())
}

func TestEachPoolHasItsPartOfTheOrder(t *testing.T) {
	w := start(t, 4, func(l *leda.Leda) {
		l.UsePrivateQueues()
		pool := l.Pool.New(1)
		_ = l.Pool.SetPool(pool, "s2")
		_ = l.Pool.SetPool(pool, "s4")
		_ = l.Scheduler.VisitOrder([]leda.Stage{"s4", "s3", "s2", "s1"})
		_ = l.Scheduler.RestartAtIndex(2)
	})
	require.Equal(t, "3 1, exhaustive, restart at 1", w.plan().String())
	require.Equal(t, "4 2, exhaustive, restart at 2", w.Pool("leda-1").Plan.String())
}

func TestMissedCallsOfATimerAreNotMadeUpFor(t *testing.T) {
	var calls int
	w := start(t, 1, func(l *leda.Leda) {
		_ = l.Monitoring.AddTimer(func() { calls++ }, 2*time.Second)
	})
	for _, step := range []struct {
		after time.Duration
		calls int
		every time.Duration
	}{
		{time.Second, 0, time.Second}, // called too early
		{1500 * time.Millisecond, 1, 1500 * time.Millisecond},
		{1500 * time.Millisecond, 2, 2 * time.Second}, // the timer keeps its beat
		{time.Hour, 3, 2 * time.Second},
	} {
		w.tick(step.after)
		require.Equal(t, step.calls, calls)
		require.Equal(t, step.every, w.every)
	}
}

func TestTheTimerThatIsLongestDueIsCalledFirst(t *testing.T) {
	var calls []string
	w := start(t, 1, func(l *leda.Leda) {
		_ = l.Monitoring.AddTimer(func() { calls = append(calls, "three") }, 3*time.Second)
		_ = l.Monitoring.AddTimer(func() { calls = append(calls, "two") }, 2*time.Second)
	})
	w.tick(10 * time.Second)
	require.Equal(t, []string{"two", "three"}, calls)
}

func TestATimerIsDueAtAnyEvent(t *testing.T) {
	var calls int
	w := start(t, 1, func(l *leda.Leda) {
		_ = l.Monitoring.AddTimer(func() { calls++ }, time.Second)
	})
	w.At = time.Second
	w.tell(controller.Event{Kind: controller.EventQueueFull})
	require.Equal(t, 1, calls)
	w.At = time.Hour
	w.tell(controller.Event{Kind: controller.EventStop})
	require.Equal(t, 1, calls, "no calls after EventStop")
}

func TestACallbackMayRegisterMore(t *testing.T) {
	var calls []string
	w := start(t, 1, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Monitoring.FireLastFocused(func() {
			calls = append(calls, "round")
			_ = l.Monitoring.AddTimer(func() { calls = append(calls, "timer") }, time.Minute)
		})
	})
	w.inTurn(time.Second)
	w.tick(time.Minute)
	require.Equal(t, []string{"round", "timer"}, calls)
}

// The plan existed before, so its one event may be over.
func TestAFunctionThatIsRegisteredLateIsCalledForTheNextRound(t *testing.T) {
	var rounds int
	w := start(t, 2, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Monitoring.AddTimer(func() { _ = l.Monitoring.FireLastFocused(func() { rounds++ }) }, time.Hour)
	})
	w.tick(w.every)
	w.tick(w.every)
	require.Equal(t, 100*time.Millisecond, w.every)
	require.Zero(t, rounds)
	w.Pool("leda").Rounds++
	w.tick(w.every)
	require.Equal(t, 1, rounds)
}

func TestTheRoundsOfAnUnusedPoolDoNotCount(t *testing.T) {
	var rounds int
	w := start(t, 1, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Monitoring.FireLastFocused(func() { rounds++ })
		_ = l.Monitoring.AddTimer(func() { _ = l.Pool.SetPool(l.Pool.New(1), "s1") }, time.Minute)
	})
	w.inTurn(time.Second)
	w.tick(time.Minute)
	require.Equal(t, "leda-1:1", w.pools())
	w.Pool("leda").Rounds++
	w.tick(time.Second)
	require.Equal(t, 1, rounds)
}

func TestAPausedStageIsNotInTheOrder(t *testing.T) {
	w := newWorld(t, 3)
	w.run(func(l *leda.Leda) { l.UsePrivateQueues() })
	w.stage(2).Paused = true
	w.tell(controller.Event{Kind: controller.EventTopology})
	require.Equal(t, "1 3", w.order())
	w.stage(2).Paused = false
	w.tell(controller.Event{Kind: controller.EventTopology})
	require.Equal(t, "1 2 3", w.order())
}

func TestAThiefTakesNoMoreThanItsBoundsAllow(t *testing.T) {
	w := start(t, 2, func(l *leda.Leda) {
		_ = l.Pool.SetPool("s1", "s1")
		_ = l.Pool.SetPool(l.Pool.New(20), "s2")
		_ = l.Scheduler.Steal("s1", "s2", 10)
	})
	require.Equal(t, "s1:8 leda-1:14", w.pools())
}

func TestRoundsAndVisitsAreRequestedOnce(t *testing.T) {
	w := start(t, 1, func(l *leda.Leda) {
		l.UsePrivateQueues()
		_ = l.Monitoring.FireLastFocused(func() {})
		_ = l.Scheduler.MaxVisits(9, func() {})
	})
	w.tick(time.Second)
	_, ok := w.d.WantsVisits()
	require.False(t, ok, "the engine might restart its count each time")
	_, ok = w.d.WantsRoundEnd()
	require.False(t, ok)
}

func TestAScriptThatPanicsIsCalledAgainFromTheBeginning(t *testing.T) {
	boom := errors.New("boom")
	var calls int
	w := newWorld(t, 1)
	w.c = leda.New("script", func(l *leda.Leda) {
		calls++
		require.Equal(t, leda.Pool("leda-1"), l.Pool.New(3))
		_ = l.Pool.SetPool("leda-1", "s1")
		if calls == 1 {
			panic(boom)
		}
	}).New()
	require.ErrorIs(t, w.ask(controller.Event{Kind: controller.EventStart}), boom)
	require.Equal(t, "s1:2", w.pools(), "decisions before the panic are dropped")
	w.tell(controller.Event{Kind: controller.EventStarved})
	require.Equal(t, "leda-1:3", w.pools())
	w.tell(controller.Event{Kind: controller.EventStarved})
	require.Equal(t, 2, calls)
}

func TestACallbackThatPanicsKeepsTheSettingsOfVisits(t *testing.T) {
	boom := errors.New("boom")
	var calls int
	w := start(t, 2, func(l *leda.Leda) {
		_ = l.Monitoring.AddTimer(func() {
			if calls++; calls > 1 {
				return
			}
			l.UsePrivateQueues()
			_ = l.Scheduler.VisitOrder([]leda.Stage{"s2", "s1"})
			_ = l.Scheduler.MaxVisits(9, func() {})
			panic(boom)
		}, time.Second)
	})
	w.At = time.Second
	require.ErrorIs(t, w.ask(controller.Event{Kind: controller.EventTick}), boom)
	require.Nil(t, w.plan())
	w.tick(w.every)
	require.Equal(t, "2 1", w.order())
	require.Equal(t, 9, w.visits)
	require.Equal(t, 2, calls)
}

func TestAScriptCannotDecideOutsideOfACall(t *testing.T) {
	var handle *leda.Leda
	start(t, 1, func(l *leda.Leda) { handle = l })
	require.Empty(t, handle.Stages())
	require.Empty(t, handle.Pool.New(2))
	require.ErrorIs(t, handle.Pool.Add(leda.Global, 2), leda.ErrOutside)
	require.ErrorIs(t, handle.SetQueueCapacity("s1", 2), leda.ErrUnknown, "no stage is known, either")
}

func TestAnErrorNamesTheArgumentAndTheReason(t *testing.T) {
	start(t, 2, func(l *leda.Leda) {
		for text, tt := range map[string]struct{ err, is error }{
			`leda: setQueueCapacity: stage "ghost": no such stage or pool`:           {l.SetQueueCapacity("ghost", 1), leda.ErrUnknown},
			`leda: disableQueue: stage "ghost": no such stage or pool`:               {l.DisableQueue("ghost"), leda.ErrUnknown},
			`leda: enableQueue: stage "ghost": no such stage or pool`:                {l.EnableQueue("ghost"), leda.ErrUnknown},
			`leda: pool.setPool: stage "ghost": no such stage or pool`:               {l.Pool.SetPool(leda.Global, "ghost"), leda.ErrUnknown},
			`leda: pool.setPool: pool "ghost": no such stage or pool`:                {l.Pool.SetPool("ghost", "s1"), leda.ErrUnknown},
			`leda: pool.add: pool "ghost": no such stage or pool`:                    {l.Pool.Add("ghost", 1), leda.ErrUnknown},
			`leda: pool.kill: -1: number out of range: negative`:                     {l.Pool.Kill("s1", -1), leda.ErrNumber},
			`leda: monitoring.resetStatistics: stage "ghost": no such stage or pool`: {l.Monitoring.ResetStatistics("ghost"), leda.ErrUnknown},
			`leda: monitoring.addTimer: nil function`:                                {l.Monitoring.AddTimer(nil, 1), leda.ErrNoFunction},
			`leda: monitoring.addTimer: 1ns: number out of range: a period is a time.Duration of at least 5ms; ` +
				`for seconds, as in the appendix, multiply by time.Second`: {l.Monitoring.AddTimer(func() {}, 1), leda.ErrNumber},
			`leda: monitoring.fireLastFocused: nil function`:                                      {l.Monitoring.FireLastFocused(nil), leda.ErrNoFunction},
			`leda: scheduler.visitOrder: stage "ghost": no such stage or pool`:                    {l.Scheduler.VisitOrder([]leda.Stage{"s1", "ghost"}), leda.ErrUnknown},
			`leda: scheduler.maxVisits: nil function`:                                             {l.Scheduler.MaxVisits(1, nil), leda.ErrNoFunction},
			`leda: scheduler.restartAtIndex: 0: number out of range: places are counted from one`: {l.Scheduler.RestartAtIndex(0), leda.ErrNumber},
			`leda: scheduler.steal: stage "thief": no such stage or pool`:                         {l.Scheduler.Steal("thief", "s1", 1), leda.ErrUnknown},
			`leda: scheduler.steal: stage "victim": no such stage or pool`:                        {l.Scheduler.Steal("s1", "victim", 1), leda.ErrUnknown},
			`leda: scheduler.steal: -2: number out of range: negative`:                            {l.Scheduler.Steal("s1", "s2", -2), leda.ErrNumber},
			`leda: scheduler.setPriority: stage "ghost": no such stage or pool`:                   {l.Scheduler.SetPriority("ghost", 1), leda.ErrUnknown},
			`leda: scheduler.maxEventsWhenFocused: stage "ghost": no such stage or pool`:          {l.Scheduler.MaxEventsWhenFocused("ghost", 1), leda.ErrUnknown},
			`leda: instances.add: stage "ghost": no such stage or pool`:                           {l.Instances.Add("ghost", 1), leda.ErrUnknown},
			`leda: instances.kill: -1: number out of range: negative`:                             {l.Instances.Kill("s1", -1), leda.ErrNumber},
		} {
			require.EqualError(t, tt.err, text)
			require.ErrorIs(t, tt.err, tt.is)
		}
	})
}

func TestAScriptHasBounds(t *testing.T) {
	start(t, 1, func(l *leda.Leda) {
		for range leda.MostPools {
			require.NotEmpty(t, l.Pool.New(1))
		}
		require.Empty(t, l.Pool.New(1))
		require.Error(t, l.Pool.SetPool("", "s1"))
		for range leda.MostTimers {
			require.NoError(t, l.Monitoring.AddTimer(func() {}, time.Hour))
		}
		require.ErrorIs(t, l.Monitoring.AddTimer(func() {}, time.Hour), leda.ErrNumber)
	})
	start(t, 1, func(l *leda.Leda) {
		for _, short := range []time.Duration{math.MinInt64, -1, 0, 1, leda.MinTimer - 1} {
			require.ErrorIs(t, l.Monitoring.AddTimer(func() { t.Error("called") }, short), leda.ErrNumber)
		}
		require.NoError(t, l.Monitoring.AddTimer(func() {}, leda.MinTimer))
	})
}

func TestAPoolGetsAFreeName(t *testing.T) {
	w := newWorld(t, 0)
	w.add("leda-1")
	w.Pools = append(w.Pools, controller.PoolStats{Name: "leda-2", Group: true, MaxWorkers: 9})
	w.run(func(l *leda.Leda) {
		require.Equal(t, leda.Pool("leda-3"), l.Pool.New(1))
		require.Equal(t, leda.Pool("leda-4"), l.Pool.New(1))
	})
}

func TestNumbersSaturateAtTheirLimits(t *testing.T) {
	w := newWorld(t, 2)
	w.stage(1).Total.Accepted = math.MaxUint64
	w.At, w.CPUUsage = time.Hour, math.NaN()
	w.run(func(l *leda.Leda) {
		require.Equal(t, math.MaxInt, l.Monitoring.GetInputCount("s1"))
		require.Zero(t, l.Monitoring.GetCpuUsage())
		require.NoError(t, l.Pool.Add("s1", math.MaxInt))
		require.Equal(t, 8, l.Pool.GetThreadsCount("s1"))
		require.NoError(t, l.Instances.Kill("s1", math.MaxInt))
		require.Equal(t, 1, l.Instances.GetInstanceCount("s1"))
		require.NoError(t, l.Monitoring.AddTimer(func() {}, math.MaxInt64))
	})
	require.Equal(t, math.MaxInt64-time.Hour, w.every, "until the end of time")
}

// Data about stages that are added and removed is dropped: a thousand stages, one after the other.
func TestRemovedStagesAreForgotten(t *testing.T) {
	w := newWorld(t, 0)
	w.run(func(l *leda.Leda) {
		_ = l.Monitoring.AddTimer(func() {
			for _, st := range l.Stages() {
				_ = l.Pool.SetPool(leda.Pool(st), st)
				_ = l.Monitoring.ResetStatistics(st)
				_ = l.Scheduler.MaxEventsWhenFocused(st, 9)
			}
		}, time.Second)
	})
	for i := range 1000 {
		w.Stages, w.Pools = w.Stages[:0], w.Pools[:0]
		w.add(fmt.Sprint("s", i))
		w.tick(time.Second)
	}
	require.Equal(t, 1, leda.Remembered(w.c))
}

// Section 4.1: an event waits in the stage's queue only while there is no free instance.
// Section 4.2: a free instance is one that is not combined with an event.
func TestAStageHasNoFreeInstancesWhileCommandsWaitInItsQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instances, waiting := rapid.IntRange(1, 20).Draw(t, "instances"), rapid.IntRange(0, 40).Draw(t, "waiting")
		working := rapid.IntRange(0, instances).Draw(t, "working")
		w := newWorld(t, 1)
		st := w.stage(1)
		st.QueueLen, st.Instances, st.FreeInstances = waiting, instances, instances-working
		w.run(func(l *leda.Leda) {
			queue, free := l.Monitoring.GetQueueSize("s1"), l.Instances.GetFreeInstancesCount("s1")
			require.Zero(t, min(queue, free))
			require.Equal(t, max(waiting+working-instances, 0), queue)
			require.Equal(t, waiting+working, queue+l.Instances.GetInstanceCount("s1")-free, "the sum of section 4.2")
		})
	})
}
