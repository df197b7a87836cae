package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// gated returns a stage with one worker that holds its first command until the gate opens, so that the queue can be filled.
func gated(t *testing.T, opts ...stage.Option) (s *stage.Stage[int], held, letGo chan struct{}) {
	t.Helper()
	held, letGo = make(chan struct{}), make(chan struct{})
	s = stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd == 0 {
			close(held)
			<-letGo
		}
		return behaviour.OK(cmd)
	}), append(opts, stage.Workers(1, 1))...)
	return s, held, letGo
}

func TestAFullStageFollowsItsOverflowRule(t *testing.T) {
	rows := map[string]struct {
		rule     overflow.Rule
		refused  error           // of Submit, for the fourth command
		ends     map[int]error   // of the tickets of the first three commands
		reasons  []reason.Reason // of dead letters
		answered uint64          // commands that are shed without a letter
		accepted uint64
	}{
		"reject refuses the new command":       {overflow.Reject, stage.ErrFull, nil, nil, 0, 3},
		"drop newest sheds the new command":    {overflow.DropNewest, nil, nil, []reason.Reason{reason.Newest}, 0, 4},
		"drop oldest sheds the oldest command": {overflow.DropOldest, nil, map[int]error{1: stage.ErrShed}, nil, 1, 4},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			letters := make(chan stage.DeadLetter, 10)
			s, held, letGo := gated(t, stage.Capacity(2), stage.Overflow(row.rule))
			p := run(t, s, pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
			var tickets []*stage.Ticket
			for cmd := range 3 {
				ticket, err := s.Ask(t.Context(), cmd)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
				if cmd == 0 {
					<-held
				}
			}
			require.ErrorIs(t, s.Submit(t.Context(), 3), row.refused)
			close(letGo)
			for cmd, ticket := range tickets {
				_, err := ticket.Wait(soon(t))
				require.ErrorIs(t, err, row.ends[cmd], "command %d", cmd)
			}
			for _, why := range row.reasons {
				require.Equal(t, why, (<-letters).Reason)
			}
			require.Empty(t, letters)
			require.NoError(t, p.Drain(soon(t)))
			snap := p.Snapshot()
			require.Equal(t, row.accepted, snap.Accepted)
			require.EqualValues(t, len(row.reasons)+int(row.answered), snap.Shed)
			require.Equal(t, row.answered, snap.Answered)
			require.Zero(t, snap.DeadLettered)
		})
	}
}

func TestAFullStageThatWaitsHoldsSubmittersInOrderUntilTheirContextEnds(t *testing.T) {
	s, held, letGo := gated(t, stage.Capacity(1))
	p := run(t, s)
	require.NoError(t, s.Submit(t.Context(), 0))
	<-held
	require.NoError(t, s.Submit(t.Context(), 1))
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- s.Submit(ctx, 2) }()
	waited := make(chan error, 1)
	go func() { _, err := stage.Call[int](soon(t), s, 3); waited <- err }()
	cancel(errNo)
	err := <-gaveUp
	require.ErrorIs(t, err, errNo)
	require.ErrorContains(t, err, `stage "s": not submitted: context canceled: no`)
	close(letGo)
	require.NoError(t, <-waited)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 3, p.Snapshot().Accepted)
	require.Equal(t, map[reason.Reason]uint64{reason.Cancelled: 1}, p.Snapshot().Stages[0].Reasons.Rejected)
}

func TestASubmitterWhoseContextHasEndedIsRefusedEvenIfASlotIsFree(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	p := run(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNo)
	require.ErrorIs(t, s.Submit(ctx, 1), errNo)
	_, err := s.Ask(ctx, 1)
	require.ErrorIs(t, err, errNo)
	require.Zero(t, p.Snapshot().Accepted)
	require.EqualValues(t, 2, p.Snapshot().Stages[0].Counts.Rejected)
}

