package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
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
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

// once is a policy that decides at its start and never again. To set it is to turn some knobs, and all of them are turned when SetPolicy
// returns.
type once func(s *controller.Snapshot, d *controller.Decisions)

func (once) Name() string                 { return "once" }
func (once) Check() error                 { return nil }
func (o once) New() controller.Controller { return o }
func (o once) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		o(s, d)
	}
}

// bubbled runs a test in a synctest bubble. At the end it waits for the goroutine that protoactor's log of dead letters leaves
// behind for a moment.
func bubbled(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) })
		f(t)
	})
}

// reset resets the knobs to the pipeline's own settings.
func reset(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
}

// noted returns the newest entry about a knob in the journal.
func noted(t *testing.T, p *pipeline.Pipeline, what string) controller.Change {
	t.Helper()
	for _, c := range slices.Backward(p.Journal()) {
		if c.What.String() == what {
			return c
		}
	}
	require.Fail(t, "nothing in the journal", what)
	return controller.Change{}
}

// requireNoted requires that the journal has a change of a knob: by which policy, of which stage, its values and the reason.
func requireNoted(t *testing.T, p *pipeline.Pipeline, what controller.Knob, of string, before, after any) {
	t.Helper()
	c := noted(t, p, what.String())
	require.Equal(t, "once", c.Policy)
	require.Equal(t, of, c.StageName)
	require.Equal(t, before, c.Before)
	require.Equal(t, after, c.After)
	require.Equal(t, "test", c.Why)
}

// lock is a stage whose handler holds each command until it is released, so that queues before it, or its worker, can be filled.
type lock struct {
	*stage.Stage[int]
	key  chan struct{}
	here atomic.Int64
}

func newLock(name string, opts ...stage.Option) *lock {
	l := &lock{key: make(chan struct{})}
	l.Stage = stage.Func(name, func(_ context.Context, cmd int) behaviour.Outcome {
		l.here.Add(1)
		defer l.here.Add(-1)
		<-l.key
		return behaviour.OK(cmd)
	}, append([]stage.Option{stage.Defaults(stage.Batch(1))}, opts...)...)
	return l
}

// open releases all commands, and those that come later.
func (l *lock) open() { close(l.key) }

// story records what happened, in order.
type story struct {
	mu   sync.Mutex
	list []string
}

func (s *story) add(what string) { s.mu.Lock(); defer s.mu.Unlock(); s.list = append(s.list, what) }

func (s *story) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := strings.Join(s.list, " ")
	s.list = nil
	return told
}

// teller returns a stage that adds its name to a story with each command.
func teller(s *story, name string, opts ...stage.Option) *stage.Stage[int] {
	return stage.Func(name, func(_ context.Context, cmd int) behaviour.Outcome {
		s.add(name)
		return behaviour.OK(cmd)
	}, opts...)
}

// submit submits commands that must be accepted at once.
func submit(t *testing.T, s behaviour.Target[int], cmds ...int) {
	t.Helper()
	for _, cmd := range cmds {
		require.NoError(t, s.Submit(t.Context(), cmd))
	}
}

// end stops a pipeline of a bubble and requires that it is balanced.
func end(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	require.NoError(t, p.Stop(t.Context()))
	atRest(t, p)
}

func TestTheNumberOfWorkersIsBoundedAndTakenOverByTheNextPolicy(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p := bubble(t, stage.New("s", fn(echo[int]), stage.Workers(1, 8)))
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobWorkers.Set(d, 0, 5, "test") })))
		synctest.Wait()
		require.Equal(t, 5, workers(p, 0))
		requireNoted(t, p, controller.KnobWorkers, "s", 1, 5)
		reset(t, p)
		synctest.Wait()
		require.Equal(t, 5, workers(p, 0), "a number of workers is not a setting")
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobWorkers.Set(d, 0, 100, "test") })))
		synctest.Wait()
		require.Equal(t, 8, workers(p, 0))
		require.Equal(t, "test (wanted 100, limited to the maximum, 8)", noted(t, p, controller.KnobWorkers.String()).Why)
		end(t, p)
	})
}

func TestAPoolIsMadeBoundAndUnbound(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(echo[int]), stage.Workers(2, 4))
		p := bubble(t, s)
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.SetPool(d, "all", 3, "test")
			controller.KnobPool.Set(d, 0, "all", "test")
		})))
		synctest.Wait()
		snap := p.Snapshot()
		require.Equal(t, "all", snap.Stages[0].Pool)
		require.Zero(t, snap.Stages[0].Workers.Live, "no worker of its own")
		require.Equal(t, 3, snap.Pools[0].Workers)
		requireNoted(t, p, controller.KnobWorkers, "all", 0, 3)
		requireNoted(t, p, controller.KnobPool, "s", "s", "all")
		_, err := stage.Call[int](t.Context(), s, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, p.Snapshot().Stages[0].Counts.Visits)
		reset(t, p)
		synctest.Wait()
		snap = p.Snapshot()
		require.Equal(t, "s", snap.Stages[0].Pool)
		require.Equal(t, 2, snap.Stages[0].Workers.Live)
		require.Empty(t, snap.Pools, "the pool is not needed any more")
		_, err = stage.Call[int](t.Context(), s, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, p.Snapshot().Stages[0].Counts.Visits, "its own worker handled it")
		end(t, p)
	})
}

