package inbox

import "github.com/golda-dev/golda/internal/command"

// Keyed reports whether the stage is a keyed one.
func (in *Inbox) Keyed() bool { return in.cfg.Key != nil }

// HoldsLanes reports whether the commands of the stage hold the lanes of their keys, because handlers may suspend.
func (in *Inbox) HoldsLanes() bool { return in.queue.heldByCommands() } // which is not changed

// placesBack returns the places of commands that may come back, the last ones of a worker's batch: it asks those of a stage
// with lanes for their keys, unless they hold lanes.
func (in *Inbox) placesBack(m *Member, es []command.Envelope) places {
	switch {
	case in.HoldsLanes():
		return places{keys: m.Holds.last(len(es))}
	case in.queue.lanes != nil, in.queue.guarded != nil: // these are not changed
		return in.queue.places(unwoken(es))
	case in.Ordered():
		return places{keys: m.Numbers.last(len(es))}
	default:
		return places{}
	}
}

// placeBack returns the place of a command that is to be tried again. Behind it so many are left in the worker's batch.
func (in *Inbox) placeBack(m *Member, load any, behind int) place {
	switch {
	case in.Ordered():
		return place{key: m.Numbers.before(behind)}
	case in.HoldsLanes():
		return place{key: m.Holds.key(behind)}
	default:
		return in.queue.place(load)
	}
}

// TakesBack reports whether [Inbox.RetryLater] takes back the rest of a worker's batch: later commands of the same key may be
// in it.
func (in *Inbox) TakesBack() bool { return in.Keyed() && !in.HoldsLanes() }

// endHold ends the hold of the command before the last ones of a worker's batch: nothing more comes of it.
func (s *state) endHold(m *Member, behind int) {
	if s.queue.heldByCommands() {
		m.Holds.End(m.Holds.before(behind))
	}
}

// loseHold takes the hold away from such a command: it blocks the lane, or is in it again.
func (s *state) loseHold(m *Member, behind int) {
	if s.queue.heldByCommands() {
		m.Holds.Set(m.Holds.before(behind), Hold{})
	}
}

// tellHolds tells a worker what the commands of its batch of n hold.
func (s *state) tellHolds(m *Member, n int) {
	if m.Holds == nil {
		m.Holds = new(Holds)
	}
	s.queue.lanes.tell(m.Holds, n)
}

// freeLanes ends a worker's hold on lanes, or that of its commands that have ended, unless it carries what came of their
// commands: until that has been handed over, later results could overtake it.
func (s *state) freeLanes(m *Member) {
	if m.Carried == 0 {
		s.forgetLanes(m)
	}
}

// forgetLanes ends the hold on lanes of a worker that has crashed, was abandoned or leaves.
func (s *state) forgetLanes(m *Member) {
	switch l := s.queue.lanes; {
	case l == nil:
	case !l.byOne:
		l.free(m)
	case m.Holds != nil:
		l.freeEnded(m.Holds)
	}
}

// payers returns the places of commands that may get permits of their keys back.
func (in *Inbox) payers(es []command.Envelope) places {
	if in.queue.rated() { // which is not changed
		return in.queue.places(es)
	}
	return places{}
}
