package inbox

import (
	"cmp"
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
)

// An inbox's handlers may suspend: a command is begun, suspended, and goes on when it is
// woken. Set aside, it is in nobody's hand, but still in hand as far as the accounts are
// concerned. Woken, it is an envelope again, that waits before all others; so whoever
// counts what is queued or in hand, or waits for an inbox to get empty, need know nothing of it.
//
// Of such an inbox the knob Instances bounds the commands that are under way: in the workers'
// hands, suspended, or woken. It bounds the workers, too, but more of them would have nothing to do.

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

// SetSuspends tells the inbox that its handlers may suspend. It is said before the inbox is opened.
func (in *Inbox) SetSuspends() { in.queue.woken = new(woken) }

// available is how many commands could be given out now, were there workers enough. Of a paused
// room, and if all instances are taken, those that were begun go on. A halted one gives out
// nothing.
func (in *Inbox) available() int {
	if in.queue.woken != nil {
		return in.availableWoken()
	}
	if in.knobs.Paused {
		return 0
	}
	return in.queue.fresh()
}

func (in *Inbox) availableWoken() int {
	switch {
	case in.halted.Load():
		return 0
	case in.knobs.Paused:
		return in.runnable()
	default:
		return in.demand()
	}
}

// demand is how many commands could be given out, were the inbox not paused.
func (in *Inbox) demand() int {
	if in.queue.woken == nil {
		return in.queue.fresh()
	}
	going := in.runnable()
	free := in.knobs.Instances - in.counts.inHand - going
	return going + max(min(in.queue.fresh(), free), 0)
}

// isLaden reports whether a worker of an inbox whose handlers suspend carries as many commands as it may, because the inboxes that
// they are for are full. It goes on with commands that were begun, for nobody else may be there to do so, and begins none.
func (in *Inbox) isLaden(m *Member) bool {
	return in.queue.woken != nil && int(m.Carried) >= in.knobs.Capacity
}

// give moves commands that are due to a worker's hand. Fresh says whether some of them have not been begun.
func (in *Inbox) give(hand []command.Envelope, fresh bool) int {
	if in.queue.woken == nil {
		return in.queue.popInto(hand)
	}
	n := in.queue.woken.pop(hand, fresh)
	return n + in.queue.popInto(hand[n:])
}

// suspended is how many commands are suspended.
func (in *Inbox) suspended() int { return max(in.counts.suspended, 0) }

// runnable is how many commands of the queue have been begun.
func (in *Inbox) runnable() int {
	if in.queue.woken == nil {
		return 0
	}
	return in.queue.woken.Len()
}

// Resume queues a command that was suspended: it may go on. Its worker need not have told
// yet that it was. In a halted inbox it stays aside until it is [Inbox.TakeSuspended].
func (in *Inbox) Resume(e command.Envelope) {
	in.mu.Lock()
	if in.halted.Load() {
		in.mu.Unlock()
		return
	}
	in.counts.inHand--
	in.counts.suspended--
	e.Wake()
	in.queue.woken.Push(e)
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// TakeSuspended puts a command of a halted inbox, that was suspended, into the hand of who sees to its end:
// no worker, so that it has joined nobody.
func (in *Inbox) TakeSuspended(m *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.suspended--
	m.inHand++
	if m.inHand == 1 {
		in.counts.busy++
	}
}

// suspend counts n commands of a worker's hand as suspended.
func (in *Inbox) suspend(m *Member, n int) {
	if n == 0 {
		return
	}
	in.release(m, n)
	in.counts.inHand += n
	in.counts.suspended += n
}

// suspendWoken sets those aside that were woken, as the inbox is halted: of what is queued, and of
// what comes back from a worker's hand. It returns the rest.
func (in *Inbox) suspendWoken(m *Member, es []command.Envelope) (rest []command.Envelope) {
	for i := range es {
		if es[i].Woken() {
			in.suspend(m, 1)
		} else {
			rest = append(rest, es[i])
		}
	}
	return rest
}

// suspendQueued does so for what is queued.
func (in *Inbox) suspendQueued() {
	n := in.runnable()
	if n > 0 {
		in.queue.woken = new(woken)
		in.counts.inHand += n
		in.counts.suspended += n
	}
}

// Started is how many commands have been begun and are in no worker's hand.
func (in *Inbox) Started() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.suspended() + in.runnable()
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
