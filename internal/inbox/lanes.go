package inbox

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// lanes is the queue of a keyed stage. It has a lane for each key of which commands are here. One worker at a time has the
// commands of a lane: the lane is held from when they are taken until all of them are done and what came of them has been
// handed over. A command that waits for its next try blocks its lane, and then comes first in it. So the commands of one key
// are handled, and their results leave, in the order of their arrival, and a key with much to do holds up no other.
//
// This is the coloring of events of Zeldovich et al., "Multiprocessor Support for Event-Driven Programs" (USENIX 2003), with
// a color for each key.
//
// Invariant: a lane is ready exactly if it has commands, is not held and is not blocked; it is empty if it has no commands and
// is neither. Ready lanes are listed in the order in which they became ready, empty ones in the order in which they became
// empty. n counts the commands of all lanes, takeable those of the ready ones.
type lanes struct {
	byKey       map[queue.Key]*lane
	ready       laneList
	empty       laneList // the first mostEmpty of them: a key that comes again needs no new lane
	n, takeable int
	taken       []*lane             // lanes that PopInto has taken, and no worker holds yet
	held        map[*Member][]*lane // what workers hold; not a field of Member, which most stages need without it
	emptied     [][]*lane           // of workers that hold nothing any more, for the next
}

// lane is the commands of one key.
type lane struct {
	ring       ring.Ring[command.Envelope]
	key        queue.Key
	held       bool      // a worker has its commands
	blocked    bool      // a command waits for its next try
	in         *laneList // that it is in, if any
	prev, next *lane     // in that list
}

// laneList is a list of lanes. A lane is in one list at most.
type laneList struct {
	first, last *lane
	n           int
}

// add appends a lane.
func (l *laneList) add(ln *lane) {
	if ln.prev, ln.in = l.last, l; ln.prev == nil {
		l.first = ln
	} else {
		ln.prev.next = ln
	}
	l.last = ln
	l.n++
}

// remove removes a lane.
func (l *laneList) remove(ln *lane) {
	if ln.prev == nil {
		l.first = ln.next
	} else {
		ln.prev.next = ln.next
	}
	if ln.next == nil {
		l.last = ln.prev
	} else {
		ln.next.prev = ln.prev
	}
	ln.prev, ln.next, ln.in = nil, nil, nil
	l.n--
}

const (
	// mostEmpty is how many lanes without commands are kept, so that a lane is not made and forgotten for each command of a
	// key that comes now and then; W13 of the benchmark suite measures such a stage.
	mostEmpty = 1024
	// mostKept is how large the ring of an empty lane may be.
	mostKept = 64
)

func newLanes() *lanes { return &lanes{byKey: map[queue.Key]*lane{}, held: map[*Member][]*lane{}} }

// Len returns how many commands wait, whether they can be taken or not.
func (l *lanes) Len() int { return l.n }

// of returns the lane of a key.
func (l *lanes) of(k queue.Key) *lane {
	ln := l.byKey[k]
	if ln != nil {
		if ln.in == &l.empty {
			l.empty.remove(ln)
		}
		return ln
	}
	if l.empty.n >= mostEmpty {
		ln = l.empty.first
		l.empty.remove(ln)
		delete(l.byKey, ln.key)
	} else {
		ln = new(lane)
	}
	ln.key = k
	l.byKey[k] = ln
	return ln
}

// Push queues a command behind all others of its key.
func (l *lanes) Push(e command.Envelope, k queue.Key) {
	ln := l.of(k)
	ln.ring.Push(e)
	l.added(ln, 1)
}

// PushAll queues commands in order.
func (l *lanes) PushAll(es []command.Envelope, keys []queue.Key) {
	for i := range es {
		l.Push(es[i], keyAt(keys, i))
	}
}

// PushFront puts commands back before all others of their keys.
func (l *lanes) PushFront(es []command.Envelope, keys []queue.Key) {
	for i := range slices.Backward(es) {
		ln := l.of(keyAt(keys, i))
		ln.ring.PushFront(es[i : i+1])
		l.added(ln, 1)
	}
}

func keyAt(keys []queue.Key, i int) queue.Key {
	if i < len(keys) {
		return keys[i]
	}
	return 0
}

