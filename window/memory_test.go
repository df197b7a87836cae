//go:build !race

package window_test

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/window"
)

// A held command costs what the documentation says.
func TestAHeldCommandTakesSixKilobytes(t *testing.T) {
	const n = 5000
	of := led(window.By("w", func(n int) int { return n % 10 }, window.Bounds[int]{Count: n}))
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
	require.Eventually(t, func() bool { return of.Snapshot().Queue.Suspended == n }, time.Minute, time.Millisecond)
	each := (memory() - before) / n
	t.Logf("%d bytes", each)
	require.Less(t, each, uint64(6500))
	require.NoError(t, p.Stop(t.Context()))
}
