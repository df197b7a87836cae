package inbox

import "github.com/golda-dev/golda/internal/command"

// Keyed reports whether the stage is a keyed one.
func (in *Inbox) Keyed() bool { return in.cfg.Key != nil }

// placesBack returns the places of commands that may come back, the last ones of a worker's batch: it asks those of a stage
// with lanes for their keys.
func (in *Inbox) placesBack(m *Member, es []command.Envelope) places {
	switch {
	case in.queue.lanes != nil: // which is not changed
		return in.queue.places(es)
	case in.Ordered():
		return places{keys: m.Numbers.last(len(es))}
	default:
		return places{}
	}
}

// placeBack returns the place of a command that is to be tried again. Behind it so many are left in the worker's batch.
func (in *Inbox) placeBack(m *Member, load any, behind int) place {
	if in.Ordered() {
		return place{key: m.Numbers.before(behind)}
	}
	return in.queue.place(load)
}

// freeLanes ends a worker's hold on lanes, unless it carries what came of their commands: until that has been handed over,
// later results could overtake it.
func (s *state) freeLanes(m *Member) {
	if s.queue.lanes != nil && m.Carried == 0 {
		s.queue.lanes.free(m)
	}
}

// forgetLanes ends the hold on lanes of a worker that has crashed, was abandoned or leaves.
func (s *state) forgetLanes(m *Member) {
	if s.queue.lanes != nil {
		s.queue.lanes.free(m)
	}
}

// payers returns the places of commands that may get permits of their keys back.
func (in *Inbox) payers(es []command.Envelope) places {
	if !in.queue.rated() { // which is not changed
		return places{}
	}
	return in.queue.places(es)
}
