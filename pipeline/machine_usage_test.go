package pipeline_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The machine computes at least what the test does, which is a part of it.
func TestAScriptReadsTheUseOfTheWholeMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("known on Linux only")
	}
	var used atomic.Int64
	p := start(t, stage.Func("s", echo[int]), pipeline.Control(leda.New("machine", func(l *leda.Leda) {
		l.Monitoring.Machine = true
		_ = l.Monitoring.AddTimer(func() { used.Store(int64(l.Monitoring.GetCpuUsage())) }, 20*time.Millisecond)
	})))
	for limit := time.Now().Add(enough); used.Load() == 0 && time.Now().Before(limit); { //nolint:revive // busy on purpose
	}
	require.Positive(t, used.Load())
	require.LessOrEqual(t, used.Load(), int64(100))
	require.NoError(t, p.Stop(soon(t)))
}
