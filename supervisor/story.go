package supervisor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/plain"
)

// The reasons for which a child may end or not start.
var (
	// ErrNormal is the reason of a child that finished its work.
	ErrNormal = errors.New("supervisor: ended normally")
	// ErrShutdown is the reason of a child that was asked to stop, and the
	// cause with which a service's context ends. A service may return an error
	// that wraps it to end well by itself.
	ErrShutdown = errors.New("supervisor: shutdown")
	// ErrKilled is the reason of a child whose actor was stopped from outside,
	// not by its supervisor.
	ErrKilled = errors.New("supervisor: child ended without being asked to")
	// ErrIgnore is returned, instead of being ready, by a child that is not
	// needed: the start continues without it.
	ErrIgnore = errors.New("supervisor: child is not needed")
	// ErrSlow is the reason of a start that took longer than its limit.
	ErrSlow = errors.New("supervisor: child was not ready in time")
)

// The errors of the methods that change the children of a tree.
var (
	// ErrStopped means that the supervisor has stopped, or is stopping.
	ErrStopped = errors.New("supervisor: stopped")
	// ErrNotFound is OTP's not_found.
	ErrNotFound = errors.New("supervisor: no such child")
	// ErrAlreadyStarted is OTP's already_started: there is a child of that
	// name, and it runs.
	ErrAlreadyStarted = errors.New("supervisor: child is started already")
	// ErrAlreadyPresent is OTP's already_present: there is a child of that
	// name, but it does not run.
	ErrAlreadyPresent = errors.New("supervisor: child is there already")
	// ErrRunning is OTP's running.
	ErrRunning = errors.New("supervisor: child is running")
	// ErrRestarting is OTP's restarting.
	ErrRestarting = errors.New("supervisor: child is being restarted")
	// ErrFull means that the supervisor has Most children already.
	ErrFull = errors.New("supervisor: too many children; see Spec.Most")
)

// errSimple is OTP's simple_one_for_one: children of such a supervisor cannot
// be restarted or deleted by a call.
var errSimple = errors.New("supervisor: not with simple_one_for_one")

// errGoexit is the value of a CrashError if runtime.Goexit ended a goroutine.
var errGoexit = errors.New("supervisor: runtime.Goexit")

// CrashError means that a service, or other foreign code, panicked or ended its
// goroutine.
type CrashError struct {
	Child string
	Value any // the argument of panic; for runtime.Goexit an error that says so
	Stack []byte
}

// Error returns the place and the value. The value may be of any kind, even one
// that contains itself; a long text is cut off. The text does not include the
// stack.
func (e *CrashError) Error() string {
	return fmt.Sprintf("%s: crash: %s", e.Child, plain.Text(e.Value))
}

// Unwrap returns the panic's value if it is an error.
func (e *CrashError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StartError means that a child could not start, and holds why.
type StartError struct {
	Child  string
	Reason error
}

// Error returns the child and the reason.
func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Child, plain.Text(e.Reason)) }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Reason }

// ShutdownError means that a supervisor ended because a significant child had
// crashed and was not to be restarted.
type ShutdownError struct {
	Supervisor string
	Child      string
	Reason     error
}

// Error returns the supervisor, the child and the reason.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("%s: ended with its significant child %q: %s", e.Supervisor, e.Child, plain.Text(e.Reason))
}

// Unwrap returns why the child ended.
func (e *ShutdownError) Unwrap() error { return e.Reason }

// LeftError names the children that did not stop in time and were abandoned.
type LeftError struct {
	Supervisor string
	Left       []string
}

// Error returns the names.
func (e *LeftError) Error() string {
	return fmt.Sprintf("%s: would not stop and were abandoned: %q", e.Supervisor, e.Left)
}

// Failure is one failure of a child before an escalation.
type Failure struct {
	Child    string
	At       time.Time
	Up       time.Duration // how long it had been up; zero if it could not start
	Starting bool          // it failed before it was ready
	Reason   error
	Tried    string // the supervisor's reaction
}

// maxFailures is how many failures an EscalationError keeps.
const maxFailures = 16

