package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// pool returns the state of a shared pool.
func pool(t *testing.T, p *pipeline.Pipeline, name string) pipeline.Pool {
	t.Helper()
	for _, pool := range p.Snapshot().Pools {
		if pool.Name == name {
			return pool
		}
	}
	require.Fail(t, "no such pool", name)
	return pipeline.Pool{}
}

func TestStagesOfAGroupShareWorkersFromTheStart(t *testing.T) {
	entry, parts := line(3, nil)
	p := run(t, pipeline.Group("g", 2, 6, parts...))
	s := p.Snapshot()
	require.Len(t, s.Pools, 1)
	require.Equal(t, 2, s.Pools[0].Workers)
	require.Equal(t, []string{"s0", "s1", "s2"}, s.Pools[0].Stages)
	for i := range 1000 {
		require.NoError(t, entry.Submit(soon(t), i))
	}
	require.NoError(t, p.Drain(soon(t)))
	for _, st := range p.Snapshot().Stages {
		require.Equal(t, "g", st.Pool)
		require.Zero(t, st.Workers.Live)
		require.EqualValues(t, 1000, st.Counts.Accepted)
	}
}

func TestTheBoundsOfAGroupAreKept(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		_, parts := line(2, nil)
		p := bubble(t, pipeline.Group("g", 2, 6, parts...))
		want := 0
		law := once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "g", want, "test")
		})
		for n, held := range map[int]int{0: 2, 1: 2, 4: 4, 100: 6} {
			want = n
			require.NoError(t, p.SetPolicy(law))
			synctest.Wait()
			require.Equal(t, held, pool(t, p, "g").Workers)
		}
		end(t, p)
	})
}

func TestPoliciesThatSetTheNumberOfWorkersScaleAGroup(t *testing.T) {
	for _, law := range []controller.Policy{policy.ERLDA{}, policy.SEDA{}} {
		t.Run(law.Name(), func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
					time.Sleep(10 * time.Second)
					return behaviour.OK(nil)
				}, stage.Batch(1))
				p := bubble(t, pipeline.Group("g", 1, 4, s), pipeline.Control(law))
				for i := range 300 {
					submit(t, s, i)
				}
				require.NoError(t, p.Drain(t.Context()))
				require.Equal(t, 4, pool(t, p, "g").Most)
				time.Sleep(10 * time.Minute)
				require.Equal(t, 1, pool(t, p, "g").Workers)
				require.Zero(t, workers(p, 0), "it never had workers of its own")
				end(t, p)
			})
		})
	}
}

func TestAFactoryInAGroupThatCannotStartFailsTheStart(t *testing.T) {
	for name, bad := range map[string]stageMaker{
		"an error":          func() behaviour.Behaviour[int] { return &starter{err: func() error { return errNo }} },
		"a panic":           func() behaviour.Behaviour[int] { return &starter{err: func() error { panic(errNo) }} },
		"a factory's panic": func() behaviour.Behaviour[int] { panic(errNo) },
	} {
		t.Run(name, func(t *testing.T) {
			var all lived
			p := made(t, pipeline.Group("g", 2, 4, stage.Each("bad", behaviour.Factory[int](bad)), all.each("good", echo[int])))
			err := p.Start(t.Context())
			require.ErrorIs(t, err, errNo)
			require.ErrorContains(t, err, `"bad"`)
			<-p.Done()
			all.requireAllStopped(t)
		})
	}
}

type stageMaker func() behaviour.Behaviour[int]

// breaking returns a group with a stage whose handlers always crash.
func breaking(t *testing.T) (p *pipeline.Pipeline, ran chan error, bad, good *stage.Stage[int]) {
	t.Helper()
	bad = stage.Func("bad", func(context.Context, int) behaviour.Outcome { panic(errNo) },
		stage.Restart(stage.RestartPolicy{Limit: 8, Backoff: 100 * time.Millisecond, Max: time.Second}))
	good = stage.New("good", fn(echo[int]))
	p, err := pipeline.New("test", quiet, pipeline.Control(policy.Fixed{}), pipeline.Group("g", 1, 1, bad, good))
	require.NoError(t, err)
	ran = make(chan error, 1)
	go func() { ran <- p.Run(context.Background()) }()
	synctest.Wait()
	return p, ran, bad, good
}

