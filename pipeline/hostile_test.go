package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// told is a policy made of a function, which is called for all events.
type told func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions)

func (told) Name() string                 { return "told" }
func (told) Check() error                 { return nil }
func (f told) New() controller.Controller { return f }
func (f told) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	f(ev, s, d)
}

func in(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(enough):
		t.Errorf("does not end: %s", what)
	}
}

// idles requires that the program becomes almost idle. A program that spins never does.
func idles(t *testing.T, what string) {
	t.Helper()
	const look = 100 * time.Millisecond
	eventually(t, what, func() bool {
		before := cpuUsed()
		time.Sleep(look)
		return cpuUsed()-before < look/10
	})
}

func cpuUsed() time.Duration {
	used, _ := cputime.Used()
	return used
}

func hard(p *pipeline.Pipeline) error { return p.Stop(in(time.Second)) }

// Each of these tests covers a fault that a reviewer found in the engine. The comment describes the fault.

// 1. A worker without an instance was woken again and again, and the worker that had the instance never was. Which of them parked
// last was chance.
func TestHostile01MoreWorkersThanInstances(t *testing.T) {
	for range 20 {
		s := stage.Each("s", func() behaviour.Behaviour[int] { return fn(echo[int]) }, stage.Workers(3, 3), stage.Instances(1))
		p := start(t, s)
		for i := range 50 {
			if _, err := stage.Call[int](soon(t), s, i); err != nil {
				t.Fatalf("call %d: %v: %s, stop: %v", i, err, p.Snapshot().Law(), hard(p))
			}
			time.Sleep(time.Millisecond)
		}
		_ = hard(p)
	}
}

// 2. A change of a pool's dispatch under load left a count of tokens behind, and its workers spun for ever.
func TestHostile02SpinAfterAChangeOfDispatch(t *testing.T) {
	entry, parts := line(3, nil, stage.Workers(1, 8), stage.Capacity(64))
	p := start(t, parts...)
	laws := []controller.Policy{policy.Color{}, policy.Cohort{}, policy.SRPT{}, policy.LRB{}}
	for end := time.Now().Add(lasting(3*time.Second, 10*time.Second)); time.Now().Before(end); {
		ctx := in(500 * time.Millisecond)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					_ = entry.Submit(ctx, i)
				}
			})
		}
		for i := 0; ctx.Err() == nil; i++ {
			require.NoError(t, p.SetPolicy(laws[i%len(laws)]))
		}
		wg.Wait()
		require.NoError(t, p.SetPolicy(policy.Color{}))
		idles(t, laws[0].Name())
	}
	require.NoError(t, p.Stop(soon(t)))
}

type mortal struct{ dead, stops, after *atomic.Int64 }

func (m mortal) Stop() { m.dead.Store(1); m.stops.Add(1) }
func (m mortal) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	m.after.Add(m.dead.Load())
	return behaviour.OK(n)
}

// 3. A shared worker that left stopped the instance that it had used last, which was idle or in use by another worker.
func TestHostile03AnIdleInstanceIsStopped(t *testing.T) {
	var made, stops, after atomic.Int64
	s := stage.Each("s", func() behaviour.Behaviour[int] {
		made.Add(1)
		return mortal{new(atomic.Int64), &stops, &after}
	}, stage.Workers(1, 1))
	p := start(t, s, pipeline.Control(policy.Color{Workers: 1}))
	_, _ = stage.Call[int](soon(t), s, 1)
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
	time.Sleep(100 * time.Millisecond)
	for i := range 10 {
		_, _ = stage.Call[int](soon(t), s, i)
	}
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, made.Load(), stops.Load(), "made and stopped")
	require.Zero(t, after.Load(), "commands handled by an instance that was stopped")
}

