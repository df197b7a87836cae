package window_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// More commands are in open windows than may be in flight behind a checkpoint, and no time closes the windows.
func TestWindowsOfManyKeysDoNotHoldUpACheckpointForEver(t *testing.T) {
	const lines, keys = 20_000, 1000
	key := func(i int) int { return i % keys }
	virtual(t, func(t *testing.T) {
		var log bytes.Buffer
		var handled, early atomic.Int64
		w := window.Aggregate("sums", key, func(n, _ int) int { return n + 1 }, window.Bounds[int]{Count: 100})
		sink := stage.Sink("sink", func(_ context.Context, w window.Window[int, int]) error {
			handled.Add(int64(w.Value))
			if w.Why == window.Early {
				early.Add(1)
			}
			return nil
		})
		all := make([]int, lines)
		for i := range all {
			all[i] = i
		}
		p, err := pipeline.New("p", w.To(sink), pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))),
			pipeline.Feed("lines", w, source.Checkpoint(source.Slice(all), 0, func(context.Context, int64) error { return nil })))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Run(ctx))
		require.True(t, p.Ending().Exhausted)
		require.EqualValues(t, lines, handled.Load())
		require.Positive(t, early.Load())
		require.Equal(t, 1, strings.Count(log.String(), "windows are closed early"))
	})
}