func TestAStageOfAGroupWhoseHandlersAlwaysCrashIsNamedByRun(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p, ran, bad, good := breaking(t)
		for i := range 100 {
			_ = bad.Submit(t.Context(), i)
			_ = good.Submit(t.Context(), i)
		}
		err := <-ran
		var broken *stage.BrokenError
		require.ErrorAs(t, err, &broken)
		require.Equal(t, "bad", broken.Stage)
		require.ErrorIs(t, err, errNo)
		var gaveUp *supervisor.EscalationError
		require.ErrorAs(t, err, &gaveUp)
		atRest(t, p)
	})
}

// Like a stage with workers of its own, it pauses after each crash, twice as long as the last time, and fails after seconds, not at
// once. Until then the other stage continues.
func TestAStageOfAGroupThatCrashesPausesAndTheOthersContinue(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		began := time.Now()
		_, ran, bad, good := breaking(t)
		for i := range 100 {
			_ = bad.Submit(t.Context(), i)
		}
		replied := 0
		for len(ran) == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := stage.Call[int](ctx, good, 1); err == nil {
				replied++
			}
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, time.Since(began), 4*time.Second)
		require.Greater(t, replied, 300)
	})
}

func TestAGroupIsRestartedAsOftenAsIntensityAllows(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	s := stage.Func("s", func(_ context.Context, cmd int) behaviour.Outcome {
		if bad.Load() {
			panic(errNo)
		}
		return behaviour.OK(cmd)
	}, stage.Restart(stage.RestartPolicy{Limit: -1}))
	run(t, pipeline.Group("g", 1, 1, s), pipeline.Intensity(100, time.Minute))
	for i := range 5 {
		_, err := stage.Call[int](soon(t), s, i)
		require.True(t, stage.Crashed(err))
	}
	bad.Store(false)
	n, err := stage.Call[int](soon(t), s, 7)
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

func TestCrashesInAGroupLoseNothing(t *testing.T) {
	for _, way := range []string{"fifo", "exhaustive", "gated"} {
		t.Run(way, func(t *testing.T) {
			law := ways(3)[way].(shared)
			var all lived
			tail := all.each("tail", func(_ context.Context, cmd int) behaviour.Outcome {
				switch rand.IntN(100) {
				case 0:
					panic("on purpose")
				case 1:
					runtime.Goexit()
				}
				return behaviour.OK(cmd)
			}, stage.Capacity(32))
			head := all.each("head", func(_ context.Context, cmd int) behaviour.Outcome {
				if rand.IntN(100) == 0 {
					panic("on purpose")
				}
				return behaviour.Forward(tail, cmd)
			}, stage.Capacity(32))
			p := start(t, pipeline.Group("all", 3, 3, head, tail), pipeline.Control(law))
			for i := range 5000 {
				require.NoError(t, head.Submit(soon(t), i))
			}
			require.NoError(t, p.Stop(soon(t)))
			atRest(t, p)
			require.EqualValues(t, 5000, p.Snapshot().Accepted)
			require.Positive(t, p.Snapshot().DeadLettered)
			all.requireAllStopped(t)
		})
	}
}

func TestAHardStopReportsTheHandlerOfAGroupThatDoesNotStop(t *testing.T) {
	release, at := make(chan struct{}), make(chan struct{})
	stuck := stage.Func("stuck", func(context.Context, int) behaviour.Outcome {
		close(at)
		<-release
		return behaviour.OK(nil)
	})
	other := stage.New("other", fn(echo[int]))
	p := start(t, pipeline.Group("g", 1, 1, stuck, other), pipeline.Grace(20*time.Millisecond))
	held, err := stuck.Ask(t.Context(), 1)
	require.NoError(t, err)
	<-at
	queued, err := other.Ask(t.Context(), 2)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = p.Stop(ctx)
	var report *pipeline.StopError
	require.ErrorAs(t, err, &report)
	require.EqualValues(t, 2, report.Drain.InFlight)
	require.Len(t, report.Stuck, 1)
	require.Equal(t, "stuck", report.Stuck[0].Stage)
	require.ErrorContains(t, err, `a worker of stage "stuck" is still at its command`)
	_, err = queued.Wait(soon(t))
	require.ErrorIs(t, err, stage.ErrStopped)
	_, err = held.Wait(soon(t))
	require.ErrorIs(t, err, stage.ErrStopped)
	require.ErrorIs(t, err, stage.ErrStuck)
	atRest(t, p)
	close(release)
	eventually(t, "it has come back", func() bool { return p.Snapshot().Stages[0].Workers.Abandoned == 0 })
	atRest(t, p)
}

func TestADrainAndAStopOfAGroupFinishAllCommands(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		entry, parts := line(3, func(_, _ int) error { time.Sleep(time.Millisecond); return nil }, stage.Capacity(5))
		p := bubble(t, pipeline.Group("g", 2, 2, parts...))
		for i := range 200 {
			submit(t, entry, i)
		}
		require.NoError(t, p.Drain(t.Context()))
		require.ErrorIs(t, entry.Submit(t.Context(), 1), stage.ErrClosed)
		require.EqualValues(t, 200, p.Snapshot().Replied)
		end(t, p)
	})
}

