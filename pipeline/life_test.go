package pipeline_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func made(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.System(system()), quiet)...)
	require.NoError(t, err)
	return p
}

func TestCallsAtTheWrongTimeAreRefusedOrHarmless(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	p := made(t, s)
	require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrNotRunning)
	require.True(t, p.Snapshot().Balanced())
	require.NoError(t, p.Start(t.Context()))
	require.ErrorContains(t, p.Start(t.Context()), "already started")
	require.NoError(t, p.Stop(soon(t)))
	require.NoError(t, p.Stop(soon(t)), "stop twice")
	require.NoError(t, p.Drain(soon(t)), "drain after stop")
	require.ErrorIs(t, p.Start(t.Context()), pipeline.ErrStopped)
	require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrClosed)
	require.Nil(t, s.PID())
	<-p.Done()
	require.NoError(t, p.Err())
}

func TestStopBeforeStartIsAllowed(t *testing.T) {
	p := made(t, stage.New("s", fn(echo[int])))
	require.NoError(t, p.Stop(t.Context()))
	require.ErrorIs(t, p.Start(t.Context()), pipeline.ErrStopped)
	require.ErrorIs(t, p.Run(t.Context()), pipeline.ErrStopped)
}

func TestRunEndsWithItsContextAndDrains(t *testing.T) {
	var done atomic.Int64
	s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
		time.Sleep(time.Millisecond)
		done.Add(1)
		return behaviour.OK(nil)
	}), stage.Workers(1, 1))
	p := made(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	eventually(t, "it runs", func() bool { return s.Submit(t.Context(), 0) == nil })
	for i := range 49 {
		require.NoError(t, s.Submit(t.Context(), i))
	}
	cancel()
	require.NoError(t, <-ran)
	require.EqualValues(t, 50, done.Load())
	atRest(t, p)
}

func TestTheLastStageStartsFirstAndStopsLast(t *testing.T) {
	var mu sync.Mutex
	var story []string
	note := func(what string) { mu.Lock(); defer mu.Unlock(); story = append(story, what) }
	part := func(name string) *stage.Stage[int] {
		return stage.Each(name, func() behaviour.Behaviour[int] {
			return &starter{
				err:  func() error { note("start " + name); return nil },
				stop: func() { note("stop " + name) },
			}
		}, stage.Workers(1, 1))
	}
	p := made(t, part("a"), part("b"), part("c"))
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, []string{"start c", "start b", "start a", "stop a", "stop b", "stop c"}, story)
}

func TestASharedBehaviourIsStartedAndStoppedOnceWhateverTheNumberOfWorkers(t *testing.T) {
	var starts, stops atomic.Int64
	s := stage.New("s", &starter{
		err:  func() error { starts.Add(1); return nil },
		stop: func() { stops.Add(1) },
	}, stage.Workers(4, 4))
	p := start(t, s)
	_, err := stage.Call[int](soon(t), s, -1)
	require.True(t, stage.Crashed(err))
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 1, starts.Load())
	require.EqualValues(t, 1, stops.Load())
}

func TestEveryInstanceThatStartedIsStoppedOnceIncludingCrashedOnes(t *testing.T) {
	var starts, stops atomic.Int64
	s := stage.Each("s", func() behaviour.Behaviour[int] {
		return &starter{
			err:  func() error { starts.Add(1); return nil },
			stop: func() { stops.Add(1); panic("stop panics too") },
		}
	}, stage.Workers(2, 2))
	p := start(t, s)
	for range 5 {
		_, err := stage.Call[int](soon(t), s, -1)
		require.True(t, stage.Crashed(err))
	}
	eventually(t, "two workers", func() bool { return workers(p, 0) == 2 })
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 7, starts.Load())
	require.EqualValues(t, 7, stops.Load())
}

func TestAStageThatCannotStartFailsTheStartAndTheStartedStagesAreStopped(t *testing.T) {
	for name, bad := range map[string]func() behaviour.Behaviour[int]{
		"an error": func() behaviour.Behaviour[int] { return &starter{err: func() error { return errNo }} },
		"a panic":  func() behaviour.Behaviour[int] { return &starter{err: func() error { panic(errNo) }} },
	} {
		t.Run(name, func(t *testing.T) {
			var stops atomic.Int64
			good := stage.Each("good", func() behaviour.Behaviour[int] {
				return &starter{err: func() error { return nil }, stop: func() { stops.Add(1) }}
			}, stage.Workers(3, 3))
			p := made(t, stage.Each("bad", bad, stage.Workers(2, 2)), good)
			err := p.Start(t.Context())
			require.ErrorIs(t, err, errNo)
			require.ErrorContains(t, err, `"bad"`)
			require.EqualValues(t, 3, stops.Load())
			<-p.Done()
			require.ErrorIs(t, p.Err(), errNo)
			require.NoError(t, p.Stop(t.Context()))
		})
	}
	t.Run("a factory that returns nothing", func(t *testing.T) {
		p := made(t, stage.Each("bad", func() behaviour.Behaviour[int] { return nil }))
		require.ErrorContains(t, p.Start(t.Context()), `stage "bad": the factory returned no behaviour`)
	})
}

