package pipeline_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// listener is a policy that records its events, and may decide something.
type listener struct {
	answer func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions)

	mu    sync.Mutex // guards heard
	heard []heard
}

// heard is an event with the names of its stage and pool.
type heard struct {
	at          time.Time
	kind        controller.EventKind
	stage, pool string
}

func (l *listener) Name() string               { return "listener" }
func (l *listener) Check() error               { return nil }
func (l *listener) New() controller.Controller { return l }
func (l *listener) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	h := heard{at: time.Now(), kind: ev.Kind, pool: ev.Pool}
	if ev.Stage >= 0 {
		h.stage = s.Stages[ev.Stage].Name
	}
	l.mu.Lock()
	l.heard = append(l.heard, h)
	l.mu.Unlock()
	if l.answer != nil {
		l.answer(ev, s, d)
	}
}

// of returns the recorded events of a kind, and forgets them.
func (l *listener) of(kind controller.EventKind) (all []heard) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.heard {
		if h.kind == kind {
			all = append(all, h)
		}
	}
	l.heard = slices.DeleteFunc(l.heard, func(h heard) bool { return h.kind == kind })
	return all
}

func (l *listener) kinds() (all []controller.EventKind) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.heard {
		all = append(all, h.kind)
	}
	l.heard = nil
	return all
}

func TestAPolicyWithoutWishesIsNotifiedOfTheStartAndTheStop(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		first, second := &listener{}, &listener{}
		p := bubble(t, stage.New("s", fn(echo[int])), pipeline.Control(first))
		time.Sleep(time.Hour)
		require.NoError(t, p.SetPolicy(second))
		time.Sleep(time.Hour)
		end(t, p)
		require.Equal(t, []controller.EventKind{controller.EventStart, controller.EventStop}, first.kinds())
		require.Equal(t, []controller.EventKind{controller.EventStart, controller.EventStop}, second.kinds())
	})
}

func TestEverySetsTheNextTickWhateverTheEvent(t *testing.T) {
	for kind, happen := range map[controller.EventKind]func(t *testing.T, p *pipeline.Pipeline, s *stage.Stage[int]){
		controller.EventStart:    func(*testing.T, *pipeline.Pipeline, *stage.Stage[int]) {},
		controller.EventTopology: func(t *testing.T, p *pipeline.Pipeline, s *stage.Stage[int]) { require.NoError(t, p.Pause(s)) },
		controller.EventWorkerDied: func(t *testing.T, _ *pipeline.Pipeline, s *stage.Stage[int]) {
			require.NoError(t, s.Submit(t.Context(), -1))
		},
		controller.EventQueueFull: func(t *testing.T, p *pipeline.Pipeline, s *stage.Stage[int]) {
			require.NoError(t, p.Pause(s))
			submit(t, s, 1, 2)
		},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
					if ev.Kind == kind {
						d.Every(time.Minute)
					}
				}}
				s := stage.New("s", fn(poison), stage.Capacity(2))
				p := bubble(t, s, pipeline.Control(l))
				time.Sleep(time.Second)
				require.Empty(t, l.of(controller.EventTick))
				happen(t, p, s)
				require.Len(t, l.of(kind), 1)
				time.Sleep(5*time.Minute + time.Second)
				require.Len(t, l.of(controller.EventTick), 5)
				require.NoError(t, p.Resume(s))
				end(t, p)
			})
		})
	}
}

func TestTheIntervalOfTicksCanBeChangedAndHasAMinimum(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var every atomic.Int64
		l := &listener{answer: func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			d.Every(time.Duration(every.Load()))
		}}
		p := bubble(t, stage.New("s", fn(echo[int])), pipeline.Control(l))
		time.Sleep(100 * time.Millisecond)
		require.InDelta(t, 100, len(l.of(controller.EventTick)), 1, "not more often than once a millisecond")
		every.Store(int64(time.Hour))
		time.Sleep(2 * time.Millisecond)
		l.kinds()
		time.Sleep(2 * time.Hour)
		require.Len(t, l.of(controller.EventTick), 2)
		end(t, p)
	})
}