func TestASharedBehaviourInAGroupIsStartedAndStoppedOnce(t *testing.T) {
	var starts, stops atomic.Int64
	s := stage.New("s", &starter{
		err:  func() error { starts.Add(1); return nil },
		stop: func() { stops.Add(1) },
	})
	p := start(t, pipeline.Group("g", 4, 4, s))
	for i := range 100 {
		require.NoError(t, s.Submit(soon(t), i))
	}
	_, err := stage.Call[int](soon(t), s, -1)
	require.True(t, stage.Crashed(err))
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 1, starts.Load())
	require.EqualValues(t, 1, stops.Load())
}

// Workers are added and removed; the instances stay with the stage.
func TestInstancesOfAGroupAreStoppedOnceEach(t *testing.T) {
	var all lived
	s := all.each("s", func(ctx context.Context, cmd int) behaviour.Outcome {
		runtime.Gosched()
		return poison(ctx, cmd)
	})
	p := start(t, pipeline.Group("g", 1, 8, s))
	for i := range 20 {
		n := 1 + 7*(i%2)
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "g", n, "test")
		})))
		for i := range 50 {
			require.NoError(t, s.Submit(soon(t), i-1))
		}
	}
	require.NoError(t, p.Stop(soon(t)))
	atRest(t, p)
	all.requireAllStopped(t)
}

// The next worker must not use an instance that was stopped.
func TestAnInstanceIsNotUsedAfterItWasStopped(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var stopped atomic.Int64
		s := stage.Each("s", func() behaviour.Behaviour[int] {
			return &starter{err: func() error { return nil }, stop: func() { stopped.Add(1) }}
		}, stage.Instances(1))
		p := bubble(t, pipeline.Group("g", 1, 2, s), pipeline.Control(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "g", 2, "test")
		})))
		synctest.Wait()
		submit(t, s, 1)
		synctest.Wait()
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "g", 1, "test")
		})))
		submit(t, s, 1)
		synctest.Wait()
		require.Zero(t, stopped.Load(), "there is one instance, and it is still in use")
		end(t, p)
	})
}

func TestBlockingStagesDoNotShareWorkers(t *testing.T) {
	for _, law := range []controller.Policy{policy.Cohort{}, policy.Color{}, policy.SRPT{}} {
		t.Run(law.Name(), func(t *testing.T) {
			entry, parts := line(3, nil)
			wait := stage.New("wait", fn(echo[int]), stage.Blocking(), stage.Workers(2, 2))
			p := run(t, append(parts, wait, pipeline.Control(law))...)
			require.NoError(t, entry.Submit(soon(t), 1))
			require.NoError(t, wait.Submit(soon(t), 1))
			s := p.Snapshot()
			for _, st := range s.Stages[:3] {
				require.NotEqual(t, st.Name, st.Pool, "shared")
			}
			require.Equal(t, "wait", s.Stages[3].Pool)
			eventually(t, "its own", func() bool { return workers(p, 3) == 2 })
		})
	}
}

