//go:build !race

package worker_test

import (
	"log/slog"
	"os"
	"os/exec"
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

// memoryHeld returns what the process holds for its heap and stacks.
func memoryHeld() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// The race detector makes stacks and heap larger, so the test is not built with it. The runtime starts a stack with the size that
// the average goroutine had at the last collection, so other tests would have an influence. The test measures in a process of its
// own, in which some commands are suspended already.
func TestOneWorkerHoldsAHundredThousandSuspendedCommandsAtFourKilobytesEach(t *testing.T) {
	const alone = "GOLDA_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
		return
	}
	const few, n, most = 1000, 100_000, 4096
	var wakers [few + n]func()
	var waiting atomic.Int32
	s := stage.Coroutine("wait", func(c coroutine.Context, i int) behaviour.Outcome {
		return behaviour.OK(c.Suspend(func(wake func()) {
			wakers[i] = wake
			waiting.Add(1)
		}))
	}, stage.Workers(1, 1), stage.Instances(few+n))
	p, err := pipeline.New("memory", s, pipeline.Control(policy.Fixed{}), pipeline.System(system), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	suspend := func(from, to int) {
		for i := from; i < to; i++ {
			require.NoError(t, s.Submit(t.Context(), i))
		}
		require.Eventually(t, func() bool { return s.Snapshot().Queue.Suspended == to }, time.Minute, time.Millisecond)
	}
	suspend(0, few)
	before := memoryHeld()
	suspend(few, few+n)
	each := (memoryHeld() - before) / n
	t.Logf("%d suspended commands, one worker: %d bytes each", n, each)
	require.EqualValues(t, few+n, waiting.Load())
	for _, wake := range wakers {
		wake()
	}
	stop(t, p)
	require.EqualValues(t, few+n, p.Snapshot().Replied)
	require.LessOrEqual(t, each, int64(most))
}