// 4. A crash at a shared stage did not admit a submitter that waited at a limit.
func TestHostile04ACrashUnderALimit(t *testing.T) {
	for name, scope := range map[string]controller.StageID{"stage": 0, "entry": controller.Entry} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				if n == 0 {
					<-gate
					panic("on purpose")
				}
				return behaviour.OK(n)
			})
			p := start(t, s, pipeline.Control(told(func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
				if ev.Kind == controller.EventStart {
					controller.KnobWorkers.SetPool(d, "all", 1, "t")
					controller.KnobPool.Set(d, 0, "all", "t")
					controller.KnobLimit.Set(d, scope, 1, "t")
				}
			})))
			require.NoError(t, s.Submit(soon(t), 0))
			time.AfterFunc(100*time.Millisecond, func() { close(gate) })
			ends(t, "a Submit after the crash, with nothing in flight", func() { _ = s.Submit(context.Background(), 1) })
			_ = hard(p)
		})
	}
}

// 5. A drain waited for a linger, and the stop became hard.
func TestHostile05ADrainWaitsForALinger(t *testing.T) {
	s := stage.Func("s", echo[int])
	p := start(t, s, pipeline.Control(told(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
		controller.KnobBatch.Set(d, 0, controller.Batch{Max: 64, Linger: time.Hour}, "t")
	})))
	require.NoError(t, s.Submit(soon(t), 1))
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, p.Stop(soon(t)))
}

// 6. A pool that a policy made could be left without workers.
func TestHostile06APoolWithoutWorkers(t *testing.T) {
	for name, laws := range map[string][]controller.Policy{
		"bound to what is there": {policy.Color{}, policy.Fixed{}, told(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobPool.Set(d, 0, "shared", "t")
		})},
		"set to none": {policy.Color{}, told(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "shared", 0, "t")
			controller.KnobPool.Set(d, 0, "shared", "t")
		})},
		"leda kills all": {leda.New("kill", func(l *leda.Leda) { // New: a pool has at least one worker
			_ = l.Pool.SetPool(l.Pool.New(2), l.Stages()[0])
			_ = l.Monitoring.AddTimer(func() { _ = l.Pool.Kill(l.Pool.GetPool(l.Stages()[0]), 1) }, leda.MinTimer)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			s := stage.Func("s", echo[int])
			p := start(t, s)
			for _, law := range laws {
				require.NoError(t, p.SetPolicy(law))
				time.Sleep(50 * time.Millisecond)
			}
			if _, err := stage.Call[int](soon(t), s, 1); err != nil {
				t.Error(err, p.Snapshot().Law(), fmt.Sprintf("%+v", p.Snapshot().Pools))
			}
			_ = hard(p)
		})
	}
}

// 7. No worker served a stage that was bound to another stage's own pool.
func TestHostile07BoundToTheOwnPoolOfAnotherStage(t *testing.T) {
	a, b := stage.Func("a", echo[int]), stage.Func("b", echo[int])
	p := start(t, a, b, pipeline.Control(policy.Color{}))
	require.NoError(t, p.SetPolicy(told(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
		controller.KnobPool.Set(d, 1, "a", "t")
	})))
	for _, s := range []*stage.Stage[int]{a, b} {
		if _, err := stage.Call[int](soon(t), s, 1); err != nil {
			t.Error(s.Name(), err)
		}
	}
	_ = hard(p)
}

// 8. With one instance, commands before a crash in a batch were overtaken by commands behind it.
func TestHostile08OrderAcrossACrash(t *testing.T) {
	var last int
	var swapped atomic.Int64
	b := stage.Func("b", func(_ context.Context, n int) behaviour.Outcome {
		if n < last {
			swapped.Add(1)
		}
		last = n
		return behaviour.OK(n)
	}, stage.Instances(1))
	a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome {
		if n%100 == 50 {
			panic("on purpose")
		}
		return behaviour.Forward(b, n)
	}, stage.Instances(1))
	p := start(t, a, b, pipeline.Control(shared{controller.SharedFIFO, 4, nil}))
	for i := range fewer(200_000) {
		require.NoError(t, a.Submit(soon(t), i))
	}
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, swapped.Load())
}

type live struct{ alive, most *atomic.Int64 }

func (l live) Start(context.Context) error {
	l.most.Store(max(l.most.Load(), l.alive.Add(1)))
	return nil
}
func (l live) Stop() { time.Sleep(time.Millisecond); l.alive.Add(-1) }
func (l live) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	if n%50 == 49 {
		panic("on purpose")
	}
	return behaviour.OK(n)
}