func TestAHandlerOnASharedWorkerGetsAnErrorFromAFullStage(t *testing.T) {
	next := stage.New("next", fn(echo[int]), stage.Capacity(3))
	first := stage.Func("first", func(ctx context.Context, _ int) behaviour.Outcome {
		for n := 0; ; n++ {
			if err := next.Submit(ctx, n); err != nil {
				return behaviour.OK(fmt.Errorf("after %d: %w", n, err))
			}
		}
	})
	run(t, pipeline.Group("g", 1, 1, first, next))
	err, failed := stage.Call[error](soon(t), first, 1)
	require.NoError(t, failed)
	require.ErrorIs(t, err, stage.ErrFull)
	require.ErrorContains(t, err, "after 3")
}

func TestASharedWorkerMayEmitBeyondACapacity(t *testing.T) {
	for way, law := range map[string]once{
		"fifo": func(*controller.Snapshot, *controller.Decisions) {},
		"polled": func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
		},
	} {
		t.Run(way, func(t *testing.T) {
			var ended atomic.Int64
			child := stage.Func("child", func(context.Context, int) behaviour.Outcome { ended.Add(1); return behaviour.OK(nil) }, stage.Capacity(16))
			root := stage.Func("root", func(ctx context.Context, n int) behaviour.Outcome {
				for i := range n {
					if err := behaviour.Emit(ctx, child, i); err != nil {
						return behaviour.Error(err)
					}
				}
				return behaviour.OK(nil)
			})
			run(t, pipeline.Group("g", 1, 1, root, child), pipeline.Control(law))
			for range 2 {
				_, err := stage.Call[any](soon(t), root, 10_000)
				require.NoError(t, err)
			}
			require.EqualValues(t, 20_000, ended.Load())
		})
	}
}

func TestOneGroupDoesNotHoldUpAnother(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		a, b := newLock("a"), stage.New("b", fn(echo[int]))
		p := bubble(t, pipeline.Group("one", 1, 1, a), pipeline.Group("two", 1, 1, b))
		submit(t, a, 1)
		synctest.Wait()
		_, err := stage.Call[int](t.Context(), b, 1)
		require.NoError(t, err)
		a.open()
		end(t, p)
	})
}

// A flow brings along the stages that it leads to, which may be in the group for other parts too.
func TestFlowsThatLeadToEachOtherAreInOneGroup(t *testing.T) {
	add := func(name string) *stage.Flow[int, int] {
		return stage.Map(name, func(_ context.Context, n int) (int, error) { return n + 1, nil })
	}
	a, b, c := add("a"), add("b"), add("c")
	run(t, pipeline.Group("g", 1, 2, a.To(b), b.To(c), c))
	n, err := stage.Call[int](t.Context(), a.Stage, 1)
	require.NoError(t, err)
	require.Equal(t, 4, n)
}