// The error tells a deadline from a cancellation, whatever cause the context has.
func TestTheErrorOfASubmitterWhoseContextEndsHasTheContextsErrorAndItsCause(t *testing.T) {
	s := stage.New("free", fn(echo[int]))
	held, begun, letGo := gated(t)
	run(t, s, held)
	require.NoError(t, held.Submit(t.Context(), 0))
	<-begun
	defer close(letGo)
	ways := map[string]func(ctx context.Context) error{
		"submit":     func(ctx context.Context) error { return s.Submit(ctx, 1) },
		"submit all": func(ctx context.Context) error { _, err := s.SubmitAll(ctx, 1, 2); return err },
		"ask":        func(ctx context.Context) error { _, err := s.Ask(ctx, 1); return err },
		"call":       func(ctx context.Context) error { _, err := stage.Call[int](ctx, s, 1); return err },
		"wait": func(ctx context.Context) error {
			ticket, err := held.Ask(t.Context(), 1) //nolint:contextcheck // ctx may have ended
			require.NoError(t, err)
			_, err = ticket.Wait(ctx)
			return err
		},
	}
	for way, submit := range ways {
		t.Run(way, func(t *testing.T) {
			late, stop := context.WithTimeoutCause(t.Context(), 0, errNo)
			defer stop()
			err := submit(late)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, errNo)
			gone, cancel := context.WithCancelCause(t.Context())
			cancel(errNo)
			err = submit(gone)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errNo)
			cause := fmt.Errorf("too slow: %w", context.DeadlineExceeded)
			late, stop = context.WithTimeoutCause(t.Context(), 0, cause)
			defer stop()
			err = submit(late)
			require.ErrorIs(t, err, cause)
			require.Equal(t, 1, strings.Count(err.Error(), context.DeadlineExceeded.Error()), "the text says it once: %v", err)
		})
	}
}

func TestADrainRefusesWaitingSubmitters(t *testing.T) {
	s, held, letGo := gated(t, stage.Capacity(1))
	p := run(t, s)
	require.NoError(t, s.Submit(t.Context(), 0))
	<-held
	require.NoError(t, s.Submit(t.Context(), 1))
	turned := make(chan error, 1)
	go func() { turned <- s.Submit(t.Context(), 2) }()
	drained := make(chan error, 1)
	go func() { drained <- p.Drain(soon(t)) }()
	require.ErrorIs(t, <-turned, stage.ErrClosed)
	close(letGo)
	require.NoError(t, <-drained)
}

func TestBackPressureReachesTheSource(t *testing.T) {
	synctest.Test(t, backPressureReachesTheSource)
}

func backPressureReachesTheSource(t *testing.T) {
	letGo := make(chan struct{})
	last := stage.New("end", fn(func(context.Context, int) behaviour.Outcome { <-letGo; return behaviour.OK(nil) }),
		stage.Capacity(2), stage.Workers(1, 1))
	first := stage.New("first", fn(func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(last, cmd) }),
		stage.Capacity(2), stage.Workers(1, 1), stage.Batch(1))
	p := bubble(t, first, last)
	n := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := first.Submit(ctx, n)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			break
		}
		n++
	}
	// Two in each queue, one with the last worker, and one that the first worker cannot hand over.
	require.Equal(t, 6, n)
	require.EqualValues(t, n, p.Snapshot().InFlight)
	close(letGo)
	end(t, p)
}

func TestOneWorkerKeepsTheOrderAllTheWay(t *testing.T) {
	const n = 20_000
	var got []int
	end := stage.New("end", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		got = append(got, cmd)
		return behaviour.OK(nil)
	}), stage.Workers(1, 1), stage.Capacity(3))
	first := stage.New("first", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		return behaviour.Forward(end, cmd)
	}), stage.Workers(1, 1), stage.Capacity(7))
	p := run(t, first, end)
	for i := range n {
		require.NoError(t, first.Submit(t.Context(), i))
	}
	require.NoError(t, p.Drain(soon(t)))
	require.Len(t, got, n)
	for i, cmd := range got {
		require.Equal(t, i, cmd)
	}
}

