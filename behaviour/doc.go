// Package behaviour says what a stage does with one command.
//
// A behaviour is the only code that a user of Golda must write. It takes a
// command and answers one of three outcomes, as in ERLDA's
// handle_command/1 (Areias and Neto 2025, §3.1):
//
//   - [OK]: the command is done, and this is its result;
//   - [Forward]: the command goes on, to a stage or to a port wired to one;
//   - [Error]: the command is answered with a reason. An error is an answer,
//     not a crash: nothing is restarted because of it.
//
// Whatever else happens in a handler, a panic or a [runtime.Goexit], is a crash:
// the worker that ran it charges the command in hand, throws the instance away and
// is started afresh with a new one.
//
// # Ownership
//
// A command belongs to the stage that holds it. A behaviour that forwards a
// command, or answers it as a result, gives it away and must not touch it
// again. A behaviour that may be tried twice (see the stage's retry policy)
// should not change a command before it is sure to succeed.
//
// # Concurrency
//
// An instance made by a [Factory] is used by one worker at a time, though not always by
// the same, so its fields need no lock. A behaviour that is shared (stage.New) is used by all
// workers of its stage at once and must be safe for that; a [Func] without
// captured state is.
//
// # Errors
//
// A handler returns; it does not block on a full stage. If the next room is full
// the engine keeps the outcome and holds the worker back, not the handler. Only an
// [Emit] beyond what is held for a handler, or a Submit of its own, may wait.
//
// # Testing
//
// A behaviour is a plain value: call HandleCommand and look at the [Outcome]
// with [Outcome.Result], [Outcome.Err], [Outcome.Command] and [Outcome.Next].
//
// This package is the ground floor: it starts no goroutine, reads no clock,
// holds no lock and imports nothing of Golda.
package behaviour
