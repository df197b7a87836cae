package scheduler

import (
	"slices"
	"sync"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

// waiters is a line of those who wait, first come first served.
type waiters struct {
	mu   sync.Mutex // guards line, and what the owner of the waiters guards with it
	line []*waiter
}

type waiter struct {
	wake   func()
	called bool // guarded by the line's mu
}

// call wakes the first in the line, if there is one. The lock is held.
func (q *waiters) call() bool {
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

// wait joins the line and waits to be called. The lock is held when it is called, and not
// any more when it returns. If the waiter was stopped it reports whether it had
// been called all the same, so that what it was given can go to somebody else.
func (q *waiters) wait(c coroutine.Context) (called bool, err error) { return q.waitWith(c, block) }

// waitWith is wait with another way to suspend.
func (q *waiters) waitWith(c coroutine.Context, by func(c coroutine.Context, start func(wake func())) error) (called bool, err error) {
	w := &waiter{}
	joined := false
	defer func() {
		if !joined { // the wait did not begin; that may even have ended the goroutine
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

// suspend is c.Suspend as a function.
func suspend(c coroutine.Context, start func(wake func())) error { return c.Suspend(start) }

// block suspends as c.Suspend does, and lets the scheduler know that only its own
// handlers and tasks will wake this one.
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
