package nats_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// expired waits until an inlet has n dead letters and nothing else, all because their commands have expired.
func expired[C any](t *testing.T, i *nats.Inlet[C], n int) {
	t.Helper()
	eventualStatus(t, i, func(s nats.Status) bool { return s.Pending == 0 && s.DeadLettered == uint64(n) })
	for l, err := range i.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, reason.Expired, l.Reason)
	}
}

func TestTheTimeInTheServerCountsForATimeToLive(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	for i := range 100 {
		require.NoError(t, numbers.Publish(t.Context(), "", i))
	}
	time.Sleep(20 * time.Millisecond)
	sink := stage.Sink("sink", func(_ context.Context, n int) error {
		t.Errorf("%d is handled", n)
		return nil
	}, stage.TTL(10*time.Millisecond))
	p := newPipeline(t, sink, numbers.Feed)
	expired(t, numbers, 100)
	require.NoError(t, p.Stop(context.Background()))
	require.EqualValues(t, 100, p.Snapshot().Shed)
	require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}

func TestACommandThatHasNotWaitedForItsTimeToLiveIsHandled(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true})
	for i := range 100 {
		require.NoError(t, numbers.Publish(t.Context(), "", i))
	}
	var handled tally
	sink := stage.Sink("sink", func(_ context.Context, n int) error { handled.add(n); return nil }, stage.TTL(time.Hour))
	run(t, numbers, sink)
	require.Equal(t, 100, handled.len())
}

func TestTheTimeToLiveOfAMessageDoesNotBeginAnewWhenItIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	require.NoError(t, numbers.Publish(t.Context(), "", 1))
	failed := make(chan struct{}, 100)
	fails := stage.Sink("fails", func(context.Context, int) error { failed <- struct{}{}; return errors.New("no") })
	p := newPipeline(t, fails, numbers.Feed)
	<-failed
	require.NoError(t, p.Stop(context.Background()))
	time.Sleep(20 * time.Millisecond)
	newPipeline(t, stage.Sink("late", func(context.Context, int) error {
		t.Error("it is handled")
		return nil
	}, stage.TTL(10*time.Millisecond)), numbers.Feed)
	expired(t, numbers, 1)
}

func TestTheTimeInTheServerCountsForAStageThatRunsElsewhere(t *testing.T) {
	conn, near, startFar := elsewhere(t, func(context.Context, int) error {
		t.Error("it is handled")
		return nil
	}, stage.TTL(10*time.Millisecond))
	require.NoError(t, near.Submit(t.Context(), 1))
	far := inlet(t, conn, "test_far", nats.Options[int]{})
	eventualStatus(t, far, func(s nats.Status) bool { return s.Pending == 1 })
	time.Sleep(20 * time.Millisecond)
	startFar()
	expired(t, far, 1)
}

func TestTheClocksOfTheServerAndOfTheProcessMayDiffer(t *testing.T) {
	here := time.Now()
	for name, ahead := range map[string]time.Duration{"the server's is fast": time.Hour, "the server's is slow": -time.Hour, "they agree": 0} {
		there := here.Add(ahead).Round(0) // without what only this process knows
		published := there.Add(-time.Minute)
		assert.WithinDuration(t, here.Add(-time.Minute), nats.Since(there, here, published), 0, name)
	}
}
