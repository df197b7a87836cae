package inbox

import (
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