// added counts commands that a lane has got.
func (l *lanes) added(ln *lane, n int) {
	l.n += n
	if ln.in == &l.ready {
		l.takeable += n
		return
	}
	l.update(ln)
}

// update lists a lane if it has become ready or empty.
func (l *lanes) update(ln *lane) {
	switch {
	case ln.held || ln.blocked || ln.in != nil:
	case ln.ring.Len() > 0:
		l.ready.add(ln)
		l.takeable += ln.ring.Len()
	case ln.ring.Cap() > mostKept || l.empty.n >= mostEmpty:
		delete(l.byKey, ln.key)
	default:
		l.empty.add(ln)
	}
}

// pull takes the first ready lane out of the list; nil if there is none.
func (l *lanes) pull() *lane {
	ln := l.ready.first
	if ln != nil {
		l.ready.remove(ln)
		l.takeable -= ln.ring.Len()
	}
	return ln
}

// PopInto moves commands of ready lanes out, and holds these lanes. [lanes.hold] returns them.
func (l *lanes) PopInto(dst []command.Envelope) (n int) {
	for n < len(dst) {
		ln := l.pull()
		if ln == nil {
			break
		}
		n += ln.ring.PopInto(dst[n:])
		ln.held = true
		l.taken = append(l.taken, ln)
	}
	l.n -= n
	return n
}

// hold gives the lanes that were taken last to a worker.
func (l *lanes) hold(m *Member) {
	if len(l.taken) == 0 {
		return
	}
	held, holds := l.held[m]
	if last := len(l.emptied) - 1; !holds && last >= 0 {
		held, l.emptied = l.emptied[last], l.emptied[:last]
	}
	l.held[m] = append(held, l.taken...)
	clear(l.taken)
	l.taken = l.taken[:0]
}

// free ends the hold of a worker on lanes.
func (l *lanes) free(m *Member) {
	held, holds := l.held[m]
	if !holds {
		return
	}
	for _, ln := range held {
		ln.held = false
		l.update(ln)
	}
	clear(held)
	delete(l.held, m) // it may never come back
	l.emptied = append(l.emptied, held[:0])
}

// block keeps a lane until the next try of one of its commands. A worker holds the lane, or has taken its commands from it.
func (l *lanes) block(k queue.Key) { l.of(k).blocked = true }

// unblock puts the command whose next try is due at the front of its lane.
func (l *lanes) unblock(e command.Envelope, k queue.Key) {
	ln := l.of(k)
	ln.blocked = false
	ln.ring.PushFront([]command.Envelope{e})
	l.added(ln, 1)
}

// Drop removes the first command of the lane that is next, or of any lane if none is ready.
func (l *lanes) Drop() (e command.Envelope) {
	ln := l.pull()
	if ln == nil {
		ln = l.any()
	}
	e = ln.ring.Pop()
	l.n--
	l.update(ln)
	return e
}

// any returns a lane with commands: the ready one that is next, or if none is ready the one with the smallest key. There is
// a command.
func (l *lanes) any() (least *lane) {
	if l.ready.n > 0 {
		return l.ready.first
	}
	for _, ln := range l.byKey {
		if ln.ring.Len() > 0 && (least == nil || ln.key < least.key) {
			least = ln
		}
	}
	return least
}

// At returns the command that comes out next, and nil for any other: which that will be depends on when lanes become free.
func (l *lanes) At(i int) *command.Envelope {
	if i > 0 || l.n == 0 {
		return nil
	}
	return l.any().ring.At(0)
}

// Oldest returns the first command of the lane that is next. Other lanes may have an older one.
func (l *lanes) Oldest() *command.Envelope { return l.At(0) }

// Count counts the commands for which so is true.
func (l *lanes) Count(so func(*command.Envelope) bool) (n int) {
	for _, ln := range l.byKey {
		for i := range ln.ring.Len() {
			if so(ln.ring.At(i)) {
				n++
			}
		}
	}
	return n
}

// Drain empties all lanes: each key's commands in order.
func (l *lanes) Drain() []command.Envelope {
	es := make([]command.Envelope, l.n)
	n := 0
	for _, ln := range l.byKey {
		if ln.in == &l.ready {
			l.ready.remove(ln)
			l.takeable -= ln.ring.Len()
		}
		n += ln.ring.PopInto(es[n:])
		l.update(ln)
	}
	l.n = 0
	return es
}
