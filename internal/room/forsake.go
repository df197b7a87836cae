package room

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// A worker whose handler does not return keeps what it has in hand. When a hard stop has waited for it long
// enough it is *forsaken*: the room ends its commands, and the worker, should it come back, is told so
// wherever it meets the room, and has no say any more.
//
// The worker's memory is its own, and there is no time for it to tell of each command how far it is. So
// the room keeps a copy of what it gives out, and knows how many at the end of it were not booked as done.
// These are ended. One of them may well have been handled: then it is nobody's that it was.
//
// Nothing of what is ended here may have gone on elsewhere. Commands leave a worker's hand before they are
// booked, but only between the end of a batch and the next turn, and there no handler runs: a worker that
// [Seat.Delivers] is not forsaken, for it will be here in a moment.

// retain notes what a worker was given. Of commands that suspend the room does not: who was set aside is not
// in the worker's hand, and has an end of its own.
func (r *Room) retain(s *Seat, n int) {
	if !s.listed {
		r.inHands = s.link(r.inHands)
	}
	if r.queue.woken != nil {
		return
	}
	if n < len(s.kept) {
		clear(s.kept[n:])
	}
	s.kept = append(s.kept[:0], s.Hand[:n]...)
	s.Delivers = false
}

// drop forgets what a worker was given, when it may be long until it is given more.
func (s *Seat) drop() {
	clear(s.kept)
	s.kept = s.kept[:0]
}

// link puts a seat before those that have been given something. It stays there until the worker leaves the
// room: to put it there for each batch is more than a hop can bear.
func (s *Seat) link(first *Seat) *Seat {
	s.listed, s.before, s.behind = true, nil, first
	if first != nil {
		first.before = s
	}
	return s
}

// unlist takes a seat out of those.
func (r *Room) unlist(s *Seat) {
	if !s.listed {
		return
	}
	if s.behind != nil {
		s.behind.before = s.before
	}
	if s.before != nil {
		s.before.behind = s.behind
	} else {
		r.inHands = s.behind
	}
	s.listed, s.before, s.behind = false, nil, nil
}

// Holders are the workers that have commands in hand, but for those that suspend.
func (r *Room) Holders() (held []*Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue.woken != nil {
		return nil
	}
	for s := r.inHands; s != nil; s = s.behind {
		if s.hand > 0 {
			held = append(held, s)
		}
	}
	return held
}

// Forsake gives a worker up: what it has in hand in this room, which is halted, ends with err. It returns what
// tells those who wait; nil if the worker has nothing in hand here, or delivers. The caller has the worker's
// own lock, see [Seat.Delivers].
func (r *Room) Forsake(s *Seat, err error) (tell func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.halted.Load() || !r.holds(s) || s.Delivers {
		return nil
	}
	s.forsaken = true
	left := slices.Clone(s.kept[len(s.kept)-int(s.hand):])
	r.unlist(s)
	s.drop()
	r.lay(s, len(left))
	r.yield(s)
	r.credit(s, r.Host().Now())
	if s.home == r {
		r.back(s)
		r.part(s)
	}
	r.c.losses().dead[deadStopped] += uint64(len(left))
	r.c.abandoned++
	r.c.stuck++
	return func() { r.bury(left, ReasonStopped, err) }
}

// holds reports whether a worker has commands of this room in hand. Its seat is not asked: it may be in
// another room.
func (r *Room) holds(s *Seat) bool {
	if r.queue.woken != nil {
		return false
	}
	for o := r.inHands; o != nil; o = o.behind {
		if o == s {
			return s.hand > 0
		}
	}
	return false
}

// Forsake takes a worker that was given up out of the crew.
func (c *Crew) Forsake(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part(s)
}

// End ends the commands at the end of a worker's batch that were not begun when the room was halted, as
// [Room.Halt] ends those that are queued. It reports false if the worker was forsaken.
func (r *Room) End(s *Seat, t *Tally, rest []command.Envelope) bool {
	r.mu.Lock()
	if s.forsaken {
		r.mu.Unlock()
		return false
	}
	r.book(s, t)
	rest = r.sideline(s, rest)
	r.lay(s, len(rest))
	r.c.losses().dead[deadStopped] += uint64(len(rest))
	r.settled()
	r.mu.Unlock()
	r.bury(rest, ReasonStopped, r.stopped())
	return true
}
