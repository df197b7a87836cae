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

// server is a minimal owner of a host: a queue of ready tasks, and the tasks that ended.
type server struct {
	*coro.Host

	mu     sync.Mutex
	ready  []*coro.Task
	wakeup chan struct{}
	ended  []*coro.Task
}

func newServer(cfg coro.Config) *server {
	d := &server{wakeup: make(chan struct{}, 1)}
	cfg.Ready = d.put
	cfg.Ended = func(t *coro.Task) { d.ended = append(d.ended, t) }
	d.Host = coro.New(cfg)
	return d
}

func (d *server) put(t *coro.Task) {
	d.mu.Lock()
	d.ready = append(d.ready, t)
	d.mu.Unlock()
	select {
	case d.wakeup <- struct{}{}:
	default:
	}
}

// take returns the task that became ready first, or nil.
func (d *server) take() *coro.Task {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ready) == 0 {
		return nil
	}
	t := d.ready[0]
	d.ready = d.ready[1:]
	return t
}

// drain resumes all ready tasks, until none is ready.
func (d *server) drain() {
	for t := d.take(); t != nil; t = d.take() {
		d.Resume(t)
	}
}

// finish resumes all tasks that become ready, until no task is left.
func (d *server) finish() {
	for {
		d.drain()
		if d.Stats().Live == 0 {
			return
		}
		<-d.wakeup
	}
}

func (d *server) start(t testing.TB, f func(*coro.Task)) *coro.Task {
	t.Helper()
	task, err := d.Start(context.Background(), nil, f)
	require.NoError(t, err)
	return task
}

var engines = map[string]coro.Engine{"pull": coro.Pull, "baton": coro.Baton}

// onEach runs a test with each engine. Users see no difference between them.
func onEach(t *testing.T, test func(t *testing.T, cfg coro.Config)) {
	t.Helper()
	for name, e := range engines {
		t.Run(name, func(t *testing.T) { test(t, coro.Config{Engine: e}) })
	}
}
