//go:build !race

package worker_test

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// held is what the process holds for its heap and stacks.
func held() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// The race detector makes stacks and heap larger, so it is left out.
func TestOneWorkerHoldsAHundredThousandSuspendedCommandsAtFourKilobytesEach(t *testing.T) {
	const n, most = 100_000, 4096
	var wakers [n]func()
	var waiting atomic.Int32
	s := stage.Coroutine("wait", func(c coroutine.Context, i int) behaviour.Outcome {
		return behaviour.OK(c.Suspend(func(wake func()) {
			wakers[i] = wake
			waiting.Add(1)
		}))
	}, stage.Workers(1, 1), stage.Instances(n))
	p, err := pipeline.New("memory", s, pipeline.Control(policy.Fixed{}), pipeline.System(system), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	before := held()
	for i := range n {
		require.NoError(t, s.Submit(t.Context(), i))
	}
	require.Eventually(t, func() bool { return s.Snapshot().Suspended == n }, time.Minute, time.Millisecond)
	each := (held() - before) / n
	t.Logf("%d suspended commands, one worker: %d bytes each", n, each)
	require.LessOrEqual(t, each, int64(most))
	require.EqualValues(t, n, waiting.Load())
	for _, wake := range wakers {
		wake()
	}
	stop(t, p)
	require.EqualValues(t, n, p.Snapshot().Replied)
}
