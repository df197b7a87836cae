package window_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/window"
)

// BenchmarkWindow measures a command on its way through a stage with windows, in windows of 100 commands of 10 keys.
func BenchmarkWindow(b *testing.B) {
	key, bounds := func(n int) int { return n % 10 }, window.Bounds[int]{Count: 100}
	for name, of := range map[string]interface {
		pipeline.Part
		Submit(ctx context.Context, n int) error
	}{
		"By":        window.By("w", key, bounds),
		"Aggregate": window.Aggregate("w", key, func(sum, n int) int { return sum + n }, bounds),
		"Throttle":  window.Throttle("w", key, time.Second),
	} {
		b.Run(name, func(b *testing.B) {
			p, err := pipeline.New("bench", of, pipeline.Logger(slog.New(slog.DiscardHandler)))
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				_ = of.Submit(b.Context(), n)
				n++
			}
			require.NoError(b, p.Stop(b.Context()))
		})
	}
}

// A held command costs what the documentation says.
func TestAHeldCommandTakesSixKilobytes(t *testing.T) {
	const n = 5000
	of := window.By("w", func(n int) int { return n % 10 }, window.Bounds[int]{Count: n})
	p, err := pipeline.New("test", of, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := memory()
	for i := range n {
		require.NoError(t, of.Submit(t.Context(), i))
	}
	require.Eventually(t, func() bool { return of.Snapshot().Suspended == n }, 10*time.Second, time.Millisecond)
	each := (memory() - before) / n
	t.Logf("%d bytes", each)
	require.Less(t, each, uint64(6500))
	require.NoError(t, p.Stop(t.Context()))
}
