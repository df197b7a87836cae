package inbox

import (
	"container/heap"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage/queue"
)

// lanes is the queue of a stage that is keyed, or has a rate for each key. It has a lane for each key of which commands are
// here, so that a key with much to do holds up no other.
//
// In a keyed stage one worker at a time has the commands of a lane: the lane is held from when they are taken until all of
// them are done and what came of them has been handed over. A command that waits for its next try blocks its lane, and then
// comes first in it. So the commands of one key are handled, and their results leave, in the order of their arrival. If
// handlers may suspend, a lane gives out one command at a time, which holds it in the worker's place; see [Hold].
//
// With a rate each lane has a bucket of permits. A lane with commands and no permit is dry until the next permit is there.
// A lane without commands is kept until its bucket is full: then a fresh lane is as good.
//
// A command without a key, see [NoKey], has a lane of its own, without a rate, which is forgotten when the command is given out.
//
// This is the coloring of events of Zeldovich et al., "Multiprocessor Support for Event-Driven Programs" (USENIX 2003), with
// a color for each key.
//
// Invariant: a lane that is not held and not blocked is empty if it has no commands, ready if it has commands and a permit, and
// dry if it has commands and no permit. Ready lanes are listed in the order in which they became ready, empty ones in the order in
// which they became empty, dry ones by when their next permits are there. n counts the commands of all lanes, takeable those of the
// ready ones for which there are permits.
//
// Commands that a worker gives back unhandled, after a crash, keep their turn: a lane with some is before those without, and gives out
// no others with them. So crashes do not put off the turn of a lane, however many commands come meanwhile. A command that is tried
// again has no turn.
type lanes struct {
	byKey       map[queue.Key]*lane
	ready       laneList
	empty       laneList // a key that comes again needs no new lane
	room        int      // slots of the rings of empty lanes
	n, takeable int
	taken       []*lane             // lanes that PopInto has taken, and no worker holds yet
	held        map[*Member][]*lane // what workers hold; not a field of Member, which most stages need without it
	emptied     [][]*lane           // of workers that hold nothing any more, for the next

	most    int     // commands of one key that hold slots; 0: any number. See key_places.go, as for vacated
	vacated []*lane // lanes at which something waits, and which may have places

	keyed bool    // one worker at a time has the commands of a lane
	byOne bool    // and one command at a time, which holds the lane: its handler may suspend
	full  *bucket // what the bucket of a lane is at first; nil: there is no rate
	dry   dryLanes
	now   int64 // of the pipeline's clock, when the inbox last asked for commands; read only if there is a rate
	delay       // when there were dry lanes, and none was ready
}

