package inbox

import "github.com/golda-dev/golda/internal/command"

// Keyed reports whether the stage is a keyed one.
func (in *Inbox) Keyed() bool { return in.cfg.Key != nil }

// placesBack asks commands that may come back to a keyed stage for their keys.
func (in *Inbox) placesBack(es []command.Envelope) places {
	if !in.Keyed() {
		return places{}
	}
	return in.queue.places(es)
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
