package synchronizer

// rounds is the state of OncePerRound. A round can be told from counters that differ by one at most. They differ by more if those of a member
// have begun again, or cannot be seen for a while: such a member is in the present round. It is booked as missed when the member runs, and
// not before: if its counters come back, as they do after a notice that was wrong, they say what it has done.
//
// Counters of stages never begin again. They may go back, by commands that were accepted and have ended without having run, so
// what they say now is all that counts.
type rounds struct {
	s      *Synchronizer
	events []Event
	missed []int // by event: the rounds that its counter does not have
	top    int   // the highest level that any of them has had
}

// isNext reports whether an event has not happened yet in this round.
func (r *rounds) isNext(event int) bool {
	for i := range r.events {
		r.raise(i)
	}
	level := r.level(event)
	for i, e := range r.events {
		if r.level(i) < level && !r.s.isGone(e.Of) {
			return false
		}
	}
	return true
}

// happened books that an event has happened, in the present round or in a new one.
func (r *rounds) happened(event int) {
	r.missed[event] += max(0, r.top-r.counted(event))
	r.raise(event)
}

// raise notes the level of an event whose counters may begin again.
func (r *rounds) raise(event int) {
	if !r.s.lasts() {
		r.top = max(r.top, r.counted(event))
	}
}

// level returns how many rounds an event has had or cannot have any more.
func (r *rounds) level(event int) int { return max(r.counted(event), r.top-1) }

func (r *rounds) counted(event int) int {
	e := r.events[event]
	return r.missed[event] + r.s.Count(e.Of, e.Method).Accepted
}

// lasts reports whether the counters of the members never begin again, because the members are stages.
func (s *Synchronizer) lasts() bool { return s.rules.Gone != nil }

// isGone reports whether a member will not be back.
func (s *Synchronizer) isGone(m Member) bool { return s.rules.Gone != nil && s.rules.Gone(m.Name()) }