func TestPoliciesAreNotifiedOfStagesThatAreAddedRemovedPausedOrResumed(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var stages []int
		var paused []bool
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, _ *controller.Decisions) {
			if ev.Kind == controller.EventTopology {
				stages = append(stages, len(s.Stages))
				paused = append(paused, s.Stages[0].Paused)
			}
		}}
		s, fresh := stage.New("s", fn(echo[int])), stage.New("fresh", fn(echo[int]))
		p := bubble(t, s, pipeline.Control(l))
		require.NoError(t, p.Pause(s))
		require.NoError(t, p.Add(t.Context(), fresh))
		require.NoError(t, p.Resume(s))
		require.NoError(t, p.Remove(t.Context(), fresh))
		all := l.of(controller.EventTopology)
		require.Len(t, all, 4)
		require.Empty(t, all[0].stage)
		require.Equal(t, []int{1, 2, 2, 1}, stages)
		require.Equal(t, []bool{true, true, false, false}, paused)
		end(t, p)
	})
}

func TestAFullQueueIsReportedOnceUntilItIsNotFull(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
			law.New().Control(ev, s, d)
		}}
		s := newLock("s", stage.Workers(1, 1), stage.Capacity(4))
		other := stage.New("other", fn(echo[int]))
		p := bubble(t, other, s, pipeline.Control(l))
		submit(t, s, 0)
		synctest.Wait()
		submit(t, s, 1, 2, 3)
		time.Sleep(time.Second)
		require.Empty(t, l.of(controller.EventQueueFull))
		submit(t, s, 4)
		time.Sleep(time.Second)
		full := l.of(controller.EventQueueFull)
		require.Len(t, full, 1)
		require.Equal(t, "s", full[0].stage)
		s.key <- struct{}{}
		synctest.Wait()
		submit(t, s, 5) // full again, but it was almost full all the time
		time.Sleep(time.Second)
		require.Empty(t, l.of(controller.EventQueueFull))
		for range 4 {
			s.key <- struct{}{}
			synctest.Wait()
		}
		submit(t, s, 6, 7, 8, 9)
		time.Sleep(time.Second)
		require.Len(t, l.of(controller.EventQueueFull), 1, "it was nearly empty meanwhile")
		s.open()
		end(t, p)
	})
}

func TestAStarvingStageIsReportedOnceUntilAWorkerVisitsIt(t *testing.T) {
	for name, warm := range map[string]int{"fresh": 0, "after much work": 1000} {
		for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.Polled} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
						if ev.Kind == controller.EventStart {
							controller.KnobDispatch.SetPool(d, "g", mode, "test")
						}
					}}
					greedy, starved := newLock("greedy"), stage.New("starved", fn(echo[int]))
					p := bubble(t, pipeline.Group("g", 1, 1, greedy, starved), pipeline.Control(l))
					time.Sleep(time.Second)
					for i := range warm {
						submit(t, starved, i)
					}
					synctest.Wait()
					submit(t, greedy, 1)
					synctest.Wait()
					submit(t, starved, 1)
					time.Sleep(time.Second / 2)
					require.Empty(t, l.of(controller.EventStarved))
					time.Sleep(20 * time.Second)
					all := l.of(controller.EventStarved)
					require.Len(t, all, 1)
					require.Equal(t, "starved", all[0].stage)
					greedy.key <- struct{}{}
					synctest.Wait()
					time.Sleep(2 * time.Second)
					submit(t, greedy, 1)
					synctest.Wait()
					submit(t, starved, 1)
					time.Sleep(20 * time.Second)
					require.Len(t, l.of(controller.EventStarved), 1, "again")
					greedy.open()
					end(t, p)
				})
			})
		}
	}
}

func TestAPausedStageDoesNotStarve(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		l := &listener{}
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 1, 1, s), pipeline.Control(l))
		time.Sleep(time.Second)
		require.NoError(t, p.Pause(s))
		submit(t, s, 1)
		time.Sleep(time.Minute)
		require.Empty(t, l.of(controller.EventStarved))
		require.NoError(t, p.Resume(s))
		end(t, p)
	})
}

