package line

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/rate"
)

// lanes is the line of a stage that is keyed, or has a rate for each key. It
// has a lane for each key of which commands are here, so that a key with much
// to do holds up no other.
//
// In a keyed stage one worker at a time has the commands of a lane: the lane is
// held from when they are taken until all of them are done and their results
// have been handed over. A command that waits for its next try blocks its lane,
// and then comes first in it. So the commands of one key are handled, and their
// results leave, in the order of their arrival. If handlers may suspend, a lane
// gives out one command at a time, which holds it in the worker's place; see
// lane_holds.go.
//
// With a rate each lane has a bucket of permits. A lane with commands and no
// permit is dry until the next permit is there. A lane without commands is kept
// until its bucket is full: then a fresh lane is as good.
//
// A command without a key, see [NoKey], has a lane of its own, without a rate,
// which is forgotten when the command is given out.
//
// This is the coloring of events of Zeldovich et al., "Multiprocessor Support
// for Event-Driven Programs" (USENIX 2003), with a color for each key.
//
// Invariant: a lane that is not held and not blocked is empty if it has no
// commands, ready if it has commands and a permit, and dry if it has commands
// and no permit. Ready lanes are listed in the order in which they became
// ready, empty ones in the order in which they became empty, dry ones by when
// their next permits are there. n counts the commands of all lanes, takeable
// the commands of ready lanes for which there are permits.
//
// Commands that a worker gives back unhandled, after a crash, keep their turn:
// a lane with some is before lanes without, and gives out no others with them.
// So crashes do not put off the turn of a lane, however many commands arrive
// meanwhile. A command that is tried again has no turn.
type lanes struct {
	laneSet
	handedOut

	ready       laneList
	n, takeable int

	keyed bool         // one worker at a time has the commands of a lane
	parks bool         // keys may be parked
	full  *rate.Bucket // what the bucket of a lane is at first; nil: there is no rate
	dry   dryLanes
	now   int64      // of the pipeline's clock, when the inbox last asked for commands; read only if there is a rate
	delay rate.Delay // when there were dry lanes, and none was ready
}

// mostSpent is how many lanes without commands are kept because their buckets
// are not full. Beyond that the lane that became empty first is forgotten, and
// its key has a full bucket when it is used again.
const mostSpent = 1 << 16

// Keys says how commands wait by their keys.
type Keys struct {
	// Of is the function for the key of a command, as envelopes have it. It
	// calls code of users.
	Of func(load any) uint64
	// Rate bounds how many commands of a key are given out.
	Rate rate.Limit
	// InTurn has the commands of a key handled one after the other, in the
	// order of their arrival.
	InTurn bool
	// Most bounds how many commands of a key may hold slots, if they are
	// handled in turn; or it is [QuarterOfCapacity]; 0: any number.
	Most int
	// Parks says that keys may be parked; see [Parks].
	Parks bool
}

// Keyed returns the line of a stage that is keyed, or has a rate for each key.
func Keyed(k Keys) Line {
	l := lanes{
		laneSet: laneSet{rank: func(load any) Rank { return Rank{Key: k.Of(load)} }, bound: k.Most},
		keyed:   k.InTurn, parks: k.Parks, full: rate.New(k.Rate),
	}
	if k.Parks {
		return &parking{l}
	}
	return &l
}

// parking is lanes whose keys may be parked; see [Parks].
type parking struct{ lanes }

// lanesOf returns the lanes of a line; nil if it has none.
func lanesOf(l Line) *lanes {
	switch l := l.(type) {
	case *lanes:
		return l
	case *parking:
		return &l.lanes
	default:
		return nil
	}
}

// Singly reports whether there is a rate: commands that a worker had taken and
// not begun would come on top of what the rate allows later.
func (l *lanes) Singly() bool { return l.full != nil }

// Len returns how many commands wait, whether they can be taken or not.
func (l *lanes) Len() int { return l.n }

// Takeable returns the commands of ready lanes for which there are permits.
func (l *lanes) Takeable() int { return l.takeable }

