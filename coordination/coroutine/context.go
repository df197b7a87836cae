package coroutine

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/link"
)

var (
	// ErrStopped is returned from a suspension of a handler that has been
	// stopped, with the cause wrapped if there is one. The handler should
	// return.
	ErrStopped = coro.ErrStopped

	// ErrNotRunning is returned to a caller that suspends with the context of a
	// handler that has returned, or is suspended: the caller cannot be the
	// handler.
	ErrNotRunning = coro.ErrNotRunning

	// ErrGoexit reports that a handler, or a function given to Await, called
	// runtime.Goexit, as a failing test helper does.
	ErrGoexit = coro.ErrGoexit

	// ErrIgnoredStop reports that a handler was stopped but continued to
	// suspend instead of returning, so that its server ended it, as
	// runtime.Goexit does.
	ErrIgnoredStop = coro.ErrIgnoredStop
)

// PanicError is the error of a handler, or of a function given to Await, that
// panicked: it holds the value given to panic, and the stack of the panic. It
// wraps the value if that is an error.
type PanicError = coro.PanicError

// Context is the context of a running handler. It is a context.Context that is
// done when the handler is stopped and when it has returned. See
// [behaviour.Suspender].
type Context = behaviour.Suspender

// Blocking returns a Context for code that is not a handler, such as main or a
// test: it suspends by blocking the calling goroutine. When ctx is done a
// suspension returns ErrStopped with the cause. The Context may be used by
// several goroutines.
func Blocking(ctx context.Context) Context {
	link.CheckContext(ctx, "coroutine: Blocking")
	return blocking{ctx}
}

// WithContext returns a Context that suspends as c does, and whose suspensions
// also end when ctx ends: with its error and its cause. So each wait may have a
// limit of its own:
//
//	ctx, cancel := context.WithTimeout(c, time.Second)
//	defer cancel()
//	err := sem.Acquire(coroutine.WithContext(ctx, c))
//
// As a [context.Context] it is ctx. Derive ctx from c, as here, so that code
// that gets it ends with the handler; a suspension ends with the handler in any
// case. Like c it is for the handler alone. A wait that ctx may end is not part
// of a deadlock that a scheduler reports.
func WithContext(ctx context.Context, c Context) Context {
	link.CheckContext(ctx, "coroutine: WithContext")
	link.CheckContext(c, "coroutine: WithContext") //nolint:contextcheck // both are given
	return coro.NewBound(ctx, c)
}

type blocking struct{ context.Context }

func (b blocking) Suspend(start func(wake func())) error {
	if b.Err() != nil {
		return b.stopped()
	}
	woken := make(chan struct{}, 1)
	start(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	select {
	case <-woken:
		return nil
	case <-b.Done():
		return b.stopped()
	}
}

func (b blocking) stopped() error {
	return fmt.Errorf("%w: %w", ErrStopped, context.Cause(b))
}
