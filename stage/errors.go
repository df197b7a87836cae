package stage

import (
	"errors"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/worker"
)

// The errors that refuse a command or end it, wrapped with the stage's name.
// [Overloaded] answers for several of them whether there is too much to do.
var (
	// ErrFull refuses a command: the stage has no free slot, and its rule is
	// not to wait.
	ErrFull = inbox.ErrFull
	// ErrClosed refuses a command: the pipeline drains or has stopped.
	ErrClosed = inbox.ErrClosed
	// ErrDraining refuses a command: the stage is being drained, or has been.
	// It is an [ErrClosed] that may end: the stage can be opened again.
	ErrDraining = inbox.ErrDraining
	// ErrNotRunning refuses a command: the stage is not part of a pipeline that
	// was started.
	ErrNotRunning = inbox.ErrNotRunning
	// ErrShed ends an accepted command: it was dropped because the stage was
	// full.
	ErrShed = inbox.ErrShed
	// ErrRate refuses a command: it exceeds the rate that a policy allows.
	ErrRate = gate.ErrRate
	// ErrPolicy refuses a command: a policy sheds some, or its gate does not
	// let it in.
	ErrPolicy = gate.ErrPolicy
	// ErrDisabled refuses a command, or ends one that was forwarded: a policy
	// has disabled the stage.
	ErrDisabled = inbox.ErrDisabled
	// ErrMaxInFlight refuses a command that a handler emits, or submits, to a
	// stage of a loop that its own stage is in: the pipeline holds as many
	// commands as pipeline.MaxInFlight says. An emitted command leaves a dead
	// letter.
	ErrMaxInFlight = inbox.ErrMaxInFlight
	// ErrExpired ends an accepted command: its time to live was over before its
	// handler was called. See [TTL] and [ExpiresAt].
	ErrExpired = inbox.ErrExpired
	// ErrRetryBudget ends a command that was not tried again because its stage
	// had spent the Budget of its [RetryPolicy]. The error of the last try is
	// wrapped beside it.
	ErrRetryBudget = inbox.ErrRetryBudget
	// ErrSelfCall refuses the [Call] of a handler that may suspend, in a
	// [Keyed] stage, which calls its own stage with a command of its own key:
	// that would wait for the handler, and the handler for it. So it may in a
	// stage with [Fair] and a bound for the handlers of a key.
	ErrSelfCall = inbox.ErrSelfCall
	// ErrElsewhere refuses a command, or ends one, because its stage runs in
	// another process (pipeline.RunsHere) and no commands can be sent there, or
	// the caller waits for a result that cannot come from there: the stage is
	// keyed, the carrier takes no calls, or cannot carry the type. It also
	// refuses to upgrade or rewire such a stage.
	ErrElsewhere = inbox.ErrElsewhere
	// ErrStopped ends an accepted command: the pipeline stopped hard before the
	// command was done, or before the pipeline knew that it was. It also
	// refuses to upgrade a stage that has stopped.
	ErrStopped = inbox.ErrStopped
	// ErrTimeout is the cause with which a handler's context ends at the
	// stage's time limit.
	ErrTimeout = worker.ErrTimeout
	// ErrStuck is the value of a [CrashError] whose handler did not return.
	// Beside ErrStopped it is the error of commands whose worker did not return
	// within the grace of a hard stop.
	ErrStuck = worker.ErrStuck
	// ErrForeign ends a command that was forwarded to a stage outside the
	// pipeline. Commands reach the stage of another pipeline through a channel:
	// the handler sends to it, and the other pipeline has a feed of
	// source.Chan. Then each pipeline has accounts that balance, and a command
	// that the first one has ended may still be on its way in the second.
	ErrForeign = worker.ErrForeign
)

// CrashError is the end of a command that crashed its handler.
type CrashError = crash.Error

// Crashed reports whether an error is, or wraps, a [*CrashError]. As the If of
// a [RetryPolicy] it selects crashes, and no errors that a handler returns.
func Crashed(err error) bool {
	_, ok := errors.AsType[*CrashError](err)
	return ok
}

// BrokenError is why a stage gave up: its workers could not start, or crashed
// more often than the Limit of a [RestartPolicy] allows, and not one command
// was completed in between. It is part of the error of the pipeline, and its
// Story of the report of an escalation.
//
//	Stage     string        // the stage's name
//	Crashes   int           // in a row; all crashes of one command count once
//	Unstarted int           // those at the end that were workers which could not start
//	First     error         // the first crash, nil if Last has it
//	Last      []error       // the last five crashes, the newest at the end
//	Pauses    int           // how many restarts of workers came after a pause
//	Paused    time.Duration // the sum of these pauses
//
//	func (e *BrokenError) Error() string   // the count, and the last crash
//	func (e *BrokenError) Story() string   // what was tried, and each known crash with its stack
//	func (e *BrokenError) Unwrap() []error // the known crashes
type BrokenError = engine.BrokenError

// JoinedError is the error of a [Ticket], or of a [Call], of which several
// commands failed: the command itself, or commands that were emitted on its
// way. It keeps the first 16 errors and counts the others. [errors.Is] and
// [errors.As] inspect all errors that are kept.
type JoinedError = command.JoinedError

// TypeError reports a value of another type than a stage or its caller wants.
// It refuses a message that is not of the stage's command type. It is also why
// a [Call] has no result although the command succeeded: the result, which
// [behaviour.OK] was given at the stage that was called or at one that it
// forwards to, is not of the type that the caller asked for.
//
//	Stage  string // the name of the stage that was sent the message, or called
//	Want   string // the stage's command type, or the type that the caller asked for
//	Got    string // the type of the message or of the result
//	Result bool   // the value is the result of a call
type TypeError = engine.TypeError
