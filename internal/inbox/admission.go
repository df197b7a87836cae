package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/plain"
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
func (d *Admission) check(pl *Pipeline, cmd any, load func() (queued, capacity int)) (why reason.Reason, err error) {
	w := d.set.Load()
	if w == nil {
		return "", nil
	}
	if w.Gate != nil {
		queued, capacity := load()
		if err := admitted(w.Gate, cmd, queued, capacity); err != nil {
			return reason.Policy, plain.Because(ErrPolicy, "", err)
		}
	}
	if w.sheds(cmd) {
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
			err = fmt.Errorf("%w: %s", errGate, plain.Text(v))
		}
	}()
	return g.Admit(cmd, queued, capacity)
}

// sheds reports whether the command is refused in favour of others.
func (w *admissionRules) sheds(cmd any) bool {
	if w.Shed == (controller.Shed{}) {
		return false
	}
	priority := 0
	if p, ok := cmd.(queue.Prioritized); ok {
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

// SetAdmission sets the rules by which the inbox lets in what is submitted to it.
func (in *Inbox) SetAdmission(a controller.Admission) {
	if in.admission.set.Load() == nil && a == (controller.Admission{}) {
		return // as it is for most
	}
	in.admission.Set(a, in.now())
	var fx effects
	in.mu.Lock()
	in.ceiling = a.Limit
	if a.Limit > 0 {
		in.recallRetries(&fx)
	}
	in.changed(&fx)
	in.unlock(&fx)
}

// checksAdmission reports whether a command is to be checked before it is taken: by the rules, the bound of the entries, the
// bound of loops, or a discipline that asks for keys. Most inboxes check nothing.
func (in *Inbox) checksAdmission(ctx context.Context) bool {
	pl := in.Pipeline()
	return in.queue.keyed.Load() != nil ||
		pl != nil && (in.admission.set.Load() != nil || pl.admission.set.Load() != nil || pl.bound.Load() > 0 || in.submitsInLoop(ctx))
}

// checkAdmission checks a command by the rules of the pipeline and of the inbox, and waits at the pipeline's entry. Entered
// says that [Pipeline.entered] has to be called.
func (in *Inbox) checkAdmission(ctx context.Context, cmd any) (why reason.Reason, entered bool, refused error) {
	pl := in.Pipeline()
	if pl == nil || ended(ctx) {
		return "", false, nil // it is refused for that, and no rule need be asked
	}
	if in.submitsInLoop(ctx) && !pl.Allow() { // before the next check: a stage that is drained accepts what its handlers submit
		return reason.MaxInFlight, false, in.LoopFull()
	}
	if !in.IsOpen() {
		return "", false, nil
	}
	load := func() (queued, capacity int) { return in.Len(), in.Knobs().Capacity }
	if why, err := pl.admission.check(pl, cmd, load); err != nil {
		return why, false, in.wrap(err)
	}
	if why, err := in.admission.check(pl, cmd, load); err != nil {
		return why, false, in.wrap(err)
	}
	return in.waitToEnter(ctx)
}

// SetAdmission sets the rules by which the pipeline lets in what is submitted to any of its inboxes.
func (pl *Pipeline) SetAdmission(a controller.Admission) {
	pl.admission.Set(a, pl.Now())
	pl.notifyEntries()
}

// limit is how many commands may be in flight in the pipeline before those from outside wait, 0 for any number.
func (pl *Pipeline) limit() int {
	limit := int(pl.bound.Load())
	if w := pl.admission.set.Load(); w != nil && w.Limit > 0 && (limit == 0 || w.Limit < limit) {
		limit = w.Limit
	}
	return limit
}

// entrants are the submitters that wait until less is in flight in the pipeline.
type entrants struct {
	waiting atomic.Int32

	mu       sync.Mutex    // guards all below
	changed  chan struct{} // closed when something has ended; nil if no submitter waits on it
	entering int           // submitters that were let in and are not in an inbox yet
}

// notifyEntries has the submitters that wait at the entry look again: something has ended.
func (pl *Pipeline) notifyEntries() {
	if pl.entrants.waiting.Load() == 0 {
		return
	}
	pl.entrants.mu.Lock()
	if pl.entrants.changed != nil {
		close(pl.entrants.changed)
		pl.entrants.changed = nil
	}
	pl.entrants.mu.Unlock()
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

// waitToEnter waits, if the inbox's overflow rule is to wait, until the pipeline is below its limit. The commands in flight
// are added up inbox by inbox, not at one instant: a limit is for memory and for time, and commands that are just on their
// way may exceed it.
func (in *Inbox) waitToEnter(ctx context.Context) (why reason.Reason, entered bool, err error) {
	pl := in.Pipeline()
	if pl.limit() == 0 {
		return "", false, nil
	}
	if pl.tryEnter() {
		return "", true, nil
	}
	if handlerOf(ctx) != nil || in.cfg.Overflow != Wait {
		return reason.Full, false, fmt.Errorf("stage %q: as many are in flight as may be: %w", in.cfg.Name, ErrFull)
	}
	pl.entrants.waiting.Add(1)
	defer pl.entrants.waiting.Add(-1)
	for {
		changed := pl.entrants.change()
		if pl.tryEnter() {
			return "", true, nil
		}
		if !in.IsOpen() {
			return reason.Closed, false, in.wrap(ErrClosed)
		}
		if err := Until(ctx, changed); err != nil {
			return reason.Cancelled, false, in.waitError(err)
		}
	}
}

// tryEnter lets one more command in, if the limit allows it. The command counts until it is in its inbox; see
// [Pipeline.entered].
func (pl *Pipeline) tryEnter() bool {
	pl.entrants.mu.Lock()
	defer pl.entrants.mu.Unlock()
	limit := pl.limit()
	if limit > 0 && pl.InFlight()+pl.entrants.entering >= limit {
		return false
	}
	pl.entrants.entering++
	return true
}

// entered notes that a command that was let in is in its inbox, or was refused there.
func (pl *Pipeline) entered() {
	pl.entrants.mu.Lock()
	pl.entrants.entering--
	pl.entrants.mu.Unlock()
	pl.notifyEntries()
}
