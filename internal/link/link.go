// Package link is shared by the public packages and the engine, and not for
// users: it makes inlets, leads from a handler's context to the engine, and
// refuses nil contexts.
package link

import (
	"context"
	"reflect"
)

// Inlet is the untyped input of a stage, as the engine sees it. Users know it
// as behaviour.Inlet.
type Inlet struct {
	name  string
	inbox any
	boxer any // a Boxer for the stage's commands; nil if they need no box
}

// NewInlet makes the inlet of an inbox. Each stage has exactly one.
func NewInlet(name string, inbox any) *Inlet { return &Inlet{name: name, inbox: inbox} }

// Name returns the stage's name.
func (in *Inlet) Name() string { return in.name }

// Inbox returns the engine's inbox behind the inlet.
func (in *Inlet) Inbox() any { return in.inbox }

// SetBoxer sets the source of boxes for commands to the inlet. It must be
// called before the inlet is used.
func SetBoxer[C any](in *Inlet, b Boxer[C]) { in.boxer = b }

// Load returns the load with which the engine sends a command to the inlet.
func Load[C any](to *Inlet, cmd *C) any {
	if b, ok := to.boxer.(Boxer[C]); ok {
		x := b()
		x.cmd = *cmd
		return x
	}
	return *cmd
}

// Reply is the value of an outcome that forwards a command and answers the
// caller.
type Reply struct {
	Next    *Inlet
	Command any // as a load
	Result  any // for the caller
}

// EmitterKey is the key under which the context of a handler holds its
// [Emitter].
type EmitterKey struct{}

// SuspenderKey is the key under which the context of a handler that may suspend
// holds itself, so that it is found from a context that was derived from it.
type SuspenderKey struct{}

// Emitter is the engine's side of a handler's context.
type Emitter interface {
	// Emit sends a further command to an inlet, see behaviour.Emit. The command
	// is given as [Load] returns it.
	Emit(ctx context.Context, to *Inlet, load any) error
	// Attempt returns the number of the current try, see behaviour.Attempt.
	Attempt() int
}

// Holder is a behaviour whose handlers suspend until other commands of their
// stage have arrived, as the handlers of package window do. Its methods must
// not block.
type Holder interface {
	// HeldCommands returns how many handlers wait so.
	HeldCommands() int
	// ReleaseHeld has them continue. It is called in a drain, when the stage
	// has no other commands and will get none.
	ReleaseHeld()
	// ReleaseTimeless has those continue that no time ever lets continue, but
	// only further commands, and returns how many groups of them there were. It
	// is called when no further command comes before some have ended.
	ReleaseTimeless() int
}

// Summer is a [Holder] whose handlers may fail with a result that was made of
// other commands too. The letter has that result in place of the command.
type Summer interface {
	// SumType returns the type of the results; nil if there are none.
	SumType() reflect.Type
	// LostIn returns the result that an error of a handler has, nil if it has
	// none. In use is nil, or says until when the result may change. The
	// methods of the error are user code.
	LostIn(err error) (sum any, use Use)
	// PassAgain returns the load of a command that passes a result on.
	PassAgain(sum any) (load any)
}

// Use is the use of a value by a function of the user that may not return.
type Use interface {
	Returned() bool
	// AfterReturn calls f when the function has returned: at once if it has.
	AfterReturn(f func())
}

// Used is a value that is in use.
type Used struct {
	Value any
	Use   Use
}

// bare returns the value.
func (u Used) bare() any { return u.Value }

// Deferrer is implemented by the [Emitter] of a worker.
type Deferrer interface {
	// Defer has the worker call s.Settled(use, ...) when it is decided how the
	// present try of the command has ended. It returns false if that is
	// decided, because the handler that the context was for has returned or its
	// worker was given up, or if s.Deferred returns false.
	Defer(s Settler, use any) bool
}

// Settler learns how the tries of commands have ended.
type Settler interface {
	// Deferred is called by Defer. If it returns false Settled is not called.
	// It must not wait.
	Deferred(use any) bool
	// Settled is called once for each Defer that returned true, before another
	// worker gets a command of the same key: with true if the handler, and all
	// middleware around it, has returned an outcome, whose error is err, and
	// with false if the try was a crash. It may be called on another goroutine
	// than the handler's.
	Settled(use any, ended bool, err error)
}

// CheckContext panics if ctx is nil and names the call that got it. A nil
// context is a mistake in the caller's program. CheckContext reports it at the
// public API, before any work has started; deeper inside it would be a nil
// dereference in the middle of the work. It is not an error, because a caller
// might take the error for the cause of a context's end.
func CheckContext(ctx context.Context, call string) {
	if ctx == nil {
		panic(call + ": nil context")
	}
}

// Resume is the load of a command that continues, in its stage, the work that a
// command of an earlier process had begun: Run takes the place of the handler.
// It is for stages whose handlers suspend.
type Resume[S, O any] struct {
	Run   func(c S) O
	Shown any // the command as letters and logs show it
}

// bare returns the command as users see it.
func (r *Resume[S, O]) bare() any { return r.Shown }

// Deriver is implemented by the [Emitter] of a worker that handles one command
// at a time.
type Deriver interface {
	// Derive gives the command that is handled other values: see package
	// stage/headers. It returns false if the handler that the context was for
	// has returned, or its worker was given up.
	Derive(derive func(values context.Context) context.Context) bool
}
