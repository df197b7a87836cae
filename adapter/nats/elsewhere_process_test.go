package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// asCallee, in the environment, makes this program process "b" of pipeline "pair", at the server of that URL.
const asCallee = "GOLDA_TEST_NATS_CALLEE"

// nap says until when stage "far" of the other programs sleeps: until there is a file, if it names one. Its result is the process id.
type nap struct{ Until string }

func newNapper() *stage.Stage[nap] {
	return stage.Coroutine("far", func(c coroutine.Context, n nap) behaviour.Outcome {
		for n.Until != "" {
			if _, err := os.Stat(n.Until); err == nil {
				break
			}
			if err := coroutine.Sleep(c, 10*time.Millisecond); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(os.Getpid())
	})
}

// runCallee runs the process until its standard input is closed.
func runCallee(url string) error {
	ctx := context.Background()
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	near := stage.Sink("near", func(context.Context, int) error { return nil })
	p, err := pipeline.New("pair", near, newNapper(), quiet, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
		pipeline.RunsHere(nats.NewCarrier(conn, "pair", nats.Options[any]{}), "b"))
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(p.Stop(ctx), conn.Close(ctx))
}

// startCallees starts two programs that run stage "far", and returns the stage as this one calls it.
func startCallees(t *testing.T) (far *stage.Stage[nap], programs [2]*exec.Cmd) {
	t.Helper()
	url := serve(t, &server.Options{}).ClientURL()
	for i := range programs {
		programs[i], _ = nodetest.Start(t, asCallee+"="+url)
	}
	far, _ = half(t, connect(t, url), "a", newNapper)
	seen := map[int]bool{}
	eventually(t, "both answer", func() bool {
		pid, err := stage.Call[int](t.Context(), far, nap{})
		require.True(t, err == nil || errors.Is(err, stage.ErrNotRunning), err)
		seen[pid] = err == nil
		return seen[programs[0].Process.Pid] && seen[programs[1].Process.Pid]
	})
	return far, programs
}

// harmed makes calls that last, harms one of the programs that have them, and requires that its calls fail, and no others.
func harmed(t *testing.T, far *stage.Stage[nap], harm func()) {
	t.Helper()
	const n = 20
	file := filepath.Join(t.TempDir(), "wake")
	var calls sync.WaitGroup
	var lost, ended atomic.Int32
	for range n {
		calls.Go(func() {
			if _, err := stage.Call[int](t.Context(), far, nap{file}); err != nil {
				assert.ErrorIs(t, err, transport.ErrUnreachable)
				lost.Add(1)
			}
			ended.Add(1)
		})
	}
	eventually(t, "all are under way", func() bool { return far.Snapshot().Queue.Suspended == n })
	began := time.Now()
	harm()
	eventually(t, "the calls fail", func() bool { return lost.Load() == n/2 })
	t.Logf("they had failed after %v", time.Since(began))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	calls.Wait()
	require.EqualValues(t, n/2, lost.Load())
}

// The calls that a program has when it is killed fail soon, and no others do.
func TestTheCallsOfAProcessThatIsKilledFailSoon(t *testing.T) {
	t.Parallel()
	far, programs := startCallees(t)
	harmed(t, far, func() { require.NoError(t, programs[0].Process.Kill()) })
	for range 100 {
		pid, err := stage.Call[int](t.Context(), far, nap{})
		require.NoError(t, err)
		require.Equal(t, programs[1].Process.Pid, pid)
	}
	require.NoError(t, programs[1].Process.Kill())
	_ = programs[1].Wait()
	begin := time.Now()
	_, err := stage.Call[int](t.Context(), far, nap{})
	require.ErrorIs(t, err, transport.ErrUnreachable)
	_, err = stage.Call[int](t.Context(), far, nap{})
	require.ErrorIs(t, err, transport.ErrUnreachable)
	t.Logf("two calls to none failed after %v", time.Since(begin))
	require.True(t, far.Snapshot().Balanced(), far.Snapshot())
}

// A program that stands still has its calls fail after three heartbeats, and is called again when it goes on. In tests these take
// five seconds.
func TestTheCallsOfAProcessThatStandsStillFail(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	far, programs := startCallees(t)
	harmed(t, far, func() { signal(t, programs[0], "STOP") })
	for range 100 {
		pid, err := stage.Call[int](t.Context(), far, nap{})
		require.NoError(t, err)
		require.Equal(t, programs[1].Process.Pid, pid)
	}
	signal(t, programs[0], "CONT")
	eventually(t, strconv.Itoa(programs[0].Process.Pid)+" is called again", func() bool {
		pid, err := stage.Call[int](t.Context(), far, nap{})
		require.True(t, err == nil || errors.Is(err, transport.ErrUnreachable), err)
		return pid == programs[0].Process.Pid
	})
	require.True(t, far.Snapshot().Balanced(), far.Snapshot())
}
