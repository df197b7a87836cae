// Package remote is the interface of carriers. A carrier takes commands to the
// stages of a pipeline that run in other processes: pipeline.RunsHere is given
// a [Carrier], which makes a [Line] for each of these stages. A Line that also
// takes calls is a [Caller].
//
// Most programs use a carrier that is there, such as the one of adapter/nats,
// and need nothing of this package. It is for carriers over other transports.
package remote

import (
	"context"
	"reflect"

	"github.com/golda-dev/golda/internal/engine"
)

// ErrNotBegun is wrapped by an error that a [Caller] gets for a command which
// was called in another process, and which the stage did not accept because it
// is being drained or stopped. So the command may be called in another process
// that runs the stage.
var ErrNotBegun = engine.ErrNotBegun

// Carrier carries commands from process to process, for pipeline.RunsHere: it
// keeps each until a process that runs its stage has handled it. The Carrier of
// adapter/nats does that with JetStream.
//
// All processes of a pipeline have carriers that lead to the same place, such
// as one server. If a Carrier has the method CheckPipeline(name string) error,
// pipeline.New calls it with the name of the pipeline: its error is a fault.
type Carrier interface {
	// Line returns the line that leads to a stage whose commands are of a type.
	// If the stage is a keyed one, key returns a number for a command that is
	// the same for all commands of one key, in every process; otherwise it is
	// nil. It may panic, as the user's function for the key does: then the
	// command has no key. The stage is in one process, or in several at once.
	//
	// pipeline.New calls Line once for each stage that commands of other
	// processes come to, or go to. Line does not wait for anything; its error
	// is a fault of New.
	Line(stage string, commands reflect.Type, key func(cmd any) uint64) (Line, error)
}

// Line leads to one stage: commands for it are sent in some processes, and fed
// to it in the processes that run it. A Line promises that a command which was
// sent is fed until it has ended in one of these, also if processes are killed
// meanwhile.
//
// Commands may have values of their submitters' contexts, and deadlines, see
// package stage/headers and stage.WithDeadline. A Line that takes them along
// has the method
//
//	SendWith(ctx context.Context, cmds []any, of []context.Context) []error
//
// The pipeline calls it in place of Send. Of has the context of each command, and
// nil for a command without one; it is nil if no command has a context. A Line
// without the method leaves values and deadlines behind.
type Line interface {
	// Open is called once, when the pipeline starts, before Send and Feed. Its
	// error is the error of the start.
	Open(ctx context.Context) error
	// Send sends commands, in order. It returns an error for each command, in
	// which nil means that the command cannot be lost any more; or nil if all
	// were sent. It waits while the line is full or away, until ctx ends: other
	// errors say that a command cannot be sent at all. It is called by one
	// goroutine at a time.
	Send(ctx context.Context, cmds []any) []error
	// Feed submits the commands that were sent, until ctx ends, and hears the
	// end of each, as in source.Ends. It is called only where the stage runs,
	// and again after an error, like any source. A command of another type than
	// the stage's ends at once, with an error.
	//
	// Of a keyed stage the commands of one key are in one process at a time,
	// and are fed in the order in which they were sent: each after the end of
	// the one before.
	Feed(ctx context.Context, submit func(cmd any, ended func(err error)) error) error
}

// Caller is a Line that also takes calls: commands whose callers wait for the
// result, with stage.Call or stage.Stage.Ask. With a Line that is no Caller
// they fail with stage.ErrElsewhere. Calls of a keyed stage fail so, too: its
// Line is neither called nor answers.
//
// Only the caller learns the result. Calls are not stored: if the process that
// runs one dies, Call returns an error, and the call is not retried.
type Caller interface {
	Line

	// Call hands a command to one process that runs the stage, to be handled at
	// most once, and returns its result or error. The process learns the
	// deadline of ctx; when ctx ends Call returns at once, and the context of
	// the handler ends. The result is of the type want, nil, or an error such
	// as a *stage.TypeError; if want is nil or an interface, of whatever
	// type the Caller can tell it to be. If no process runs the stage, or the
	// process that has the command is lost, Call does not wait for ctx. It is
	// called by many goroutines at once.
	//
	// Ctx has the values of the caller's context, without its end. A Caller that
	// takes along what it should writes them with headers.Inject of package
	// stage/headers, and the time until a deadline of [stage.WithDeadline]. What
	// another process calls then, for handle, is a context with these.
	Call(ctx context.Context, cmd any, want reflect.Type) (result any, err error)
	// Answer calls handle for commands that other processes call, until ctx
	// ends, and sends back the results. Handle blocks until the command has
	// ended, and is called by many goroutines at once, with a context that ends
	// when the caller does not wait any more, and the command soon after. If
	// the command goes on to a third process, want is what Call is given here:
	// it may be a type of the Caller's own, for a result that is passed on
	// unread. Answer returns when ctx has ended; calls that handle has begun
	// are answered all the same. It is called only where the stage runs, and
	// again after an error, as Feed is, and while that feeds. A command of
	// which handle returns [ErrNotBegun] is called in another process, if there
	// is one.
	Answer(ctx context.Context, handle func(ctx context.Context, cmd any, want reflect.Type) (result any, err error)) error
}