func TestTheDeathOfAWorkerIsReported(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
			law.New().Control(ev, s, d)
		}}
		s := stage.New("s", fn(poison))
		p := bubble(t, stage.New("other", fn(echo[int])), s, pipeline.Control(l))
		submit(t, s, -1)
		died := l.of(controller.EventWorkerDied)
		require.Len(t, died, 1)
		require.Equal(t, "s", died[0].stage)
		end(t, p)
	})
}

func TestTheDeathOfAWorkerIsReportedWithItsStageAndPool(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		l := &listener{}
		s, own := stage.New("s", fn(poison)), stage.New("own", fn(poison))
		p := bubble(t, pipeline.Group("g", 1, 1, s), own, pipeline.Control(l))
		submit(t, s, -1)
		died := l.of(controller.EventWorkerDied)
		require.Len(t, died, 1)
		require.Equal(t, "g", died[0].pool)
		time.Sleep(time.Second)
		submit(t, own, -1)
		died = l.of(controller.EventWorkerDied)
		require.Len(t, died, 1)
		require.Equal(t, "own", died[0].pool)
		require.Equal(t, "own", died[0].stage)
		end(t, p)
	})
}

func TestTheEndOfARoundIsReportedOnceForEachPlan(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		bound := 1
		l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			switch ev.Kind {
			case controller.EventStart, controller.EventTopology:
				d.OnRoundEnd(true)
				controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
				controller.KnobVisit.SetPool(d, "g", &controller.VisitPlan{Gating: controller.Bounded, Bound: bound}, "test")
			default:
			}
		}}
		a, b := stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]))
		other := stage.New("other", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 2, 2, a, b), other)
		require.NoError(t, p.SetPolicy(l))
		work := func() {
			for i := range 200 {
				submit(t, a, i)
				submit(t, b, i)
				time.Sleep(time.Millisecond)
			}
		}
		work()
		all := l.of(controller.EventRoundEnd)
		require.Len(t, all, 1)
		require.Equal(t, "g", all[0].pool)
		require.NoError(t, p.Pause(other))
		work()
		require.Empty(t, l.of(controller.EventRoundEnd), "an equal plan is the same plan")
		bound = 7
		require.NoError(t, p.Resume(other))
		work()
		require.Len(t, l.of(controller.EventRoundEnd), 1, "another plan")
		end(t, p)
	})
}

// A policy that sets another plan at each end of a round is not asked more often than the minimum interval allows.
func TestEndsOfRoundsAreNotReportedMoreOftenThanTheMinimumInterval(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		n := 0
		l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			if ev.Kind == controller.EventStart || ev.Kind == controller.EventRoundEnd {
				n++
				d.OnRoundEnd(true)
				controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
				controller.KnobVisit.SetPool(d, "g", &controller.VisitPlan{Gating: controller.Bounded, Bound: 1 + n%2}, "test")
			}
		}}
		a, b := stage.New("a", fn(echo[int])), stage.New("b", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 1, 1, a, b))
		require.NoError(t, p.SetPolicy(l))
		for i := range 100 {
			submit(t, a, i)
			submit(t, b, i)
			synctest.Wait()
			if i%10 == 9 {
				time.Sleep(time.Millisecond)
			}
		}
		all := l.of(controller.EventRoundEnd)
		require.Greater(t, len(all), 5)
		for i := range len(all) - 1 {
			require.GreaterOrEqual(t, all[i+1].at.Sub(all[i].at), time.Millisecond)
		}
		end(t, p)
	})
}

