package nats

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The reasons of a [Letter] that package reason does not have.
const (
	Undecodable reason.Reason = "undecodable"  // the codec returned an error
	UnknownType reason.Reason = "unknown_type" // the codec returned ErrUnknownType
	Deliveries  reason.Reason = "deliveries"   // it was delivered as often as it may, and no process said how it ended
)

// act is what to do with a message.
type act uint8

const (
	ack      act = iota // it is done
	giveBack            // deliver it again
	bury                // it is a dead letter
)

// verdict says what to do with the message of a command that has ended.
type verdict struct {
	act    act
	delay  time.Duration // of giveBack
	reason reason.Reason // of bury
}

// judge returns what to do with a message that was delivered n times, after its command has ended with err.
func judge(p stage.RetryPolicy, n int, err error) verdict {
	switch {
	case err == nil:
		return verdict{act: ack}
	case errors.Is(err, stage.ErrStopped): // the next process does it
		return verdict{act: giveBack}
	}
	again, why := true, reason.Error
	switch {
	case stage.Crashed(err):
		again, why = false, reason.Crash
	case errors.Is(err, stage.ErrExpired):
		again, why = false, reason.Expired
	}
	if p.If != nil {
		again = p.If(err)
	}
	if !again || n >= p.Attempts {
		return verdict{act: bury, reason: why}
	}
	delay := backoff.Pause(p.Backoff, p.Max, n, p.Jitter*(2*rand.Float64()-1))
	if o, overloaded := stage.Overloaded(err); overloaded {
		delay = max(delay, o.RetryAfter)
	}
	return verdict{act: giveBack, delay: delay}
}
