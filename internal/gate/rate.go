package gate

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// ErrRate refuses a command because a rate is used up.
var ErrRate = errors.New("stage: over its rate")

// RateError is an ErrRate that says when the rate lets in the next command.
type RateError struct{ After time.Duration }

// Error returns the text of ErrRate.
func (*RateError) Error() string { return ErrRate.Error() }

// Unwrap returns ErrRate.
func (*RateError) Unwrap() error { return ErrRate }

// rate lets in a number of commands a second, and a burst. It saves time: a
// command costs the time between two commands of the rate.
type rate struct {
	controller.Rate

	mu    sync.Mutex // guards saved and last
	saved float64    // nanoseconds that were not spent
	last  int64      // when saved was last brought up to date
}

// newRate returns a rate with a whole burst.
func newRate(r controller.Rate, now int64) *rate {
	fresh := &rate{Rate: r, last: now}
	fresh.saved = float64(r.Burst) * fresh.price()
	return fresh
}

// price is the time between two commands, in nanoseconds.
func (r *rate) price() float64 { return 1e9 / r.PerSecond }

// inherit starts with as many saved commands as another rate has: a policy that
// changes the rate often must not let a burst in each time.
func (r *rate) inherit(before *rate) {
	before.mu.Lock()
	defer before.mu.Unlock()
	r.last = before.last
	r.saved = min(before.saved/before.price(), float64(r.Burst)) * r.price()
}

// Admit pays for the command, or says when there will be enough to pay.
func (r *rate) Admit(at Door, _ command.Envelope) (reason.Reason, error) {
	if short := r.pay(at.Clock()); short > 0 {
		return reason.Rate, &RateError{After: short}
	}
	return "", nil
}

// pay pays for a command if enough was saved, and returns 0. Otherwise it
// returns how long it takes until there is enough.
func (r *rate) pay(now int64) (short time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	price := r.price()
	if now > r.last {
		r.saved = min(r.saved+float64(now-r.last), float64(max(r.Burst, 1))*price)
		r.last = now
	}
	if r.saved < price {
		return time.Duration(math.Ceil(price - r.saved))
	}
	r.saved -= price
	return 0
}