// Droppable returns all but the commands of parked keys, which hold no slots.
func (l *lanes) Droppable() int { return l.n - l.aside }

// Of returns the lane of a key, or a fresh one for a command without a key.
func (l *lanes) Of(r Rank) *Lane {
	if r.Key == NoKey {
		return new(Lane)
	}
	ln := l.byKey.get(r.Key)
	if ln != nil {
		if ln.in == &l.empty {
			l.reuse(ln)
		}
		return ln
	}
	if l.empty.n >= mostEmpty/2 && (l.empty.n >= mostSpent || l.forgettable(l.empty.first)) {
		ln = l.forget()
	} else {
		ln = new(Lane)
	}
	ln.key = r.Key
	ln.fillUp(l.full, l.now)
	l.byKey.add(ln)
	return ln
}

// Push queues a command behind all others of its key.
func (l *lanes) Push(e command.Envelope, r Rank) { l.PushTo(l.Of(r), e) }

// PushTo adds a command to a lane.
func (l *lanes) PushTo(ln *Lane, e command.Envelope) {
	ln.ring.Push(e)
	l.added(ln, 1)
}

// PushAll queues commands in order.
func (l *lanes) PushAll(es []command.Envelope, ranks []Rank) {
	for i := range es {
		l.Push(es[i], rankAt(ranks, i))
	}
}

// Return puts commands back before all others of their keys. If they hold their
// lanes they do not any more. They keep their turn: they come out again before
// the commands of other lanes, and commands that have come to their lanes since
// do not come with them.
func (l *lanes) Return(es []command.Envelope, ranks []Rank) {
	for i := range slices.Backward(es) {
		ln := l.Of(rankAt(ranks, i))
		ln.held = ln.held && !l.byOne
		ln.ring.PushFront(es[i : i+1])
		ln.again++
		l.unlist(ln)
		l.added(ln, 1)
	}
}

// added counts commands that a lane has got.
func (l *lanes) added(ln *Lane, n int) {
	l.n += n
	switch ln.in {
	case &l.ready:
		l.count(ln)
	case &l.parked:
		l.aside += n
	default:
		l.update(ln)
	}
}

// count counts the commands of a lane that can be taken.
func (l *lanes) count(ln *Lane) {
	n := 0
	if ln.in == &l.ready {
		n = l.allowed(ln)
	}
	l.takeable += n - ln.counted
	ln.counted = n
}

// update lists a lane if it has become ready, dry or empty.
func (l *lanes) update(ln *Lane) {
	switch {
	case ln.held || ln.blocked || ln.in != nil || ln.dryAt > 0:
	case ln.ring.Len() > 0 && l.allowed(ln) > 0:
		l.list(ln)
	case ln.key == NoKey: // its command has left
	case ln.ring.Len() > 0:
		l.dryUp(ln)
	case ln.reserved > 0 || ln.waited: // commands of the key are about to come
	case l.full != nil:
		l.keepSpent(ln)
	case l.hasRoom(ln):
		l.keep(ln)
	default:
		l.byKey.delete(ln.key)
	}
}

// allowed is how many commands of a lane that is neither held nor blocked can
// be taken.
func (l *lanes) allowed(ln *Lane) int {
	n := ln.ring.Len()
	if l.byOne {
		n = min(n, 1)
	}
	if l.keyed && ln.again > 0 {
		n = min(n, int(ln.again))
	}
	if ln.permits == nil {
		return n
	}
	return min(n, ln.permits.Permits(l.now))
}

// list lists a lane as ready.
func (l *lanes) list(ln *Lane) {
	if ln.again > 0 {
		l.ready.addFirst(ln)
	} else {
		l.ready.add(ln)
	}
	l.count(ln)
}

// unlist takes a lane out of the lists of lanes with commands.
func (l *lanes) unlist(ln *Lane) {
	if ln.in == &l.ready {
		l.ready.remove(ln)
		l.count(ln)
	}
	l.undry(ln)
}

