package room

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
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

	mu     sync.Mutex // guards tokens and last
	tokens float64
	last   int64
}

// Set says how the door lets commands in.
func (d *Door) Set(a controller.Admission, now int64) {
	old := d.set.Load()
	if old == nil && a == (controller.Admission{}) {
		return
	}
	fresh := &doorway{Admission: a, tokens: float64(a.Rate.Burst), last: now}
	if old != nil && old.Rate == a.Rate {
		old.mu.Lock()
		fresh.tokens, fresh.last = old.tokens, old.last
		old.mu.Unlock()
	}
	d.set.Store(fresh)
}

// limit is how many commands may be in flight behind the door, 0 for any number.
func (d *Door) limit() int {
	if w := d.set.Load(); w != nil {
		return w.Limit
	}
	return 0
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
			return rejectedPolicy, fmt.Errorf("%w: %w", ErrPolicy, err)
		}
	}
	if w.sheds(cmd) {
		return rejectedPolicy, ErrPolicy
	}
	if w.Rate.PerSecond > 0 && !w.pay(h.Now()) {
		return rejectedRate, ErrRate
	}
	return 0, nil
}

// errGate is why a gate that panicked refuses.
var errGate = errors.New("its gate panicked")

func admitted(g controller.Gate, cmd any, queued, capacity int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errGate, v)
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

// pay takes a token out of the bucket, if there is one.
func (w *doorway) pay(now int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now > w.last {
		w.tokens = min(w.tokens+float64(now-w.last)/1e9*w.Rate.PerSecond, float64(max(w.Rate.Burst, 1)))
		w.last = now
	}
	if w.tokens < 1 {
		return false
	}
	w.tokens--
	return true
}

// Admit says how the room lets in what is submitted to it.
func (r *Room) Admit(a controller.Admission) {
	r.door.Set(a, r.Host().Now())
	r.mu.Lock()
	r.ceiling = a.Limit
	next := r.rouse()
	woken, rooms := r.release(), r.relieve()
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

	mu   sync.Mutex // guards bell
	bell chan struct{}
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
func (r *Room) enter(ctx context.Context) (why int, err error) {
	h := r.Host()
	limit := h.door.limit()
	if limit == 0 || h.InFlight() < limit {
		return 0, nil
	}
	if _, inside := ctx.Value(behaviour.EmitterKey{}).(interface{ Room() *Room }); inside || r.cfg.Overflow != Wait {
		return rejectedFull, fmt.Errorf("stage %q: as many are in flight as may be: %w", r.cfg.Name, ErrFull)
	}
	h.crowd.many.Add(1)
	defer h.crowd.many.Add(-1)
	for {
		bell := h.crowd.next()
		if limit := h.door.limit(); limit == 0 || h.InFlight() < limit || !r.IsOpen() {
			return 0, nil
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return rejectedCancelled, r.waited(context.Cause(ctx))
		}
	}
}

// load is how many commands are in the room.
func (r *Room) load() int { return r.queue.Len() + r.c.inHand + r.delayed.Len() }

// Load is how many commands are in the room.
func (r *Room) Load() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load()
}
