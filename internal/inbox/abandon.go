package inbox

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// A worker whose handler does not return keeps what it has in hand. When a hard stop has waited for it long
// enough it is *abandoned*: the inbox ends its commands, and the worker, should it come back, is told so
// wherever it meets the inbox, and has no say any more.
//
// The worker's memory is its own, and there is no time for it to tell of each command how far it is. So
// the inbox keeps a copy of what it gives out, and knows how many at the end of it were not booked as done.
// These are ended. One of them may well have been handled: then it is nobody's that it was.
//
// Nothing of what is ended here may have gone on elsewhere. Commands leave a worker's hand before they are
// booked, but only between the end of a batch and the next turn, and there no handler runs: a worker that
// [Member.Delivers] is not abandoned, for it will be here in a moment.

// keepCopy notes what a worker was given. Of commands that suspend the inbox does not: who was suspended is not
// in the worker's hand, and has an end of its own.
func (in *Inbox) keepCopy(m *Member, n int) {
	if !m.listed {
		in.holding = m.link(in.holding)
	}
	if in.queue.woken != nil {
		return
	}
	if n < len(m.copies) {
		clear(m.copies[n:])
	}
	m.copies = append(m.copies[:0], m.Batch[:n]...)
	m.Delivers = false
}

// drop forgets what a worker was given, when it may be long until it is given more.
func (m *Member) drop() {
	clear(m.copies)
	m.copies = m.copies[:0]
}

// link puts a seat before those that have been given something. It stays there until the worker leaves the
// room: to put it there for each batch is more than a hop can bear.
func (m *Member) link(first *Member) *Member {
	m.listed, m.before, m.behind = true, nil, first
	if first != nil {
		first.before = m
	}
	return m
}

// unlist takes a seat out of those.
func (in *Inbox) unlist(m *Member) {
	if !m.listed {
		return
	}
	if m.behind != nil {
		m.behind.before = m.before
	}
	if m.before != nil {
		m.before.behind = m.behind
	} else {
		in.holding = m.behind
	}
	m.listed, m.before, m.behind = false, nil, nil
}

// Holders are the workers that have commands in hand, but for those that suspend.
func (in *Inbox) Holders() (held []*Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.queue.woken != nil {
		return nil
	}
	for m := in.holding; m != nil; m = m.behind {
		if m.inHand > 0 {
			held = append(held, m)
		}
	}
	return held
}

// Abandon gives a worker up: what it has in hand in this room, which is halted, ends with err. It returns what
// tells those who wait; nil if the worker has nothing in hand here, or delivers. The caller has the worker's
// own lock, see [Member.Delivers].
func (in *Inbox) Abandon(m *Member, err error) (tell func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.halted.Load() || !in.holds(m) || m.Delivers {
		return nil
	}
	m.abandoned = true
	left := slices.Clone(m.copies[len(m.copies)-int(m.inHand):])
	in.unlist(m)
	m.drop()
	in.release(m, len(left))
	in.yield(m)
	in.credit(m, in.Pipeline().Now())
	if m.own == in {
		in.unblock(m)
		in.part(m)
	}
	in.counts.losses().dead[deadStopped] += uint64(len(left))
	in.counts.abandoned++
	in.counts.stuck++
	return func() { in.deadLetter(left, ReasonStopped, err) }
}

// holds reports whether a worker has commands of this room in hand. Its seat is not asked: it may be in
// another inbox.
func (in *Inbox) holds(m *Member) bool {
	if in.queue.woken != nil {
		return false
	}
	for o := in.holding; o != nil; o = o.behind {
		if o == m {
			return m.inHand > 0
		}
	}
	return false
}

// Abandon takes a worker that was given up out of the shared pool.
func (sp *SharedPool) Abandon(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.depart(m)
}

// End ends the commands at the end of a worker's batch that were not begun when the inbox was halted, as
// [Inbox.Halt] ends those that are queued. It reports false if the worker was abandoned.
func (in *Inbox) End(m *Member, t *Tally, rest []command.Envelope) bool {
	in.mu.Lock()
	if m.abandoned {
		in.mu.Unlock()
		return false
	}
	in.book(m, t)
	rest = in.suspendWoken(m, rest)
	in.release(m, len(rest))
	in.counts.losses().dead[deadStopped] += uint64(len(rest))
	in.notifyIfQuiet()
	in.mu.Unlock()
	in.deadLetter(rest, ReasonStopped, in.stoppedError())
	return true
}
