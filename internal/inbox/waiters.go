package inbox

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

// waiter is a command that waits in line for a free slot. When a slot is free
// the inbox queues the command itself and signals the goroutine that brought
// it, so a slot is never held for a goroutine or a handler that has still to
// run.
type waiter struct {
	entrant
	ready         chan struct{} // has capacity for one signal
	suspends      bool          // the goroutine is a handler that suspends, so ready is closed instead
	queued        bool          // guarded by the lock, as are the next two; false if dismissed
	lined         bool          // still in line
	lane          *line.Lane    // of which it has a place, or waits for one; nil: there is no bound for its key
	atLane        bool          // it waits for a place, in the line of the lane
	before, after *waiter
	next          *waiter // in a chain of effects
}

// entrant is a command that must be queued, and how it is accounted for.
type entrant struct {
	e  command.Envelope
	at place
	// inside reports whether a handler of the same pipeline sent the command:
	// it is received, not submitted.
	inside bool
	// emitter is the inbox whose handler emitted the command, nil if the
	// command was accepted before.
	emitter *Inbox
	// retry reports whether the command is in the inbox already and waits for
	// its next try: no goroutine waits with it.
	retry bool
}

// waiters holds the commands that wait for a free slot, first come, first
// served. If a queue is always full, each command waits, most often the command
// of one submitter; so waiters keeps the last waiter for the next command. One
// sync.Pool for all inboxes would not do: a channel of one bubble of
// testing/synctest must not be used in another.
type waiters struct {
	first, last *waiter
	n, retries  int32 // commands in line, and the retries among them
	spare       *waiter
}

// Len returns how many commands wait.
func (l *waiters) Len() int { return int(l.n) }

// waiter returns a waiter for a command.
func (l *waiters) waiter(x entrant, suspends bool) (w *waiter) {
	switch {
	case x.retry:
		w = new(waiter)
	case l.spare != nil && !suspends:
		w, l.spare = l.spare, nil
	default:
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.entrant, w.suspends, w.queued = x, suspends, false
	return w
}

// join puts a waiter into the line, at its head if first.
func (l *waiters) join(w *waiter, first bool) {
	w.lined = true
	if w.retry {
		l.retries++
	}
	switch {
	case l.n == 0:
		l.first, l.last = w, w
	case first:
		w.after, l.first.before = l.first, w
		l.first = w
	default:
		w.before, l.last.after = l.last, w
		l.last = w
	}
	l.n++
}

// leave takes a command out of the line.
func (l *waiters) leave(w *waiter) {
	if w.before == nil {
		l.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		l.last = w.before
	} else {
		w.after.before = w.before
	}
	w.before, w.after, w.lined = nil, nil, false
	l.n--
	if w.retry {
		l.retries--
	}
}

// keep keeps a waiter for the next command. No signal may be on its way to it.
func (l *waiters) keep(w *waiter) {
	if !w.suspends {
		w.entrant = entrant{}
		l.spare = w
	}
}

// signal resumes the goroutine that brought the command. The handler of a
// suspending stage may be resumed by another goroutine, which looks at the
// channel as well, so its channel is closed: then both see it.
func (w *waiter) signal() {
	if w.suspends {
		close(w.ready)
		return
	}
	w.ready <- struct{}{}
}

// slots are the places for commands that the capacity bounds. A command holds a
// slot while it is queued, waits for its next try, or is carried by a worker. A
// reserved slot counts as held, too.
type slots struct {
	carried  int32      // commands that the inbox's workers could not hand over; they keep their slots
	reserved int32      // slots promised to parked workers: the sum of promises
	promises senderLine // workers that were woken from forSlots, each with slots of its own
	ceiling  int        // commands that may be here at once, queued or not; 0: any number
	outside  bool       // the next free slot is for a submitter, not for a parked worker
	full     bool       // the inbox was full, and the pipeline knows
}

// sender is a worker of another inbox that could not hand over all its commands
// here: how many are left, or how many slots it was promised.
type sender struct {
	m      *Member
	n      int
	back   bool       // it comes along a back edge
	lane   *line.Lane // of which it waits for places, or has some; nil: of none
	places int        // that it has
}

// senderLine is a line of senders, each of another worker.
type senderLine []sender

// find returns the place of a worker, -1 if it is not in line.
func (l senderLine) find(m *Member) int {
	return slices.IndexFunc(l, func(p sender) bool { return p.m == m })
}

// cut takes a worker out of the line. It returns its place there, -1 if it was
// not in line.
func (l *senderLine) cut(m *Member) (was sender, at int) {
	if at = l.find(m); at >= 0 {
		was = (*l)[at]
		*l = slices.Delete(*l, at, at+1)
	}
	return was, at
}

// senders are the workers of other inboxes that wait here until they can hand
// over.
type senders struct {
	forSlots     senderLine             // for free slots; first come, first served
	forPlaces    senderLine             // for places of keys; see key_places.go
	atLanes      map[*line.Lane]*atLane // by lane, the waiters for places of its key
	linedAtLanes int                    // how many of these
	overKeys     []overKey              // inboxes behind that wait until a key has a place
	barred       senderLine             // until the phase lets them, whether there are free slots or not
	unbarred     chan struct{}          // closed when barred senders may try again; nil if none waits on it
}

// has reports whether a worker waits here.
func (sn *senders) has(m *Member) bool {
	return sn.forSlots.find(m) >= 0 || sn.barred.find(m) >= 0 || sn.forPlaces.find(m) >= 0
}

// all returns the workers that wait here.
func (sn *senders) all() (all []*Member) {
	for _, p := range slices.Concat(sn.forSlots, sn.barred, sn.forPlaces) {
		all = append(all, p.m)
	}
	return all
}

// number is how many workers wait here.
func (sn *senders) number() int { return len(sn.forSlots) + len(sn.barred) + len(sn.forPlaces) }

// atLane has the waiters for a place of one key.
type atLane struct {
	line    waiters // callers, and handlers that emit
	senders int     // workers, which are in forPlaces
	stalls  bool    // inboxes behind, which are in overKeys
	outside bool    // the next place is for one in line, not for a worker
}

// overKey is a key with commands beyond its bound, which a shared pool has
// brought, and the inbox that sent them.
type overKey struct {
	lane *line.Lane
	from *Inbox
}

func (w *atLane) isEmpty() bool { return w.line.n == 0 && w.senders == 0 && !w.stalls }
