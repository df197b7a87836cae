package crash

import (
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/stacks"
)

// ErrGoexit is the value of a crash in which user code ended its goroutine with
// runtime.Goexit, as a failing test helper does.
var ErrGoexit = errors.New("worker: handler called runtime.Goexit")

// Error is the crash of a handler: it panicked or ended its goroutine. It is
// the error of the ticket and of the dead letter of a command that is not tried
// again, and part of the error with which a stage gives up. Users know it as
// [github.com/golda-dev/golda/stage.CrashError].
type Error struct {
	// Stage is the name of the stage where the handler crashed.
	Stage string
	// Value is the argument of panic, or [ErrGoexit].
	Value any
	// Stack is the goroutine's stack at the crash. It must not be changed:
	// crashes that followed the same calls of the handler share it. So the
	// number of the goroutine, the arguments, and the calls outside the handler
	// may come from an earlier crash.
	Stack []byte
	// Attempts is how often the command had been tried, including this try,
	// counted to 65,535. It is 0 if there was no command: the crash was in
	// Start, Stop or a condition.
	Attempts int
	// Version is what the behaviour returns as its version, if it is a
	// [github.com/golda-dev/golda/behaviour.Versioned].
	Version string

	site *Site // nil if the error was made outside this package
}

// Fingerprint returns a short hash of the user's part of the stack. Crashes at
// the same place have the same fingerprint, in every run of the same program.
// The numbers of goroutines, addresses, arguments, the frames of the engine,
// the depth of a recursion, and the value of the panic make no difference. An
// empty stack has an empty fingerprint.
func (e *Error) Fingerprint() string {
	if e.site == nil {
		return stacks.Fingerprint(e.Stack)
	}
	return e.site.fingerprint()
}

// Error returns the stage and the value as text, without the stack. It is safe
// for any value, even for one that contains itself, and its length is bounded.
func (e *Error) Error() string {
	if e.Attempts == 0 {
		return fmt.Sprintf("stage %q: crash: %s", e.Stage, plain.Text(e.Value))
	}
	return fmt.Sprintf("stage %q: crash at attempt %d: %s", e.Stage, e.Attempts, plain.Text(e.Value))
}

// Unwrap returns the panic's value if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Thrown is how a handler crashed. A worker panics with it in place of a run,
// whose handler crashed on a coroutine.
type Thrown struct {
	Value   any
	At      *Site
	Version string // of the handler; the worker may have an instance of another version by now
}

// ErrorAt returns the error of a crash at a stage, at no attempt yet.
func (t *Thrown) ErrorAt(stage string) *Error {
	return &Error{Stage: stage, Value: t.Value, Stack: t.At.stack, Version: t.Version, site: t.At}
}
