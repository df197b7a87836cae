package worker

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
)

// errGrace is why Emit stops to wait.
var errGrace = fmt.Errorf("%w, and its grace", ErrTimeout)

// emitWait ends a wait of Emit when the grace of its handler is over. Emit
// waits until the context that it is given ends, which need not be the
// handler's; and while Emit waits, the watchdog cannot give the worker up. Only
// one Emit of a handler waits at a time.
type emitWait struct {
	cancel atomic.Pointer[context.CancelCauseFunc]
}

// noMore marks a handler whose grace is over.
var noMore context.CancelCauseFunc = func(error) {}

// start returns a context that ends with ctx or with the grace. The caller must
// call release. A handler that suspends holds no worker while it waits, and is
// stopped at the time limit; it needs no such context.
func (e *emitWait) start(ctx context.Context) (until context.Context, release func()) {
	if _, suspends := ctx.(behaviour.Suspender); suspends {
		return ctx, func() {}
	}
	until, cancel := context.WithCancelCause(ctx)
	if !e.cancel.CompareAndSwap(nil, &cancel) {
		cancel(errGrace)
	}
	return until, func() {
		e.cancel.CompareAndSwap(&cancel, nil)
		cancel(nil)
	}
}

// end ends the wait, and all waits that the handler starts from now on.
func (e *emitWait) end() {
	if cancel := e.cancel.Swap(&noMore); cancel != nil {
		(*cancel)(errGrace)
	}
}

// renew lets the next handler wait.
func (e *emitWait) renew() { e.cancel.CompareAndSwap(&noMore, nil) }
