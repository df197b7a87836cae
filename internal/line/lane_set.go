package line

// laneSet has the lanes of a line that has one for each key, and the bound of
// how many slots the commands of one key may hold. A lane without commands is
// kept for a while, since a key that is used again needs no new lane then.
type laneSet struct {
	rank  func(load any) Rank // returns the key of a command
	byKey laneTable
	empty laneList // lanes without commands, in the order in which they became empty
	room  int      // slots of the rings of empty lanes

	bound   int     // for the commands of one key that hold slots, as it was asked for; 0: any number
	most    int     // the bound, for the present capacity. See lane_places.go, as for vacated
	vacated []*Lane // lanes at which something waits, and which may have places

	parked   laneList // lanes whose keys are parked
	aside    int      // commands in these lanes
	capacity int      // of the stage
}

const (
	// mostEmpty is how many lanes without commands are kept, so that a lane is
	// not made and forgotten for each command of a key that comes now and then;
	// W13 of the benchmark suite measures such a stage. From half as many on, a
	// new key gets the lane that became empty first. The other half is for the
	// lanes that become empty between two new keys.
	mostEmpty = 2048
	// mostRoom is how many slots the rings of empty lanes may have together, 2
	// MiB of them: a busy key need not grow its ring again.
	mostRoom = 1 << 16
)

// QuarterOfCapacity is the bound for the commands of one key that follows the
// capacity: a quarter of it, at least 1.
const QuarterOfCapacity = -1

// Ranker returns the function that asks a command for its key.
func (s *laneSet) Ranker() func(load any) Rank { return s.rank }

// Asks returns true.
func (s *laneSet) Asks() bool { return true }

// keep lists a lane as empty.
func (s *laneSet) keep(ln *Lane) {
	s.empty.add(ln)
	s.room += ln.ring.Cap()
}

// reuse takes a lane out of the list of empty ones.
func (s *laneSet) reuse(ln *Lane) {
	s.empty.remove(ln)
	s.room -= ln.ring.Cap()
}

// forget removes the lane that became empty first, and returns it.
func (s *laneSet) forget() *Lane {
	ln := s.empty.first
	s.reuse(ln)
	s.byKey.delete(ln.key)
	return ln
}

// hasRoom reports whether a lane may be kept with its ring.
func (s *laneSet) hasRoom(ln *Lane) bool {
	return s.empty.n < mostEmpty && s.room+ln.ring.Cap() <= mostRoom
}

// resize fits the bound to the capacity. If there are more places now, lanes at
// which something waits are vacated.
func (s *laneSet) resize(capacity int) {
	before, grows := s.most, capacity > s.capacity
	s.capacity = capacity
	if s.most = s.bound; s.most == QuarterOfCapacity {
		s.most = max(capacity/4, 1)
	}
	if s.most <= before && !(grows && s.parked.n > 0) {
		return
	}
	for ln := range s.byKey.all() {
		s.Vacate(ln)
	}
}

// Most returns the bound.
func (s *laneSet) Most() int { return s.most }

// Find returns the lane of a key, if there is one.
func (s *laneSet) Find(r Rank) *Lane {
	if r.Key == NoKey {
		return nil
	}
	return s.byKey.get(r.Key)
}

// Places returns how many more commands of a key may be queued.
func (s *laneSet) Places(ln *Lane) int {
	if ln.key == NoKey {
		return s.most
	}
	taken := ln.ring.Len() + int(ln.reserved) + int(ln.delayed)
	if ln.blocked {
		taken++
	}
	if ln.park != nil {
		return min(s.most-taken, s.capacity-s.aside)
	}
	return s.most - taken
}

// Lets reports whether an arriving command finds a place.
func (s *laneSet) Lets(ln *Lane) bool { return s.Places(ln) > 0 && !ln.waited }

// Reserve reserves places.
func (s *laneSet) Reserve(ln *Lane, n int) { ln.reserved += int32(n) }

// Redeem uses a reserved place for a command.
func (s *laneSet) Redeem(ln *Lane) { ln.reserved-- }

// Vacate notes that there may be a place for a waiter at a lane.
func (s *laneSet) Vacate(ln *Lane) {
	if ln.waited && !ln.vacated {
		ln.vacated = true
		s.vacated = append(s.vacated, ln)
	}
}

// Vacated returns a lane that may have places, once.
func (s *laneSet) Vacated() (ln *Lane) {
	if last := len(s.vacated) - 1; last >= 0 {
		ln, s.vacated[last] = s.vacated[last], nil
		s.vacated = s.vacated[:last]
		ln.vacated = false
	}
	return ln
}

// HasVacated reports whether there is a lane that may have places.
func (s *laneSet) HasVacated() bool { return len(s.vacated) > 0 }

// handedOut is the lanes whose commands have been given out, on their way from
// PopInto to the worker that called it, or to its commands.
type handedOut struct {
	Base

	taken []*Lane // lanes that PopInto has taken, and no worker has yet
	byOne bool    // each command has its lane, and not the worker, because handlers may suspend
}

// Knows reports whether commands have their lanes.
func (o *handedOut) Knows() bool { return o.byOne }

// give gives the lanes that were taken last to a worker or, if commands have
// them, to the last commands of its batch of n. The first commands of the batch
// may be woken ones: they got their lanes when they were started, and their
// runs keep the holds.
func (o *handedOut) give(p *Part, n int) *Part {
	p = p.orNew()
	if !o.byOne {
		p.lanes = append(p.lanes, o.taken...)
	} else {
		p.clear(n)
		for i, ln := range o.taken {
			p.holds[n-len(o.taken)+i] = Hold{Rank{ln.key, ln.weight}, ln}
		}
	}
	clear(o.taken)
	o.taken = o.taken[:0]
	return p
}

// End ends the hold of a command.
func (o *handedOut) End(p *Part, last int) {
	if o.byOne {
		p.EndBefore(last)
	}
}

// Lose takes the hold away from a command.
func (o *handedOut) Lose(p *Part, last int) {
	if o.byOne {
		p.Set(p.before(last), Hold{})
	}
}

// freeEnded calls free for the lanes of commands that have ended.
func (o *handedOut) freeEnded(p *Part, free func(*Lane)) {
	if !o.byOne {
		return
	}
	for _, h := range p.ended {
		free(h.lane)
	}
	clear(p.ended)
	p.ended = p.ended[:0]
}

// leftParked counts commands that have left a lane, if its key is parked, and
// how many of its first commands are among them. Other parked keys may have
// places now.
func (s *laneSet) leftParked(ln *Lane, n, first int) {
	if ln.park == nil {
		return
	}
	ln.park.first = max(ln.park.first-first, 0)
	full := s.aside >= s.capacity
	s.aside -= n
	if !full {
		return
	}
	for other := s.parked.first; other != nil; other = other.next {
		s.Vacate(other)
	}
}