// 9. At a shared stage the next instance was started before the crashed one was stopped.
func TestHostile09TwoInstancesAreAlive(t *testing.T) {
	var alive, most atomic.Int64
	s := stage.Each("s", func() behaviour.Behaviour[int] { return live{&alive, &most} }, stage.Instances(1), stage.Workers(1, 1))
	p := start(t, s, pipeline.Control(shared{controller.SharedFIFO, 3, nil}))
	for i := range 2000 {
		require.NoError(t, s.Submit(soon(t), i))
	}
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 1, most.Load())
}

// 10. A shared stage that only crashed did not pause for longer: each pause ended early and started further pauses.
func TestHostile10PausesOfAStageThatOnlyCrashes(t *testing.T) {
	crashes := func(law controller.Policy) (n uint64) {
		bubbled(t, func(t *testing.T) {
			s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("on purpose") }, stage.Capacity(20_000),
				stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Max: 100 * time.Millisecond}), stage.Workers(2, 2))
			p := bubble(t, s, pipeline.Control(law))
			for i := range 20_000 {
				require.NoError(t, s.Submit(t.Context(), i))
			}
			time.Sleep(2 * time.Second)
			n = p.Snapshot().Stages[0].Counts.Crashes
			_ = hard(p)
		})
		return n
	}
	own, together := crashes(policy.Fixed{}), crashes(policy.Color{Workers: 2})
	require.Less(t, together, 5*own)
}

// 11. SetPolicy and Pause had no effect while the pipeline started.
type slowly struct{}

func (slowly) Start(context.Context) error { time.Sleep(400 * time.Millisecond); return nil }
func (slowly) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	if n < 0 {
		panic("on purpose")
	}
	return behaviour.OK(n)
}

func TestHostile11UseWhileStarting(t *testing.T) {
	p, err := pipeline.New("x", stage.New[int]("s", slowly{}), quiet)
	require.NoError(t, err)
	go func() { _ = p.Start(context.Background()) }()
	time.Sleep(50 * time.Millisecond)
	ends(t, "SetPolicy while starting", func() { _ = p.SetPolicy(policy.Fixed{}) })
	_ = hard(p)
}

// 12. After a restart of the control loop requests were lost, and no event was reported any more.
func TestHostile12EventsAfterARestart(t *testing.T) { bubbled(t, eventsAfterARestart) }

func eventsAfterARestart(t *testing.T) {
	var died atomic.Int64
	law := told(func(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
		if ev.Kind == controller.EventWorkerDied {
			died.Add(1)
		}
	})
	s := stage.New[int]("s", slowly{}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 2, Max: 2 * time.Millisecond}))
	p := bubble(t, s, pipeline.Control(law), pipeline.Intensity(10, time.Minute))
	for range 4 {
		_ = s.Submit(soon(t), -1)
	}
	time.Sleep(100 * time.Millisecond)
	ends(t, "SetPolicy while a stage is restarted", func() { _ = p.SetPolicy(law) })
	time.Sleep(500 * time.Millisecond)
	before := died.Load()
	for range 3 {
		_, _ = stage.Call[int](soon(t), s, 1)
		_ = s.Submit(soon(t), -1)
		time.Sleep(200 * time.Millisecond)
	}
	require.Greater(t, died.Load(), before, "events that the policy was notified of")
	_ = hard(p)
}

// 13. Add hung if the pipeline stopped meanwhile.
type blocked struct{ c chan struct{} }

func (b blocked) Start(ctx context.Context) error {
	select {
	case <-b.c:
	case <-ctx.Done():
	}
	return errNo
}
func (blocked) HandleCommand(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }

func TestHostile13AddWhileStopping(t *testing.T) {
	c := make(chan struct{})
	p := start(t, stage.Func("s", echo[int]))
	done := make(chan error, 1)
	go func() {
		done <- p.Add(context.Background(), stage.Each("n", func() behaviour.Behaviour[int] { return blocked{c} }))
	}()
	time.Sleep(100 * time.Millisecond)
	_ = p.Stop(in(3 * time.Second))
	close(c)
	ends(t, "Add, after Stop", func() { <-done })
}

