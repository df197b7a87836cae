package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sleeper sleeps, answers its version, and records whether it was stopped.
type sleeper struct {
	version string
	started *atomic.Int32
	stopped *atomic.Int32
}

func newSleeper(version string) *sleeper {
	return &sleeper{version, new(atomic.Int32), new(atomic.Int32)}
}

func (s *sleeper) Start(context.Context) error { s.started.Add(1); return nil }
func (s *sleeper) Stop()                       { s.stopped.Add(1) }
func (s *sleeper) Version() string             { return s.version }

func (s *sleeper) HandleCommand(ctx context.Context, d time.Duration) behaviour.Outcome {
	return behaviour.Coroutine[time.Duration](s.HandleSuspending).HandleCommand(ctx, d)
}

func (s *sleeper) HandleSuspending(c behaviour.Suspender, d time.Duration) behaviour.Outcome {
	if d < 0 {
		panic("it must not be negative")
	}
	if err := coroutine.Sleep(c, d); err != nil {
		return behaviour.Error(err)
	}
	if s.stopped.Load() == s.started.Load() {
		return behaviour.Error(errors.New("used after its end"))
	}
	return behaviour.OK(s.version)
}

func answers(t *testing.T, ticket *stage.Ticket, want any) {
	t.Helper()
	got, err := ticket.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func askFor(t *testing.T, s *stage.Stage[time.Duration], d time.Duration) *stage.Ticket {
	t.Helper()
	ticket, err := s.Ask(t.Context(), d)
	require.NoError(t, err)
	return ticket
}

func TestAPausedStageFinishesSuspendedCommands(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", newSleeper("1"), stage.Workers(1, 1))
		p := bubble(t, s)
		first := askFor(t, s, time.Minute)
		synctest.Wait()
		require.NoError(t, p.Pause(s))
		second := askFor(t, s, time.Second)
		answers(t, first, "1")
		synctest.Wait()
		require.Equal(t, 1, s.Snapshot().Queue.Queued, "commands that were not started wait")
		require.NoError(t, p.Resume(s))
		answers(t, second, "1")
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAStageIsRemovedWhenNothingIsSuspendedThere(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s, other := stage.New("s", newSleeper("1"), stage.Workers(1, 1)), stage.Func("other", echo[int])
		p := bubble(t, s, other)
		ticket := askFor(t, s, time.Minute)
		begin := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Remove(short, s), context.DeadlineExceeded)
		require.NoError(t, p.Remove(t.Context(), s))
		require.Equal(t, time.Minute, time.Since(begin).Round(time.Second))
		answers(t, ticket, "1")
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestSuspendedCommandsEndInTheOldVersionAfterAnUpgrade(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		old, fresh := newSleeper("old"), newSleeper("new")
		s := stage.New("s", old, stage.Workers(2, 2))
		p := bubble(t, s)
		before := askFor(t, s, time.Minute)
		synctest.Wait()
		r, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[time.Duration] { return fresh })
		require.NoError(t, err)
		answers(t, askFor(t, s, time.Second), "new")
		synctest.Wait()
		require.Zero(t, old.stopped.Load(), "a handler uses it")
		answers(t, before, "old")
		await(t, r)
		require.EqualValues(t, 1, old.stopped.Load())
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 1, fresh.stopped.Load())
	})
}

func TestACrashAfterAnUpgradeIsReportedWithTheVersionOfItsHandler(t *testing.T) {
	for name, limit := range map[string]time.Duration{"panics": 0, "is stuck": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := stage.New("s", &crasher{"old"}, stage.Workers(1, 1), stage.Timeout(limit))
				p := bubble(t, s)
				ticket, err := s.Ask(t.Context(), 10*limit)
				require.NoError(t, err)
				synctest.Wait()
				_, err = s.Upgrade(t.Context(), func() behaviour.Behaviour[time.Duration] { return &crasher{"new"} })
				require.NoError(t, err)
				_, err = ticket.Wait(t.Context())
				var crash *stage.CrashError
				require.ErrorAs(t, err, &crash)
				assert.Equal(t, "old", crash.Version)
				require.NoError(t, p.Stop(t.Context()))
				time.Sleep(10 * limit) // for the handler that was abandoned
			})
		})
	}
}

// crasher sleeps a little, blocks for the time that the command says, and panics.
type crasher struct{ version string }

func (c *crasher) Version() string { return c.version }

func (c *crasher) HandleCommand(context.Context, time.Duration) behaviour.Outcome {
	return behaviour.Error(behaviour.ErrCannotSuspend)
}

func (c *crasher) HandleSuspending(co behaviour.Suspender, d time.Duration) behaviour.Outcome {
	_ = coroutine.Sleep(co, time.Second)
	time.Sleep(d)
	panic("crash")
}

func TestAStageThatFailsKeepsItsSuspendedCommands(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		b := newSleeper("1")
		s := stage.New("s", b, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
		p := bubble(t, s, pipeline.Intensity(3, time.Hour))
		waiting := askFor(t, s, time.Minute)
		synctest.Wait()
		for range 2 {
			_, err := askFor(t, s, -1).Wait(t.Context())
			require.True(t, stage.Crashed(err), err)
		}
		synctest.Wait()
		require.Equal(t, 1, p.Tree().Children[0].Restarts, "it was restarted")
		require.Equal(t, 1, s.Snapshot().Queue.Suspended)
		answers(t, waiting, "1")
		answers(t, askFor(t, s, time.Second), "1")
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, b.started.Load(), b.stopped.Load())
	})
}