func TestATicketWaitsForEmittedCommands(t *testing.T) {
	for _, children := range []int{1, 256, 257, 5000} {
		t.Run(fmt.Sprint(children, " children"), func(t *testing.T) {
			var ended atomic.Int64
			child := stage.New("child", fn(func(context.Context, int) behaviour.Outcome {
				ended.Add(1)
				return behaviour.OK("the result of an emitted command is not the ticket's")
			}), stage.Capacity(16))
			root := stage.New("root", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
				for i := range cmd {
					if err := behaviour.Emit(ctx, child, i); err != nil {
						return behaviour.Error(err)
					}
				}
				return behaviour.OK("root")
			}))
			p := run(t, root, child)
			got, err := stage.Call[string](soon(t), root, children)
			require.NoError(t, err)
			require.Equal(t, "root", got)
			require.EqualValues(t, children, ended.Load())
			require.EqualValues(t, children+1, p.Snapshot().Accepted)
			require.EqualValues(t, children+1, p.Snapshot().Replied)
		})
	}
}

func TestATicketHasTheFirstErrorAmongEmittedCommands(t *testing.T) {
	child := stage.New("child", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd == 2 {
			return behaviour.Error(errNo)
		}
		return behaviour.OK(nil)
	}))
	root := stage.New("root", fn(func(ctx context.Context, _ int) behaviour.Outcome {
		for i := range 4 {
			_ = behaviour.Emit(ctx, child, i)
		}
		return behaviour.OK(nil)
	}))
	run(t, root, child)
	_, err := stage.Call[any](soon(t), root, 0)
	require.ErrorIs(t, err, errNo)
	require.ErrorContains(t, err, `stage "child"`)
}

func TestAnAttemptThatDoesNotSucceedEmitsNothing(t *testing.T) {
	for name, fail := range map[string]func() behaviour.Outcome{
		"an error": func() behaviour.Outcome { return behaviour.Error(errNo) },
		"a crash":  func() behaviour.Outcome { panic(errNo) },
	} {
		t.Run(name, func(t *testing.T) {
			child := stage.New("child", fn(echo[int]))
			root := stage.New("root", fn(func(ctx context.Context, _ int) behaviour.Outcome {
				_ = behaviour.Emit(ctx, child, 1)
				if behaviour.Attempt(ctx) < 3 {
					return fail()
				}
				return behaviour.OK(nil)
			}), stage.Retry(stage.RetryPolicy{Attempts: 3}))
			p := run(t, root, child)
			_, err := stage.Call[any](soon(t), root, 0)
			require.NoError(t, err)
			require.EqualValues(t, 1, p.Snapshot().Stages[1].Counts.Accepted)
		})
	}
}

// Ten workers with one command each find the next stage full, again and again. The worker that has waited for longest is
// served first.
func TestABlockedWorkersCommandIsNotOvertakenByHundreds(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []int
		back := stage.New("back", fn(func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
			return behaviour.OK(n)
		}), stage.Capacity(100), stage.Workers(10, 10))
		front := stage.New("front", fn(func(_ context.Context, n int) behaviour.Outcome {
			return behaviour.Forward(back, n)
		}), stage.Workers(10, 10), stage.Batch(1)) // a worker holds one command at most
		p := bubble(t, front, back)
		for i := range 5000 {
			require.NoError(t, front.Submit(t.Context(), i))
		}
		require.NoError(t, p.Stop(t.Context()))
		worst := 0
		for i, n := range order {
			worst = max(worst, i-n)
		}
		// A worker may be delayed by chance between taking its command and handing it over, while the others fill the inbox and
		// their hands.
		require.LessOrEqual(t, worst, 150, "one command was overtaken by this many")
	})
}

