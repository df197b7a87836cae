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

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/queue"
)

// Why a policy refuses a command.
var (
	ErrRate   = errors.New("stage: over its rate")
	ErrPolicy = errors.New("stage: turned away by a policy")
)

// Admission is where commands from outside are let in: of an inbox, or of the whole house.
// The zero Door lets all in, at the cost of one look.
type Admission struct {
	set atomic.Pointer[admissionRules]
}

// admissionRules is a door with something to see to.
type admissionRules struct {
	controller.Admission

	mu    sync.Mutex // guards saved and last
	saved float64    // nanoseconds that were not spent; a command costs the time between two
	last  int64
}

// price is the time between two commands, in nanoseconds.
func (w *admissionRules) price() float64 { return 1e9 / w.Rate.PerSecond }

// Set says how the door lets commands in.
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

// inherit begins with as many commands to spare as there were, if another rate comes:
// who changes it often does not let all in.
func (w *admissionRules) inherit(old *admissionRules) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.last = old.last
	w.saved = min(old.saved/old.price(), float64(w.Rate.Burst)) * w.price()
}

// limit is how many commands may be in flight in the pipeline before those from outside wait, 0 for
// any number.
func (pl *Pipeline) limit() int {
	limit := int(pl.bound.Load())
	if w := pl.admission.set.Load(); w != nil && w.Limit > 0 && (limit == 0 || w.Limit < limit) {
		limit = w.Limit
	}
	return limit
}

// check asks whether a command may come in, and why not.
func (d *Admission) check(pl *Pipeline, cmd any, look func() (queued, capacity int)) (why int, err error) {
	w := d.set.Load()
	if w == nil {
		return 0, nil
	}
	if w.Gate != nil {
		queued, capacity := look()
		if err := admitted(w.Gate, cmd, queued, capacity); err != nil {
			return rejectedPolicy, plain.Because(ErrPolicy, "", err)
		}
	}
	if w.sheds(cmd) {
		return rejectedPolicy, ErrPolicy
	}
	if w.Rate.PerSecond > 0 {
		if short := w.pay(pl.Now()); short > 0 {
			return rejectedRate, &RateError{After: short}
		}
	}
	return 0, nil
}

// RateError is an ErrRate that says when the rate lets in the next command.
type RateError struct{ After time.Duration }

// Error is the text of ErrRate.
func (*RateError) Error() string { return ErrRate.Error() }

// Unwrap returns ErrRate.
func (*RateError) Unwrap() error { return ErrRate }

// errGate is why a gate that panicked refuses.
var errGate = errors.New("its gate panicked")

func admitted(g controller.Gate, cmd any, queued, capacity int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %s", errGate, plain.Text(v))
		}
	}()
	return g.Admit(cmd, queued, capacity)
}

// sheds reports whether the command is to be turned away for the others' good.
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

// pay pays for a command if enough was saved, and returns 0. Otherwise it returns how long it takes until there is
// enough.
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

// SetAdmission says how the inbox lets in what is submitted to it.
func (in *Inbox) SetAdmission(a controller.Admission) {
	if in.admission.set.Load() == nil && a == (controller.Admission{}) {
		return // as it is for most
	}
	in.admission.Set(a, in.Pipeline().Now())
	in.mu.Lock()
	in.ceiling = a.Limit
	if a.Limit > 0 {
		in.recallRetries()
	}
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
}

// SetAdmission says how the pipeline lets in what is submitted to any of its inboxes.
func (pl *Pipeline) SetAdmission(a controller.Admission) {
	pl.admission.Set(a, pl.Now())
	pl.notifyEntries()
}

// entrants is who waits until less is in flight in the pipeline.
type entrants struct {
	waiting atomic.Int32

	mu       sync.Mutex // guards all below
	changed  chan struct{}
	entering int // those who were let in and are not in an inbox yet
}

// notifyEntries tells those who wait that something has ended.
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

// change is closed when something has ended.
func (c *entrants) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// waitToEnter waits, if the inbox's rule is to wait, until the pipeline has room under its limit.
// How much is in flight is added up room by room, not at one instant: a limit is
// for memory and for time, and may be missed by what is just on its way.
func (in *Inbox) waitToEnter(ctx context.Context) (why int, entered bool, err error) {
	pl := in.Pipeline()
	if pl.limit() == 0 {
		return 0, false, nil
	}
	if pl.tryEnter() {
		return 0, true, nil
	}
	if _, inside := ctx.Value(behaviour.EmitterKey{}).(interface{ Inbox() *Inbox }); inside || in.cfg.Overflow != Wait {
		return rejectedFull, false, fmt.Errorf("stage %q: as many are in flight as may be: %w", in.cfg.Name, ErrFull)
	}
	pl.entrants.waiting.Add(1)
	defer pl.entrants.waiting.Add(-1)
	for {
		bell := pl.entrants.change()
		if pl.tryEnter() {
			return 0, true, nil
		}
		if !in.IsOpen() {
			return rejectedClosed, false, fmt.Errorf("stage %q: %w", in.cfg.Name, ErrClosed)
		}
		if err := Until(ctx, bell); err != nil {
			return rejectedCancelled, false, in.waitError(err)
		}
	}
}

// tryEnter lets one more command in, if the limit allows it. Who was let in counts until it
// is in its room: [Pipeline.entered].
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

// entered notes that one who was let in is in its room, or was refused there.
func (pl *Pipeline) entered() {
	pl.entrants.mu.Lock()
	pl.entrants.entering--
	pl.entrants.mu.Unlock()
	pl.notifyEntries()
}

// load is how many commands are in the inbox.
func (in *Inbox) load() int { return in.queue.Len() + in.counts.inHand + in.postponed() }

// Load is how many commands are in the inbox.
func (in *Inbox) Load() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.load()
}
