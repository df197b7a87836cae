package requests

// A stage does not keep a request that it has accepted: its command moves from
// batch to batch, and only its method is known when its handler has ended. It
// reports by method.

// CompleteOne books that one of the accepted requests of a method has ended.
func (q *Queue) CompleteOne(method string) {
	if l := q.methods[method]; l != nil && l.counters.Current > 0 {
		l.counters.Completed++
		l.counters.Current--
	}
}

// Cancel books that an accepted request of a method will not run, and does not
// wait any more: as if it had never arrived.
func (q *Queue) Cancel(method string) {
	if l := q.methods[method]; l != nil && l.counters.Current > 0 {
		l.counters.Invocations--
		l.counters.Accepted--
		l.counters.Current--
	}
}

// Return puts a request back that was accepted and is not current any more: it
// waits before all others of its method. The request may be a new one for the
// same command.
func (q *Queue) Return(r *Request) {
	l := q.line(r.Method)
	r.number, r.state = 1, waiting
	if l.head != nil {
		r.number = l.head.number
	}
	if r.next = l.head; r.next == nil {
		l.tail = r
	} else {
		r.next.prev = r
	}
	l.head = r
	q.pending++
	l.counters.Invocations++
	l.counters.Pending++
}

// Oldest returns the request that has waited for longest; nil if none waits.
func (q *Queue) Oldest() (oldest *Request) {
	for _, l := range q.lines {
		if l.head != nil && (oldest == nil || l.head.number < oldest.number) {
			oldest = l.head
		}
	}
	return oldest
}

// Waiting calls f for each request that waits, method by method, until it
// returns false.
func (q *Queue) Waiting(f func(*Request) bool) {
	for _, l := range q.lines {
		for r := l.head; r != nil; r = r.next {
			if !f(r) {
				return
			}
		}
	}
}

// Open reports whether the guards of a method that see the state only hold now.
func (q *Queue) Open(method string) bool {
	l := q.methods[method]
	return l != nil && q.open(l)
}

// Allows reports whether the guards that see requests allow a request that
// waits.
func (q *Queue) Allows(r *Request) bool { return q.allows(q.methods[r.Method], r) }

// Line calls f for each request of a method that waits, oldest first, until it
// returns false.
func (q *Queue) Line(method string, f func(*Request) bool) {
	l := q.methods[method]
	if l == nil {
		return
	}
	for r := l.head; r != nil; r = r.next {
		if !f(r) {
			return
		}
	}
}

// Shut reports whether the guards of a method allowed none of its waiting
// requests when they were last evaluated.
func (q *Queue) Shut(method string) bool {
	l := q.methods[method]
	return l != nil && l.shut
}
