package handling

import (
	"cmp"
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// Suspends reports whether a caller that waits with ctx holds no worker.
func Suspends(ctx context.Context) bool {
	_, ok := ctx.(behaviour.Suspender)
	return ok
}

// apartSuspender is a task of internal/coro, which a goroutine beside the tasks
// may wake. A test that steps through a pipeline distinguishes that goroutine
// from the others.
type apartSuspender interface {
	SuspendApart(start func(wake func())) error
}

// wait waits until a channel is closed or has a value, or ctx ends and that is
// the error.
func wait(ctx context.Context, ready <-chan struct{}) error {
	done := ctx.Done()
	if done == nil { // it never ends; to wait for one thing is quicker than for one of two
		<-ready
		return nil
	}
	select {
	case <-ready:
		return nil
	case <-done:
		return command.Ended(ctx)
	}
}

// Until waits until a channel is closed, or ctx ends and that is the error. A
// handler that may suspend does so, and holds no worker: such waits are rare
// enough for a goroutine.
func Until(ctx context.Context, closed <-chan struct{}) error {
	c, ok := ctx.(behaviour.Suspender)
	if !ok {
		return wait(ctx, closed)
	}
	suspend := c.Suspend
	if t, ok := c.(apartSuspender); ok {
		suspend = t.SuspendApart
	}
	err := suspend(func(wake func()) {
		done := c.Done()
		go func() {
			defer wake()
			select {
			case <-closed:
			case <-done:
			}
		}()
	})
	select {
	case <-closed:
		return nil
	default:
		return cmp.Or(err, command.Ended(c)) //nolint:contextcheck // it is the caller's
	}
}
