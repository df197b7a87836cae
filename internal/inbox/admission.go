package inbox

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/plain/apart"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

// Why a policy refuses a command.
var (
	ErrRate   = errors.New("stage: over its rate")
	ErrPolicy = errors.New("stage: turned away by a policy")
)

// Admission are the rules by which commands from outside are let in: into an inbox, or into the whole pipeline. The zero
// Admission lets all in, at the cost of one atomic load.
type Admission struct {
	set atomic.Pointer[admissionRules]
}

// admissionRules are rules that have to be checked.
type admissionRules struct {
	controller.Admission

	mu    sync.Mutex // guards saved and last
	saved float64    // nanoseconds that were not spent; a command costs the time between two
	last  int64
}

// price is the time between two commands, in nanoseconds.
func (w *admissionRules) price() float64 { return 1e9 / w.Rate.PerSecond }

// Set sets the rules.
func (d *Admission) Set(a controller.Admission, now int64) {
	old := d.set.Load()
	if old == nil && a == (controller.Admission{}) {
		return
	}
	fresh := &admissionRules{Admission: a, last: now}
	if a.Rate.PerSecond > 0 {
		fresh.saved = float64(a.Rate.Burst) * fresh.price()
	}
	if old != nil && old.Rate.PerSecond > 0 && a.Rate.PerSecond > 0 {
		fresh.inherit(old)
	}
	d.set.Store(fresh)
}

// inherit starts with as many saved commands as there were under another rate: a policy that changes the rate often must not
// let all commands in.
func (w *admissionRules) inherit(old *admissionRules) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.last = old.last
	w.saved = min(old.saved/old.price(), float64(w.Rate.Burst)) * w.price()
}

// check asks whether a command is let in, and why not.
func (d *Admission) check(pl *Pipeline, e *command.Envelope, load func() (queued, capacity int)) (why reason.Reason, err error) {
	w := d.set.Load()
	if w == nil {
		return "", nil
	}
	if w.Gate != nil {
		queued, capacity := load()
		if err := admitted(w.Gate, e.Command(), queued, capacity); err != nil {
			return reason.Policy, plain.Because(ErrPolicy, "", err)
		}
	}
	if w.sheds(e) {
		return reason.Policy, ErrPolicy
	}
	if w.Rate.PerSecond > 0 {
		if short := w.pay(pl.Now()); short > 0 {
			return reason.Rate, &RateError{After: short}
		}
	}
	return "", nil
}

// RateError is an ErrRate that says when the rate lets in the next command.
type RateError struct{ After time.Duration }

// Error returns the text of ErrRate.
func (*RateError) Error() string { return ErrRate.Error() }

// Unwrap returns ErrRate.
func (*RateError) Unwrap() error { return ErrRate }

// errGate says that a gate refuses because it panicked.
var errGate = errors.New("its gate panicked")

func admitted(g controller.Gate, cmd any, queued, capacity int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %s", errGate, apart.Text(v))
		}
	}()
	return g.Admit(cmd, queued, capacity)
}

// sheds reports whether the command is refused in favour of others.
func (w *admissionRules) sheds(e *command.Envelope) bool {
	if w.Shed == (controller.Shed{}) {
		return false
	}
	priority := 0
	if p, ok := e.Command().(queue.Prioritized); ok {
		priority = priorityOf(p)
	}
	return priority < w.Shed.Below || w.Shed.Probability > 0 && rand.Float64() < w.Shed.Probability
}

func priorityOf(p queue.Prioritized) (n int) {
	defer func() {
		if recover() != nil {
			n = 0
		}
	}()
	return p.Priority()
}

// pay pays for a command if enough was saved, and returns 0. Otherwise it returns how long it takes until there is enough.
func (w *admissionRules) pay(now int64) (short time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	price := w.price()
	if now > w.last {
		w.saved = min(w.saved+float64(now-w.last), float64(max(w.Rate.Burst, 1))*price)
		w.last = now
	}
	if w.saved < price {
		return time.Duration(math.Ceil(price - w.saved))
	}
	w.saved -= price
	return 0
}

// entrants are the submitters that wait until less is in flight in the pipeline.
type entrants struct {
	waiting atomic.Int32

	mu       sync.Mutex    // guards all below
	changed  chan struct{} // closed when something has ended; nil if no submitter waits on it
	entering int           // submitters that were let in and are not in an inbox yet
}

// change returns a channel that is closed when something has ended.
func (c *entrants) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}