func TestAPoolWithStagesKeepsAWorkerWhateverThePolicySays(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, s, pipeline.Control(rules{time.Second, func(v *controller.Snapshot, d *controller.Decisions) {
			n := 2
			if v.Pool("all") != nil {
				n = 0
			}
			controller.KnobWorkers.SetPool(d, "all", n, "test")
			controller.KnobPool.Set(d, 0, "all", "test")
		}}))
		time.Sleep(3*time.Second + time.Millisecond)
		submit(t, s, 1)
		synctest.Wait()
		require.EqualValues(t, 1, p.Snapshot().Replied, "a worker handled it")
		end(t, p)
	})
}

// sharing makes the stages share one worker in a given way.
func sharing(mode controller.Dispatch, plan *controller.VisitPlan, priorities ...int) once {
	return func(s *controller.Snapshot, d *controller.Decisions) {
		controller.KnobWorkers.SetPool(d, "all", 1, "test")
		controller.KnobDispatch.SetPool(d, "all", mode, "test")
		controller.KnobVisit.SetPool(d, "all", plan, "test")
		for i := range s.Stages {
			controller.KnobPool.Set(d, controller.StageID(i), "all", "test")
		}
		for i, n := range priorities {
			controller.KnobPriority.Set(d, controller.StageID(i), n, "test")
		}
	}
}

func TestDispatchPriorityAndVisitPlanDecideWhichCommandIsNext(t *testing.T) {
	rows := map[string]struct {
		law  once
		want string
	}{
		"first come, first served":                {sharing(controller.SharedFIFO, nil), "a a b b c c"},
		"priority":                                {sharing(controller.SharedPriority, nil, 0, 1, 2), "c c b b a a"},
		"a priority means nothing to a queue":     {sharing(controller.SharedFIFO, nil, 0, 1, 2), "a a b b c c"},
		"polled in the order of the pipeline":     {sharing(controller.Polled, nil), "a a b b c c"},
		"polled in another order":                 {sharing(controller.Polled, &controller.VisitPlan{Order: []controller.StageID{3, 2, 0, 1}}), "c c a a b b"},
		"polled, one at a time":                   {sharing(controller.Polled, &controller.VisitPlan{Gating: controller.Bounded, Bound: 1}), "a b c a b c"},
		"polled, some more than others":           {sharing(controller.Polled, &controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Bounds: map[controller.StageID]int{1: 2}}), "a b b c a c"},
		"polled, back to the start after success": {sharing(controller.Polled, &controller.VisitPlan{Order: []controller.StageID{3, 2, 1, 0}, Gating: controller.Bounded, Bound: 1, Restart: true}), "c c b b a a"},
		"polled, twice in the order":              {sharing(controller.Polled, &controller.VisitPlan{Order: []controller.StageID{3, 0, 1, 0, 2}, Gating: controller.Bounded, Bound: 1}), "a b a c b c"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var told story
				gate := newLock("gate")
				a, b, c := teller(&told, "a"), teller(&told, "b"), teller(&told, "c")
				p := bubble(t, a, b, c, gate, pipeline.Control(row.law))
				submit(t, gate, 1)
				synctest.Wait() // the only worker is there
				for _, s := range []*stage.Stage[int]{a, b, c} {
					submit(t, s, 1, 2)
				}
				gate.open()
				synctest.Wait()
				require.Equal(t, row.want, told.take())
				reset(t, p)
				require.Empty(t, p.Snapshot().Pools, "the pool is not needed any more")
				end(t, p)
			})
		})
	}
}

func TestPriorityAndDispatchAreReset(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var told story
		gate := newLock("gate")
		a, b := teller(&told, "a"), teller(&told, "b")
		p := bubble(t, pipeline.Group("g", 1, 1, a, b, gate), pipeline.Control(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobDispatch.SetPool(d, "g", controller.SharedPriority, "test")
			controller.KnobPriority.Set(d, 1, 3, "test")
		})))
		requireNoted(t, p, controller.KnobPriority, "b", 0, 3)
		requireNoted(t, p, controller.KnobDispatch, "g", controller.SharedFIFO, controller.SharedPriority)
		reset(t, p)
		require.Equal(t, controller.SharedFIFO, p.Snapshot().Pools[0].Dispatch)
		require.NoError(t, p.SetPolicy(once(func(s *controller.Snapshot, d *controller.Decisions) {
			require.Zero(t, s.Stages[1].Priority)
			controller.KnobDispatch.SetPool(d, "g", controller.SharedPriority, "test")
		})))
		submit(t, gate, 1)
		synctest.Wait()
		submit(t, a, 1)
		submit(t, b, 1)
		gate.open()
		synctest.Wait()
		require.Equal(t, "a b", told.take(), "commands of equal priority keep their order")
		end(t, p)
	})
}