// A loop of small inboxes is always full, and many submitters wait. A quarter of the commands go round again, up to ten times.
func TestALoopOfFullStagesNeverBlocksItself(t *testing.T) {
	type lap struct{ n, laps int }
	for _, hands := range []int{1, 4} {
		t.Run(fmt.Sprint(hands, " workers"), func(t *testing.T) {
			var a, b *stage.Stage[*lap]
			forward := func(to **stage.Stage[*lap]) behaviour.Func[*lap] {
				return fn(func(_ context.Context, l *lap) behaviour.Outcome { return behaviour.Forward(*to, l) })
			}
			a = stage.New("a", forward(&b), stage.Capacity(2), stage.Workers(hands, hands))
			b = stage.New("b", fn(func(_ context.Context, l *lap) behaviour.Outcome {
				if l.laps++; (l.n+l.laps)%4 == 0 && l.laps < 10 {
					return behaviour.Forward(a, l)
				}
				return behaviour.OK(nil)
			}), stage.Capacity(2), stage.Workers(hands, hands))
			p := run(t, a, b)
			most := 0
			var wg sync.WaitGroup
			for part := range 4 {
				wg.Go(func() {
					for i := range fewer(5000) {
						if err := a.Submit(soon(t), &lap{n: part + i}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			done := make(chan struct{})
			go func() { wg.Wait(); close(done) }()
			until(done, func() {
				s := p.Snapshot()
				require.True(t, s.Balanced())
				most = max(most, int(s.InFlight))
			})
			require.NoError(t, p.Drain(soon(t)))
			// Two queues of two, and four workers, each with a batch at most as large as a queue that all others have overfilled.
			require.LessOrEqual(t, most, 200, "a loop is bounded")
		})
	}
}

func TestAStageMayForwardToItself(t *testing.T) {
	var s *stage.Stage[int]
	s = stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd == 0 {
			return behaviour.OK("bottom")
		}
		return behaviour.Forward(s, cmd-1)
	}), stage.Capacity(1), stage.Workers(1, 1))
	run(t, s)
	got, err := stage.Call[string](soon(t), s, 1000)
	require.NoError(t, err)
	require.Equal(t, "bottom", got)
}

func TestEmittingAlongALoopFailsAtMaxInFlight(t *testing.T) {
	var s *stage.Stage[int]
	s = stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		if cmd > 0 {
			return behaviour.OK(nil)
		}
		for {
			if err := behaviour.Emit(ctx, s, 1); err != nil {
				return behaviour.OK(err)
			}
		}
	}), stage.Capacity(8), stage.Workers(1, 1))
	run(t, s, pipeline.MaxInFlight(1000))
	err, failed := stage.Call[error](soon(t), s, 0)
	require.NoError(t, failed)
	require.ErrorIs(t, err, stage.ErrMaxInFlight)
}

func TestAHandlerThatSubmitsToItsOwnFullStageGetsAnError(t *testing.T) {
	var s *stage.Stage[int]
	s = stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		if cmd > 0 {
			return behaviour.OK(nil)
		}
		for {
			if err := s.Submit(ctx, 1); err != nil {
				return behaviour.OK(err)
			}
		}
	}), stage.Capacity(8), stage.Workers(1, 1))
	run(t, s)
	err, failed := stage.Call[error](soon(t), s, 0)
	require.NoError(t, failed)
	require.ErrorIs(t, err, stage.ErrFull)
}

func TestAHandlerThatEmitsToItselfCannotFloodThePipeline(t *testing.T) {
	var s *stage.Stage[int]
	s = stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		for range 2 { // each emits two, if the bound allows
			if cmd < 40 && behaviour.Emit(ctx, s, cmd+1) != nil {
				return behaviour.OK("full")
			}
		}
		return behaviour.OK(nil)
	}), stage.Capacity(100), stage.Workers(2, 2))
	p := run(t, s, pipeline.MaxInFlight(300))
	require.NoError(t, s.Submit(t.Context(), 0))
	most := 0
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		assert.NoError(t, p.Drain(soon(t)))
	}()
	until(drained, func() { most = max(most, p.Snapshot().Stages[0].Queue.Queued) })
	require.LessOrEqual(t, most, 300+2*64*2, "the bound, and the commands of two batches")
}

func TestGoroutinesOfAHandlerMayEmit(t *testing.T) {
	child := stage.New("child", fn(echo[int]))
	root := stage.New("root", fn(func(ctx context.Context, n int) behaviour.Outcome {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range n {
					if err := behaviour.Emit(ctx, child, i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return behaviour.OK(nil)
	}))
	p := run(t, root, child)
	for range 20 {
		_, err := stage.Call[any](soon(t), root, 300)
		require.NoError(t, err)
	}
	require.EqualValues(t, 20*4*300, p.Snapshot().Stages[1].Counts.Accepted)
}

func TestAHandlersContextCannotEmitAfterTheHandlerReturned(t *testing.T) {
	kept := make(chan context.Context, 1)
	s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome { kept <- ctx; return behaviour.OK(cmd) }))
	p := run(t, s)
	_, err := stage.Call[int](soon(t), s, 1)
	require.NoError(t, err)
	ctx := <-kept
	eventually(t, "the batch is over", func() bool { return behaviour.Attempt(ctx) == 0 })
	require.ErrorIs(t, behaviour.Emit(ctx, s, 1), behaviour.ErrNoWorker)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 1, p.Snapshot().Accepted)
}

