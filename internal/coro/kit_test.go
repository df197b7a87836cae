package coro_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/coro"
)

func TestMain(m *testing.M) { child(); goleak.VerifyTestMain(m) }

// desk is the smallest owner of a host: a queue of what is ready, and the tasks that ended.
type desk struct {
	*coro.Host

	mu    sync.Mutex
	ready []*coro.Task
	bell  chan struct{}
	ended []*coro.Task
}

func newDesk(cfg coro.Config) *desk {
	d := &desk{bell: make(chan struct{}, 1)}
	cfg.Ready = d.put
	cfg.Ended = func(t *coro.Task) { d.ended = append(d.ended, t) }
	d.Host = coro.New(cfg)
	return d
}

func (d *desk) put(t *coro.Task) {
	d.mu.Lock()
	d.ready = append(d.ready, t)
	d.mu.Unlock()
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

// take returns the task that became ready first, or nil.
func (d *desk) take() *coro.Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ready) == 0 {
		return nil
	}
	t := d.ready[0]
	d.ready = d.ready[1:]
	return t
}

// drain resumes all that are ready, until none is.
func (d *desk) drain() {
	for t := d.take(); t != nil; t = d.take() {
		d.Resume(t)
	}
}

// finish resumes all that become ready, until no task is left.
func (d *desk) finish() {
	for {
		d.drain()
		if d.Stats().Live == 0 {
			return
		}
		<-d.bell
	}
}

func (d *desk) start(t testing.TB, f func(*coro.Task)) *coro.Task {
	t.Helper()
	task, err := d.Start(context.Background(), nil, f)
	require.NoError(t, err)
	return task
}

var engines = map[string]coro.Engine{"pull": coro.Pull, "baton": coro.Baton}

// onEach runs a test with each engine. They are one thing to their users.
func onEach(t *testing.T, test func(t *testing.T, cfg coro.Config)) {
	t.Helper()
	for name, e := range engines {
		t.Run(name, func(t *testing.T) { test(t, coro.Config{Engine: e}) })
	}
}
