package behaviour

import (
	"context"
	"errors"
)

// ErrNoWorker is the reason why [Emit] and [Attempt] know nothing: the context
// is not one that a worker gave to a handler.
var ErrNoWorker = errors.New("behaviour: not in a handler; pass on the context that HandleCommand was given")

// EmitterKey is the key under which the context of a handler holds its
// [Emitter]. It is for engines and test doubles; handlers call [Emit].
type EmitterKey struct{}

// Emitter is what an engine offers to handlers through their context.
type Emitter interface {
	// Emit takes a further command on its way to an inlet.
	Emit(ctx context.Context, to *Inlet, cmd any) error
	// Attempt is the number of the present try, see [Attempt].
	Attempt() int
}

// Emit sends an extra command, one to many: a handler may emit any number of
// commands beside the outcome it returns. Each is a command of its own in the
// accounts, and a ticket on the command in hand waits for all of them.
//
// What a handler emits leaves when it has returned [OK] or [Forward]; a try
// that crashes or answers [Error] emits nothing, so that a retry does not emit
// twice. The exception is a handler that emits more than 256 commands in one
// try: they begin to leave, in order, before it has returned, and Emit waits
// for room until ctx ends, or the time limit of the handler's stage and its grace are over. On a wire that
// closes a loop Emit never waits: if the
// room is full it fails with the stage's full error.
//
// Emit may be called by goroutines that the handler has started and waits for. In
// any other it fails with [ErrNoWorker], or, if the worker is at another command by
// then, is taken for that one's.
func Emit[C any](ctx context.Context, next Target[C], cmd C) error {
	if next == nil {
		return ErrUnwired
	}
	inlet := next.Inlet()
	if inlet == nil {
		return ErrUnwired
	}
	e, ok := engine(ctx).(Emitter)
	if !ok {
		return ErrNoWorker
	}
	return e.Emit(ctx, inlet, cmd)
}

// Attempt returns the number of the present try of the command in hand,
// counted from one: 2 means that it was tried before and crashed or failed. What is
// behind a command is counted to 65,535 tries, so any further try is the 65,536th. It
// returns 0 outside a handler. For a [Batcher] it is the first command's.
func Attempt(ctx context.Context) int {
	e, ok := engine(ctx).(Emitter)
	if !ok {
		return 0
	}
	return e.Attempt()
}

// Quality is what the handler is asked for, from 1, all, to 0: a policy may degrade a
// stage under load, and a handler that can do with less looks here. Outside a handler
// it is 1.
func Quality(ctx context.Context) float64 {
	q, ok := engine(ctx).(interface{ Quality() float64 })
	if !ok {
		return 1
	}
	return q.Quality()
}

// engine is what the engine put into a handler's context, nil if ctx is nobody's, or nil.
func engine(ctx context.Context) any {
	if ctx == nil {
		return nil
	}
	return ctx.Value(EmitterKey{})
}