func TestForwardingOutOfThePipelineIsAnError(t *testing.T) {
	far := stage.New("far", fn(echo[int]))
	s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		if cmd == 1 {
			return behaviour.Error(behaviour.Emit(ctx, far, cmd))
		}
		return behaviour.Forward(far, cmd)
	}))
	run(t, s)
	for cmd := range 2 {
		_, err := stage.Call[int](soon(t), s, cmd)
		require.ErrorIs(t, err, stage.ErrForeign)
		require.ErrorContains(t, err, `"far"`)
	}
}

func TestATimeLimitEndsTheHandlersContext(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
			if cmd == 0 {
				return behaviour.OK("in time")
			}
			<-ctx.Done()
			return behaviour.Error(ctx.Err())
		}), stage.Timeout(time.Minute))
		p := bubble(t, s)
		got, err := stage.Call[string](t.Context(), s, 0)
		require.NoError(t, err)
		require.Equal(t, "in time", got)
		before := time.Now()
		_, err = stage.Call[string](t.Context(), s, 1)
		require.ErrorIs(t, err, stage.ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(before))
		require.NoError(t, p.Stop(t.Context()))
	})
}

// bubble starts a pipeline inside a synctest bubble, with a system of its own.
func bubble(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("bubble", unscaled(parts)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p
}

func TestRetriesWaitTwiceAsLongEachTime(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
			at = append(at, time.Since(begin))
			return behaviour.Error(errNo)
		}), stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: time.Second, Max: 3 * time.Second}))
		p := bubble(t, s)
		_, err := stage.Call[int](t.Context(), s, 1)
		require.ErrorIs(t, err, errNo)
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}, at)
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 1, p.Snapshot().Failed)
	})
}

// By default no pause is longer than a minute, or than the first pause.
func TestWithoutALongestPauseNoRetryWaitsLongerThanAMinuteOrThanTheFirst(t *testing.T) {
	for first, want := range map[time.Duration][]time.Duration{
		25 * time.Second: {25 * time.Second, 50 * time.Second, time.Minute, time.Minute},
		time.Hour:        {time.Hour, time.Hour, time.Hour, time.Hour},
	} {
		bubbled(t, func(t *testing.T) {
			var pauses []time.Duration
			last := time.Now()
			s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
				pauses = append(pauses, time.Since(last))
				last = time.Now()
				return behaviour.Error(errNo)
			}), stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: first}))
			p := bubble(t, s)
			_, err := stage.Call[int](t.Context(), s, 1)
			require.ErrorIs(t, err, errNo)
			require.Equal(t, want, pauses[1:])
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

func TestERLDAScalesAStageUpAndDown(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.New("s", fn(func(context.Context, int) behaviour.Outcome {
			time.Sleep(10 * time.Second)
			return behaviour.OK(nil)
		}), stage.Workers(1, 4), stage.Batch(1))
		p := bubble(t, s, pipeline.Control(policy.ERLDA{}))
		for i := range 300 {
			require.NoError(t, s.Submit(t.Context(), i))
		}
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, 4, p.Snapshot().Stages[0].Workers.Most)
		time.Sleep(time.Minute)
		require.Equal(t, 1, p.Snapshot().Stages[0].Workers.Live)
		journal := p.Journal()
		var steps []string
		for _, c := range journal {
			steps = append(steps, fmt.Sprintf("%d to %d", c.Before, c.After))
		}
		require.Equal(t, []string{"1 to 2", "2 to 3", "3 to 4", "4 to 3", "3 to 2", "2 to 1"}, steps)
		for i := range len(journal) - 1 {
			require.GreaterOrEqual(t, journal[i+1].At-journal[i].At, 2*time.Second, "the cool-down is kept")
		}
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 300, p.Snapshot().Replied, "scaling down lost nothing")
	})
}

