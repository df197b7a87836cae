package nats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A message has no caller: a reply does not end it, and the next stage's failure
// has it delivered again.
func TestAMessageIsNotAcknowledgedByAReply(t *testing.T) {
	const n = 10
	conn := embed(t, t.TempDir(), nats.Store{})
	i := inlet(t, conn, "asks", nats.Options[ask]{Memory: true, Retry: stage.RetryPolicy{Attempts: 5, Backoff: time.Millisecond}})
	var mu sync.Mutex
	tries, stored := map[int]int{}, map[int]int{}
	store := stage.Func("store", func(_ context.Context, a ask) behaviour.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if tries[a.N]++; tries[a.N] == 1 {
			return behaviour.Error(errors.New("the database is away"))
		}
		stored[a.N]++
		return behaviour.OK(nil)
	})
	take := stage.Func("take", func(_ context.Context, a ask) behaviour.Outcome {
		return behaviour.Forward(store, a).WithReply("taken")
	}, stage.Out(store))
	p, err := pipeline.New("test", pipeline.Feed("feed", take, i.Feed), store, quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for k := range n {
		require.NoError(t, i.Publish(t.Context(), "", ask{"a", k}))
	}
	require.Eventually(t, func() bool { return i.Counts().Acknowledged == n }, time.Minute, time.Millisecond)
	require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's may have ended
	require.Len(t, stored, n, "%v", tries)
	require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}
