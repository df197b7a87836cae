// Package behaviour defines how a stage handles one command.
//
// A behaviour is the only code that a user of Golda must write. It takes a
// command and returns one of three outcomes, as in ERLDA's handle_command/1
// (Areias and Neto 2025, §3.1):
//
//   - [OK]: the command is done, and this is its result;
//   - [Forward]: the command is sent on, to a stage or to a port wired to one;
//   - [Error]: the command is answered with a reason. An error is an answer,
//     not a crash: nothing is restarted because of it.
//
// Anything else that happens in a handler, a panic or a [runtime.Goexit], is a
// crash: the worker charges it to the command it handles, discards the
// instance, and restarts with a new one.
//
// # Ownership
//
// A command belongs to the stage that holds it. A behaviour that forwards a
// command, or returns it as a result, gives it away and must not touch it
// again. A behaviour that may be retried (see the stage's retry policy) should
// not change a command before it is sure to succeed.
//
// # Concurrency
//
// An instance made by a [Factory] is used by one worker at a time, though not
// always by the same one, so its fields need no lock. A shared behaviour
// (stage.New) is used by all workers of its stage at once and must be safe for
// that; a [Func] without captured state is.
//
// # Errors
//
// A handler does not wait for the next stage. If the inbox of the next stage is
// full, the engine keeps the outcome and holds the worker back after the
// handler has returned. Only an [Emit] beyond the number of commands that are
// held for a handler, or a Submit that the handler calls itself, may wait.
//
// # Testing
//
// A behaviour is a plain value: call HandleCommand and read the [Outcome] with
// [Outcome.Result], [Outcome.Err], [Outcome.Command] and [Outcome.Next].
//
// This package is the lowest layer: it starts no goroutine, reads no clock, and
// holds no lock.
package behaviour