// shy is a policy that panics when it is first called.
type shy struct{ asked *atomic.Int64 }

func (s shy) Name() string               { return "shy" }
func (s shy) Check() error               { return nil }
func (s shy) New() controller.Controller { return s }
func (s shy) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	if s.asked.Add(1) == 1 {
		panic("at the start")
	}
	d.Every(time.Hour)
}

func TestAPolicyThatPanicsAtTheStartIsAskedAgain(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var asked atomic.Int64
		p := bubble(t, stage.New("s", fn(echo[int])), pipeline.Control(shy{&asked}))
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, asked.Load())
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAPolicyThatPanicsChangesNothing(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var asked atomic.Int64
		s := stage.New("s", fn(echo[int]), stage.Workers(2, 8))
		p := bubble(t, s, pipeline.Control(rules{time.Second, func(_ *controller.Snapshot, d *controller.Decisions) {
			controller.KnobWorkers.Set(d, 0, 5, "before the panic")
			controller.KnobWorkers.Set(d, 7, 5, "no such stage")
			if asked.Add(1) > 1 {
				controller.KnobWorkers.Set(d, 0, 8, "lost in the panic")
				panic("policy")
			}
		}}))
		time.Sleep(10*time.Second + time.Millisecond)
		require.EqualValues(t, 10, asked.Load(), "it is still asked")
		require.Equal(t, 5, p.Snapshot().Stages[0].Workers.Live)
		require.Len(t, p.Journal(), 1)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// batch adds up the commands of a batch.
type batch struct {
	sizes  chan int
	outlet behaviour.Target[int]
}

func (b *batch) HandleCommand(context.Context, int) behaviour.Outcome { panic("not for single ones") }

func (b *batch) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	b.sizes <- len(cmds)
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i, cmd := range cmds {
		switch {
		case cmd == -1:
			panic("one bad apple")
		case cmd == -2:
			return nil
		case cmd == -3:
			outcomes[i] = behaviour.Error(errNo)
		default:
			outcomes[i] = behaviour.Forward(b.outlet, cmd)
		}
	}
	return outcomes
}

func TestABatchHandlerThatCrashesCostsOnlyTheCommandThatCrashesIt(t *testing.T) {
	for culprit, kind := range map[int]string{-1: "a panic", -2: "too few outcomes", -3: "an error"} {
		t.Run(kind, func(t *testing.T) {
			end := stage.New("end", fn(echo[int]))
			b := &batch{sizes: make(chan int, 1000), outlet: end}
			s := stage.New("s", b, stage.Workers(1, 1), stage.Batch(8))
			p := run(t, s, end)
			var tickets []*stage.Ticket
			for i := range 100 {
				cmd := i
				if i == 50 {
					cmd = culprit
				}
				ticket, err := s.Ask(t.Context(), cmd)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
			}
			for i, ticket := range tickets {
				got, err := ticket.Wait(soon(t))
				if i == 50 {
					require.Error(t, err)
					require.Equal(t, culprit == -3, errors.Is(err, errNo))
					continue
				}
				require.NoError(t, err)
				require.Equal(t, i, got)
			}
			require.NoError(t, p.Drain(soon(t)))
			require.EqualValues(t, 99, p.Snapshot().Replied)
		})
	}
}