func TestAVisitPlanIsShownAndReset(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		plan := &controller.VisitPlan{Order: []controller.StageID{1, 0}, Gating: controller.Bounded, Bound: 4}
		p := bubble(t, pipeline.Group("g", 1, 1, stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]))))
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
			controller.KnobVisit.SetPool(d, "g", plan, "test")
		})))
		require.Equal(t, "2 1, bounded 4, now", p.Snapshot().Pools[0].Plan)
		requireNoted(t, p, controller.KnobVisit, "g", (*controller.VisitPlan)(nil), plan)
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
		})))
		require.Equal(t, "no plan", p.Snapshot().Pools[0].Plan)
		end(t, p)
	})
}

// The dispatch of a single stage's pool has no effect, but the journal has the decision.
func TestAChangeOfAStagesOwnPoolIsJournalledOnce(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		plan := &controller.VisitPlan{Gating: controller.Gated}
		p := bubble(t, stage.New("s", fn(echo[int])), pipeline.Control(rules{time.Second, func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobDispatch.SetPool(d, "s", controller.Polled, "test")
			controller.KnobVisit.SetPool(d, "s", plan, "test")
		}}))
		time.Sleep(10*time.Second + time.Millisecond)
		require.LessOrEqual(t, len(p.Journal()), 2)
		end(t, p)
	})
}

func TestATheftMovesWorkersFromOneStageToAnother(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		p := bubble(t, stage.New("rich", fn(echo[int]), stage.Workers(1, 4)), stage.New("poor", fn(echo[int]), stage.Workers(1, 4)))
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobWorkers.Set(d, 0, 4, "test") })))
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { d.Steal(1, 0, 2, "test") })))
		synctest.Wait()
		require.Equal(t, 2, workers(p, 0))
		require.Equal(t, 3, workers(p, 1))
		j := p.Journal()
		require.Equal(t, []string{"poor", "rich"}, []string{j[len(j)-2].StageName, j[len(j)-1].StageName})
		require.Equal(t, []any{1, 3, 4, 2}, []any{j[len(j)-2].Before, j[len(j)-2].After, j[len(j)-1].Before, j[len(j)-1].After})
		end(t, p)
	})
}

// lived counts the instances of a stage.
type lived struct{ made, started, stopped atomic.Int64 }

func (l *lived) each(name string, handle func(context.Context, int) behaviour.Outcome, opts ...stage.Option) *stage.Stage[int] {
	return stage.Each(name, func() behaviour.Behaviour[int] {
		l.made.Add(1)
		return &alive{l, handle, atomic.Int64{}}
	}, opts...)
}

// requireAllStopped requires that each instance was started and stopped once.
func (l *lived) requireAllStopped(t *testing.T) {
	t.Helper()
	require.Equal(t, l.made.Load(), l.started.Load())
	require.Equal(t, l.made.Load(), l.stopped.Load())
}

type alive struct {
	of      *lived
	handle  func(context.Context, int) behaviour.Outcome
	stopped atomic.Int64
}

func (a *alive) HandleCommand(ctx context.Context, cmd int) behaviour.Outcome {
	return a.handle(ctx, cmd)
}
func (a *alive) Start(context.Context) error { a.of.started.Add(1); return nil }
func (a *alive) Stop() {
	if a.stopped.Add(1) == 1 {
		a.of.stopped.Add(1)
	} else {
		a.of.stopped.Add(1000) // so that every check sees it
	}
}

func TestInstancesBoundTheWorkersAtAStageAndExcessOnesAreStoppedOnce(t *testing.T) {
	for name, law := range map[string]once{
		"own":    func(*controller.Snapshot, *controller.Decisions) {},
		"fifo":   sharing(controller.SharedFIFO, nil),
		"polled": sharing(controller.Polled, nil),
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var here atomic.Int64
				var all lived
				key := make(chan struct{})
				s := all.each("s", func(context.Context, int) behaviour.Outcome {
					here.Add(1)
					defer here.Add(-1)
					<-key
					return behaviour.OK(nil)
				}, stage.Workers(8, 8), stage.Instances(4), stage.Batch(1))
				use := func(n int) once {
					return func(v *controller.Snapshot, d *controller.Decisions) {
						law(v, d)
						if name != "own" {
							controller.KnobWorkers.SetPool(d, "all", 8, "test")
						}
						controller.KnobInstances.Set(d, 0, n, "test")
					}
				}
				p := bubble(t, s, pipeline.Control(use(2)))
				for i := range 100 {
					submit(t, s, i)
				}
				synctest.Wait()
				require.EqualValues(t, 2, here.Load())
				require.NoError(t, p.SetPolicy(use(6)))
				synctest.Wait()
				require.EqualValues(t, 6, here.Load(), "raised")
				require.NoError(t, p.SetPolicy(use(1)))
				for range 20 {
					key <- struct{}{}
					synctest.Wait()
				}
				require.EqualValues(t, 1, here.Load(), "lowered, when the workers have left")
				require.Equal(t, 1, p.Snapshot().Stages[0].Workers.Instances)
				reset(t, p)
				synctest.Wait()
				require.Equal(t, 4, p.Snapshot().Stages[0].Workers.Instances)
				require.EqualValues(t, 4, here.Load(), "as its options set it")
				close(key)
				end(t, p)
				all.requireAllStopped(t)
			})
		})
	}
}

