package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// Of a thousand commands that are queued together only some have a time, and seldom the first one of a batch.
func TestABatchHasWaitedAsLongAsTheFirstOfItsCommandsWithATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 1000
		b := stage.Func("b", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) },
			stage.Workers(1, 1), stage.Batch(37))
		a := stage.Func("a", func(_ context.Context, i int) behaviour.Outcome { return behaviour.Forward(b, i) },
			stage.Workers(1, 1))
		p := run(t, a, b)
		pass := func() {
			_, err := a.SubmitAll(t.Context(), make([]int, n)...)
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		pass() // from now on the workers take the largest batches
		before := b.Snapshot().Latency.Wait.Count
		require.NoError(t, p.Pause(b))
		pass()
		require.NoError(t, p.Resume(b))
		time.Sleep(time.Second)
		require.InDelta(t, n, b.Snapshot().Latency.Wait.Count-before, 15, "the last few may have no time")
		require.InDelta(t, time.Second, b.Snapshot().Latency.Wait.P99, float64(time.Second)/8)
		stop(t, p)
	})
}

// A command that leaves while a handler runs is queued without a reading of the clock.
func TestACommandWithoutATimeIsNotCountedAsAWaitOfZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 300
		b := stage.Func("b", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) },
			stage.Workers(1, 1), stage.Batch(1))
		a := stage.Func("a", func(ctx context.Context, i int) behaviour.Outcome {
			for range n {
				if err := behaviour.Emit(ctx, b, i); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(nil)
		})
		p := run(t, a, b)
		require.NoError(t, p.Pause(b))
		require.NoError(t, a.Submit(t.Context(), 1))
		time.Sleep(time.Second)
		require.NoError(t, p.Resume(b))
		time.Sleep(time.Second)
		require.EqualValues(t, n, b.Snapshot().Counts.OK)
		require.Less(t, b.Snapshot().Latency.Wait.Count, uint64(n))
		require.InDelta(t, time.Second, b.Snapshot().Latency.Wait.P50, float64(time.Second)/8)
		stop(t, p)
	})
}
