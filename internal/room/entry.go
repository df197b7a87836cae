package room

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

// Door is where commands from outside are let in: of a room, or of the whole house.
// The zero Door lets all in, at the cost of one look.
type Door struct {
	set atomic.Pointer[doorway]
}

// doorway is a door with something to see to.
type doorway struct {
	controller.Admission

	mu    sync.Mutex // guards saved and last
	saved float64    // nanoseconds that were not spent; a command costs the time between two
	last  int64
}

// price is the time between two commands, in nanoseconds.
func (w *doorway) price() float64 { return 1e9 / w.Rate.PerSecond }

// Set says how the door lets commands in.
func (d *Door) Set(a controller.Admission, now int64) {
	old := d.set.Load()
	if old == nil && a == (controller.Admission{}) {
		return
	}
	fresh := &doorway{Admission: a, last: now}
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
func (w *doorway) inherit(old *doorway) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.last = old.last
	w.saved = min(old.saved/old.price(), float64(w.Rate.Burst)) * w.price()
}

// limit is how many commands may be in flight in the house before those from outside wait, 0 for
// any number.
func (h *Host) limit() int {
	limit := int(h.bound.Load())
	if w := h.door.set.Load(); w != nil && w.Limit > 0 && (limit == 0 || w.Limit < limit) {
		limit = w.Limit
	}
	return limit
}

// ask asks whether a command may come in, and why not.
func (d *Door) ask(h *Host, cmd any, look func() (queued, capacity int)) (why int, err error) {
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
		if short := w.pay(h.Now()); short > 0 {
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
func (w *doorway) sheds(cmd any) bool {
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
func (w *doorway) pay(now int64) (short time.Duration) {
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

// Admit says how the room lets in what is submitted to it.
func (r *Room) Admit(a controller.Admission) {
	if r.door.set.Load() == nil && a == (controller.Admission{}) {
		return // as it is for most
	}
	r.door.Set(a, r.Host().Now())
	r.mu.Lock()
	r.ceiling = a.Limit
	if a.Limit > 0 {
		r.recall()
	}
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
}

// Admit says how the house lets in what is submitted to any of its rooms.
func (h *Host) Admit(a controller.Admission) {
	h.door.Set(a, h.Now())
	h.ended()
}

// crowd is who waits until less is in flight in the house.
type crowd struct {
	many atomic.Int32

	mu       sync.Mutex // guards all below
	bell     chan struct{}
	entering int // those who were let in and are not in a room yet
}

// ended tells those who wait that something has ended.
func (h *Host) ended() {
	if h.crowd.many.Load() == 0 {
		return
	}
	h.crowd.mu.Lock()
	if h.crowd.bell != nil {
		close(h.crowd.bell)
		h.crowd.bell = nil
	}
	h.crowd.mu.Unlock()
}

// next is closed when something has ended.
func (c *crowd) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bell == nil {
		c.bell = make(chan struct{})
	}
	return c.bell
}

// enter waits, if the room's rule is to wait, until the house has room under its limit.
// How much is in flight is added up room by room, not at one instant: a limit is
// for memory and for time, and may be missed by what is just on its way.
func (r *Room) enter(ctx context.Context) (why int, entered bool, err error) {
	h := r.Host()
	if h.limit() == 0 {
		return 0, false, nil
	}
	if h.step() {
		return 0, true, nil
	}
	if _, inside := ctx.Value(behaviour.EmitterKey{}).(interface{ Room() *Room }); inside || r.cfg.Overflow != Wait {
		return rejectedFull, false, fmt.Errorf("stage %q: as many are in flight as may be: %w", r.cfg.Name, ErrFull)
	}
	h.crowd.many.Add(1)
	defer h.crowd.many.Add(-1)
	for {
		bell := h.crowd.next()
		if h.step() {
			return 0, true, nil
		}
		if !r.IsOpen() {
			return rejectedClosed, false, fmt.Errorf("stage %q: %w", r.cfg.Name, ErrClosed)
		}
		if err := Until(ctx, bell); err != nil {
			return rejectedCancelled, false, r.waited(err)
		}
	}
}

// step lets one more command in, if the limit allows it. Who was let in counts until it
// is in its room: [Host.in].
func (h *Host) step() bool {
	h.crowd.mu.Lock()
	defer h.crowd.mu.Unlock()
	limit := h.limit()
	if limit > 0 && h.InFlight()+h.crowd.entering >= limit {
		return false
	}
	h.crowd.entering++
	return true
}

// in notes that one who was let in is in its room, or was refused there.
func (h *Host) in() {
	h.crowd.mu.Lock()
	h.crowd.entering--
	h.crowd.mu.Unlock()
	h.ended()
}

// load is how many commands are in the room.
func (r *Room) load() int { return r.queue.Len() + r.c.inHand + r.postponed() }

// Load is how many commands are in the room.
func (r *Room) Load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load()
}