func TestExcessInstancesThatAreIdleAreStoppedAtOnce(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var all lived
		key := make(chan struct{})
		s := all.each("s", func(context.Context, int) behaviour.Outcome { <-key; return behaviour.OK(nil) }, stage.Batch(1))
		p := bubble(t, pipeline.Group("g", 4, 4, s))
		submit(t, s, 1, 2, 3, 4)
		synctest.Wait()
		close(key)
		synctest.Wait()
		require.EqualValues(t, 4, all.started.Load())
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobInstances.Set(d, 0, 1, "test") })))
		require.EqualValues(t, 3, all.stopped.Load())
		submit(t, s, 1, 2, 3, 4)
		end(t, p)
		require.EqualValues(t, 4, all.stopped.Load())
		all.requireAllStopped(t)
	})
}

// There is one instance and four workers: those without it must not keep the one that has it from working.
func TestAStageWithFewerInstancesThanWorkersDoesAllItsWork(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		for range 20 {
			var all lived
			s := all.each("s", echo[int], stage.Workers(4, 4), stage.Instances(1))
			p := bubble(t, s)
			for i := range 10 {
				submit(t, s, i)
				synctest.Wait()
				require.EqualValues(t, i+1, p.Snapshot().Replied)
			}
			end(t, p)
			all.requireAllStopped(t)
		}
	})
}

// batcher records the sizes of its batches.
type batcher struct{ sizes chan int }

func (b batcher) HandleCommand(context.Context, int) behaviour.Outcome { panic("not for single ones") }

func (b batcher) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	b.sizes <- len(cmds)
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i := range outcomes {
		outcomes[i] = behaviour.OK(nil)
	}
	return outcomes
}

func (b batcher) all() (sizes []int) {
	synctest.Wait()
	for {
		select {
		case n := <-b.sizes:
			sizes = append(sizes, n)
		default:
			return sizes
		}
	}
}

func TestABatchIsTakenWhenItIsFullOrHasLingered(t *testing.T) {
	for name, law := range map[string]once{
		"own":    func(*controller.Snapshot, *controller.Decisions) {},
		"fifo":   sharing(controller.SharedFIFO, nil),
		"polled": sharing(controller.Polled, nil),
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				b := batcher{make(chan int, 100)}
				s := stage.New("s", b, stage.Workers(1, 1))
				p := bubble(t, s)
				require.NoError(t, p.SetPolicy(once(func(v *controller.Snapshot, d *controller.Decisions) {
					law(v, d)
					controller.KnobBatch.Set(d, 0, controller.Batch{Max: 10, Linger: time.Second}, "test")
				})))
				requireNoted(t, p, controller.KnobBatch, "s", controller.Batch{Max: 256}, controller.Batch{Max: 10, Linger: time.Second})
				time.Sleep(time.Millisecond)
				submit(t, s, 1, 2, 3)
				require.Empty(t, b.all())
				time.Sleep(999 * time.Millisecond)
				require.Empty(t, b.all())
				time.Sleep(time.Millisecond)
				require.Equal(t, []int{3}, b.all(), "it has lingered")
				submit(t, s, make([]int, 10)...)
				require.Equal(t, []int{10}, b.all(), "it is full")
				submit(t, s, make([]int, 25)...)
				require.Equal(t, []int{10, 10}, b.all())
				time.Sleep(time.Second)
				require.Equal(t, []int{5}, b.all())
				submit(t, s, 1, 2, 3)
				require.Empty(t, b.all())
				reset(t, p)
				sizes := b.all()
				require.NotEmpty(t, sizes, "no batch lingers any more")
				submit(t, s, 1)
				require.Equal(t, []int{1}, b.all())
				end(t, p)
			})
		})
	}
}

func TestADrainDoesNotLinger(t *testing.T) {
	for name, law := range map[string]once{
		"own":  func(*controller.Snapshot, *controller.Decisions) {},
		"fifo": sharing(controller.SharedFIFO, nil),
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				b := batcher{make(chan int, 100)}
				s := stage.New("s", b, stage.Workers(1, 1))
				p := bubble(t, s, pipeline.Control(once(func(v *controller.Snapshot, d *controller.Decisions) {
					law(v, d)
					controller.KnobBatch.Set(d, 0, controller.Batch{Max: 10, Linger: time.Hour}, "test")
				})))
				time.Sleep(time.Millisecond)
				submit(t, s, 1, 2, 3)
				synctest.Wait()
				began := time.Now()
				end(t, p)
				require.Less(t, time.Since(began), time.Minute)
			})
		})
	}
}

