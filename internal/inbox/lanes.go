package inbox

import (
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
// Invariant: a lane is ready exactly if it has commands, is not held and is not blocked. Ready lanes are listed in the order
// in which they became ready. n counts the commands of all lanes, takeable those of the ready ones.
type lanes struct {
	byKey       map[queue.Key]*lane // those that have commands, are held or are blocked
	first, last *lane               // the ready ones
	n, takeable int
	taken       []*lane             // lanes that PopInto has taken, and no worker holds yet
	held        map[*Member][]*lane // what workers hold; not a field of Member, which most stages need without it
	unused      *lane               // kept for the next key
}

// lane is the commands of one key.
type lane struct {
	ring    ring.Ring[command.Envelope]
	key     queue.Key
	held    bool  // a worker has its commands
	blocked bool  // a command waits for its next try
	ready   bool  // listed
	next    *lane // in the list of ready lanes, or of unused ones
}

// mostKept is how large the ring of a lane may be for the lane to be used again.
const mostKept = 64

func newLanes() *lanes { return &lanes{byKey: map[queue.Key]*lane{}, held: map[*Member][]*lane{}} }

// Len returns how many commands wait, whether they can be taken or not.
func (l *lanes) Len() int { return l.n }

// of returns the lane of a key.
func (l *lanes) of(k queue.Key) *lane {
	ln := l.byKey[k]
	if ln != nil {
		return ln
	}
	if ln = l.unused; ln != nil {
		l.unused, ln.next = ln.next, nil
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
	for i := len(es) - 1; i >= 0; i-- {
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
	if ln.ready {
		l.takeable += n
		return
	}
	l.update(ln)
}

// update lists a lane if it has become ready, and forgets it if there is nothing of it any more.
func (l *lanes) update(ln *lane) {
	switch {
	case ln.held || ln.blocked || ln.ready:
	case ln.ring.Len() > 0:
		ln.ready = true
		l.takeable += ln.ring.Len()
		if l.last == nil {
			l.first = ln
		} else {
			l.last.next = ln
		}
		l.last = ln
	default:
		delete(l.byKey, ln.key)
		if ln.ring.Cap() <= mostKept {
			ln.next, l.unused = l.unused, ln
		}
	}
}

// pull takes the first ready lane out of the list; nil if there is none.
func (l *lanes) pull() *lane {
	ln := l.first
	if ln == nil {
		return nil
	}
	if l.first = ln.next; l.first == nil {
		l.last = nil
	}
	ln.next, ln.ready = nil, false
	l.takeable -= ln.ring.Len()
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
	if len(l.taken) > 0 {
		l.held[m] = append(l.held[m], l.taken...)
		clear(l.taken)
		l.taken = l.taken[:0]
	}
}

// free ends the hold of a worker on lanes.
func (l *lanes) free(m *Member) {
	held := l.held[m]
	for _, ln := range held {
		ln.held = false
		l.update(ln)
	}
	if len(held) > 0 {
		clear(held)
		l.held[m] = held[:0]
	}
}

// forget is free for a worker that leaves.
func (l *lanes) forget(m *Member) {
	l.free(m)
	delete(l.held, m)
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
	if l.first != nil {
		return l.first
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
		if ln.ready {
			l.takeable -= ln.ring.Len()
			ln.ready, ln.next = false, nil
		}
		n += ln.ring.PopInto(es[n:])
		l.update(ln)
	}
	l.first, l.last, l.n = nil, nil, 0
	return es
}