func TestEachFaultOfAGroupIsFoundAndNamesTheGroup(t *testing.T) {
	s := func(name string) *stage.Stage[int] { return stage.New(name, fn(echo[int])) }
	a := s("a")
	port := behaviour.NewPort[int]("out")
	rows := map[string]struct {
		parts []pipeline.Part
		says  []string
	}{
		"no name":             {[]pipeline.Part{pipeline.Group("", 1, 1, a)}, []string{`group "": a group needs a name`}},
		"no stages":           {[]pipeline.Part{a, pipeline.Group("g", 1, 1)}, []string{`group "g": has no stages`}},
		"a doubled name":      {[]pipeline.Part{pipeline.Group("g", 1, 1, a), pipeline.Group("g", 1, 1, s("b"))}, []string{`group "g": there is another group of that name`}},
		"the name of a stage": {[]pipeline.Part{pipeline.Group("a", 1, 1, a)}, []string{`group "a": there is a stage of that name`}},
		"a stage in two":      {[]pipeline.Part{pipeline.Group("g", 1, 1, a), pipeline.Group("h", 1, 1, a)}, []string{`stage "a": is in group "g" and in group "h"`}},
		"a group in a group":  {[]pipeline.Part{pipeline.Group("g", 1, 1, a, pipeline.Group("h", 1, 1, a))}, []string{`group "h" cannot be in it`}},
		"no workers":          {[]pipeline.Part{pipeline.Group("g", 0, 1, a)}, []string{`group "g": 0 to 1 workers: needs at least 1`}},
		"crossed":             {[]pipeline.Part{pipeline.Group("g", 3, 2, a)}, []string{`group "g": 3 to 2 workers`}},
		"too many":            {[]pipeline.Part{pipeline.Group("g", 1, 1<<20, a)}, []string{`group "g": 1 to 1048576 workers`, "at most 4096"}},
		"a nil part":          {[]pipeline.Part{pipeline.Group("g", 1, 1, a, nil)}, []string{`group "g", part 2: is nil`}},
		"a nil in a join":     {[]pipeline.Part{a, pipeline.Subgraph(pipeline.Subgraph(nil))}, []string{"part 2, part 1, part 1: is nil"}},
		"unreachable":         {[]pipeline.Part{pipeline.Entry(a), s("b")}, []string{`stage "b": is unreachable: no declared port leads to it from an entry; stage.Out declares ports and stages`}},
		"a loop without slack": {
			[]pipeline.Part{
				stage.New("loop", fn(echo[int]), stage.Out(port), stage.Capacity(1)),
			},
			[]string{`port "out" is not wired`},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			p, err := pipeline.New("p", row.parts...)
			require.Nil(t, p)
			for _, says := range row.says {
				require.ErrorContains(t, err, says)
			}
		})
	}
}

func TestALoopWithoutSlackIsFound(t *testing.T) {
	port := behaviour.NewPort[int]("again")
	loop := stage.New("loop", fn(echo[int]), stage.Out(port), stage.Capacity(1))
	_, err := pipeline.New("p", loop, pipeline.Wire(port, loop))
	require.ErrorContains(t, err, `stage "loop": is a loop without slack`)
}

func TestAnEntryReachesTheStagesThatDeclaredPortsLeadTo(t *testing.T) {
	x, y := behaviour.NewPort[int]("x"), behaviour.NewPort[int]("y")
	c := stage.New("c", fn(echo[int]))
	b := stage.New("b", fn(echo[int]), stage.Out(y))
	a := stage.New("a", fn(echo[int]), stage.Out(x))
	lost := stage.New("lost", fn(echo[int]))
	_, err := pipeline.New("p", pipeline.Entry(a), b, c, lost, pipeline.Wire(x, b), pipeline.Wire(y, c))
	var of *pipeline.PartError
	require.ErrorAs(t, err, &of)
	require.Equal(t, `stage "lost"`, of.Part)
	require.NotContains(t, err.Error(), `stage "c"`)
	run(t, pipeline.Entry(a, pipeline.Subgraph(lost)), b, c, pipeline.Wire(x, b), pipeline.Wire(y, c))
}

func TestAllFaultsOfGroupsAndEntriesAreReportedAtOnce(t *testing.T) {
	port := behaviour.NewPort[int]("again")
	a, b := stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]), stage.Out(port), stage.Capacity(1))
	_, err := pipeline.New("p",
		pipeline.Group("g", 0, 1, a), pipeline.Group("g", 1, 1), pipeline.Group("a", 1, 1, a),
		pipeline.Entry(a), b, pipeline.Wire(port, b))
	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 7, err)
	for _, says := range []string{
		"0 to 1 workers", "another group", "has no stages", "a stage of that name", "is in group", "without slack", "unreachable",
	} {
		require.ErrorContains(t, err, says)
	}
}

// A nil pointer of a stage's type is not a stage.
func TestAPartThatIsANilStageIsAFault(t *testing.T) {
	var none *stage.Stage[int]
	for name, parts := range map[string][]pipeline.Part{
		"alone":    {none},
		"in group": {pipeline.Group("g", 1, 1, none)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", parts...)
			require.Error(t, err)
		})
	}
}