func TestCapacityIsRaisedAndLoweredWithWhatIsInTheQueue(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newLock("s", stage.Capacity(2), stage.Workers(1, 1))
		p := bubble(t, s)
		submit(t, s, 0)
		synctest.Wait()
		submit(t, s, 1, 2)
		let := make(chan error, 10)
		wait := func() { go func() { let <- s.Submit(t.Context(), 3) }() }
		wait()
		synctest.Wait()
		require.Empty(t, let, "the queue is full")
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobCapacity.Set(d, 0, 4, "test") })))
		synctest.Wait()
		require.NoError(t, <-let, "raised, the queue is not full")
		requireNoted(t, p, controller.KnobCapacity, "s", 2, 4)
		submit(t, s, 4)
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobCapacity.Set(d, 0, 1, "test") })))
		snap := p.Snapshot().Stages[0]
		require.Equal(t, 1, snap.Queue.Capacity)
		require.Equal(t, 4, snap.Queue.Queued, "lowered, it keeps its commands")
		wait()
		for range 4 {
			require.Empty(t, let)
			s.key <- struct{}{}
			synctest.Wait()
		}
		require.NoError(t, <-let)
		reset(t, p)
		require.Equal(t, 2, p.Snapshot().Stages[0].Queue.Capacity)
		s.open()
		end(t, p)
	})
}

func TestADisabledStageAcceptsNothingAndFinishesItsCommands(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		letters := make(chan stage.DeadLetter, 10)
		last := newLock("last", stage.Workers(1, 1))
		first := stage.Func("first", func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(last.Stage, cmd) })
		p := bubble(t, first, last, pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
		submit(t, last, 1, 2)
		synctest.Wait()
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobEnabled.Set(d, 1, false, "test") })))
		requireNoted(t, p, controller.KnobEnabled, "last", true, false)
		require.ErrorIs(t, last.Submit(t.Context(), 3), stage.ErrDisabled)
		ticket, err := first.Ask(t.Context(), 7)
		require.NoError(t, err)
		_, err = ticket.Wait(t.Context())
		require.ErrorIs(t, err, stage.ErrDisabled)
		require.ErrorContains(t, err, `stage "last"`)
		submit(t, first, 4)
		letter := <-letters
		require.Equal(t, reason.Disabled, letter.Reason)
		require.Equal(t, "last", letter.Stage)
		require.Equal(t, 4, letter.Command)
		last.open()
		synctest.Wait()
		snap := p.Snapshot()
		require.EqualValues(t, 2, snap.Stages[1].Counts.OK, "queued commands are handled")
		require.Equal(t, map[reason.Reason]uint64{reason.Disabled: 1}, snap.Stages[1].Reasons.Rejected)
		require.Equal(t, map[reason.Reason]uint64{reason.Disabled: 2}, snap.Stages[1].Reasons.Shed)
		require.EqualValues(t, 2, snap.Shed)
		require.EqualValues(t, 1, snap.Answered)
		require.Empty(t, letters)
		reset(t, p)
		submit(t, last, 5)
		submit(t, first, 6)
		end(t, p)
		require.EqualValues(t, 4, p.Snapshot().Replied)
	})
}

func TestASubmitterThatWaitsAtAStageThatIsDisabledIsRefused(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newLock("s", stage.Workers(1, 1), stage.Capacity(1))
		p := bubble(t, s)
		submit(t, s, 0)
		synctest.Wait()
		submit(t, s, 1)
		let := make(chan error, 1)
		go func() { let <- s.Submit(t.Context(), 2) }()
		synctest.Wait()
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobEnabled.Set(d, 0, false, "test") })))
		s.open()
		require.ErrorIs(t, <-let, stage.ErrDisabled)
		end(t, p)
	})
}

// ranked is a command with a priority.
type ranked int

func (r ranked) Priority() int { return int(r) }