// 14. A shared pool visited an added stage before its Start had returned.
type late struct{ up, early *atomic.Int64 }

func (l late) Start(context.Context) error {
	time.Sleep(100 * time.Millisecond)
	l.up.Store(1)
	return nil
}

func (l late) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	l.early.Add(1 - l.up.Load())
	return behaviour.OK(n)
}

func TestHostile14HandledBeforeStart(t *testing.T) {
	var up, early atomic.Int64
	n := stage.New[int]("n", late{&up, &early})
	a := stage.Func("a", func(_ context.Context, c int) behaviour.Outcome { return behaviour.Forward(n, c) })
	p := start(t, a, pipeline.Control(policy.Color{}))
	ctx := in(time.Second)
	go func() {
		for ctx.Err() == nil {
			_ = a.Submit(ctx, 1)
			time.Sleep(100 * time.Microsecond)
		}
	}()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, p.Add(soon(t), n))
	_ = hard(p)
	require.Zero(t, early.Load(), "commands handled before Start had returned")
}

// 15. A policy called runtime.Goexit.
func TestHostile15AGoexitInAPolicy(t *testing.T) {
	bad := told(func(controller.Event, *controller.Snapshot, *controller.Decisions) { runtime.Goexit() })
	p := start(t, stage.Func("s", echo[int]))
	ends(t, "SetPolicy", func() { _ = p.SetPolicy(bad) })
	_ = hard(p)

	q, err := pipeline.New("y", stage.Func("s", echo[int]), quiet, pipeline.Control(bad))
	require.NoError(t, err)
	returned := false
	ends(t, "Start", func() { _ = q.Start(context.Background()); returned = true })
	require.True(t, returned, "Start returned")
	ends(t, "Stop", func() { _ = hard(q) })
}

// 16. A key function called runtime.Goexit: the worker before spun, and the ticket never ended.
type keyed int

func (k keyed) Priority() int {
	if k == 13 {
		runtime.Goexit()
	}
	return int(k)
}

func TestHostile16AGoexitInAKey(t *testing.T) {
	for _, law := range []controller.Policy{policy.Fixed{}, policy.Color{}} {
		b := stage.Func("b", echo[keyed], stage.Discipline(queue.Priority{}))
		a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(b, keyed(n)) })
		p := start(t, a, b, pipeline.Control(law))
		ticket, err := a.Ask(soon(t), 13)
		require.NoError(t, err)
		idles(t, law.Name())
		_ = hard(p)
		select {
		case <-ticket.Done():
		default:
			t.Error(law.Name(), "ticket was never told", p.Snapshot().Law())
		}
	}
}

// 17. A failed stage of a group was restarted with the streak of crashes that it had.
func TestHostile17ARestartedStageHasNoStreakOfCrashes(t *testing.T) {
	crashes := func(group bool) uint64 {
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("on purpose") },
			stage.Restart(stage.RestartPolicy{Limit: 2, Max: 2 * time.Millisecond}), stage.Workers(1, 1))
		var part pipeline.Part = s
		if group {
			part = pipeline.Group("g", 1, 1, s)
		}
		p := start(t, part, pipeline.Intensity(3, time.Minute))
		for range 100 {
			if s.Submit(soon(t), 1) != nil {
				break
			}
		}
		<-p.Done()
		return p.Snapshot().Stages[0].Counts.Crashes
	}
	require.Equal(t, crashes(false), crashes(true))
}

// 18. A policy that ended its goroutine at the stop event ended the control loop, too: the next SetPolicy, and then the end of the
// pipeline, waited for ever.
func TestHostile18AGoexitInTheLastCallOfAPolicy(t *testing.T) {
	p := start(t, stage.Func("s", echo[int]), pipeline.Control(told(func(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
		if ev.Kind == controller.EventStop {
			runtime.Goexit()
		}
	})))
	ends(t, "SetPolicy", func() { require.NoError(t, p.SetPolicy(policy.Fixed{})) })
	require.Equal(t, "fixed", p.Snapshot().Policy)
	_ = hard(p)
}