func TestVisitsAreReportedInTheNumberThatAPolicyWants(t *testing.T) {
	for name, kind := range map[string]controller.EventKind{"from the beginning": controller.EventStart, "from a tick on": controller.EventTick} {
		for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.Polled} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
						if ev.Kind == controller.EventStart {
							d.Every(time.Second)
							controller.KnobDispatch.SetPool(d, "g", mode, "test")
						}
						if ev.Kind == kind {
							d.OnVisits(10)
						}
					}}
					s := stage.New("s", fn(echo[int]))
					p := bubble(t, pipeline.Group("g", 1, 1, s))
					require.NoError(t, p.SetPolicy(l))
					time.Sleep(1500 * time.Millisecond)
					for i := range 100 {
						submit(t, s, i)
						time.Sleep(time.Millisecond)
					}
					all := l.of(controller.EventVisits)
					require.GreaterOrEqual(t, len(all), 9)
					require.Equal(t, "g", all[0].pool)
					reset(t, p)
					for i := range 100 {
						submit(t, s, i)
						time.Sleep(time.Millisecond)
					}
					require.Empty(t, l.of(controller.EventVisits))
					end(t, p)
				})
			})
		}
	}
}

// The workers of a polled pool make their first, empty round before the control loop's actor has started.
func TestAPolicyIsNotifiedOfRoundsAndVisitsFromTheStart(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		l := &listener{answer: func(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
			if ev.Kind == controller.EventStart {
				controller.KnobDispatch.SetPool(d, "g", controller.Polled, "test")
				d.OnRoundEnd(true)
				d.OnVisits(10)
			}
		}}
		s := stage.New("s", fn(echo[int]))
		p := bubble(t, pipeline.Group("g", 1, 1, s), pipeline.Control(l))
		for i := range 100 {
			submit(t, s, i)
			time.Sleep(time.Millisecond)
		}
		require.Len(t, l.of(controller.EventRoundEnd), 1)
		require.NotEmpty(t, l.of(controller.EventVisits))
		end(t, p)
	})
}

// A thousand workers crash in ten seconds; the policy is asked a hundred times.
func TestManyCrashesCauseFewCallsOfAPolicy(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
			if ev.Kind == controller.EventStart {
				law.New().Control(ev, s, d)
			}
		}}
		s := stage.New("s", fn(poison))
		p := bubble(t, s, pipeline.Control(l))
		for range 1000 {
			submit(t, s, -1, 1)
			time.Sleep(10 * time.Millisecond)
		}
		died := l.of(controller.EventWorkerDied)
		require.InDelta(t, 100, len(died), 5)
		time.Sleep(time.Second)
		require.LessOrEqual(t, len(l.of(controller.EventWorkerDied)), 1)
		submit(t, s, -1)
		require.Len(t, l.of(controller.EventWorkerDied), 1, "after a pause the event is reported at once")
		end(t, p)
	})
}

// Each actor of the control loop that starts sends itself a message for the events of the time before; the queue of events still has
// one timer only.
func TestAPolicyIsNotAskedMoreOftenAfterTheControlLoopWasRestarted(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		l := &listener{}
		s := stage.New("s", fn(poison))
		bad := stage.Func("bad", poison, stage.Restart(stage.RestartPolicy{Limit: -1}), stage.Workers(1, 1))
		p := bubble(t, s, bad, pipeline.Control(l), pipeline.Intensity(10, time.Minute))
		storm := func(n int) {
			for range n {
				submit(t, s, -1, 1)
				time.Sleep(9 * time.Millisecond)
			}
		}
		for range 3 {
			storm(12) // a message waits
			submit(t, bad, -1)
			time.Sleep(20 * time.Millisecond)
		}
		l.of(controller.EventWorkerDied)
		storm(1000)
		require.InDelta(t, 90, len(l.of(controller.EventWorkerDied)), 10)
		end(t, p)
	})
}

// A policy that is busy when the pipeline is stopped is not notified of anything any more.
func TestAStageIsRemovedAlthoughThePipelineStopsBeforeThePolicyIsNotified(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		hold := make(chan struct{})
		l := &listener{}
		l.answer = func(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
			if ev.Kind == controller.EventTopology {
				<-hold
			}
		}
		stays, goes := stage.New("stays", fn(echo[int])), stage.New("goes", fn(echo[int]))
		p := bubble(t, stays, goes, pipeline.Control(l), pipeline.Grace(time.Second))
		submit(t, goes, 1)
		synctest.Wait()
		go func() { _ = p.Pause(stays) }()
		synctest.Wait() // the control loop is busy
		removed := make(chan error, 1)
		go func() { removed <- p.Remove(t.Context(), goes) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = p.Stop(ctx)
		require.NoError(t, <-removed)
		require.Len(t, p.Snapshot().Stages, 1)
		require.EqualValues(t, 1, p.Snapshot().Accepted, "its accounts stay")
		close(hold)
		time.Sleep(time.Minute)
	})
}

