package room

import (
	"cmp"
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
)

// A room's handlers may suspend: a command is begun, set aside, and goes on when it is
// woken. Set aside, it is in nobody's hand, but still in hand as far as the accounts are
// concerned. Woken, it is an envelope again, that waits before all others; so whoever
// counts what is queued or in hand, or waits for a room to get empty, need know nothing of it.
//
// Of such a room the knob Instances bounds the commands that are under way: in the workers'
// hands, set aside, or woken. It bounds the workers, too, but more of them would have nothing to do.

// woken is the line of commands that may go on.
type woken struct {
	ring.Ring[command.Envelope]
	yielded bool // the last batch that they would have filled left a place for a fresh one
}

// pop takes up to len(es) commands out. If they would fill the batch, every other time the
// last place of it is left to a fresh one, if there is any: who yields again and again must not
// keep others from ever beginning.
func (q *woken) pop(es []command.Envelope, fresh bool) int {
	if fresh && q.Len() >= len(es) {
		if q.yielded = !q.yielded; q.yielded {
			es = es[:len(es)-1]
		}
	}
	return q.PopInto(es)
}

// back puts those that were woken back before all others, and returns the rest.
func (q *woken) back(es []command.Envelope) (rest []command.Envelope) {
	var mine []command.Envelope
	for i := range es {
		if es[i].Woken() {
			mine = append(mine, es[i])
		} else {
			rest = append(rest, es[i])
		}
	}
	q.PushFront(mine)
	return rest
}

// Suspends tells the room that its handlers may suspend. It is said before the room is opened.
func (r *Room) Suspends() { r.queue.woken = new(woken) }

// due is how many commands could be given out now, were there workers enough. Of a paused
// room, and if all instances are taken, those that were begun go on. A halted one gives out
// nothing.
func (r *Room) due() int {
	if r.queue.woken != nil {
		return r.dueWoken()
	}
	if r.knobs.Paused {
		return 0
	}
	return r.queue.fresh()
}

func (r *Room) dueWoken() int {
	switch {
	case r.halted.Load():
		return 0
	case r.knobs.Paused:
		return r.going()
	default:
		return r.demand()
	}
}

// demand is how many commands could be given out, were the room not paused.
func (r *Room) demand() int {
	if r.queue.woken == nil {
		return r.queue.fresh()
	}
	going := r.going()
	free := r.knobs.Instances - r.c.inHand - going
	return going + max(min(r.queue.fresh(), free), 0)
}

// laden reports whether a worker of a room whose handlers suspend carries as many commands as it may, because the rooms that
// they are for are full. It goes on with commands that were begun, for nobody else may be there to do so, and begins none.
func (r *Room) laden(s *Seat) bool {
	return r.queue.woken != nil && int(s.Carried) >= r.knobs.Capacity
}

// give moves commands that are due to a worker's hand. Fresh says whether some of them have not been begun.
func (r *Room) give(hand []command.Envelope, fresh bool) int {
	if r.queue.woken == nil {
		return r.queue.popInto(hand)
	}
	n := r.queue.woken.pop(hand, fresh)
	return n + r.queue.popInto(hand[n:])
}

// suspended is how many commands are set aside.
func (r *Room) suspended() int { return max(r.c.aside, 0) }

// going is how many commands of the queue have been begun.
func (r *Room) going() int {
	if r.queue.woken == nil {
		return 0
	}
	return r.queue.woken.Len()
}

// Wake queues a command that was set aside: it may go on. Its worker need not have told
// yet that it was. In a halted room it stays aside until it is [Room.Resumed].
func (r *Room) Wake(e command.Envelope) {
	r.mu.Lock()
	if r.halted.Load() {
		r.mu.Unlock()
		return
	}
	r.c.inHand--
	r.c.aside--
	e.Wake()
	r.queue.woken.Push(e)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Resumed puts a command of a halted room, that was set aside, into the hand of who sees to its end:
// no worker, so that it has joined nobody.
func (r *Room) Resumed(s *Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.aside--
	s.hand++
	if s.hand == 1 {
		r.c.busy++
	}
}

// setAside counts n commands of a worker's hand as set aside.
func (r *Room) setAside(s *Seat, n int) {
	if n == 0 {
		return
	}
	r.lay(s, n)
	r.c.inHand += n
	r.c.aside += n
}

// sideline sets those aside that were woken, as the room is halted: of what is queued, and of
// what comes back from a worker's hand. It returns the rest.
func (r *Room) sideline(s *Seat, es []command.Envelope) (rest []command.Envelope) {
	for i := range es {
		if es[i].Woken() {
			r.setAside(s, 1)
		} else {
			rest = append(rest, es[i])
		}
	}
	return rest
}

// sidelineQueued does so for what is queued.
func (r *Room) sidelineQueued() {
	n := r.going()
	if n > 0 {
		r.queue.woken = new(woken)
		r.c.inHand += n
		r.c.aside += n
	}
}

// Begun is how many commands have been begun and are in no worker's hand.
func (r *Room) Begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended() + r.going()
}

// aparter is what a task of internal/coro offers beside: to be woken by a goroutine that runs beside the
// tasks, which a test that steps through a pipeline tells from the others.
type aparter interface {
	SuspendApart(start func(wake func())) error
}

// wait waits until a channel is closed or has something, or ctx ends and that is the error.
func wait(ctx context.Context, ready <-chan struct{}) error {
	done := ctx.Done()
	if done == nil { // it never ends; to wait for one thing is quicker than for one of two
		<-ready
		return nil
	}
	select {
	case <-ready:
		return nil
	case <-done:
		return context.Cause(ctx)
	}
}

// Until waits until a channel is closed, or ctx ends and that is the error. A handler that may
// suspend does so, and holds no worker: such waits are rare enough for a goroutine.
func Until(ctx context.Context, closed <-chan struct{}) error {
	c, ok := ctx.(behaviour.Suspender)
	if !ok {
		return wait(ctx, closed)
	}
	suspend := c.Suspend
	if t, ok := c.(aparter); ok {
		suspend = t.SuspendApart
	}
	err := suspend(func(wake func()) {
		done := c.Done()
		go func() {
			defer wake()
			select {
			case <-closed:
			case <-done:
			}
		}()
	})
	select {
	case <-closed:
		return nil
	default:
		return cmp.Or(err, context.Cause(c)) //nolint:contextcheck // it is the one that was given
	}
}
