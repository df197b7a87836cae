package inbox

import "github.com/golda-dev/golda/internal/command"

// Keyed reports whether the stage is a keyed one.
func (in *Inbox) Keyed() bool { return in.state.cfg.Key != nil }

// HoldsLanes reports whether the commands of the stage hold the lanes of their
// keys, because handlers may suspend.
func (in *Inbox) HoldsLanes() bool { return in.Keyed() && in.state.queue.woken != nil } // which are not changed

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

// TakesBack reports whether [Inbox.RetryLater] takes back the rest of a
// worker's batch: later commands of the same key may be in it.
func (in *Inbox) TakesBack() bool { return in.Keyed() && !in.HoldsLanes() }

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
	if in.state.queue.rates != nil { // which is not changed
		return in.state.queue.places(es)
	}
	return places{}
}