// hanging is a behaviour whose Start waits for its context.
type hanging struct{ begun chan struct{} }

func (h hanging) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
func (h hanging) Start(ctx context.Context) error {
	close(h.begun)
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestAStartThatHangsEndsWithItsContext(t *testing.T) {
	h := hanging{make(chan struct{})}
	p := made(t, stage.New("s", h))
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-h.begun; cancel(errNo) }()
	require.ErrorIs(t, p.Start(ctx), errNo)
	<-p.Done()
}

func TestAStartThatHangsEndsWithStop(t *testing.T) {
	h := hanging{make(chan struct{})}
	p := made(t, stage.New("s", h))
	go func() { <-h.begun; _ = p.Stop(context.Background()) }()
	require.ErrorIs(t, p.Start(t.Context()), pipeline.ErrStopped)
	<-p.Done()
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := stage.New("s", fn(echo[int]))
	p := made(t, s)
	require.ErrorIs(t, p.Start(ctx), context.Canceled)
	require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrNotRunning)
}

func TestAHardStopReportsCommandsThatWereNotDoneAndHandlersThatDidNotStop(t *testing.T) {
	release := make(chan struct{})
	at := make(chan struct{})
	s := stage.New("stuck", fn(func(context.Context, int) behaviour.Outcome {
		close(at)
		<-release // ignores its context
		return behaviour.OK(nil)
	}), stage.Workers(1, 1))
	letters := make(chan stage.DeadLetter, 10)
	p := start(t, s, pipeline.Grace(20*time.Millisecond), pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	var tickets []*stage.Ticket
	for i := range 5 {
		ticket, err := s.Ask(t.Context(), i)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	<-at
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx)
	var report *pipeline.StopError
	require.ErrorAs(t, err, &report)
	require.EqualValues(t, 5, report.Drain.InFlight)
	require.Len(t, report.Stuck, 1)
	require.Equal(t, "stuck", report.Stuck[0].Stage)
	require.Positive(t, report.Stuck[0].For)
	require.ErrorContains(t, err, `"stuck" did not stop and was abandoned; a worker of stage "stuck" is still at its command for`)
	for _, ticket := range tickets {
		_, err := ticket.Wait(soon(t))
		require.ErrorIs(t, err, stage.ErrStopped)
		require.Equal(t, reason.Stopped, (<-letters).Reason)
	}
	s5 := p.Snapshot()
	require.True(t, s5.Balanced())
	require.Zero(t, s5.InFlight)
	require.EqualValues(t, 5, s5.DeadLettered)
	require.EqualValues(t, 1, s5.Stages[0].Counts.Stuck)
	close(release) // its late end has no effect
	eventually(t, "it has come back", func() bool { return p.Snapshot().Stages[0].Workers.Abandoned == 0 })
	atRest(t, p)
	require.EqualValues(t, 5, p.Snapshot().DeadLettered)
}

func TestAHardStopEndsHandlersThatObeyTheirContext(t *testing.T) {
	at := make(chan struct{})
	s := stage.New("s", fn(func(ctx context.Context, _ int) behaviour.Outcome {
		close(at)
		<-ctx.Done()
		return behaviour.Error(context.Cause(ctx))
	}))
	p := start(t, s)
	ticket, err := s.Ask(t.Context(), 1)
	require.NoError(t, err)
	<-at
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = p.Stop(ctx)
	var report *pipeline.StopError
	require.ErrorAs(t, err, &report)
	require.Empty(t, report.Stuck)
	_, err = ticket.Wait(soon(t))
	require.ErrorIs(t, err, pipeline.ErrStopped)
	atRest(t, p)
}

func TestALaterStopMakesTheFirstHard(t *testing.T) {
	release := make(chan struct{})
	at := make(chan struct{})
	s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
		close(at)
		<-release
		return behaviour.OK(nil)
	}))
	p := start(t, s, pipeline.Grace(time.Hour))
	require.NoError(t, s.Submit(t.Context(), 1))
	<-at
	first := make(chan error, 1)
	go func() { first <- p.Stop(context.Background()) }()
	eventually(t, "the door is shut", func() bool { return errors.Is(s.Submit(t.Context(), 2), stage.ErrClosed) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go close(release)
	err := p.Stop(ctx)
	require.Equal(t, <-first, err)
}

func TestDrainReportsWhereCommandsAreWhenItsContextEnds(t *testing.T) {
	release := make(chan struct{})
	s := stage.New("slow", fn(func(context.Context, int) behaviour.Outcome { <-release; return behaviour.OK(nil) }), stage.Workers(1, 1))
	p := run(t, s)
	for i := range 3 {
		require.NoError(t, s.Submit(t.Context(), i))
	}
	eventually(t, "one in hand", func() bool { return p.Snapshot().Stages[0].Queue.InHand == 1 })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNo)
	err := p.Drain(ctx)
	var drain *pipeline.DrainError
	require.ErrorAs(t, err, &drain)
	require.ErrorIs(t, err, errNo)
	require.EqualValues(t, 3, drain.InFlight)
	require.ErrorContains(t, err, "slow (2 queued, 1 in hand, 0 waiting for a retry)")
	close(release)
	require.NoError(t, p.Drain(soon(t)))
}

