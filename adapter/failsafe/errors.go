package failsafe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The reasons of a [RefusedError].
const (
	BreakerOpen  reason.Reason = "breaker_open"  // the circuit breaker is open
	BulkheadFull reason.Reason = "bulkhead_full" // as many calls are under way as the bulkhead allows
	RateLimited  reason.Reason = "rate_limited"  // the rate limiter has no permit
	BudgetSpent  reason.Reason = "budget_spent"  // the call failed, and the budget allows no retry
	TimedOut     reason.Reason = "timed_out"     // the time limit of the policy passed
)

// refusals are the errors of policies, and their reasons. The reason of an
// adaptive limiter is the one that a stage has at the limit of a policy.
var refusals = []struct {
	err error
	why reason.Reason
}{
	{circuitbreaker.ErrOpen, BreakerOpen},
	{bulkhead.ErrFull, BulkheadFull},
	{ratelimiter.ErrExceeded, RateLimited},
	{budget.ErrExceeded, BudgetSpent},
	{timeout.ErrExceeded, TimedOut},
	{adaptivelimiter.ErrExceeded, reason.Full},
}

// RefusedError is the error of a call that a policy refused or ended.
type RefusedError struct {
	Reason     reason.Reason
	RetryAfter time.Duration // until an open breaker lets calls through; 0 if that is not known
	Err        error         // the policy's error
}

// Error returns the text of the policy's error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the policy's error, and context.DeadlineExceeded for TimedOut.
func (e *RefusedError) Unwrap() []error {
	if e.Reason == TimedOut {
		return []error{e.Err, context.DeadlineExceeded}
	}
	return []error{e.Err}
}

// Overload is for [stage.Overloaded]. A time limit that passed is no overload,
// and a call whose budget was spent has been tried.
func (e *RefusedError) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: e.Reason, RetryAfter: e.RetryAfter, Tried: e.Reason == BudgetSpent}, e.Reason != TimedOut
}

// errGoexit is the Value of a PanicError of a function that ended its
// goroutine.
var errGoexit = errors.New("failsafe: the function called runtime.Goexit")

// PanicError is the value with which Call panics if the function panicked or
// called runtime.Goexit. It is the Value of the stage's [stage.CrashError],
// whose own stack shows Call, not the function.
type PanicError struct {
	Value any    // what the function gave to panic
	Stack []byte // of the goroutine that panicked
	At    string // the function that panicked, with file and line

	ended bool // it did not panic, but ended its goroutine
}

// newPanicError is called by the function that has recovered v; nil is for a
// function that ended its goroutine.
func newPanicError(v any) *PanicError {
	if v == nil {
		return &PanicError{Value: errGoexit, ended: true}
	}
	e := &PanicError{Value: v, Stack: debug.Stack()}
	var calls [32]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(0, calls[:])])
	panicking := false
	for {
		f, more := frames.Next()
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			e.At = fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line)
			return e
		}
		panicking = panicking || f.Function == "runtime.gopanic"
		if !more {
			return e
		}
	}
}

// Error returns the value as text, and where the function panicked.
func (e *PanicError) Error() string {
	if e.At == "" {
		return plain.Text(e.Value)
	}
	return fmt.Sprintf("%s (at %s)", plain.Text(e.Value), e.At)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
