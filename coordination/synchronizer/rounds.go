package synchronizer

// rounds is the state of OncePerRound. The present round follows from the
// counters, as long as they differ by at most one. They differ by more if the
// counters of a member have begun again, or cannot be seen for a while: such a
// member is in the present round. Its missed rounds are booked when the member
// runs, and not before: if its counters come back, as they do after a wrong
// notice of termination, they show its rounds.
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
	for i := range r.events {
		if r.level(i) < level {
			return false
		}
	}
	return true
}

// happened books that an event has happened, in the present round or in a new
// one.
func (r *rounds) happened(event int) {
	r.missed[event] += max(0, r.top-r.counted(event))
	r.raise(event)
}

// raise notes the level of an event whose counters may begin again.
func (r *rounds) raise(event int) {
	r.top = max(r.top, r.counted(event))
}

// level returns how many rounds an event has had or cannot have any more.
func (r *rounds) level(event int) int { return max(r.counted(event), r.top-1) }

func (r *rounds) counted(event int) int {
	e := r.events[event]
	return r.missed[event] + r.s.Count(e.Of, e.Method).Accepted
}
