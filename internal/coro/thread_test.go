package coro_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/coro"
)

func TestOnABatonATaskMayHoldItsThread(t *testing.T) {
	d := newServer(coro.Config{Engine: coro.Baton})
	defer d.Close()
	n := 0
	for range 3 {
		d.start(t, func(c *coro.Task) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for range 5 {
				assert.NoError(t, c.Yield())
				n++
			}
		})
	}
	runtime.LockOSThread()
	d.drain()
	runtime.UnlockOSThread()
	d.drain()
	assert.Equal(t, 15, n)
}

func TestWithPullAThreadMayBeLockedBetweenSuspensions(t *testing.T) {
	d := newServer(coro.Config{})
	defer d.Close()
	task := d.start(t, func(c *coro.Task) {
		runtime.LockOSThread()
		runtime.UnlockOSThread()
		assert.NoError(t, c.Yield())
	})
	d.drain()
	assert.True(t, task.Ended())
}

// The package comment says that this cannot be recovered: the runtime ends such a process. If a later Go version
// handles it, this test fails.
func TestWithPullAThreadLockedAcrossASuspensionEndsTheProcess(t *testing.T) {
	for name := range children {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "GOLDA_CORO_CHILD="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(out), "OS thread locking must match")
		})
	}
}

// children are the functions that the child processes of the test above run.
var children = map[string]func(d *server){
	"a task suspends": func(d *server) {
		_, _ = d.Start(context.Background(), nil, func(c *coro.Task) {
			runtime.LockOSThread()
			_ = c.Yield()
		})
	},
	"a task ends": func(d *server) {
		_, _ = d.Start(context.Background(), nil, func(*coro.Task) { runtime.LockOSThread() })
	},
	"the goroutine that runs it": func(d *server) {
		_, _ = d.Start(context.Background(), nil, func(c *coro.Task) { _ = c.Yield() })
		runtime.LockOSThread()
		d.drain()
	},
}

func child() {
	if f := children[os.Getenv("GOLDA_CORO_CHILD")]; f != nil {
		f(newServer(coro.Config{}))
		os.Exit(0)
	}
}