func TestTheDisciplineSetsTheOrderOfAQueue(t *testing.T) {
	rows := map[string]struct {
		own        queue.Discipline
		discipline string
		want       []ranked
		name       string // of the stage's own discipline, in the journal
	}{
		"last in, first out":   {queue.FIFO{}, queue.LIFO{}.Name(), []ranked{3, 2, 1, 5, 4}, "fifo"},
		"priority":             {queue.FIFO{}, queue.Priority{}.Name(), []ranked{5, 4, 3, 2, 1}, "fifo"},
		"first in, first out":  {queue.LIFO{}, queue.FIFO{}.Name(), []ranked{4, 5, 1, 2, 3}, "lifo"},
		"an unknown one":       {queue.FIFO{}, "no such order", []ranked{4, 5, 1, 2, 3}, ""},
		"its own, by its name": {queue.PriorityOf(func(r ranked) int { return -int(r) }), queue.Priority{}.Name(), []ranked{1, 2, 3, 4, 5}, ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var log strings.Builder
				key := make(chan struct{})
				var done []ranked
				s := stage.Func("s", func(_ context.Context, cmd ranked) behaviour.Outcome {
					if cmd == 0 {
						<-key
					} else {
						done = append(done, cmd)
					}
					return behaviour.OK(nil)
				}, stage.Workers(1, 1), stage.Batch(1), stage.Discipline(row.own))
				p := bubble(t, s, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				fill := func() {
					require.NoError(t, s.Submit(t.Context(), 0))
					synctest.Wait()
					for _, cmd := range []ranked{4, 5, 1, 2, 3} {
						require.NoError(t, s.Submit(t.Context(), cmd))
					}
				}
				fill()
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobDiscipline.Set(d, 0, row.discipline, "test")
				})))
				if row.name != "" {
					requireNoted(t, p, controller.KnobDiscipline, "s", row.name, row.discipline)
				} else {
					require.Len(t, p.Journal(), 1, "only that it is used")
				}
				require.Equal(t, row.discipline == "no such order", strings.Contains(log.String(), `unknown discipline`), log.String())
				close(key)
				synctest.Wait()
				require.Equal(t, row.want, done)
				reset(t, p)
				key, done = make(chan struct{}), nil
				fill()
				close(key)
				synctest.Wait()
				require.Equal(t, ownOrder(row.own), done, "as its options set it")
				end(t, p)
			})
		})
	}
}

func ownOrder(d queue.Discipline) []ranked {
	switch d.Name() {
	case "lifo":
		return []ranked{3, 2, 1, 5, 4}
	case "priority": // ordered by the opposite priority
		return []ranked{1, 2, 3, 4, 5}
	default:
		return []ranked{4, 5, 1, 2, 3}
	}
}

func TestHandlersReadTheQualityThatThePolicySets(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { return behaviour.OK(behaviour.Quality(ctx)) }, stage.Timeout(time.Second))
		p := bubble(t, s)
		requireQuality := func(want float64) {
			got, err := stage.Call[float64](t.Context(), s, 1)
			require.NoError(t, err)
			require.InDelta(t, want, got, 1e-9)
		}
		requireQuality(1)
		for quality, held := range map[float64]float64{0.25: 0.25, -3: 0, 7: 1} {
			require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
				controller.KnobQuality.Set(d, 0, quality, "test")
			})))
			requireQuality(held)
		}
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobQuality.Set(d, 0, 0.5, "test") })))
		requireNoted(t, p, controller.KnobQuality, "s", 1.0, 0.5)
		require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobQuality.Set(d, 0, math.NaN(), "test")
		})))
		requireQuality(1)
		reset(t, p)
		requireQuality(1)
		end(t, p)
	})
}

// scopes are where commands are admitted: at a stage, and to the whole pipeline.
var scopes = map[string]controller.StageID{"s": 0, "entry": controller.Entry}

func TestARateAdmitsANumberOfCommandsASecond(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.New("s", fn(echo[int]))
				p := bubble(t, s)
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobRate.Set(d, scope, controller.Rate{PerSecond: 10, Burst: 3}, "test")
				})))
				requireNoted(t, p, controller.KnobRate, name, controller.Rate{}, controller.Rate{PerSecond: 10, Burst: 3})
				tries := func(n int) (in int) {
					for range n {
						if err := s.Submit(t.Context(), 1); err == nil {
							in++
						} else {
							require.ErrorContains(t, err, `stage "s": over its rate`)
						}
					}
					return in
				}
				require.Equal(t, 3, tries(10), "a burst")
				time.Sleep(100 * time.Millisecond)
				require.Equal(t, 1, tries(10))
				time.Sleep(time.Hour)
				require.Equal(t, 3, tries(10), "unused rate is not saved up")
				require.Equal(t, map[reason.Reason]uint64{reason.Rate: 23}, p.Snapshot().Stages[0].Reasons.Rejected)
				reset(t, p)
				require.Equal(t, 100, tries(100))
				end(t, p)
			})
		})
	}
}

func TestALimitActsLikeAFullQueue(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := newLock("s", stage.Workers(1, 1), stage.Batch(1))
				p := bubble(t, s)
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobLimit.Set(d, scope, 3, "test") })))
				requireNoted(t, p, controller.KnobLimit, name, 0, 3)
				submit(t, s, 1, 2, 3)
				let := make(chan error, 10)
				wait := func() { go func() { let <- s.Submit(t.Context(), 4) }() }
				wait()
				synctest.Wait()
				require.Empty(t, let)
				s.key <- struct{}{}
				synctest.Wait()
				require.Len(t, let, 1, "one ended, so one is admitted")
				wait()
				synctest.Wait()
				require.Len(t, let, 1)
				require.EqualValues(t, 3, p.Snapshot().InFlight)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(errNo)
				require.ErrorIs(t, s.Submit(ctx, 5), errNo)
				reset(t, p)
				synctest.Wait()
				require.Len(t, let, 2, "there is no limit any more")
				s.open()
				end(t, p)
				require.EqualValues(t, 5, p.Snapshot().Accepted)
			})
		})
	}
}

