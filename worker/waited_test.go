package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// Of a thousand that come together only some tell when they came, and seldom those that are first in a batch.
func TestABatchHasWaitedAsLongAsTheFirstOfItsCommandsThatTells(t *testing.T) {
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
		pass() // from now on they take as many at a time as they may
		before := b.Snapshot().Wait.Count
		require.NoError(t, p.Pause(b))
		pass()
		require.NoError(t, p.Resume(b))
		time.Sleep(time.Second)
		require.InDelta(t, n, b.Snapshot().Wait.Count-before, 15, "of the last few nobody may have told")
		require.InDelta(t, time.Second, b.Snapshot().Wait.P99, float64(time.Second)/8)
		stop(t, p)
	})
}

// What leaves in the middle of a handler's work comes without a reading of the clock.
func TestWhatDoesNotTellWhenItCameHasNotWaitedForNoTime(t *testing.T) {
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
		require.EqualValues(t, n, b.Snapshot().OK)
		require.Less(t, b.Snapshot().Wait.Count, uint64(n))
		require.InDelta(t, time.Second, b.Snapshot().Wait.P50, float64(time.Second)/8)
		stop(t, p)
	})
}
