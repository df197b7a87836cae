package room

// waiter is someone in line for a seat. One who suspends is told that there is one, and has none until he comes: he
// needs a worker for that, who may have to leave commands here before.
type waiter struct {
	ready         chan struct{} // has room for one word
	suspends      bool
	granted       bool // guarded by the room's lock, as is all below; false when dismissed
	lined         bool // still in line
	before, after *waiter
}

// line is who waits outside for a seat, first come first served. Where a queue is always full each command
// waits, most often that of the one submitter; so what the last one waited with is kept for the next. It is not kept
// in a pool for all: a channel of one bubble of testing/synctest must not come to another.
type line struct {
	first, last *waiter
	n           int
	spare       *waiter
}

// Len is how many wait.
func (l *line) Len() int { return l.n }

// join puts somebody into the line, at its head if first.
func (l *line) join(suspends, first bool) *waiter {
	w := l.spare
	if l.spare = nil; w == nil {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.suspends, w.granted, w.lined = suspends, false, true
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
	return w
}

// leave takes somebody out of the line.
func (l *line) leave(w *waiter) {
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
}

// tell has one who was taken out of the line go on. One who suspends may look again, in another goroutine.
func (w *waiter) tell() {
	if w.suspends {
		close(w.ready)
		return
	}
	w.ready <- struct{}{}
}

// done is for one who has been told, or has left, and does not wait any more.
func (l *line) done(w *waiter) {
	if w.suspends {
		return
	}
	select {
	case <-w.ready: // he was told and left all the same
	default:
	}
	l.spare = w
}
