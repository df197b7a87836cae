package inbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

// A keyed or fair stage bounds how many of its slots the commands of one key may
// hold, so that a key whose commands arrive faster than they are handled leaves
// slots to the others. A command holds a place of its key while it holds a slot:
// while it is queued, or waits for its next try. No command that is in the
// pipeline already is refused for want of a place: commands that return to the
// queue, and commands along a back edge, are accepted beyond the bound, as they
// are beyond the capacity.
//
// A caller, handler or worker that waits for a place waits at the lane of the
// key, and holds up no other key. When a place is free it is reserved, and the
// wait continues at the end of the line for slots. So the first command in that
// line always has a place, and can be queued as soon as there is a slot.

// noKeyPlaceError is the ErrFull of a command whose key has as many commands
// here as it may have.
type noKeyPlaceError struct{ most int }

// Error says that the key is full, not the stage.
func (e noKeyPlaceError) Error() string {
	return fmt.Sprintf("%v for its key: %d of its commands wait, as many as KeyCapacity allows", ErrFull, e.most)
}

// Unwrap returns ErrFull.
func (noKeyPlaceError) Unwrap() error { return ErrFull }

// waitsAt returns the waiters at a lane, and makes the list if there is none.
func (s *state) waitsAt(ln *line.Lane) *atLane {
	w := s.senders.atLanes[ln]
	if w == nil {
		w = new(atLane)
		if s.senders.atLanes == nil {
			s.senders.atLanes = map[*line.Lane]*atLane{}
		}
		s.senders.atLanes[ln] = w
		s.queue.bound.Waits(ln, true)
	}
	return w
}

// unwait removes the list of a lane's waiters if it is empty.
func (s *state) unwait(ln *line.Lane) {
	if w := s.senders.atLanes[ln]; w != nil && w.isEmpty() {
		delete(s.senders.atLanes, ln)
		s.queue.bound.Waits(ln, false)
	}
}

// isKeyFull reports whether a command finds no place of its key.
func (s *state) isKeyFull(at place) bool {
	l := s.queue.bound
	if l == nil {
		return false
	}
	ln := l.Find(at.rank)
	return ln != nil && !l.Lets(ln)
}

// fullError returns why a command is refused that finds no slot, or no place of
// its key.
func (s *state) fullError(at place) error {
	if s.isKeyFull(at) {
		return noKeyPlaceError{s.queue.bound.Most()}
	}
	return &FullError{s.forecastWait()}
}

// forecastWait returns for how long a command that is queued now would wait, 0
// if that is not known.
func (s *state) forecastWait() time.Duration {
	queued := s.queue.fresh()
	left := int64(s.counts.Submitted+s.counts.Received) - int64(queued)
	return s.counts.ofRefused().forecast.Wait(s.now(), left, queued, s.pace.service/time.Duration(max(s.workers.Live(), 1)))
}

// keyCapacity is how many slots the commands of one key may hold; 0: any
// number.
func (s *state) keyCapacity() int {
	if s.queue.bound == nil {
		return 0
	}
	return s.queue.bound.Most()
}

// unreserve gives n places of a lane back, if any.
func (s *state) unreserve(ln *line.Lane, n int) {
	if ln != nil && n > 0 {
		s.queue.bound.Unreserve(ln, n)
	}
}

// enterLane takes a command from outside, unless its key has no place.
func (s *state) enterLane(l line.Places, e *command.Envelope, at place) bool {
	ln := l.Of(at.rank)
	if !l.Lets(ln) {
		return false
	}
	s.note(e)
	l.PushTo(ln, *e)
	return true
}

// awaitSlot puts a command into the line for slots, or into the line of its
// lane if its key has no place.
func (s *state) awaitSlot(x entrant, suspends, first bool) *waiter {
	w := s.waiters.waiter(x, suspends)
	l := s.queue.bound
	if l == nil || x.at.rank.Key == line.NoKey {
		s.waiters.join(w, first)
		return w
	}
	w.lane = l.Of(x.at.rank)
	if l.Lets(w.lane) {
		l.Reserve(w.lane, 1)
		s.waiters.join(w, first)
		return w
	}
	w.atLane = true
	s.waitsAt(w.lane).line.join(w, first)
	s.senders.linedAtLanes++
	return w
}

// leaveLine takes a command that was not queued out of the line where it is.
func (s *state) leaveLine(w *waiter) {
	ln := w.lane
	w.lane = nil
	switch {
	case ln == nil:
		s.waiters.leave(w)
	case w.atLane:
		s.senders.atLanes[ln].line.leave(w)
		w.atLane = false
		s.senders.linedAtLanes--
		s.unwait(ln)
	default:
		s.waiters.leave(w)
		s.unreserve(ln, 1)
	}
}

// dismissAtLanes has the submitters submit again that wait for places.
func (s *state) dismissAtLanes(fx *effects) {
	for _, at := range s.senders.atLanes {
		for w := at.line.first; w != nil; w = at.line.first {
			s.leaveLine(w)
			fx.signal(w)
		}
	}
}

