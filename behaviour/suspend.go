package behaviour

import (
	"context"
	"errors"
)

// ErrCannotSuspend is the reason of a command whose handler may suspend, and was called with a
// context that cannot.
var ErrCannotSuspend = errors.New("behaviour: a handler that suspends was called with a context that cannot; " +
	"outside a stage, give it coroutine.Blocking(ctx)")

// Suspender is the context of a handler that may suspend: it waits, and meanwhile its worker handles
// other commands. coordination/coroutine has what is built on it, such as Await and Sleep, and calls
// it coroutine.Context.
type Suspender interface {
	context.Context

	// Suspend calls start, and parks the handler until wake has been called once, by any
	// goroutine, possibly before start returns. Further calls of wake do nothing. It
	// returns an error, which is coroutine.ErrStopped, if the handler was stopped, before or
	// meanwhile; wake may then not have been called, or not yet, and start may not have been.
	//
	// It is for the handler alone, on the goroutine on which it was called, and
	// must not be called while that holds runtime.LockOSThread, nor may the handler return
	// with it: that ends the process. It starts no goroutine.
	Suspend(start func(wake func())) error
}

// Suspending is for a behaviour whose handler may wait without holding its worker. If a
// behaviour is Suspending its stage calls HandleSuspending instead of HandleCommand, each time
// on a coroutine. Only a behaviour that all workers share may be so (stage.New, stage.Coroutine), and
// no Batcher: what a handler keeps over a suspension it keeps in its local variables.
//
// HandleSuspending is called by many workers at once, and any of them goes on with it when it
// was suspended. The context ends as that of HandleCommand does; a suspension ends with it.
type Suspending[C any] interface {
	Behaviour[C]
	HandleSuspending(c Suspender, cmd C) Outcome
}

// Coroutine is a [Suspending] behaviour without state of its own.
type Coroutine[C any] func(c Suspender, cmd C) Outcome

// HandleSuspending calls f.
func (f Coroutine[C]) HandleSuspending(c Suspender, cmd C) Outcome { return f(c, cmd) }

// HandleCommand calls f if ctx is a [Suspender], as a test's may be; else it answers
// [ErrCannotSuspend].
func (f Coroutine[C]) HandleCommand(ctx context.Context, cmd C) Outcome {
	c, ok := ctx.(Suspender)
	if !ok {
		return Error(ErrCannotSuspend)
	}
	return f(c, cmd)
}
