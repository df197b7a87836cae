package stage

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
)

// defaultRetryAfter is the hint of an Overload if nothing better is known.
const defaultRetryAfter = time.Second

// Overload describes a refusal because there is too much to do: nothing is wrong with the command, and it may be accepted
// later.
type Overload struct {
	// Reason is ReasonFull, ReasonRate, ReasonPolicy, ReasonDisabled, ReasonMaxInFlight, ReasonExpired, ReasonClosed, or, for a
	// command that was dropped for another one, ReasonOldest.
	Reason Reason
	// RetryAfter is a hint when to try again, always more than 0. For ReasonRate it is the time until the rate allows the next
	// command, which another submitter may take. Otherwise it is a second.
	RetryAfter time.Duration
}

// Overloaded reports whether an error of Submit, SubmitAll, Ask, Call, Emit, or of a [Ticket] means that there is too much to do.
// Use it in a server that answers 503, or in a source that slows down. It covers
//
//	ErrFull          ReasonFull         the stage is full and does not wait, or the limit of a policy is reached
//	a deadline       ReasonFull         the submitter's context ended, not by a cancellation, while it waited for a slot
//	ErrRate          ReasonRate         the rate of a policy is used up
//	ErrPolicy        ReasonPolicy       a policy sheds the command, or its gate does not let it in
//	ErrDisabled      ReasonDisabled     a policy has disabled the stage
//	ErrMaxInFlight   ReasonMaxInFlight  the pipeline holds as many commands as it may
//	ErrShed          ReasonOldest       the command was accepted, and dropped for a later one
//	                 ReasonNewest       the command was accepted, and dropped at once
//	ErrExpired       ReasonExpired      the command was accepted, and waited longer than its time to live
//	ErrClosed        ReasonClosed       the stage or the pipeline drains or has stopped; ErrDraining is an ErrClosed
//
// It inspects err as [errors.Is] does. So it is also true for an error that a handler returned because another stage was
// overloaded. It is false for nil, for [ErrNotRunning] before the start, for a context that was cancelled, and for a command
// that was accepted and whose handler, or caller, ran out of time.
func Overloaded(err error) (o Overload, ok bool) {
	if err == nil {
		return Overload{}, false
	}
	if rate, ok := errors.AsType[*inbox.RateError](err); ok {
		return Overload{ReasonRate, rate.After}, true
	}
	for _, row := range overloads {
		if errors.Is(err, row.err) {
			return Overload{row.reason, defaultRetryAfter}, true
		}
	}
	if waited, ok := errors.AsType[*inbox.WaitError](err); ok && !errors.Is(waited, context.Canceled) {
		return Overload{ReasonFull, defaultRetryAfter}, true
	}
	return Overload{}, false
}

var overloads = []struct {
	err    error
	reason Reason
}{
	{ErrMaxInFlight, ReasonMaxInFlight},
	{ErrFull, ReasonFull},
	{ErrRate, ReasonRate},
	{ErrPolicy, ReasonPolicy},
	{ErrDisabled, ReasonDisabled},
	{inbox.ErrShedNewest, ReasonNewest},
	{ErrShed, ReasonOldest},
	{ErrExpired, ReasonExpired},
	{ErrClosed, ReasonClosed},
}
