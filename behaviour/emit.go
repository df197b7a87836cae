package behaviour

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/internal/link"
)

// ErrNoWorker is returned by [Emit] if its context is not one that a worker
// gave to a handler.
var ErrNoWorker = errors.New("behaviour: not in a handler; pass the context that HandleCommand received")

// Emit sends an extra command to next. A handler may emit any number of
// commands besides the outcome it returns. The accounts count each of them as a
// command of its own, and a ticket for the command that the handler has waits
// for all of them.
//
// The emitted commands are sent when the handler has returned [OK] or
// [Forward]; a try that crashes or returns [Error] emits nothing, so that a
// retry does not emit twice. The exception is a handler that emits more than
// 256 commands in one try: the engine starts to send them, in order, before the
// handler has returned. Then Emit waits for a free slot until ctx ends, or
// until the time limit of the handler's stage and its grace have passed. On an
// edge that closes a loop Emit never waits: the command is queued beyond the
// capacity. On any edge of a loop Emit returns stage.ErrMaxInFlight if the
// pipeline holds as many commands as pipeline.MaxInFlight allows.
//
// Emit may be called by goroutines that the handler has started and waits for.
// In any other goroutine it fails with [ErrNoWorker]; or, if the worker handles
// another command by then, the emitted command counts as emitted by that one.
func Emit[C any](ctx context.Context, next Target[C], cmd C) error {
	if next == nil {
		return ErrUnwired
	}
	inlet := next.Inlet()
	if inlet == nil {
		return ErrUnwired
	}
	e, ok := engine(ctx).(link.Emitter)
	if !ok {
		return ErrNoWorker
	}
	return e.Emit(ctx, inlet, link.Load(inlet, &cmd))
}

// Attempt returns the number of the current try of the handler's command,
// counted from one: 2 means that one earlier try crashed or failed. Tries are
// counted up to 65,535, so any later try is reported as 65,536. Attempt returns
// 0 outside a handler. For a [Batcher] it is the number for the first command.
func Attempt(ctx context.Context) int {
	e, ok := engine(ctx).(link.Emitter)
	if !ok {
		return 0
	}
	return e.Attempt()
}

// Quality returns the quality that the stage asks of the handler, from 1 (full)
// to 0: a policy may degrade a stage under load, and a handler that can do less
// work reads it here. Outside a handler it returns 1.
func Quality(ctx context.Context) float64 {
	q, ok := engine(ctx).(interface{ Quality() float64 })
	if !ok {
		return 1
	}
	return q.Quality()
}

// engine returns the engine's value in a handler's context. It returns nil for
// a nil context and for one that no handler got.
func engine(ctx context.Context) any {
	if ctx == nil {
		return nil
	}
	return ctx.Value(link.EmitterKey{})
}