func TestAStageThatRejectsRefusesAtItsLimit(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := newLock("s", stage.Workers(1, 1), stage.Overflow(overflow.Reject))
				p := bubble(t, s, pipeline.Control(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobLimit.Set(d, scope, 2, "test") })))
				submit(t, s, 1, 2)
				require.ErrorIs(t, s.Submit(t.Context(), 3), stage.ErrFull)
				require.Equal(t, map[reason.Reason]uint64{reason.Full: 1}, p.Snapshot().Stages[0].Reasons.Rejected)
				reset(t, p)
				submit(t, s, 3)
				s.open()
				end(t, p)
			})
		})
	}
}

// Many submitters wait. The end of one command admits one of them, not all.
func TestALimitHoldsForACrowd(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				bubbled(t, func(t *testing.T) { crowd(t, scope) })
			}
		})
	}
}

func crowd(t *testing.T, scope controller.StageID) {
	t.Helper()
	s := newLock("s", stage.Workers(1, 1))
	p := bubble(t, s, pipeline.Control(once(func(_ *controller.Snapshot, d *controller.Decisions) { controller.KnobLimit.Set(d, scope, 2, "test") })))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { submit(t, s, 1) })
	}
	synctest.Wait()
	most := 0
	for range 20 {
		s.key <- struct{}{}
		synctest.Wait()
		most = max(most, int(p.Snapshot().InFlight))
	}
	wg.Wait()
	end(t, p)
	require.LessOrEqual(t, most, 2)
}

// A command that crashed has ended, too.
func TestACrashAdmitsASubmitterThatWaitsAtALimit(t *testing.T) {
	for name, scope := range scopes {
		for way, law := range map[string]once{
			"own":    func(*controller.Snapshot, *controller.Decisions) {},
			"fifo":   sharing(controller.SharedFIFO, nil),
			"polled": sharing(controller.Polled, nil),
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					key := make(chan struct{})
					s := stage.Func("s", func(_ context.Context, cmd int) behaviour.Outcome {
						if cmd == 0 {
							<-key
							panic("on purpose")
						}
						return behaviour.OK(nil)
					}, stage.Workers(1, 1))
					p := bubble(t, s, pipeline.Control(once(func(v *controller.Snapshot, d *controller.Decisions) {
						law(v, d)
						controller.KnobLimit.Set(d, scope, 1, "test")
					})))
					submit(t, s, 0)
					let := make(chan error, 1)
					go func() { let <- s.Submit(t.Context(), 1) }()
					synctest.Wait()
					close(key)
					time.Sleep(time.Minute)
					require.Len(t, let, 1)
					end(t, p)
				})
			})
		}
	}
}

// The limit is far below half of the capacity, below which blocked workers are woken.
func TestAForwardedCommandWaitsForAStageAtItsLimit(t *testing.T) {
	for way, law := range map[string]once{
		"own":    func(*controller.Snapshot, *controller.Decisions) {},
		"fifo":   sharing(controller.SharedFIFO, nil),
		"polled": sharing(controller.Polled, nil),
	} {
		t.Run(way, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				last := stage.New("last", fn(echo[int]), stage.Workers(1, 1))
				first := stage.Func("first", func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(last, cmd) })
				p := bubble(t, first, last, pipeline.Control(once(func(v *controller.Snapshot, d *controller.Decisions) {
					law(v, d)
					controller.KnobLimit.Set(d, 1, 1, "test")
				})))
				for i := range 100 {
					submit(t, first, i)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.EqualValues(t, 100, p.Snapshot().Replied)
				reset(t, p)
				end(t, p)
			})
		})
	}
}

func TestShedRefusesAShareOfTheCommands(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.New("s", fn(echo[ranked]))
				p := bubble(t, s)
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobShed.Set(d, scope, controller.Shed{Below: 3, Probability: 0}, "test")
				})))
				requireNoted(t, p, controller.KnobShed, name, controller.Shed{}, controller.Shed{Below: 3})
				require.NoError(t, s.Submit(t.Context(), 3))
				require.ErrorContains(t, s.Submit(t.Context(), 2), `stage "s": turned away by a policy`)
				require.Equal(t, map[reason.Reason]uint64{reason.Policy: 1}, p.Snapshot().Stages[0].Reasons.Rejected)
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobShed.Set(d, scope, controller.Shed{Below: 0, Probability: 0.5}, "test")
				})))
				in := 0
				for range 1000 {
					if s.Submit(t.Context(), 5) == nil {
						in++
					}
				}
				require.InDelta(t, 500, in, 120)
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobShed.Set(d, scope, controller.Shed{Below: 0, Probability: 1}, "test")
				})))
				require.Error(t, s.Submit(t.Context(), 5))
				reset(t, p)
				require.NoError(t, s.Submit(t.Context(), 0))
				end(t, p)
			})
		})
	}
}