// EscalationError means that a supervisor gave up.
type EscalationError struct {
	Supervisor string
	Child      string // the child whose failure was one too many
	Restarts   int    // made within the period before that failure
	Within     time.Duration
	Reason     error // why the child failed; another EscalationError if it is a supervisor

	Strategy Strategy
	Failures []Failure // the last failures, the newest at the end
}

// Error returns a summary in one line.
func (e *EscalationError) Error() string {
	if e.Restarts == 0 {
		return fmt.Sprintf("%s: %q failed: %s", e.Supervisor, e.Child, plain.Text(e.Reason))
	}
	return fmt.Sprintf("%s: %q failed after %d restarts within %v: %s",
		e.Supervisor, e.Child, e.Restarts, e.Within, plain.Text(e.Reason))
}

// Unwrap returns why the child failed. If the failure was a failed restart, it
// also returns the reason for that restart, which may be the failure of a
// sibling.
func (e *EscalationError) Unwrap() []error {
	reasons := []error{e.Reason}
	starting := false
	for _, f := range slices.Backward(e.Failures) {
		if starting && !f.Starting {
			reasons = append(reasons, f.Reason)
		}
		if starting = f.Starting; !starting {
			break
		}
	}
	return reasons
}

// Story returns a report of several lines: which children failed, how often and
// when, the reactions of the supervisor, and where each crash happened. It
// includes the stories of nested supervisors, and of other reasons that have a
// method Story.
func (e *EscalationError) Story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "supervisor %q (%v) gave up on %q after %d restarts within %v\n",
		e.Supervisor, e.Strategy, e.Child, e.Restarts, e.Within)
	for i, f := range e.Failures {
		fmt.Fprintf(&b, "  %d. +%v %q ", i+1, f.At.Sub(e.Failures[0].At).Round(time.Microsecond), f.Child)
		switch {
		case f.Starting:
			b.WriteString("could not start")
		default:
			fmt.Fprintf(&b, "failed after %v", f.Up.Round(time.Microsecond))
		}
		fmt.Fprintf(&b, ": %s; %s\n", plain.Text(f.Reason), f.Tried)
		for line := range strings.Lines(details(f.Reason)) {
			b.WriteString("     " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// storied is a reason with a story of its own: the reason of a nested
// supervisor, or of another kind of child that had children, such as a stage.
type storied interface {
	error
	Story() string
}

// details returns a reason's own story, or its stack.
func details(reason error) string {
	if below, ok := errors.AsType[storied](reason); ok {
		return below.Story()
	}
	if crash, ok := errors.AsType[*CrashError](reason); ok {
		return string(crash.Stack)
	}
	return ""
}

// remember adds a failure to a story and keeps the last maxFailures.
func remember(story []Failure, f Failure) []Failure {
	if len(story) >= maxFailures {
		story = slices.Delete(story, 0, len(story)-maxFailures+1)
	}
	return append(story, f)
}

// endedWell reports whether a reason is one after which a transient child is
// not restarted: normal, shutdown, {shutdown, _}. A nested supervisor that
// gives up ends with shutdown, as in OTP.
func endedWell(reason error, nested bool) bool {
	if nested {
		_, gaveUp := errors.AsType[*EscalationError](reason)
		_, shutdown := errors.AsType[*ShutdownError](reason)
		if gaveUp || shutdown {
			return true
		}
	}
	if _, crashed := errors.AsType[*CrashError](reason); crashed {
		return false // a panic is a crash, whatever its value is
	}
	return reason == nil || errors.Is(reason, ErrNormal) || errors.Is(reason, ErrShutdown)
}

// guarded calls foreign code and returns its panic, or its end by
// runtime.Goexit, as an error.
func guarded(name string, f func() error) error {
	over := make(chan error, 1)
	go func() { over <- caught(name, f, func(err error) { over <- err }) }()
	return <-over
}

// caught calls f and returns its crash as an error. If f ends its goroutine,
// caught does not return, and passes the error to exited.
func caught(name string, f func() error, exited func(error)) (err error) {
	ended := false
	defer func() {
		if ended {
			return
		}
		value := recover()
		crash := &CrashError{Child: name, Value: value, Stack: debug.Stack()}
		if value == nil {
			crash.Value = errGoexit
			exited(crash)
		}
		err = crash
	}()
	err = f()
	ended = true
	return err
}
