package engine

import (
	"context"
	"errors"
)

// Suspends reports whether the stage's handlers may suspend.
func (c *Core) Suspends() bool { return c.staff.Runs != nil }

// unwind ends what handlers have suspended, if the stage has come to its end. Else they stay so, and
// go on when it is started afresh; unwind reports whether there are any.
func (c *Core) unwind() (suspended bool) {
	if c.staff.Runs == nil {
		return false
	}
	if _, halted := c.inbox.Stopped(); halted {
		c.staff.Unwind()
		return false
	}
	return c.inbox.Started() > 0
}

// errUnwinding tells that a handler did not end when it was stopped.
var errUnwinding = errors.New("a suspended handler does not end")

// Release lets go of the coroutines of a stage that will not run any more, and has handlers end that
// are suspended still: of a stage whose workers did not end, in time. It waits until ctx ends.
func (c *Core) Release(ctx context.Context) error {
	if c.staff.Runs == nil || c.staff.Context == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		c.staff.Unwind()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errUnwinding
	}
}
