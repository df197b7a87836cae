package behaviour

import (
	"context"
	"errors"
)

// ErrCannotSuspend is the reason of a command whose handler may suspend but got
// a context that does not support it.
var ErrCannotSuspend = errors.New("behaviour: a suspending handler was called with a context that cannot suspend; " +
	"outside a stage, pass coroutine.Blocking(ctx)")

// Suspender is the context of a handler that may suspend: while the handler
// waits, its worker handles other commands. Package coordination/coroutine
// builds on it, for example with Await and Sleep, and calls it
// coroutine.Context.
type Suspender interface {
	context.Context

	// Suspend calls start and parks the handler until wake has been called
	// once, by any goroutine, possibly before start returns. Further calls of
	// wake do nothing. Suspend returns an error, coroutine.ErrStopped, if the
	// handler was stopped before or during the wait. In that case start may not
	// have been called, and wake may not have been called yet or at all.
	//
	// Only the handler may call Suspend, on the goroutine on which the handler
	// was called. That goroutine must not hold runtime.LockOSThread when
	// Suspend is called or when the handler returns: this ends the process.
	// Suspend starts no goroutine.
	Suspend(start func(wake func())) error
}

// Suspending is implemented by a behaviour whose handler may wait without
// holding its worker. The stage of such a behaviour calls HandleSuspending
// instead of HandleCommand, each time on a coroutine. Only a behaviour shared
// by all workers (stage.New, stage.Coroutine) and the instances of a keyed
// stage (stage.Keyed) may be Suspending, and they must not be Batchers. A
// handler keeps its state over a suspension in local variables, or in the
// instance of its key.
//
// A shared behaviour's HandleSuspending is called by many workers at once. Any
// worker may resume it after a suspension. Its context ends as the context of
// HandleCommand does; a suspension ends with it.
type Suspending[C any] interface {
	Behaviour[C]
	HandleSuspending(c Suspender, cmd C) Outcome
}

// Coroutine is a [Suspending] behaviour without state of its own.
type Coroutine[C any] func(c Suspender, cmd C) Outcome

// HandleSuspending calls f.
func (f Coroutine[C]) HandleSuspending(c Suspender, cmd C) Outcome { return f(c, cmd) }

// HandleCommand calls f if ctx is a [Suspender], as a test's context may be;
// otherwise it returns [ErrCannotSuspend].
func (f Coroutine[C]) HandleCommand(ctx context.Context, cmd C) Outcome {
	c, ok := ctx.(Suspender)
	if !ok {
		return Error(ErrCannotSuspend)
	}
	return f(c, cmd)
}
