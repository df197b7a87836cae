package scheduler

import (
	"slices"
	"sync"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

// waiters is a queue of waiting handlers, first come, first served.
type waiters struct {
	mu   sync.Mutex // guards line, and fields of the owner of the waiters
	line []*waiter
}

type waiter struct {
	wake   func()
	called bool // guarded by the line's mu
}

// wakeFirstLocked wakes the first waiter, if there is one, and reports whether
// it did. The caller holds the lock.
func (q *waiters) wakeFirstLocked() bool {
	if len(q.line) == 0 {
		return false
	}
	w := q.line[0]
	q.line[0] = nil
	q.line = q.line[1:]
	w.called = true
	w.wake()
	return true
}

// wait joins the queue and waits to be woken. The caller holds the lock; wait
// releases it. If the wait ended with an error, wait reports whether the waiter
// had been woken all the same, so that the caller can pass on the unit or
// signal.
func (q *waiters) wait(c coroutine.Context) (called bool, err error) { return q.waitWith(c, block) }

// waitWith is wait with another way to suspend.
func (q *waiters) waitWith(c coroutine.Context, by func(c coroutine.Context, start func(wake func())) error) (called bool, err error) {
	w := &waiter{}
	joined := false
	defer func() {
		if !joined { // the wait did not start; the goroutine may even be exiting
			q.mu.Unlock()
		}
	}()
	err = by(c, func(wake func()) {
		w.wake = wake
		q.line = append(q.line, w)
		joined = true
		q.mu.Unlock()
	})
	switch {
	case !joined:
		return false, err
	case err == nil:
		return true, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.line, w); i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
	}
	return w.called, err
}

// suspend calls c.Suspend.
func suspend(c coroutine.Context, start func(wake func())) error { return c.Suspend(start) }

// block suspends like c.Suspend, and marks the task as one that only handlers
// and tasks of its own scheduler can wake.
func block(c coroutine.Context, start func(wake func())) error {
	t, ok := c.(*coro.Task)
	if !ok {
		return suspend(c, start) // the end of a context may wake it, too
	}
	if err := t.Refused(); err != nil {
		return err
	}
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	start(w.Wake)
	return t.Block()
}