func TestAJoinIsOnePart(t *testing.T) {
	sub := func(name string) (*stage.Stage[int], pipeline.Part) {
		out := behaviour.NewPort[int]("out")
		tail := stage.New(name+" tail", fn(echo[int]))
		head := stage.Func(name, func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out))
		return head, pipeline.Subgraph(pipeline.Group(name+" workers", 1, 1, tail), head, pipeline.Wire(out, tail))
	}
	a, x := sub("a")
	b, y := sub("b")
	p := run(t, pipeline.Subgraph(x, y))
	for _, s := range []*stage.Stage[int]{a, b} {
		n, err := stage.Call[int](soon(t), s, 3)
		require.NoError(t, err)
		require.Equal(t, 3, n)
	}
	require.Len(t, p.Snapshot().Pools, 2)
}

// All handlers of two groups crash, with no completed command in between.
func TestAGroupThatFailsLosesNoCommand(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			bad := stage.Func("bad", func(context.Context, int) behaviour.Outcome { panic(errNo) },
				stage.Restart(stage.RestartPolicy{Limit: 3, Backoff: time.Microsecond, Max: time.Microsecond}))
			good := stage.New("good", fn(echo[int]))
			p, err := pipeline.New("test", quiet, pipeline.System(system()), pipeline.Control(policy.Fixed{}), pipeline.Group("g", 2, 2, bad, good))
			if err == nil {
				err = p.Start(context.Background())
			}
			for i := 0; err == nil && i < 100; i++ {
				_ = bad.Submit(context.Background(), i)
				_ = good.Submit(context.Background(), i)
			}
			<-p.Done()
			var broken *stage.BrokenError
			if !errors.As(p.Err(), &broken) || broken.Stage != "bad" {
				t.Error(p.Err())
			}
			if s := p.Snapshot(); !s.Balanced() || s.InFlight != 0 {
				t.Error(s.Law())
			}
		})
	}
	wg.Wait()
}

func TestAFailedStageOfAGroupReportsOnlyItsOwnCrashes(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		bad := stage.New("bad", fn(func(context.Context, int) behaviour.Outcome { panic(errNo) }), stage.Restart(stage.RestartPolicy{Limit: 15}))
		unwell := stage.New("unwell", fn(poison))
		p, err := pipeline.New("test", quiet, pipeline.Control(policy.Fixed{}), pipeline.Group("g", 1, 1, bad, unwell))
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- p.Run(context.Background()) }()
		synctest.Wait()
		for i := range 100 {
			_ = bad.Submit(t.Context(), i)
		}
		for i := 0; len(ran) == 0; i++ {
			_ = unwell.Submit(t.Context(), i%2-1)
			time.Sleep(time.Millisecond)
		}
		broken, ok := errors.AsType[*stage.BrokenError](<-ran)
		require.True(t, ok)
		require.Equal(t, "bad", broken.Stage)
		for _, err := range broken.Unwrap() {
			crash, ok := errors.AsType[*stage.CrashError](err)
			require.True(t, ok)
			require.Equal(t, "bad", crash.Stage)
		}
		require.Equal(t, broken.Crashes-2, broken.Pauses, "one worker; the last crash has no pause after it")
	})
}

func TestAMethodForAStageSaysWhatAnotherPartIs(t *testing.T) {
	a, b := stage.Func("a", echo[int]), stage.Func("b", echo[int])
	var none *stage.Stage[int]
	port := behaviour.NewPort[int]("port")
	p := run(t, a, b)
	for want, part := range map[string]pipeline.Part{
		"nil is not a stage":        nil,
		"not made with":             none,
		"a Subgraph is not a stage": pipeline.Subgraph(a),
		`Group "g" is not a stage`:  pipeline.Group("g", 1, 1, a),
		"a Wire is not a stage":     pipeline.Wire(port, a),
		"an option is not a stage":  pipeline.Grace(time.Second),
		"not part of this":          stage.Func("other", echo[int]),
	} {
		require.ErrorContains(t, p.Pause(part), want)
		require.ErrorContains(t, p.Remove(t.Context(), part), want)
	}
	require.NoError(t, p.Stop(soon(t)))
}