// grantPlaces gives free places to the waiters of their keys. These then wait
// in the line for slots.
func (s *state) grantPlaces(fx *effects) {
	l := s.queue.bound
	if l == nil {
		return
	}
	for ln := l.Vacated(); ln != nil; ln = l.Vacated() {
		if w := s.senders.atLanes[ln]; w != nil {
			s.grantPlacesOf(l, ln, w, fx)
			s.unwait(ln)
		}
	}
}

func (s *state) grantPlacesOf(l line.Places, ln *line.Lane, w *atLane, fx *effects) {
	if l.Places(ln) > 0 && w.stalls {
		s.unstallOver(ln, fx)
		w.stalls = false
	}
	for l.Places(ln) > 0 {
		switch {
		case w.line.first != nil && (w.senders == 0 || w.outside):
			x := w.line.first
			w.line.leave(x)
			s.senders.linedAtLanes--
			x.atLane = false
			l.Reserve(ln, 1)
			s.waiters.join(x, x.inside)
			w.outside = false
		case w.senders > 0 && s.promisePlaces(l, ln):
			w.senders--
			w.outside = true
		default:
			return
		}
	}
}

// promisePlaces reserves places for the worker that has waited for them for
// longest, when there are as many as it wants or half of all: each wake must
// move many commands.
func (s *state) promisePlaces(l line.Places, ln *line.Lane) bool {
	i := slices.IndexFunc(s.senders.forPlaces, func(p sender) bool { return p.lane == ln })
	p := s.senders.forPlaces[i]
	n := min(l.Places(ln), p.n)
	if n < min(p.n, (l.Most()+1)/2) {
		return false
	}
	s.senders.forPlaces = slices.Delete(s.senders.forPlaces, i, i+1)
	l.Reserve(ln, n)
	p.n, p.places = n, n
	s.senders.forSlots = append(s.senders.forSlots, p)
	return true
}

// awaitPlaces has a worker wait for n places, before the others if it has had
// some of them.
func (s *state) awaitPlaces(ln *line.Lane, n int, m *Member, first bool) {
	at := len(s.senders.forPlaces)
	if first {
		at = 0
	}
	s.senders.forPlaces = slices.Insert(s.senders.forPlaces, at, sender{m: m, n: n, lane: ln})
	s.waitsAt(ln).senders++
}

// leaveLane removes a worker from the list of workers that wait for places.
func (s *state) leaveLane(i int) {
	ln := s.senders.forPlaces[i].lane
	s.senders.forPlaces = slices.Delete(s.senders.forPlaces, i, i+1)
	s.senders.atLanes[ln].senders--
	s.queue.bound.Vacate(ln)
	s.unwait(ln)
}

// isOverFor reports whether an inbox behind must wait until a key has a place.
func (s *state) isOverFor(behind *Inbox) bool {
	return slices.ContainsFunc(s.senders.overKeys, func(o overKey) bool { return o.from == behind })
}

// unstallOver unstalls the inboxes behind that wait until a key has a place;
// nil is any key.
func (s *state) unstallOver(ln *line.Lane, fx *effects) {
	s.senders.overKeys = slices.DeleteFunc(s.senders.overKeys, func(o overKey) bool {
		over := ln == nil || o.lane == ln
		if over {
			fx.unstall(o.from)
		}
		return over
	})
}

// placesBack returns the places of commands that may return to the queue, the
// last ones of a worker's batch: the worker's part in the line knows them, or
// the commands are asked.
func (in *Inbox) placesBack(m *Member, es []command.Envelope) places {
	switch {
	case in.state.queue.knows:
		return places{ranks: m.Part.Ranks(len(es))}
	case in.state.queue.asks:
		return in.state.queue.places(unwoken(es))
	default:
		return places{}
	}
}

// placeBack returns the place of a command that must be tried again. Behind is
// how many commands are left after it in the worker's batch.
func (in *Inbox) placeBack(m *Member, load any, behind int) place {
	if in.state.queue.knows {
		return place{rank: m.Part.Before(behind)}
	}
	return in.state.queue.place(load)
}

// freeLanes frees the lanes that a worker, or its ended commands, hold. It
// frees none while the worker carries results of their commands: until these
// are handed over, later results could overtake them.
func (s *state) freeLanes(m *Member) {
	if m.Carried == 0 {
		s.forgetLanes(m)
	}
}

// forgetLanes ends the hold on lanes of a worker that has crashed, was
// abandoned or leaves.
func (s *state) forgetLanes(m *Member) {
	if m.Part != nil {
		s.queue.line.Free(m.Part)
	}
}

// payers returns the places of commands that may get permits of their keys
// back.
func (in *Inbox) payers(es []command.Envelope) places {
	if in.state.queue.rates != nil { // it is set once
		return in.state.queue.places(es)
	}
	return places{}
}
