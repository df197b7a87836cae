package stage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

func TestOverloadedFindsEveryOverload(t *testing.T) {
	tried := []error{stage.ErrMaxInFlight, stage.ErrExpired, stage.ErrClosed, stage.ErrDraining}
	for err, why := range map[error]reason.Reason{
		stage.ErrFull: reason.Full, stage.ErrRate: reason.Rate, stage.ErrPolicy: reason.Policy,
		stage.ErrDisabled: reason.Disabled, stage.ErrMaxInFlight: reason.MaxInFlight, stage.ErrShed: reason.Oldest,
		stage.ErrExpired: reason.Expired, stage.ErrClosed: reason.Closed, stage.ErrDraining: reason.Closed,
	} {
		o, ok := stage.Overloaded(fmt.Errorf("job 7: %w", err))
		require.True(t, ok, err)
		require.Equal(t, stage.Overload{Reason: why, RetryAfter: time.Second, Tried: slices.Contains(tried, err)}, o, err)
	}
	for _, err := range []error{
		nil, stage.ErrNotRunning, stage.ErrStopped, stage.ErrTimeout, stage.ErrForeign, context.Canceled, context.DeadlineExceeded, errors.New("no"),
	} {
		_, ok := stage.Overloaded(err)
		require.False(t, ok, err)
	}
}

// peerError is an error of another package. It means overload if it has a hint, and then it has a reason of its own.
type peerError struct{ after time.Duration }

func (e peerError) Error() string { return "peer" }

func (e peerError) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: "peer", RetryAfter: e.after}, e.after >= 0
}

func TestAnErrorMaySayItselfThatItMeansOverload(t *testing.T) {
	o, ok := stage.Overloaded(fmt.Errorf("job 7: %w", peerError{time.Minute}))
	require.True(t, ok)
	require.Equal(t, stage.Overload{Reason: "peer", RetryAfter: time.Minute}, o)
	o, ok = stage.Overloaded(peerError{})
	require.True(t, ok)
	require.Equal(t, time.Second, o.RetryAfter, "a hint is always more than 0")
	_, ok = stage.Overloaded(peerError{-1})
	require.False(t, ok)
	o, ok = stage.Overloaded(errors.Join(peerError{-1}, stage.ErrFull))
	require.True(t, ok)
	require.Equal(t, reason.Full, o.Reason)
}

func TestACommandThatIsDroppedOnArrivalIsOverloadOfItsOwnReason(t *testing.T) {
	gate := make(chan struct{})
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome { <-gate; return behaviour.OK(nil) },
		stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.DropNewest))
	p, err := pipeline.New("p", s)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	var dropped *stage.Ticket
	for p.Snapshot().Stages[0].Counts.Shed == 0 {
		dropped, err = s.Ask(t.Context(), 1)
		require.NoError(t, err)
	}
	_, err = dropped.Wait(t.Context())
	require.ErrorIs(t, err, stage.ErrShed)
	o, ok := stage.Overloaded(err)
	require.True(t, ok)
	require.Equal(t, reason.Newest, o.Reason)
	close(gate)
	require.NoError(t, p.Stop(t.Context()))
}

// slow is a policy that allows two commands a second.
type slow struct{}

func (slow) Name() string                 { return "slow" }
func (slow) Check() error                 { return nil }
func (s slow) New() controller.Controller { return s }
func (slow) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	controller.KnobRate.Set(d, controller.Entry, controller.Rate{PerSecond: 2, Burst: 1}, "test")
}

func TestAnOverloadSaysWhenARateAllowsTheNextCommand(t *testing.T) {
	overloadBubble(t, slow{}, func(t *testing.T, s *stage.Stage[int], _ *pipeline.Pipeline) {
		require.NoError(t, s.Submit(t.Context(), 1))
		time.Sleep(200 * time.Millisecond)
		o, ok := stage.Overloaded(s.Submit(t.Context(), 2))
		require.True(t, ok)
		require.Equal(t, stage.Overload{Reason: reason.Rate, RetryAfter: 300 * time.Millisecond}, o)
		time.Sleep(o.RetryAfter)
		require.NoError(t, s.Submit(t.Context(), 2))
	})
}

func TestADeadlineWhileWaitingForASlotIsAnOverloadAndACancellationIsNot(t *testing.T) {
	overloadBubble(t, policy.Fixed{}, func(t *testing.T, s *stage.Stage[int], _ *pipeline.Pipeline) {
		for n := range 2 {
			require.NoError(t, s.Submit(t.Context(), n))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.Submit(ctx, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		o, ok := stage.Overloaded(err)
		require.True(t, ok)
		require.Equal(t, reason.Full, o.Reason)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err = s.Submit(ctx, 3)
		require.ErrorIs(t, err, context.Canceled)
		_, ok = stage.Overloaded(err)
		require.False(t, ok)
	})
}

// A context that ended with a cause of its own is judged by its error, like any other.
func TestTheCauseOfAContextDoesNotDecideWhetherItsEndIsAnOverload(t *testing.T) {
	own := errors.New("the client has given up")
	overloadBubble(t, policy.Fixed{}, func(t *testing.T, s *stage.Stage[int], _ *pipeline.Pipeline) {
		for n := range 2 {
			require.NoError(t, s.Submit(t.Context(), n))
			synctest.Wait()
		}
		late, stop := context.WithTimeoutCause(t.Context(), time.Minute, own)
		defer stop()
		for _, ctx := range []context.Context{late, coroutine.Blocking(late)} {
			err := s.Submit(ctx, 3)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, own)
		}
		late, stop = context.WithTimeoutCause(t.Context(), time.Minute, own)
		defer stop()
		_, overloaded := stage.Overloaded(s.Submit(late, 3))
		require.True(t, overloaded)
		gone, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(own) })
		err := s.Submit(gone, 3)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, own)
		_, overloaded = stage.Overloaded(err)
		require.False(t, overloaded)
	})
}

// overloadBubble runs a pipeline of one stage with one worker and one slot, whose commands take an hour.
func overloadBubble(t *testing.T, law controller.Policy, f func(t *testing.T, s *stage.Stage[int], p *pipeline.Pipeline)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return behaviour.OK(n)
		}, stage.Workers(1, 1), stage.Capacity(1))
		p, err := pipeline.New("busy", s, pipeline.Control(law), pipeline.DeadLetters(func(stage.DeadLetter) {}))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		synctest.Wait()
		f(t, s, p)
		require.NoError(t, p.Stop(context.Background()))
		time.Sleep(time.Minute) // the system's own timers end
	})
}
