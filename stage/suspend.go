package stage

import (
	"context"
	"errors"
	"sync"

	"github.com/golda-dev/golda/behaviour"
)

// signal is how who ends a command wakes the handler that waits for it, without a goroutine or a
// channel between them. The zero chime is ready.
type signal struct {
	mu   sync.Mutex // guards all below
	rung bool
	wake func()
}

// ring is for a ticket.
func (b *signal) ring(any, error) {
	b.mu.Lock()
	b.rung = true
	wake := b.wake
	b.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// await suspends a handler until it has rung. If it has already the handler goes on at once.
func (b *signal) await(c behaviour.Suspender) error {
	b.mu.Lock()
	rung := b.rung
	b.mu.Unlock()
	if rung {
		return nil
	}
	return c.Suspend(func(wake func()) {
		b.mu.Lock()
		b.wake = wake
		rung := b.rung
		b.mu.Unlock()
		if rung {
			wake()
		}
	})
}

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