func TestAnyActorMaySendAStageCommandsByItsPID(t *testing.T) {
	letters := make(chan stage.DeadLetter, 10)
	end := stage.New("end", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd < 0 {
			return behaviour.Error(errNo)
		}
		return behaviour.OK(cmd * 2)
	}))
	s := stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome { return behaviour.Forward(end, cmd) }), stage.Capacity(4))
	p := run(t, s, end, pipeline.DeadLetters(func(l stage.DeadLetter) { letters <- l }))
	root := system().Root

	for i := range 1000 { // many more than the capacity
		root.Send(s.PID(), i)
	}
	ask := func(cmd any) *stage.Reply {
		got, err := root.RequestFuture(s.PID(), cmd, 20*time.Second).Result()
		require.NoError(t, err)
		return got.(*stage.Reply)
	}
	require.Equal(t, &stage.Reply{Result: 42}, ask(21))
	require.ErrorIs(t, ask(-1).Err, errNo)

	var wrong *stage.TypeError
	require.ErrorAs(t, ask("a string").Err, &wrong)
	require.Equal(t, &stage.TypeError{Stage: "s", Want: "int", Got: "string"}, wrong)
	root.Send(s.PID(), "a string")
	require.Equal(t, reason.Type, (<-letters).Reason)
	root.Send(s.PID(), nil)
	require.Equal(t, reason.Type, (<-letters).Reason)
	require.EqualValues(t, 3, p.Snapshot().Stages[0].Reasons.Rejected[reason.Type])

	watcher := make(chan *actor.PID, 1)
	pid := s.PID()
	_, err := actor.Spawn(root, actor.Unique(system(), "watcher"), actor.NewMailbox(nil), func() actor.Actor { return watching{pid, watcher} })
	require.NoError(t, err)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 1002, p.Snapshot().Accepted)
	require.ErrorIs(t, ask(1).Err, stage.ErrClosed)
	root.Send(s.PID(), 1)
	require.Equal(t, reason.Closed, (<-letters).Reason)
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, pid.Id, (<-watcher).Id, "watchers are notified of the end")
}

// watching is an actor that watches a process.
type watching struct {
	pid *actor.PID
	out chan *actor.PID
}

func (w watching) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Watch(w.pid)
	case *actor.Terminated:
		w.out <- m.Who
		ctx.Stop(ctx.Self())
	}
}

// A caller that has an answer and then takes a snapshot finds the command counted as ended, in the totals and for every stage.
func TestAccountsIncludeACommandWhenItsAnswerArrives(t *testing.T) {
	end := stage.New("end", fn(func(_ context.Context, n int) behaviour.Outcome {
		if n%3 == 2 {
			return behaviour.Error(errNo)
		}
		return behaviour.OK(n)
	}))
	first := stage.New("first", fn(func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(end, n) }))
	p := run(t, first, end)
	for n := range 300 {
		_, err := stage.Call[int](soon(t), first, n)
		require.Equal(t, n%3 == 2, err != nil)
		s := p.Snapshot()
		require.EqualValues(t, n+1, s.Stages[0].Counts.Forwarded)
		require.EqualValues(t, n+1, s.Stages[1].Counts.OK+s.Stages[1].Counts.Errors)
		require.EqualValues(t, (n+1)/3, s.Failed)
		require.Zero(t, s.InFlight)
	}
}

func TestAHandlerMayEmitAndForward(t *testing.T) {
	end := stage.New("end", fn(echo[int]))
	first := stage.New("first", fn(func(ctx context.Context, n int) behaviour.Outcome {
		for i := range n {
			if err := behaviour.Emit(ctx, end, i); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.Forward(end, n)
	}))
	p := run(t, first, end)
	got, err := stage.Call[int](soon(t), first, 5)
	require.NoError(t, err)
	require.Equal(t, 5, got)
	require.EqualValues(t, 6, p.Snapshot().Stages[1].Counts.OK)
}

// eventful is a policy that records when it is called.
type eventful struct{ kinds chan controller.EventKind }

func (e eventful) Name() string               { return "eventful" }
func (e eventful) Check() error               { return nil }
func (e eventful) New() controller.Controller { return e }
func (e eventful) Control(ev controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	e.kinds <- ev.Kind
	d.Every(time.Second)
}

func TestAPolicyIsNotifiedOfTheStartTheTicksAndTheStop(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		e := eventful{make(chan controller.EventKind, 100)}
		p := bubble(t, stage.New("s", fn(echo[int])), pipeline.Control(e))
		time.Sleep(2*time.Second + time.Millisecond)
		require.NoError(t, p.Stop(t.Context()))
		close(e.kinds)
		var heard []controller.EventKind
		for kind := range e.kinds {
			heard = append(heard, kind)
		}
		require.Equal(t, []controller.EventKind{
			controller.EventStart, controller.EventTick, controller.EventTick, controller.EventStop,
		}, heard)
	})
}