// PopInto gives out commands of ready lanes. In a keyed stage it holds these
// lanes, and Give must follow.
func (l *lanes) PopInto(dst []command.Envelope) (n int) {
	for n < len(dst) {
		ln := l.ready.first
		if ln == nil {
			break
		}
		l.unlist(ln)
		some := ln.ring.PopInto(dst[n : n+min(len(dst)-n, l.allowed(ln))])
		n += some
		ln.again = max(ln.again-int32(some), 0)
		l.Vacate(ln)
		if ln.permits != nil {
			ln.permits.Take(some)
		}
		if l.keyed {
			ln.held = true
			l.taken = append(l.taken, ln)
		} else {
			l.update(ln)
		}
	}
	l.n -= n
	return n
}

// Drop removes the first command of the lane that is next, or of any lane if
// none is ready.
func (l *lanes) Drop() command.Envelope { return l.dropOf(l.any()) }

// dropOf removes the first command of a lane, which has one.
func (l *lanes) dropOf(ln *Lane) (e command.Envelope) {
	l.unlist(ln)
	e = ln.ring.Pop()
	l.n--
	l.leftParked(ln, 1, 1)
	l.Vacate(ln)
	l.update(ln)
	return e
}

// any returns a lane with commands: the ready one that is next, or else the dry
// one that is next, or else the one with the smallest key, of the keys that are
// not parked if there is any. There is a command.
func (l *lanes) any() (least *Lane) {
	switch {
	case l.ready.n > 0:
		return l.ready.first
	case len(l.dry) > 0:
		return l.dry[0]
	}
	for ln := range l.byKey.all() {
		if ln.ring.Len() > 0 && (least == nil || ln.comesBefore(least)) {
			least = ln
		}
	}
	return least
}

// At returns the command that comes out next, and nil for any other: which that
// will be depends on when lanes become free.
func (l *lanes) At(i int) *command.Envelope {
	if i > 0 || l.n == 0 {
		return nil
	}
	return l.any().ring.At(0)
}

// Oldest returns the first command of the lane that is next. Other lanes may
// have an older one.
func (l *lanes) Oldest() *command.Envelope { return l.At(0) }

// Count counts the commands that match.
func (l *lanes) Count(match func(*command.Envelope) bool) (n int) {
	for ln := range l.byKey.all() {
		n += count(&ln.ring, match)
	}
	for ln := l.ready.first; ln != nil; ln = ln.next {
		if ln.key == NoKey {
			n += count(&ln.ring, match)
		}
	}
	return n
}

// Remove takes out the commands that match. The turns of the lanes stay as they
// are.
func (l *lanes) Remove(match func(*command.Envelope) bool) (es []command.Envelope) {
	remove := func(ln *Lane) {
		asked, first := 0, 0 // of the first commands of a parked lane, those that are removed
		removed := ln.ring.Remove(func(e *command.Envelope) bool {
			yes := match(e)
			if yes && ln.isFirst(asked) {
				first++
			}
			asked++
			return yes
		})
		l.leftParked(ln, len(removed), first)
		es = append(es, removed...)
		l.Vacate(ln)
		switch {
		case len(removed) == 0:
		case ln.ring.Len() > 0:
			l.count(ln)
		default:
			l.unlist(ln)
			l.update(ln)
		}
	}
	for ln := range l.byKey.all() {
		remove(ln)
	}
	for ln := l.ready.first; ln != nil; {
		next := ln.next
		if ln.key == NoKey {
			remove(ln)
		}
		ln = next
	}
	l.n -= len(es)
	return es
}

// Drain empties all lanes: each key's commands in order.
func (l *lanes) Drain() []command.Envelope {
	es := make([]command.Envelope, l.n)
	n := 0
	empty := func(ln *Lane) {
		l.unlist(ln)
		some := ln.ring.PopInto(es[n:])
		n += some
		l.leftParked(ln, some, some)
		l.Vacate(ln)
		l.update(ln)
	}
	for l.ready.n > 0 {
		empty(l.ready.first)
	}
	for ln := range l.byKey.all() {
		empty(ln)
	}
	l.n = 0
	return es
}