func TestTwoPipelinesOfOneNameMayRunAtOnce(t *testing.T) {
	a, b := stage.New("s", fn(echo[int])), stage.New("s", fn(echo[int]))
	run(t, a)
	run(t, b)
	require.NotEqual(t, a.PID().Id, b.PID().Id)
}

type key struct{}

func TestAHandlersContextCarriesTheValuesOfStart(t *testing.T) {
	s := stage.New("s", fn(func(ctx context.Context, _ int) behaviour.Outcome { return behaviour.OK(ctx.Value(key{})) }))
	p := made(t, s)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
	require.NoError(t, p.Start(ctx))
	cancel() // the context of Start does not end the handlers'
	got, err := stage.Call[string](soon(t), s, 1)
	require.NoError(t, err)
	require.Equal(t, "v", got)
	require.NoError(t, p.Stop(soon(t)))
}

func TestDrainAndStopMayBeCalledByManyGoroutinesAtOnce(t *testing.T) {
	for drains := range 5 {
		for range 20 {
			letGo := make(chan struct{})
			s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome { <-letGo; return behaviour.OK(nil) }))
			p := start(t, s)
			require.NoError(t, s.Submit(t.Context(), 1))
			var wg sync.WaitGroup
			ctx := soon(t)
			for range drains {
				wg.Go(func() {
					if err := p.Drain(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			for range 2 {
				wg.Go(func() {
					if err := p.Stop(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			close(letGo)
			wg.Wait()
		}
	}
}

func TestAHardStopDoesNotWaitForASubscriberThatDoesNotReturn(t *testing.T) {
	letters := make(chan stage.DeadLetter)
	at := make(chan struct{})
	s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		if cmd == 0 {
			close(at)
		}
		<-ctx.Done()
		return behaviour.OK(nil)
	}), stage.Workers(1, 1))
	p := start(t, s, pipeline.Grace(0), pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	var tickets []*stage.Ticket
	for i := range 10 {
		ticket, err := s.Ask(t.Context(), i)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	<-at
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Stop(ctx)
	var report *pipeline.StopError
	require.ErrorAs(t, err, &report)
	require.Equal(t, 9, report.Unheard)
	require.ErrorContains(t, err, "a subscriber did not take 9 letters")
	for _, ticket := range tickets {
		_, err := ticket.Wait(soon(t))
		require.True(t, err == nil || errors.Is(err, stage.ErrStopped))
	}
	<-letters // end its goroutine
}

func TestAllStuckStagesTogetherHaveOneGrace(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		free := make(chan struct{})
		var parts []pipeline.Part
		var stages []*stage.Stage[int]
		for i := range 10 {
			s := stage.New(string(rune('a'+i)), fn(func(context.Context, int) behaviour.Outcome { <-free; return behaviour.OK(nil) }))
			parts, stages = append(parts, s), append(stages, s)
		}
		p := bubble(t, append(parts, pipeline.Grace(10*time.Second))...)
		for _, s := range stages {
			require.NoError(t, s.Submit(t.Context(), 1))
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		err := p.Stop(ctx)
		require.Less(t, time.Since(begin), 12*time.Second)
		var report *pipeline.StopError
		require.ErrorAs(t, err, &report)
		require.Len(t, report.Left, 10)
		close(free)
		time.Sleep(time.Second) // protoactor throttles its log of late messages
	})
}

func TestANilContextStartsNothing(t *testing.T) {
	p := made(t, stage.New("s", fn(echo[int])))
	require.Panics(t, func() { _ = p.Start(nil) }) //nolint:staticcheck // what we test
	require.NoError(t, p.Stop(t.Context()))
}

func TestConcurrentCallsForAStagesPIDGetTheSame(t *testing.T) {
	for range 50 {
		s := stage.Func("asked", fn(echo[int]))
		p := start(t, s)
		pids := make(chan string, 8)
		var wg sync.WaitGroup
		for range cap(pids) {
			wg.Go(func() { pids <- s.PID().Id })
		}
		wg.Wait()
		close(pids)
		for id := range pids {
			require.Equal(t, s.PID().Id, id)
		}
		require.NoError(t, p.Stop(soon(t)))
		require.Nil(t, s.PID(), "it is not opened again")
	}
}
