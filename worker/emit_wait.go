package worker

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
)

// errGrace is why Emit waits no longer.
var errGrace = fmt.Errorf("%w, and its grace", ErrTimeout)

// emitWait ends a wait of Emit with the grace of its handler. Emit waits until the context that it is given ends, but
// that need not be the handler's, and as long as Emit waits the watch cannot give the handler up. Only one Emit of a
// handler waits at a time.
type emitWait struct {
	cancel atomic.Pointer[context.CancelCauseFunc]
}

// noMore stands for the handler whose grace is over.
var noMore context.CancelCauseFunc = func(error) {}

// begin returns a context that ends with ctx or with the grace. Release is to be called. A handler that suspends
// holds no worker while it waits, and is stopped at the time limit.
func (e *emitWait) begin(ctx context.Context) (until context.Context, release func()) {
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

// end ends the wait, and those that the handler begins from now on.
func (e *emitWait) end() {
	if cancel := e.cancel.Swap(&noMore); cancel != nil {
		(*cancel)(errGrace)
	}
}

// renew is for the next handler.
func (e *emitWait) renew() { e.cancel.CompareAndSwap(&noMore, nil) }
