package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// startUntil is start with a function that waits until the source's context ends, as it does in a stop.
func startUntil(t *testing.T, numbers *nats.Inlet[int], stageOf func(stopping func()) behaviour.Target[int]) *pipeline.Pipeline {
	t.Helper()
	feeds := make(chan context.Context, 1)
	to := stageOf(func() {
		ctx := <-feeds
		feeds <- ctx
		<-ctx.Done()
	})
	p, err := pipeline.New("test", quiet, pipeline.Feed("numbers", to, func(ctx context.Context, submit func(int) error) error {
		feeds <- ctx
		return numbers.Feed(ctx, submit)
	}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// Many processes, one after the other, get all messages and stop before their stage has begun with most of them.
func TestStopsMakeNoDeadLetters(t *testing.T) {
	for name, hard := range map[string]bool{"soft": false, "hard": true} {
		t.Run(name, func(t *testing.T) {
			const n, attempts = 100, 3
			numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers",
				nats.Options[int]{Retry: stage.RetryPolicy{Attempts: attempts, Backoff: time.Millisecond}})
			publish(t, numbers, n)
			var done tally
			for range attempts + 3 {
				began, before := make(chan int, n), numbers.Counts().Delivered+10
				p := startUntil(t, numbers, func(stopping func()) behaviour.Target[int] {
					return stage.Sink("wait", func(ctx context.Context, k int) error {
						began <- k
						if hard {
							<-ctx.Done()
							stopping()
							return ctx.Err()
						}
						time.Sleep(5 * time.Millisecond)
						done.add(k)
						return nil
					}, stage.Workers(1, 1), stage.Capacity(1))
				})
				<-began
				eventually(t, "the messages are there", func() bool { return numbers.Counts().Delivered > before })
				ctx, cancel := context.WithCancel(t.Context())
				if hard {
					cancel()
				}
				_ = p.Stop(ctx)
				cancel()
				eventually(t, "all are given back", func() bool { return numbers.Counts().InFlight == 0 })
			}
			start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
			eventually(t, "all are done", func() bool { return done.len() == n })
			eventually(t, "the server knows", func() bool { return status(t, numbers) == nats.Status{Published: n} })
			lawful(t, numbers.Counts())
		})
	}
}

// Between two failures the message is given back more often than it may fail.
func TestWhatWasGivenBackDoesNotCountBesideErrors(t *testing.T) {
	const attempts = 3
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers",
		nats.Options[int]{Retry: stage.RetryPolicy{Attempts: attempts, Backoff: time.Millisecond}})
	publish(t, numbers, 1)
	for range attempts + 2 {
		began := make(chan struct{}, 1)
		p := startUntil(t, numbers, func(stopping func()) behaviour.Target[int] {
			return stage.Sink("hang", func(ctx context.Context, _ int) error {
				began <- struct{}{}
				<-ctx.Done()
				stopping()
				return ctx.Err()
			})
		})
		<-began
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Stop(ctx)
		eventually(t, "it is given back", func() bool { return numbers.Counts().InFlight == 0 })
	}
	var failed tally
	start(t, numbers, stage.Sink("fail", func(_ context.Context, k int) error { failed.add(k); return errors.New("no") }))
	eventually(t, "it is a dead letter", func() bool { return status(t, numbers).DeadLettered == 1 })
	require.Equal(t, attempts, failed.add(0)-1)
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, reason.Error, l.Reason)
	}
}

// A handler that does not return in a hard stop goes on: meanwhile another process must not handle its command.
func TestACommandThatIsStuckInAHardStopIsNotGivenBackAtOnce(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	publish(t, numbers, 1)
	began, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := start(t, numbers, stage.Sink("stuck", func(context.Context, int) error {
		defer close(returned)
		close(began)
		<-release
		return nil
	}), pipeline.Grace(time.Millisecond))
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ctx)
	eventually(t, "it is not in flight here", func() bool { return numbers.Counts().InFlight == 0 })
	other := inlet(t, conn, "numbers", nats.Options[int]{})
	start(t, other, stage.Sink("do", func(context.Context, int) error { return nil }))
	require.Never(t, func() bool { return other.Counts().Delivered > 0 }, 500*time.Millisecond, 10*time.Millisecond)
	close(release)
	<-returned
}

// busy is the error of a service that has too much to do.
type busy struct{}

func (busy) Error() string { return "busy" }
func (busy) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: "service", RetryAfter: 68 * 365 * 24 * time.Hour}, true
}

// The service refuses the command more often than it may fail, and asks for 68 years. Then the command fails as often as it may.
func TestARefusalDoesNotCountBesideErrors(t *testing.T) {
	const attempts, refusals = 3, 5
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers",
		nats.Options[int]{Retry: stage.RetryPolicy{Attempts: attempts, Backoff: time.Millisecond, Max: time.Millisecond}})
	publish(t, numbers, 1)
	var tries tally
	start(t, numbers, stage.Sink("fail", func(_ context.Context, k int) error {
		if tries.add(k) <= refusals {
			return busy{}
		}
		return errors.New("no")
	}))
	eventually(t, "it is a dead letter", func() bool { return status(t, numbers).DeadLettered == 1 })
	require.Equal(t, refusals+attempts, tries.add(0)-1)
}