func TestWorkersAreAddedOnlyIfWorkersAreTheBottleneck(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		seen := make(chan controller.StageStats, 1000)
		s := stage.New("s", newSleeper("1"), stage.Workers(1, 8), stage.Instances(10))
		p := bubble(t, s, pipeline.Control(rules{time.Second, func(s *controller.Snapshot, _ *controller.Decisions) {
			seen <- s.Stages[0]
		}}))
		for range 50 {
			askFor(t, s, time.Minute)
		}
		time.Sleep(10 * time.Second)
		for len(seen) > 1 {
			<-seen
		}
		st := <-seen
		require.Equal(t, 40, s.Snapshot().Queue.Queued)
		require.Zero(t, st.QueueLen, "a further worker would have nothing to do")
		require.Zero(t, st.InHand)
		require.Zero(t, st.FreeInstances)
		require.Equal(t, 10, st.Instances)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAHandlerThatYieldsRepeatedlyDoesNotKeepOthersFromStarting(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		done := false
		s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
			for n == 0 && !done {
				time.Sleep(time.Second) // so long that batches have one command
				if err := coroutine.Yield(c); err != nil {
					return behaviour.Error(err)
				}
			}
			done = true
			return behaviour.OK(n)
		}, stage.Workers(1, 1))
		p := bubble(t, s)
		first, err := s.Ask(t.Context(), 0)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		second, err := s.Ask(t.Context(), 1)
		require.NoError(t, err)
		answers(t, second, 1)
		answers(t, first, 0)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestASuspendingHandlerMayEmitMoreThanTheOutboxHolds(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var sum atomic.Int64
		slow := stage.Func("slow", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			sum.Add(int64(n))
			return behaviour.OK(nil)
		}, stage.Capacity(4), stage.Workers(1, 1))
		var others atomic.Int32
		s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
			if n == 0 {
				others.Add(1)
				return behaviour.OK(0)
			}
			for i := range n {
				if err := behaviour.Emit(c, slow, i+1); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(int(others.Load()))
		}, stage.Workers(1, 1))
		p := bubble(t, s, slow)
		ticket, err := s.Ask(t.Context(), 1000)
		require.NoError(t, err)
		for range 5 {
			_, err := stage.Call[int](t.Context(), s, 0)
			require.NoError(t, err)
		}
		answers(t, ticket, 5) // other commands were handled while it waited for a free slot
		require.EqualValues(t, 500500, sum.Load())
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

func TestASuspendedHandlerThatDoesNotEndIsReported(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		let := make(chan struct{})
		s := stage.Coroutine("deaf", func(c coroutine.Context, n int) behaviour.Outcome {
			err := coroutine.Sleep(c, time.Hour)
			if n == 50 {
				<-let
			}
			return behaviour.Error(err)
		}, stage.Workers(1, 1))
		p := bubble(t, s, pipeline.Grace(time.Second))
		var tickets []*stage.Ticket
		for i := range 100 {
			ticket, err := s.Ask(t.Context(), i)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		synctest.Wait()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		stopped, ok := errors.AsType[*pipeline.StopError](p.Stop(now))
		require.True(t, ok)
		require.Equal(t, []string{"deaf"}, stopped.Left)
		require.ErrorContains(t, stopped, "0 queued, 100 in hand, of which 100 suspended")
		for i, ticket := range tickets {
			if i != 50 {
				require.ErrorIs(t, ticket.Err(), coroutine.ErrStopped, i)
			}
		}
		require.ErrorIs(t, tickets[50].Err(), stage.ErrStopped)
		require.ErrorIs(t, tickets[50].Err(), stage.ErrStuck)
		require.EqualValues(t, 1, p.Snapshot().DeadLettered)
		require.Equal(t, 1, s.Snapshot().Workers.Abandoned)
		atRest(t, p)
		close(let)
		synctest.Wait()
		require.Zero(t, s.Snapshot().Workers.Abandoned)
		require.EqualValues(t, 1, p.Snapshot().DeadLettered)
		atRest(t, p)
	})
}

// sleepyBatcher is a Batcher that suspends, which is not possible.
type sleepyBatcher struct{ *sleeper }

func (sleepyBatcher) HandleBatch(context.Context, []time.Duration) []behaviour.Outcome { return nil }

func TestBehavioursThatCannotSuspendAreRefused(t *testing.T) {
	factory := func() behaviour.Behaviour[time.Duration] { return newSleeper("1") }
	plain := func() behaviour.Behaviour[time.Duration] { return fn(echo[time.Duration]) }

	_, err := pipeline.New("p", stage.New("s", sleepyBatcher{newSleeper("1")}))
	require.ErrorContains(t, err, `stage "s": New: the behaviour is both Suspending and a Batcher`)

	p, err := pipeline.New("p", stage.Each("each", factory), quiet)
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), `stage "each": the factory made a behaviour that suspends`)

	s, f := stage.New("s", newSleeper("1")), stage.New("f", fn(echo[time.Duration]))
	run(t, s, f)
	_, err = s.Upgrade(t.Context(), plain)
	require.ErrorContains(t, err, "does not suspend")
	_, err = f.Upgrade(t.Context(), factory)
	require.ErrorContains(t, err, "that suspends")
	_, err = s.Upgrade(t.Context(), func() behaviour.Behaviour[time.Duration] { return sleepyBatcher{newSleeper("1")} })
	require.ErrorContains(t, err, "cannot be both")
}

func TestAHandlerThatSuspendsIsTestedWithABlockingContext(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		b := newSleeper("1")
		require.NoError(t, b.Start(t.Context()))
		o := b.HandleCommand(coroutine.Blocking(t.Context()), time.Second)
		assert.Equal(t, "1", o.Result())
		assert.ErrorIs(t, b.HandleCommand(t.Context(), time.Second).Err(), behaviour.ErrCannotSuspend)
	})
}