// gatekeeper is a gate made of a function, so it cannot be compared.
type gatekeeper func(cmd any, queued, capacity int) error

func (g gatekeeper) Admit(cmd any, queued, capacity int) error { return g(cmd, queued, capacity) }

func TestAGateDecidesOnEachCommand(t *testing.T) {
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := newLock("s", stage.Workers(1, 1), stage.Capacity(10))
				p := bubble(t, s)
				var saw []int
				require.NoError(t, p.SetPolicy(once(func(_ *controller.Snapshot, d *controller.Decisions) {
					controller.KnobGate.Set(d, scope, gatekeeper(func(cmd any, queued, capacity int) error {
						saw = append(saw, queued, capacity)
						switch cmd {
						case 2:
							return errNo
						case 3:
							panic("gate")
						case 4:
							runtime.KeepAlive(cmd)
						}
						return nil
					}), "test")
				})))
				c := noted(t, p, controller.KnobGate.String())
				require.Nil(t, c.Before)
				require.NotNil(t, c.After)
				submit(t, s, 1)
				synctest.Wait()
				submit(t, s, 1)
				require.ErrorIs(t, s.Submit(t.Context(), 2), errNo)
				require.ErrorContains(t, s.Submit(t.Context(), 3), "turned away by a policy")
				submit(t, s, 4)
				require.Equal(t, []int{0, 10, 0, 10, 1, 10, 1, 10, 1, 10}, saw)
				require.Equal(t, map[reason.Reason]uint64{reason.Policy: 2}, p.Snapshot().Stages[0].Reasons.Rejected)
				reset(t, p)
				submit(t, s, 2, 3)
				require.Len(t, saw, 10, "it is gone")
				s.open()
				end(t, p)
			})
		})
	}
}

// claiming is a policy that claims some knobs, and turns some.
type claiming struct {
	name   string
	claims []controller.Knob
	do     func(d *controller.Decisions)
}

func (c claiming) Name() string               { return c.name }
func (c claiming) Check() error               { return nil }
func (c claiming) Claims() []controller.Knob  { return c.claims }
func (c claiming) New() controller.Controller { return c }
func (c claiming) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	c.do(d)
}

func TestSeveralPoliciesTurnOnlyTheKnobsThatTheyClaim(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var log strings.Builder
		s := stage.New("s", fn(echo[int]), stage.Workers(1, 8))
		hirer := claiming{"hirer", []controller.Knob{controller.KnobWorkers}, func(d *controller.Decisions) {
			controller.KnobWorkers.Set(d, 0, 3, "test")
			controller.KnobCapacity.Set(d, 0, 7, "a knob that it did not claim")
		}}
		batcher := claiming{"batcher", []controller.Knob{controller.KnobBatch, controller.KnobCapacity}, func(d *controller.Decisions) { controller.KnobBatch.Set(d, 0, controller.Batch{Max: 5}, "test") }}
		p := bubble(t, s, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))), pipeline.Control(hirer, batcher, policy.Fixed{}))
		synctest.Wait()
		require.Equal(t, "hirer+batcher+fixed", p.Snapshot().Policy)
		require.Equal(t, 3, workers(p, 0))
		require.Equal(t, 1024, p.Snapshot().Stages[0].Queue.Capacity)
		require.Equal(t, "hirer", noted(t, p, controller.KnobWorkers.String()).Policy)
		require.Equal(t, "batcher", noted(t, p, controller.KnobBatch.String()).Policy)
		require.Len(t, p.Journal(), 2)
		require.Contains(t, log.String(), "turned a knob that it did not claim")
		require.Contains(t, log.String(), "policy=hirer knob=capacity")
		require.ErrorContains(t, p.SetPolicy(hirer, hirer), "both turn the knob")
		require.NoError(t, p.SetPolicy(hirer), "a single policy may turn all knobs")
		require.Equal(t, 7, p.Snapshot().Stages[0].Queue.Capacity)
		end(t, p)
	})
}

func TestTheDecisionsOfAPolicyThatPanicsStayAndTheOthersContinue(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(echo[int]), stage.Workers(1, 8))
		asked := 0
		first := claiming{"first", []controller.Knob{controller.KnobWorkers}, func(d *controller.Decisions) {
			d.Every(time.Second)
			if asked++; asked > 1 {
				controller.KnobWorkers.Set(d, 0, 8, "lost")
				panic(errors.New("policy"))
			}
			controller.KnobWorkers.Set(d, 0, 3, "test")
		}}
		turned := 0
		second := claiming{"second", []controller.Knob{controller.KnobPriority}, func(d *controller.Decisions) {
			d.Every(time.Second)
			turned++
			controller.KnobPriority.Set(d, 0, turned, "test")
		}}
		p := bubble(t, s, pipeline.Control(first, second))
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, workers(p, 0))
		require.Equal(t, 6, asked)
		require.Equal(t, 6, noted(t, p, controller.KnobPriority.String()).After)
		end(t, p)
	})
}
