package inbox

import (
	"fmt"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// A worker whose handler does not return keeps its batch. When a hard stop has
// waited for it long enough the worker is *abandoned*: the inbox ends its
// commands. If the handler returns later, each call of the worker reports that
// it was abandoned, and the inbox books nothing for it.
//
// The inbox cannot read the worker's memory, and a report for each command
// would cost too much. So the inbox keeps a copy of each batch that it gives
// out, and knows how many commands at its end were not booked as done. The
// inbox ends these. Some of them may have been handled: then their outcome is
// lost. The inbox knows which command the worker is at only if the worker
// stores that in [Member.Begun]. The worker stores it first and then looks
// whether the inbox is halted, and the inbox is halted before Begun is read: so
// no later command is ever begun.
//
// Where commands suspend, the inbox keeps no copies: a suspended command is in
// no worker's batch, and another worker, or none, may end it. There each run
// records which goroutine ends its command, so the caller of [Inbox.EndWith]
// owns the worker or the run.
//
// Every command ended here must still be in the batch; none may have been
// handed to the next stage. Commands leave a worker's batch before they are
// booked, but only between the end of a batch and the next turn, when no
// handler runs. So a worker with [Member.Delivers] set is not abandoned: its
// next turn is about to begin.

// keepCopy keeps a copy of the batch that a worker was given, except where
// commands suspend.
func (s *state) keepCopy(m *Member, n int) {
	if !m.custody.listed {
		s.holding = m.link(s.holding)
	}
	if s.queue.woken != nil {
		return
	}
	if n < len(m.custody.copies) {
		clear(m.custody.copies[n:])
	}
	m.custody.copies = append(m.custody.copies[:0], m.Batch[:n]...)
	m.Delivers = false
	if m.Begun.Load() != 0 {
		m.Begun.Store(NoneBegun)
	}
}

// drop forgets what a worker was given, when it may be long until it is given
// more.
func (m *Member) drop() {
	clear(m.custody.copies)
	m.custody.copies = m.custody.copies[:0]
}

// link puts a member at the front of the list of members that have been given
// commands. It stays listed until the worker leaves the inbox: to list it for
// each batch would cost too much for a hop.
func (m *Member) link(first *Member) *Member {
	m.custody.listed, m.custody.before, m.custody.behind = true, nil, first
	if first != nil {
		first.custody.before = m
	}
	return m
}

// unlist removes a member from that list.
func (s *state) unlist(m *Member) {
	if !m.custody.listed {
		return
	}
	if m.custody.behind != nil {
		m.custody.behind.custody.before = m.custody.before
	}
	if m.custody.before != nil {
		m.custody.before.custody.behind = m.custody.behind
	} else {
		s.holding = m.custody.behind
	}
	m.custody.listed, m.custody.before, m.custody.behind = false, nil, nil
}

// Holders returns the workers that have commands in their batch.
func (in *Inbox) Holders() (held []*Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for m := in.state.holding; m != nil; m = m.custody.behind {
		if m.custody.inHand > 0 {
			held = append(held, m)
		}
	}
	return held
}

// Abandon gives up a worker of an inbox that is halted. The commands of its
// batch end; the command that the worker has not returned from ends with err;
// see [Member.Begun]. It returns the function that reports these ends; nil if
// the worker has nothing in its batch here, or delivers. The caller has the
// worker's own lock; see [Member.Delivers].
func (in *Inbox) Abandon(m *Member, err error) (report func()) {
	var fx effects
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.state.halted.Load() || !in.state.holds(m) || m.Delivers {
		return nil
	}
	m.custody.abandoned = true
	given := len(m.custody.copies)
	left := slices.Clone(m.custody.copies[given-int(m.custody.inHand):])
	if m.Part != nil {
		in.state.queue.line.Abandon(m.Part, int(m.custody.inHand))
	}
	in.state.unlist(m)
	in.state.cancelPermit(m)
	m.drop()
	in.state.release(m, len(left))
	in.state.yield(m)
	in.state.forgetLanes(m)
	in.state.credit(m, in.state.now())
	if m.own == in {
		in.state.unblock(m)
		in.state.leaveOwn(m)
	}
	in.state.counts.abandoned++
	in.state.counts.Stuck++
	in.state.endLeft(m, left, given, err, &fx)
	return fx.later(in)
}

// errHandled is the error of a command whose handler had returned.
var errHandled = fmt.Errorf("%w: the command was handled, and what came of it is lost", ErrStopped)

// endLeft books the end of the commands that are left of a batch. The command
// that the worker has begun last ends with err. If that command is not known,
// all end with err.
func (s *state) endLeft(m *Member, left []command.Envelope, given int, err error, fx *effects) {
	begun := int(m.Begun.Load())
	if begun == 0 {
		s.counts.addDeadLettered(reason.Stopped, len(left))
		fx.end(left, reason.Stopped, err)
		return
	}
	done := max(0, begun-1-(given-len(left)))
	through := max(0, begun-(given-len(left)))
	s.counts.addDeadLettered(reason.Stopped, through)
	fx.end(left[:done], reason.Stopped, s.wrap(errHandled))
	fx.end(left[done:through], reason.Stopped, err)
	s.endStopped(left[through:], fx)
}

// EndWith ends the last commands of the batch of a worker, whose inbox is
// halted: the first of them with err, and the others as [Inbox.End] does. The
// caller owns the worker. EndWith returns the function that reports these ends.
func (in *Inbox) EndWith(m *Member, t *Tally, es []command.Envelope, err error) (report func()) {
	var fx effects
	in.mu.Lock()
	in.state.book(m, t, &fx)
	in.state.cancelPermit(m)
	in.state.counts.addDeadLettered(reason.Stopped, 1)
	fx.endOne(es[0], reason.Stopped, err)
	rest := in.state.suspendWoken(m, es[1:])
	in.state.endStopped(rest, &fx)
	in.state.release(m, 1+len(rest))
	in.state.checkQuiet(&fx)
	report = fx.later(in)
	in.unlock(&fx)
	return report
}

// holds reports whether a worker has commands of this inbox in its batch. The
// member itself is not asked: it may be at another inbox.
func (s *state) holds(m *Member) bool {
	if s.queue.woken != nil {
		return false
	}
	for o := s.holding; o != nil; o = o.custody.behind {
		if o == m {
			return m.custody.inHand > 0
		}
	}
	return false
}

// Abandon removes a worker that was given up from the shared pool.
func (sp *SharedPool) Abandon(m *Member) {
	sp.mu.Lock()
	sp.depart(m)
	sp.mu.Unlock()
}
