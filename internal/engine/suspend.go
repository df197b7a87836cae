package engine

import (
	"context"
	"errors"
)

// Suspends reports whether the stage's handlers may suspend.
func (c *Core) Suspends() bool { return c.staff.Runs != nil }

// unwind ends suspended handlers if the stage has halted. Otherwise they stay
// suspended and continue when the stage is started again. It reports whether
// such handlers remain.
func (c *Core) unwind() (suspended bool) {
	if c.staff.Runs == nil {
		return false
	}
	if _, halted := c.inbox.Phases().Stopped(); halted {
		c.staff.Unwind()
		return false
	}
	return c.inbox.Batches().Started() > 0
}

// errUnwinding is the error of Release if a handler did not end in time.
var errUnwinding = errors.New("a suspended handler does not end")

// Release releases the coroutines of a stage that will not run again, and ends
// handlers that are still suspended because the workers of their stage did not
// end in time. It waits until ctx ends.
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
