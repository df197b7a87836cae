package line

import "github.com/golda-dev/golda/internal/command"

// Parks is a line whose keys may be parked: a parked key gives no command out.
// It is parked as long as something holds it, which is the letter of one of its
// commands. The command of that letter comes back before all others of the key.
//
// The commands of parked keys do not hold slots, as long as they are no more
// than the stage has slots: keys that are parked for long leave the slots to the
// others. As many wait at most, beside commands that were here when their
// keys were parked.
type Parks interface {
	// Park parks a key, once more if it is parked, and returns its lane. It
	// returns nil for a command without a key.
	Park(r Rank) *Lane
	// Unpark takes back one Park of a lane.
	Unpark(ln *Lane)
	// PushFirst adds a command to a parked lane, before all others but the
	// commands that were added in this way since the last Park.
	PushFirst(ln *Lane, e command.Envelope)
	// Find returns the lane of a key; nil if there is none.
	Find(r Rank) *Lane
	// WaitingAt returns how many commands wait at a lane.
	WaitingAt(ln *Lane) int
	// Aside returns how many commands of parked keys hold no slot.
	Aside() int
}

// ParksOf returns a line as one whose keys may be parked; nil if it is none.
func ParksOf(l Line) Parks {
	if l, ok := l.(*parking); ok {
		return l
	}
	return nil
}

// Park parks a key. The lane may be held: then it is parked when it is free.
func (l *parking) Park(r Rank) *Lane {
	if r.Key == NoKey {
		return nil
	}
	ln := l.Of(r)
	if ln.park == nil {
		l.unlist(ln)
		ln.park = new(park)
		l.parked.add(ln)
		l.aside += ln.ring.Len()
	}
	ln.park.holds++
	ln.park.first, ln.again = 0, 0
	return ln
}

// Unpark lets the lane give commands out again, if nothing else holds it.
func (l *parking) Unpark(ln *Lane) {
	if ln.park.holds--; ln.park.holds > 0 {
		return
	}
	l.leftParked(ln, ln.ring.Len(), 0)
	ln.park = nil
	l.parked.remove(ln)
	l.Vacate(ln)
	l.update(ln)
}

// PushFirst adds a command to the first ones.
func (l *parking) PushFirst(ln *Lane, e command.Envelope) {
	before := make([]command.Envelope, ln.park.first, ln.park.first+1)
	ln.ring.PopInto(before)
	ln.ring.PushFront(append(before, e))
	ln.park.first++
	l.added(ln, 1)
}

// WaitingAt returns how many commands wait at a lane.
func (l *parking) WaitingAt(ln *Lane) int { return ln.ring.Len() }

// Aside returns how many commands hold no slot.
func (l *parking) Aside() int { return min(l.aside, l.capacity) }

// Held returns how many commands wait for parked keys.
func (l *parking) Held() int { return l.aside }

// Account adds the keys that are parked, and the commands that wait for them.
func (l *parking) Account(_ int64, a *Accounts) { a.Held, a.Parked = l.aside, l.parked.n }
