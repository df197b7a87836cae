package inbox

import (
	"cmp"
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
)

// The handlers of an inbox may suspend: a command is started, suspended, and goes on when it is woken. A suspended command is
// in no worker's batch, but the accounts still count it as in hand. A woken one is an envelope again, which waits before all
// others; so code that counts what is queued or in hand, or waits for an inbox to become empty, needs no case for it.
//
// For such an inbox the knob Instances bounds the commands that are under way: in the workers' batches, suspended, or woken.
// It bounds the workers, too, but more of them would have nothing to do.

// woken is the queue of commands that may go on.
type woken struct {
	ring.Ring[command.Envelope]
	yielded bool // the last batch that they would have filled left a place for a fresh one
}

// pop takes up to len(es) commands out. If they would fill the batch, every other time they leave the last place of it to a
// fresh one, if there is any: handlers that yield again and again must not keep other commands from ever starting.
func (q *woken) pop(es []command.Envelope, fresh bool) int {
	if fresh && q.Len() >= len(es) {
		if q.yielded = !q.yielded; q.yielded {
			es = es[:len(es)-1]
		}
	}
	return q.PopInto(es)
}

// back puts commands that were woken back before all others, and returns the rest.
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

// SetSuspends says that the inbox's handlers may suspend. It is called before the inbox is opened.
func (in *Inbox) SetSuspends() { in.queue.woken = new(woken) }

// available is how many commands could be given out now, if there were enough workers. While the inbox is paused, or all
// instances are taken, commands that were started go on. A halted inbox gives out nothing.
func (s *state) available() int {
	if s.queue.woken != nil {
		return s.availableWoken()
	}
	if s.knobs.Paused {
		return 0
	}
	return s.queue.fresh()
}

func (s *state) availableWoken() int {
	switch {
	case s.halted.Load():
		return 0
	case s.knobs.Paused:
		return s.runnable()
	default:
		return s.demand()
	}
}

// demand is how many commands could be given out, if the inbox were not paused.
func (s *state) demand() int {
	if s.queue.woken == nil {
		return s.queue.fresh()
	}
	runnable := s.runnable()
	free := s.knobs.Instances - s.counts.inHand - runnable
	return runnable + max(min(s.queue.fresh(), free), 0)
}

// isLaden reports whether a worker of an inbox whose handlers suspend carries as many commands as it may, because the inboxes
// that they are for are full. It goes on with commands that were started, for no other worker may be there to do so, and
// starts none.
func (s *state) isLaden(m *Member) bool {
	return s.queue.woken != nil && int(m.Carried) >= s.knobs.Capacity
}

// give moves available commands to a worker's batch. Fresh says whether some of them have not been started.
func (s *state) give(batch []command.Envelope, fresh bool) int {
	if s.queue.woken == nil {
		return s.queue.popInto(batch)
	}
	n := s.queue.woken.pop(batch, fresh)
	return n + s.queue.popInto(batch[n:])
}

// suspended is how many commands are suspended.
func (s *state) suspended() int { return max(s.counts.suspended, 0) }

// runnable is how many queued commands have been started.
func (s *state) runnable() int {
	if s.queue.woken == nil {
		return 0
	}
	return s.queue.woken.Len()
}

// Resume queues a suspended command that may go on. Its worker need not have booked yet that it was suspended. In a halted
// inbox it stays suspended until [Inbox.TakeSuspended].
func (in *Inbox) Resume(e command.Envelope) {
	var fx effects
	in.mu.Lock()
	if !in.halted.Load() {
		in.counts.inHand--
		in.counts.suspended--
		e.Wake()
		in.queue.woken.Push(e)
		in.callWorker(&fx)
	}
	in.unlock(&fx)
}

// TakeSuspended gives a suspended command of a halted inbox to the member that ends it, which is no worker and has not joined.
func (in *Inbox) TakeSuspended(m *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.suspended--
	m.inHand++
	if m.inHand == 1 {
		in.counts.busy++
	}
}

// suspend counts n commands of a worker's batch as suspended.
func (s *state) suspend(m *Member, n int) {
	if n == 0 {
		return
	}
	s.release(m, n)
	s.counts.inHand += n
	s.counts.suspended += n
}

// suspendWoken counts commands that come back to a halted inbox, and were woken, as suspended. It returns the rest.
func (s *state) suspendWoken(m *Member, es []command.Envelope) (rest []command.Envelope) {
	for i := range es {
		if es[i].Woken() {
			s.suspend(m, 1)
		} else {
			rest = append(rest, es[i])
		}
	}
	return rest
}

// suspendQueued counts woken commands that are queued as suspended, as the inbox is halted.
func (s *state) suspendQueued() {
	if n := s.runnable(); n > 0 {
		s.queue.woken = new(woken)
		s.counts.inHand += n
		s.counts.suspended += n
	}
}

// Started is how many commands have been started and are in no worker's batch.
func (in *Inbox) Started() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.suspended() + in.runnable()
}

// apartSuspender is what a task of internal/coro offers beside: to be woken by a goroutine that runs beside the tasks, which a
// test that steps through a pipeline distinguishes from the others.
type apartSuspender interface {
	SuspendApart(start func(wake func())) error
}

// wait waits until a channel is closed or has a value, or ctx ends and that is the error.
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

// Until waits until a channel is closed, or ctx ends and that is the error. A handler that may suspend does so, and holds no
// worker: such waits are rare enough for a goroutine.
func Until(ctx context.Context, closed <-chan struct{}) error {
	c, ok := ctx.(behaviour.Suspender)
	if !ok {
		return wait(ctx, closed)
	}
	suspend := c.Suspend
	if t, ok := c.(apartSuspender); ok {
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
