package stage

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/worker"
)

// instance is a behaviour with its command type erased. The type of what comes
// in was checked where it came in, by the compiler or by the door.
type instance[C any] struct {
	one  behaviour.Behaviour[C]
	call behaviour.Func[C]    // one's HandleCommand, or the function that one is
	many behaviour.Batcher[C] // nil if the behaviour is not one

	suspends bool // call is to be called with a context that is a Suspender

	of      *worker.Version
	version string // what the behaviour says, if it is Versioned
}

func instanceOf[C any](b behaviour.Behaviour[C], of *worker.Version) worker.Instance {
	call, ok := b.(behaviour.Func[C])
	if !ok {
		call = b.HandleCommand
	}
	suspending, suspends := b.(behaviour.Suspending[C])
	if suspends {
		call = func(ctx context.Context, cmd C) behaviour.Outcome {
			return suspending.HandleSuspending(ctx.(behaviour.Suspender), cmd)
		}
	}
	many, _ := b.(behaviour.Batcher[C])
	version := ""
	if v, ok := b.(behaviour.Versioned); ok {
		version = v.Version()
	}
	return &instance[C]{one: b, call: call, many: many, suspends: suspends, of: of, version: version}
}

// Of is the version that made it.
func (i *instance[C]) Of() *worker.Version { return i.of }

// Version is what the behaviour said its version is.
func (i *instance[C]) Version() string { return i.version }

// Start is the behaviour's Start, if it has one.
func (i *instance[C]) Start(ctx context.Context) error {
	if s, ok := i.one.(behaviour.Starter); ok {
		return s.Start(ctx)
	}
	return nil
}

// Stop is the behaviour's Stop, if it has one.
func (i *instance[C]) Stop() {
	if s, ok := i.one.(behaviour.Stopper); ok {
		s.Stop()
	}
}

// Stops reports whether the behaviour has a Stop.
func (i *instance[C]) Stops() bool {
	_, ok := i.one.(behaviour.Stopper)
	return ok
}

// Suspends reports whether the behaviour is Suspending.
func (i *instance[C]) Suspends() bool { return i.suspends }

// Many reports whether the behaviour is a Batcher.
func (i *instance[C]) Many() bool { return i.many != nil }

// Handle handles one command. A nil of an interface type is not a C for the
// assertion, but its zero value is.
func (i *instance[C]) Handle(ctx context.Context, cmd any) behaviour.Outcome {
	c, _ := cmd.(C)
	return i.call(ctx, c)
}

// HandleEach handles the commands of a batch, one after the other.
func (i *instance[C]) HandleEach(ctx context.Context, w *worker.Worker, batch []command.Envelope) {
	call, halted := i.call, w.Halts()
	for n := range batch {
		if halted.Load() {
			return
		}
		if batch[n].From != nil {
			i.handleFrom(w, &batch[n]) //nolint:contextcheck // the command has a context of its own
			continue
		}
		c, _ := batch[n].Cmd.(C)
		w.Settle(call(ctx, c))
	}
}

// handleFrom handles a command that may have its caller's context. It stands apart, so that the loop is for the others.
//
//go:noinline
func (i *instance[C]) handleFrom(w *worker.Worker, e *command.Envelope) {
	ctx := w.Begin(e)
	if ctx == nil {
		return
	}
	c, _ := e.Cmd.(C)
	o := i.call(ctx, c)
	w.End()
	w.Settle(o)
}

// HandleMany handles a batch. The slice is made for each batch: the behaviour
// may be shared, and a batch handler has better things to do than to fear for
// one allocation.
func (i *instance[C]) HandleMany(ctx context.Context, batch []command.Envelope) []behaviour.Outcome {
	cmds := make([]C, len(batch))
	for n := range batch {
		cmds[n], _ = batch[n].Cmd.(C)
	}
	return i.many.HandleBatch(ctx, cmds)
}
