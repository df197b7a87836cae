package inbox

import (
	"cmp"
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

// The handlers of an inbox may suspend: a command is started, suspended, and
// resumes when it is woken. A suspended command is in no worker's batch, but
// the accounts still count it as in hand. A woken one is an envelope again,
// which waits before all others; so code that counts queued commands or
// commands in hand, or waits for an inbox to become empty, needs no case for
// it.
//
// For such an inbox the knob Instances bounds the commands that are under way:
// in the workers' batches, suspended, or woken. It bounds the workers, too, but
// more of them would have nothing to do.

// SetSuspends says that the inbox's handlers may suspend. It is called before
// the inbox is opened.
func (in *Inbox) SetSuspends() {
	in.state.queue.woken = new(woken)
	line.HoldByCommand(in.state.queue.line)
	in.state.queue.knows = in.state.queue.line.Knows()
}

// Resume queues a suspended command that may be resumed. Its worker need not
// have booked yet that it was suspended. In a halted inbox it stays suspended
// until [Inbox.TakeSuspended].
func (in *Inbox) Resume(e command.Envelope) {
	var fx effects
	in.mu.Lock()
	if !in.state.halted.Load() {
		in.state.counts.inHand--
		in.state.counts.suspended--
		e.Wake()
		in.state.queue.woken.Push(e)
		in.state.callWorker(&fx)
	}
	in.unlock(&fx)
}

// TakeSuspended gives a suspended command of a halted inbox to the member that
// ends it, which is no worker and has not joined.
func (in *Inbox) TakeSuspended(m *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.counts.suspended--
	m.custody.inHand++
	if m.custody.inHand == 1 {
		in.state.counts.busy++
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

// suspendWoken counts woken commands that return to a halted inbox as
// suspended. It returns the rest.
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

// suspendQueued counts woken commands that are queued as suspended, as the
// inbox is halted.
func (s *state) suspendQueued() {
	if n := s.runnable(); n > 0 {
		s.queue.woken.Ring = line.Ring{}
		s.counts.inHand += n
		s.counts.suspended += n
	}
}

// Started is how many commands have been started and are in no worker's batch.
func (in *Inbox) Started() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.suspended() + in.state.runnable()
}

// apartSuspender is what a task of internal/coro offers beside: to be woken by
// a goroutine that runs beside the tasks, which a test that steps through a
// pipeline distinguishes from the others.
type apartSuspender interface {
	SuspendApart(start func(wake func())) error
}

// wait waits until a channel is closed or has a value, or ctx ends and that is
// the error.
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
		return command.Ended(ctx)
	}
}

// Until waits until a channel is closed, or ctx ends and that is the error. A
// handler that may suspend does so, and holds no worker: such waits are rare
// enough for a goroutine.
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
		return cmp.Or(err, command.Ended(c)) //nolint:contextcheck // it is the caller's
	}
}
