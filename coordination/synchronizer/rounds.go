package synchronizer

// rounds is the state of OncePerRound. A round can be told from counters that differ by one at most. They differ by more if a member has
// restarted, so that its counters began again: what it has missed is added to them.
type rounds struct {
	s      *Synchronizer
	events []Event
	missed []int // by event
	top    int   // the highest level that any of them has had
	known  bool  // missed is up to date
}

// isNext reports whether an event has not happened yet in this round.
func (r *rounds) isNext(event int) bool {
	if !r.known {
		r.catchUp()
	}
	level := r.level(event)
	for i, e := range r.events {
		if r.level(i) < level && !r.s.isGone(e.Of) {
			return false
		}
	}
	return true
}

// happened books that an event has happened.
func (r *rounds) happened(event int) { r.top = max(r.top, r.level(event)) }

// catchUp has what is more than a round behind take part in the present one.
func (r *rounds) catchUp() {
	r.known = true
	for i := range r.events {
		r.happened(i)
	}
	for i := range r.events {
		r.missed[i] += max(0, r.top-1-r.level(i))
	}
}

// level returns how many rounds an event has had.
func (r *rounds) level(event int) int {
	e := r.events[event]
	return r.missed[event] + r.s.Count(e.Of, e.Method).Accepted
}

// isGone reports whether a member will not be back.
func (s *Synchronizer) isGone(m Member) bool { return s.rules.Gone != nil && s.rules.Gone(m.Name()) }