// lane is the commands of one key.
type lane struct {
	ring       ring.Ring[command.Envelope]
	key        queue.Key
	held       bool      // a worker has its commands, or one of them was given out and has not ended
	blocked    bool      // a command waits for its next try
	reserved   int32     // places that are promised
	again      int32     // commands at the front that were given out and came back: they keep their turn
	waited     bool      // something waits for places
	vacated    bool      // is among the vacated
	permits    *bucket   // nil: there is no rate
	due        int64     // when a dry lane has its next permit
	dryAt      int       // the place among the dry lanes, counted from 1; 0: it is not dry
	counted    int       // in takeable
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

// addFirst puts a lane before all others.
func (l *laneList) addFirst(ln *lane) {
	if ln.next, ln.in = l.first, l; ln.next == nil {
		l.last = ln
	} else {
		ln.next.prev = ln
	}
	l.first = ln
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

// NoKey is the key of a command that has none: the function for the key panicked. It crashes in the place of its handler. No order
// is owed between such commands, and no handler is called for them, so they wait for nothing.
const NoKey queue.Key = 0

const (
	// mostEmpty is how many lanes without commands are kept, so that a lane is not made and forgotten for each command of a
	// key that comes now and then; W13 of the benchmark suite measures such a stage. From half as many on, a new key gets the
	// lane that became empty first. The other half is for the lanes that become empty between two new keys.
	mostEmpty = 2048
	// mostSpent is how many lanes without commands are kept because their buckets are not full. Beyond that the one that became
	// empty first is forgotten, and its key has a full bucket when it comes again.
	mostSpent = 1 << 16
	// mostRoom is how many slots the rings of empty lanes may have together, 2 MiB of them: a busy key need not grow its ring
	// again.
	mostRoom = 1 << 16
)

func newLanes(keyed bool, r Rate) *lanes {
	return &lanes{byKey: map[queue.Key]*lane{}, held: map[*Member][]*lane{}, keyed: keyed, full: newBucket(r)}
}

// Len returns how many commands wait, whether they can be taken or not.
func (l *lanes) Len() int { return l.n }

// of returns the lane of a key, or a fresh one for a command without a key.
func (l *lanes) of(k queue.Key) *lane {
	if k == NoKey {
		return new(lane)
	}
	ln := l.byKey[k]
	if ln != nil {
		if ln.in == &l.empty {
			l.reuse(ln)
		}
		return ln
	}
	if ln = l.empty.first; l.empty.n >= mostEmpty/2 && (l.empty.n >= mostSpent || l.forgettable(ln)) {
		l.reuse(ln)
		delete(l.byKey, ln.key)
	} else {
		ln = new(lane)
	}
	ln.key = k
	l.fillUp(ln)
	l.byKey[k] = ln
	return ln
}

// keep lists a lane as empty.
func (l *lanes) keep(ln *lane) {
	l.empty.add(ln)
	l.room += ln.ring.Cap()
}

// reuse takes a lane out of the list of empty ones.
func (l *lanes) reuse(ln *lane) {
	l.empty.remove(ln)
	l.room -= ln.ring.Cap()
}

// hasRoom reports whether a lane may be kept with its ring.
func (l *lanes) hasRoom(ln *lane) bool {
	return l.empty.n < mostEmpty && l.room+ln.ring.Cap() <= mostRoom
}

// Push queues a command behind all others of its key.
func (l *lanes) Push(e command.Envelope, k queue.Key) {
	l.push(l.of(k), &e)
}

func (l *lanes) push(ln *lane, e *command.Envelope) {
	*ln.ring.Next() = *e
	l.added(ln, 1)
}

// PushAll queues commands in order.
func (l *lanes) PushAll(es []command.Envelope, keys []queue.Key) {
	for i := range es {
		l.Push(es[i], keyAt(keys, i))
	}
}

// PushFront puts commands back before all others of their keys. If they hold their lanes they do not any more. They keep their turn:
// they come out again before the commands of other lanes, and those that have come to their lanes since do not come with them.
func (l *lanes) PushFront(es []command.Envelope, keys []queue.Key) {
	for i := range slices.Backward(es) {
		ln := l.of(keyAt(keys, i))
		ln.held = ln.held && !l.byOne
		ln.ring.PushFront(es[i : i+1])
		ln.again++
		l.unlist(ln)
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
		l.count(ln)
		return
	}
	l.update(ln)
}

// count counts what can be taken of a lane.
func (l *lanes) count(ln *lane) {
	n := 0
	if ln.in == &l.ready {
		n = l.allowed(ln)
	}
	l.takeable += n - ln.counted
	ln.counted = n
}

// update lists a lane if it has become ready, dry or empty.
func (l *lanes) update(ln *lane) {
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
		delete(l.byKey, ln.key)
	}
}

// list lists a lane as ready.
func (l *lanes) list(ln *lane) {
	if ln.again > 0 {
		l.ready.addFirst(ln)
	} else {
		l.ready.add(ln)
	}
	l.count(ln)
}

// unlist takes a lane out of the lists of those that have commands.
func (l *lanes) unlist(ln *lane) {
	if ln.in == &l.ready {
		l.ready.remove(ln)
		l.count(ln)
	}
	l.undry(ln)
}

// pull takes the first ready lane out of the list; nil if there is none.
func (l *lanes) pull() *lane {
	ln := l.ready.first
	if ln != nil {
		l.unlist(ln)
	}
	return ln
}

// PopInto moves commands of ready lanes out. In a keyed stage it holds these lanes, and [lanes.hold] or [lanes.tell] is to
// follow.
func (l *lanes) PopInto(dst []command.Envelope) (n int) {
	for n < len(dst) {
		ln := l.pull()
		if ln == nil {
			break
		}
		some := ln.ring.PopInto(dst[n : n+min(len(dst)-n, l.allowed(ln))])
		n += some
		ln.again = max(ln.again-int32(some), 0)
		l.vacate(ln)
		if ln.permits != nil {
			ln.permits.take(some)
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
		if ln.held = false; ln.again == 0 {
			l.update(ln)
		}
	}
	for _, ln := range slices.Backward(held) { // so that the first comes first
		l.update(ln)
	}
	clear(held)
	delete(l.held, m) // it may never come back
	l.emptied = append(l.emptied, held[:0])
}

// block keeps a lane until the next try of one of its commands. A worker holds the lane, or has taken its commands from it, or
// the command held it until now.
func (l *lanes) block(k queue.Key) {
	ln := l.of(k)
	ln.blocked = true
	ln.again = 0
	ln.held = ln.held && !l.byOne
}

// unblock puts the command whose next try is due at the front of its lane.
func (l *lanes) unblock(e command.Envelope, k queue.Key) {
	ln := l.of(k)
	ln.blocked = false
	ln.again = 0
	ln.held = ln.held && !l.byOne
	ln.ring.PushFront([]command.Envelope{e})
	l.added(ln, 1)
}

// release ends the block of a lane: nothing more comes of the command that waited for its next try.
func (l *lanes) release(k queue.Key) {
	ln := l.of(k)
	ln.blocked = false
	l.vacate(ln)
	l.update(ln)
}

// Drop removes the first command of the lane that is next, or of any lane if none is ready.
func (l *lanes) Drop() (e command.Envelope) { return l.dropOf(l.any()) }

// dropOf removes the first command of a lane, which has one.
func (l *lanes) dropOf(ln *lane) (e command.Envelope) {
	l.unlist(ln)
	e = ln.ring.Pop()
	l.n--
	l.vacate(ln)
	l.update(ln)
	return e
}

// any returns a lane with commands: the ready one that is next, or else the dry one that is next, or else the one with the
// smallest key. There is a command.
func (l *lanes) any() (least *lane) {
	switch {
	case l.ready.n > 0:
		return l.ready.first
	case len(l.dry) > 0:
		return l.dry[0]
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
		n += ln.count(so)
	}
	for ln := l.ready.first; ln != nil; ln = ln.next {
		if ln.key == NoKey {
			n += ln.count(so)
		}
	}
	return n
}

func (ln *lane) count(so func(*command.Envelope) bool) (n int) {
	for i := range ln.ring.Len() {
		if so(ln.ring.At(i)) {
			n++
		}
	}
	return n
}

// Remove takes out the commands for which is is true. The turns of the lanes stay as they are.
func (l *lanes) Remove(is func(*command.Envelope) bool) (es []command.Envelope) {
	remove := func(ln *lane) {
		removed := ln.ring.Remove(is)
		es = append(es, removed...)
		l.vacate(ln)
		switch {
		case len(removed) == 0:
		case ln.ring.Len() > 0:
			l.count(ln)
		default:
			l.unlist(ln)
			l.update(ln)
		}
	}
	for _, ln := range l.byKey {
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
	empty := func(ln *lane) {
		l.unlist(ln)
		n += ln.ring.PopInto(es[n:])
		l.vacate(ln)
		l.update(ln)
	}
	for l.ready.n > 0 {
		empty(l.ready.first)
	}
	for _, ln := range l.byKey {
		empty(ln)
	}
	l.n = 0
	return es
}

// places is how many more commands of a key may come in. It is below zero if some were let in beyond the bound.
func (l *lanes) places(ln *lane) int {
	if ln.key == NoKey {
		return l.most
	}
	taken := ln.ring.Len() + int(ln.reserved)
	if ln.blocked {
		taken++
	}
	return l.most - taken
}

// lets reports whether a command that comes finds a place that no other waits for.
func (l *lanes) lets(ln *lane) bool { return l.places(ln) > 0 && !ln.waited }

// vacate notes that there may be a place for what waits at a lane.
func (l *lanes) vacate(ln *lane) {
	if ln.waited && !ln.vacated {
		ln.vacated = true
		l.vacated = append(l.vacated, ln)
	}
}

// reserve reserves places; unreserve gives them back, or makes them those of commands that are queued.
func (l *lanes) reserve(ln *lane, n int) { ln.reserved += int32(n) }

func (l *lanes) unreserve(ln *lane, n int) {
	if ln == nil || n == 0 {
		return
	}
	ln.reserved -= int32(n)
	l.vacate(ln)
	l.update(ln)
}

// fillUp gives a lane a full bucket.
func (l *lanes) fillUp(ln *lane) {
	if l.full == nil {
		return
	}
	if ln.permits == nil {
		ln.permits = new(bucket)
	}
	*ln.permits = *l.full
	ln.permits.since = l.now
}

// allowed is how many commands of a lane that is neither held nor blocked can be taken.
func (l *lanes) allowed(ln *lane) int {
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
	return min(n, ln.permits.permits(l.now))
}

// dryUp lists a lane as dry.
func (l *lanes) dryUp(ln *lane) {
	ln.due = ln.permits.dueAt(1)
	heap.Push(&l.dry, ln)
}

// undry takes a lane out of those that are dry.
func (l *lanes) undry(ln *lane) {
	if ln.dryAt > 0 {
		heap.Remove(&l.dry, ln.dryAt-1)
	}
}

// forgettable reports whether a lane without commands is as good as a fresh one.
func (l *lanes) forgettable(ln *lane) bool { return ln.permits == nil || ln.permits.isFull(l.now) }

// keepSpent keeps a lane without commands whose bucket is not full, and forgets those whose buckets have filled up.
func (l *lanes) keepSpent(ln *lane) {
	if !l.hasRoom(ln) {
		ln.ring = ring.Ring[command.Envelope]{}
	}
	l.keep(ln)
	for range 2 { // one for the lane that has come, and one more
		if first := l.empty.first; l.empty.n > mostSpent || l.empty.n > mostEmpty && l.forgettable(first) {
			l.reuse(first)
			delete(l.byKey, first.key)
		}
	}
}

// advance lists the dry lanes as ready whose next permits are there.
func (l *lanes) advance(now int64) {
	l.now = max(l.now, now)
	for len(l.dry) > 0 && l.dry[0].due <= l.now {
		ln := l.dry[0]
		l.undry(ln)
		l.update(ln)
	}
}

// returnPermit puts a permit back, for a command whose handler was not called.
func (l *lanes) returnPermit(k queue.Key) {
	ln := l.byKey[k]
	if ln == nil {
		return // its bucket was full
	}
	ln.permits.fill(l.now)
	ln.permits.giveBack(1)
	if ln.dryAt > 0 {
		l.undry(ln)
		l.update(ln)
	}
	l.count(ln)
}

// dryLanes is a heap of lanes, the one whose next permit comes first at its top.
type dryLanes []*lane

// Len is for package heap, as are the others.
func (d dryLanes) Len() int { return len(d) }

func (d dryLanes) Less(i, j int) bool {
	return d[i].due < d[j].due || d[i].due == d[j].due && d[i].key < d[j].key
}

func (d dryLanes) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].dryAt, d[j].dryAt = i+1, j+1
}

// Push adds a lane.
func (d *dryLanes) Push(x any) {
	ln := x.(*lane)
	*d = append(*d, ln)
	ln.dryAt = len(*d)
}

// Pop removes the last lane.
func (d *dryLanes) Pop() any {
	last := len(*d) - 1
	ln := (*d)[last]
	(*d)[last] = nil
	*d, ln.dryAt = (*d)[:last], 0
	return ln
}
