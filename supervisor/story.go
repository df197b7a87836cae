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

// Why a child may have ended, and how a start may go.
var (
	// ErrNormal is the reason of a child that came to its end.
	ErrNormal = errors.New("supervisor: ended normally")
	// ErrShutdown is the reason of a child that was told to stop, and the cause with
	// which a service's context ends. A service may return an error that wraps it
	// to end well by itself.
	ErrShutdown = errors.New("supervisor: shutdown")
	// ErrKilled is the reason of a child that ended without a word: somebody
	// stopped it who should not have.
	ErrKilled = errors.New("supervisor: child ended without being told to")
	// ErrGoexit is the value of a [CrashError] if a goroutine was ended by
	// runtime.Goexit.
	ErrGoexit = errors.New("supervisor: runtime.Goexit")
	// ErrIgnore is said by a child, instead of being ready, that is not needed: the
	// start goes on without it.
	ErrIgnore = errors.New("supervisor: child is not needed")
	// ErrSlow is the reason of a start that took longer than its limit.
	ErrSlow = errors.New("supervisor: child was not ready in time")
)

// What a tree may answer to those who want to change its children.
var (
	// ErrStopped refuses because the supervisor has stopped, or is about to.
	ErrStopped = errors.New("supervisor: stopped")
	// ErrNotFound is OTP's not_found.
	ErrNotFound = errors.New("supervisor: no such child")
	// ErrAlreadyStarted is OTP's already_started: there is a child of that name,
	// and it runs.
	ErrAlreadyStarted = errors.New("supervisor: child is started already")
	// ErrAlreadyPresent is OTP's already_present: there is a child of that name, but
	// it does not run.
	ErrAlreadyPresent = errors.New("supervisor: child is there already")
	// ErrRunning is OTP's running.
	ErrRunning = errors.New("supervisor: child is running")
	// ErrRestarting is OTP's restarting.
	ErrRestarting = errors.New("supervisor: child is being restarted")
	// ErrSimple is OTP's simple_one_for_one: such children cannot be restarted or
	// deleted by hand.
	ErrSimple = errors.New("supervisor: not with simple_one_for_one")
	// ErrFull refuses one child more than there may be.
	ErrFull = errors.New("supervisor: no room for another child")
)

// CrashError tells that a service, or other foreign code, panicked or ended its
// goroutine.
type CrashError struct {
	Child string
	Value any // what was given to panic, or ErrGoexit
	Stack []byte
}

// Error tells where and what, whatever the value is: it may hold itself, and only so much
// of it is told. The stack is apart.
func (e *CrashError) Error() string {
	return fmt.Sprintf("%s: crash: %s", e.Child, plain.Text(e.Value))
}

// Unwrap returns the panic's value if it is an error.
func (e *CrashError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StartError tells which child could not start, and why.
type StartError struct {
	Child  string
	Reason error
}

// Error tells both.
func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Child, plain.Text(e.Reason)) }

// Unwrap returns why.
func (e *StartError) Unwrap() error { return e.Reason }

// ShutdownError tells that a supervisor ended because a significant child had
// crashed and was not to be restarted.
type ShutdownError struct {
	Supervisor string
	Child      string
	Reason     error
}

// Error tells all three.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("%s: ended with its significant child %q: %s", e.Supervisor, e.Child, plain.Text(e.Reason))
}

// Unwrap returns why the child ended.
func (e *ShutdownError) Unwrap() error { return e.Reason }

// LeftError tells who did not stop in time and was abandoned.
type LeftError struct {
	Supervisor string
	Left       []string
}

// Error names them.
func (e *LeftError) Error() string {
	return fmt.Sprintf("%s: would not stop and were abandoned: %q", e.Supervisor, e.Left)
}

// Failure is one child's end in the story of an escalation.
type Failure struct {
	Child    string
	At       time.Time
	Up       time.Duration // how long it had been up; zero if it could not start
	Starting bool          // it failed before it was ready
	Reason   error
	Tried    string // what the supervisor did about it
}

// most is how many failures a story tells of.
const most = 16

// EscalationError tells that a supervisor gave up.
type EscalationError struct {
	Supervisor string
	Child      string // whose failure was one too many
	Restarts   int    // made within the period before that
	Within     time.Duration
	Reason     error // why the child failed; another EscalationError if it is a supervisor

	Strategy Strategy
	Failures []Failure // the last, the newest at the end
}

// Error tells the whole story in a line.
func (e *EscalationError) Error() string {
	if e.Restarts == 0 {
		return fmt.Sprintf("%s: %q failed: %s", e.Supervisor, e.Child, plain.Text(e.Reason))
	}
	return fmt.Sprintf("%s: %q failed after %d restarts within %v: %s",
		e.Supervisor, e.Child, e.Restarts, e.Within, plain.Text(e.Reason))
}

// Unwrap returns why the child failed. If that was a restart that failed, it returns what the restart was for
// as well, which may be the failure of a sibling.
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

// Story tells who failed, how often and when, what was tried, and where each crash
// happened, with the stories of those below: supervisors, and other reasons that have a
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
		for line := range strings.Lines(more(f.Reason)) {
			b.WriteString("     " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// teller is a reason with a story of its own: that of a supervisor below, or of another
// kind of child that kept others, such as a stage.
type teller interface {
	error
	Story() string
}

// more is a reason's own story, or its stack.
func more(reason error) string {
	if below, ok := errors.AsType[teller](reason); ok {
		return below.Story()
	}
	if crash, ok := errors.AsType[*CrashError](reason); ok {
		return string(crash.Stack)
	}
	return ""
}

// remember adds a failure to a story and keeps the last few.
func remember(story []Failure, f Failure) []Failure {
	if len(story) >= most {
		story = slices.Delete(story, 0, len(story)-most+1)
	}
	return append(story, f)
}

// endedWell reports whether a reason is one after which a transient child is left
// alone: normal, shutdown, {shutdown, _}. A nested supervisor that gives up ends with
// shutdown, as in OTP.
func endedWell(reason error, nested bool) bool {
	if nested {
		_, gaveUp := errors.AsType[*EscalationError](reason)
		_, shutdown := errors.AsType[*ShutdownError](reason)
		if gaveUp || shutdown {
			return true
		}
	}
	if _, crashed := errors.AsType[*CrashError](reason); crashed {
		return false // whatever was given to panic
	}
	return reason == nil || errors.Is(reason, ErrNormal) || errors.Is(reason, ErrShutdown)
}

// guarded calls foreign code and returns its panic, or its end by runtime.Goexit, as
// an error.
func guarded(who string, f func() error) error {
	over := make(chan error, 1)
	go func() { over <- caught(who, f, func(err error) { over <- err }) }()
	return <-over
}

// caught calls f and returns its crash as an error. If f ends its goroutine nobody
// returns, so the error is given to exited.
func caught(who string, f func() error, exited func(error)) (err error) {
	ended := false
	defer func() {
		if ended {
			return
		}
		value := recover()
		crash := &CrashError{Child: who, Value: value, Stack: debug.Stack()}
		if value == nil {
			crash.Value = ErrGoexit
			exited(crash)
		}
		err = crash
	}()
	err = f()
	ended = true
	return err
}
