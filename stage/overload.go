package stage

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/reason"
)

// defaultRetryAfter is the hint of an Overload if nothing better is known.
const defaultRetryAfter = time.Second

// Overload describes a refusal because there is too much to do: nothing is
// wrong with the command, and it may be accepted later.
type Overload struct {
	// Reason is reason.Full, reason.Rate, reason.Policy, reason.Disabled,
	// reason.MaxInFlight, reason.Expired, reason.Closed, reason.RetryBudget,
	// or, for a command that was dropped for another one, reason.Oldest. An
	// error of an adapter may have a reason of its own.
	Reason reason.Reason
	// RetryAfter is a hint when to try again, always more than 0. For
	// reason.Rate it is the time until the rate allows the next command, which
	// another submitter may take. For the ErrFull of a full stage it is for how
	// long the command would wait if it had been queued: the commands in the
	// queue, by the rate at which commands have left it. An error of an adapter
	// may have the time that another program has asked for, which may be any.
	// Otherwise it is a second.
	RetryAfter time.Duration
	// Tried says that another try of the command counts as one: it uses up an
	// attempt of a [RetryPolicy]. The command was tried, or waiting may be in
	// vain. It is true for reason.MaxInFlight, reason.Expired, reason.Closed
	// and reason.RetryBudget, and for a handler that may not wait for a stage
	// of a loop that its own stage is in.
	Tried bool
}

// Overloaded reports whether an error of Submit, SubmitAll, Ask, Call, Emit, or
// of a [Ticket] means that there is too much to do. Use it in a server that
// answers 503, or in a source that slows down. It covers
//
//	ErrFull          reason.Full         the stage is full and does not wait, or the limit of a policy is reached
//	a deadline       reason.Full         the submitter's context reached its deadline, or the Timeout of its stage,
//	                                     while the submitter waited for a slot
//	ErrRate          reason.Rate         the rate of a policy is used up
//	ErrPolicy        reason.Policy       a policy sheds the command, or its gate does not let it in
//	ErrDisabled      reason.Disabled     a policy has disabled the stage
//	ErrMaxInFlight   reason.MaxInFlight  the pipeline holds as many commands as it may
//	ErrShed          reason.Oldest       the command was accepted, and dropped for a later one
//	                 reason.Newest       the command was accepted, and dropped at once
//	ErrExpired       reason.Expired      the command was accepted, and waited longer than its time to live
//	ErrClosed        reason.Closed       the stage or the pipeline drains or has stopped; ErrDraining is an ErrClosed
//	ErrRetryBudget   reason.RetryBudget  the command failed, and so many others do that it was not tried again
//
// and errors with a method Overload() (stage.Overload, bool) that reports true:
// errors of adapters, and your own.
//
// It inspects err as [errors.Is] does. So it is also true for an error that a
// handler returned because another stage was overloaded. It is false for nil,
// for [ErrNotRunning] before the start, for a context that was cancelled, and
// for a command that was accepted and whose handler, or caller, ran out of
// time.
func Overloaded(err error) (o Overload, ok bool) {
	if o, ok = overloadOf(err); !ok || o.RetryAfter > 0 {
		return o, ok
	}
	o.RetryAfter = defaultRetryAfter
	if full, is := errors.AsType[*inbox.FullError](err); is && full.Wait > 0 {
		o.RetryAfter = full.Wait
	}
	return o, ok
}

// overloadOf is Overloaded without the default of RetryAfter: it is 0 if
// nothing is known.
func overloadOf(err error) (o Overload, ok bool) {
	if err == nil {
		return Overload{}, false
	}
	if own, ok := errors.AsType[overloader](err); ok {
		if o, ok := own.Overload(); ok {
			return o, true
		}
	}
	if rate, ok := errors.AsType[*gate.RateError](err); ok {
		return Overload{Reason: reason.Rate, RetryAfter: rate.After}, true
	}
	for _, row := range overloads {
		if errors.Is(err, row.err) {
			return Overload{Reason: row.why, Tried: row.tried}, true
		}
	}
	if waited, ok := errors.AsType[*inbox.WaitError](err); ok && isLate(waited) {
		return Overload{Reason: reason.Full}, true
	}
	return Overload{}, false
}

// refusal reports whether an error of a handler says that a service which the
// handler needs has refused the command, so that it was not tried. It returns
// for how long the service asks not to be called again, 0 if it does not say.
func refusal(err error) (asked time.Duration, refused bool) {
	if Crashed(err) {
		return 0, false
	}
	o, overloaded := overloadOf(err)
	return o.RetryAfter, overloaded && !o.Tried
}

// isLate reports whether a context ended because its time was over.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeout)
}

// overloader is an error that is not of this package and may mean overload.
type overloader interface {
	error
	Overload() (Overload, bool)
}

// overloads has the reasons of errors. The first error that matches counts, so
// one that wraps another comes before it.
var overloads = []struct {
	err   error
	why   reason.Reason
	tried bool
}{
	{ErrRetryBudget, reason.RetryBudget, true},
	{ErrMaxInFlight, reason.MaxInFlight, true},
	{inbox.ErrFullLoop, reason.Full, true},
	{ErrFull, reason.Full, false},
	{ErrRate, reason.Rate, false},
	{ErrPolicy, reason.Policy, false},
	{ErrDisabled, reason.Disabled, false},
	{inbox.ErrShedNewest, reason.Newest, false},
	{ErrShed, reason.Oldest, false},
	{ErrExpired, reason.Expired, true},
	{ErrClosed, reason.Closed, true},
}
