package line

import "github.com/golda-dev/golda/internal/command"

// Places is a line that bounds how many slots the commands of one key may hold.
// A command holds a place of its key while it is queued, or waits for its next
// try. Callers and workers wait for places outside of the line, which only
// knows that some wait: arriving commands do not overtake them.
type Places interface {
	// Most returns how many places a key has.
	Most() int
	// Find returns the lane of a key; nil if it has no place taken.
	Find(r Rank) *Lane
	// Of returns the lane of a key, or a fresh one.
	Of(r Rank) *Lane
	// Lets reports whether an arriving command finds a place for which no other
	// command waits.
	Lets(ln *Lane) bool
	// Places returns how many places are free. It is below zero if some
	// commands were let in beyond the bound.
	Places(ln *Lane) int
	// Reserve reserves places, and Unreserve gives them back. Redeem uses one
	// for the command that is pushed next.
	Reserve(ln *Lane, n int)
	Unreserve(ln *Lane, n int)
	Redeem(ln *Lane)
	// PushTo adds a command of the lane's key.
	PushTo(ln *Lane, e command.Envelope)
	// DropOf removes the first command of a lane; false if it has none.
	DropOf(ln *Lane) (e command.Envelope, ok bool)
	// Waits tells the line whether something waits for places of a lane. Vacate
	// has Vacated return the lane.
	Waits(ln *Lane, yes bool)
	Vacate(ln *Lane)
	// Vacated returns a lane with waiters that may have places now, once; nil
	// if there is none. HasVacated reports whether there is one.
	Vacated() *Lane
	HasVacated() bool
}

// PlacesOf returns a line as one with bounds; nil if it has none.
func PlacesOf(l Line) Places {
	if l, ok := l.(interface {
		Places
		boundsKeys() bool
	}); ok && l.boundsKeys() {
		return l
	}
	return nil
}

// Resize fits the bound to the capacity.
func (l *lanes) Resize(capacity int) {
	if l.boundsKeys() || l.parks {
		l.resize(capacity)
	}
}

func (l *lanes) boundsKeys() bool { return l.keyed && l.bound != 0 }

// Unreserve gives places back.
func (l *lanes) Unreserve(ln *Lane, n int) {
	ln.reserved -= int32(n)
	l.Vacate(ln)
	l.update(ln)
}

// DropOf removes the first command of a lane.
func (l *lanes) DropOf(ln *Lane) (e command.Envelope, ok bool) {
	if ln.ring.Len() == 0 {
		return e, false
	}
	return l.dropOf(ln), true
}

// Waits notes whether something waits.
func (l *lanes) Waits(ln *Lane, yes bool) {
	ln.waited = yes
	if !yes {
		l.update(ln)
	}
}