// The control loop's actor is restarted with the stages. Events of the time between do not keep it from being notified of
// later ones.
func TestAPolicyIsNotifiedOfEventsAfterTheStagesWereRestarted(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		hold, asked := make(chan struct{}), make(chan struct{}, 1)
		l := &listener{}
		l.answer = func(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
			if ev.Kind == controller.EventTopology {
				asked <- struct{}{}
				<-hold
			}
		}
		bad := stage.Func("bad", poison, stage.Restart(stage.RestartPolicy{Limit: -1}), stage.Workers(1, 1))
		other := stage.New("other", fn(poison))
		p := bubble(t, other, bad, pipeline.Control(l), pipeline.Intensity(10, time.Minute))
		go func() { _ = p.Pause(other) }()
		<-asked // the control loop is busy
		submit(t, bad, -1)
		time.Sleep(10 * time.Millisecond)
		_ = bad.Submit(t.Context(), -1)
		time.Sleep(50 * time.Millisecond)
		close(hold)
		time.Sleep(10 * time.Second)
		l.kinds()
		require.NoError(t, p.Resume(other))
		for range 3 {
			submit(t, other, -1)
			_, err := stage.Call[int](t.Context(), other, 1)
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		died := len(l.of(controller.EventWorkerDied))
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, 3, died)
	})
}

// A controller sees the state as it is when the event is reported.
func TestASnapshotShowsTheStateAtTheEvent(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var queued, capacity int
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, _ *controller.Decisions) {
			if ev.Kind == controller.EventQueueFull {
				queued, capacity = s.Stages[ev.Stage].QueueLen, s.Stages[ev.Stage].QueueCap
			}
		}}
		s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
			<-ctx.Done()
			return behaviour.Error(context.Cause(ctx))
		},
			stage.Workers(1, 1), stage.Capacity(2))
		p := bubble(t, s, pipeline.Control(l))
		submit(t, s, 1)
		synctest.Wait()
		submit(t, s, 2, 3)
		synctest.Wait()
		require.Equal(t, []int{2, 2}, []int{queued, capacity})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Stop(ctx))
		atRest(t, p)
	})
}

// A snapshot takes the locks of all stages. One for each of many stages that become full together would take time in the square
// of their number.
func TestManyEventsAtOnceTakeFewSnapshotsAndNothingIsCountedTwice(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		const many = 100
		var seen []*controller.Snapshot // kept, so that no two have the same address
		var events int
		accepted := map[string]uint64{}
		l := &listener{answer: func(ev controller.Event, s *controller.Snapshot, _ *controller.Decisions) {
			for _, st := range s.Stages {
				accepted[st.Name] += st.Window.Accepted
			}
			if ev.Kind == controller.EventQueueFull {
				events++
				if !slices.Contains(seen, s) {
					seen = append(seen, s)
				}
			}
		}}
		parts := []pipeline.Part{pipeline.Control(l)}
		var stages []*stage.Stage[int]
		for i := range many {
			s := stage.New(strconv.Itoa(i), fn(echo[int]), stage.Capacity(1))
			stages, parts = append(stages, s), append(parts, s)
		}
		p := bubble(t, parts...)
		for _, s := range stages {
			require.NoError(t, p.Pause(s))
		}
		for _, s := range stages {
			require.NoError(t, s.Submit(t.Context(), 1))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, many, events)
		require.LessOrEqual(t, len(seen), 3, "the first event, and those that came while it was reported")
		for _, s := range stages {
			require.NoError(t, p.Resume(s))
		}
		end(t, p)
		for name, n := range accepted {
			require.EqualValues(t, 1, n, name)
		}
		require.Len(t, accepted, many)
	})
}
