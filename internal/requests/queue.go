// Package requests is the queue of requests of one process or stage whose
// methods have guards, as a pure state machine: no goroutine, no lock, no
// clock, no transport.
//
// The owner adds each request that arrives, asks for the next one that may run
// until there is none, and reports each request that has ended. An actor that
// runs functions as coroutines uses it like this:
//
//	q := requests.New()
//	q.Guard("put", put)                      // while the process is set up
//
//	func (p *Process) receive(msg call) {    // a request has arrived
//		p.queue.Arrive(&requests.Request{Request: guard.Request{...}, Value: msg.replyTo})
//		p.run()
//	}
//
//	func (p *Process) run() {                // also after any other function that changed the state of the process
//		for r := p.queue.Next(); r != nil; r = p.queue.Next() {
//			p.start(r)                       // returns when the function has ended or is suspended
//		}
//	}
//
//	func (p *Process) ended(r *requests.Request) { // last thing in a function's coroutine, also after a panic
//		p.queue.Complete(r)
//		p.run()                              // if start is not on the stack: else the loop above goes on
//	}
//
// The queue stays open while functions are suspended: an accepted request runs
// beside others, and only guards, by Counters.Current, make methods exclusive.
package requests

import (
	"iter"

	"github.com/golda-dev/golda/coordination/guard"
)

// Request is a request with the data that its owner needs to run it. The owner
// makes it and does not copy it.
type Request struct {
	guard.Request

	Value any // the owner's: how to reply, say

	number     uint64 // the order of arrival; 0 before it
	state      state
	prev, next *Request // in the line of its method, while it waits
}

// state is how far a request is.
type state uint8

const (
	fresh state = iota
	waiting
	accepted
	ended
)

// Number returns the place of the request in the order of arrival at its queue,
// from 1.
func (r *Request) Number() uint64 { return r.number }

// Queue is the queue of one process. It is not safe for concurrent use. The
// zero Queue is not ready: see New.
type Queue struct {
	lines   []*line          // in the order in which methods became known
	methods map[string]*line // the same
	count   func(string) guard.Counters
	last    uint64 // number of the last request
	pending int
}

// line is the requests of one method that wait, oldest first.
type line struct {
	method        string
	counters      guard.Counters
	shut          bool // when the guards were last evaluated they allowed no request that waited
	guards        []guard.Guard
	requestGuards []guard.RequestGuard
	head, tail    *Request
}

// New returns an empty queue.
func New() *Queue {
	q := &Queue{methods: map[string]*line{}}
	q.count = q.Count
	return q
}

// Guard adds a guard to a method. All guards of a method must hold.
func (q *Queue) Guard(method string, g guard.Guard) {
	l := q.line(method)
	l.guards = append(l.guards, g)
}

// RequestGuard adds a guard that sees the requests of a method.
func (q *Queue) RequestGuard(method string, g guard.RequestGuard) {
	l := q.line(method)
	l.requestGuards = append(l.requestGuards, g)
}

// Guarded returns the methods that have guards, in the order in which they
// became known.
func (q *Queue) Guarded() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, l := range q.lines {
			if len(l.guards)+len(l.requestGuards) > 0 && !yield(l.method) {
				return
			}
		}
	}
}

// Count returns the counters of a method.
func (q *Queue) Count(method string) guard.Counters {
	if l := q.methods[method]; l != nil {
		return l.counters
	}
	return guard.Counters{}
}

// Methods calls f for each method that has counters or guards, in the order in
// which they became known.
func (q *Queue) Methods(f func(method string, c guard.Counters)) {
	for _, l := range q.lines {
		f(l.method, l.counters)
	}
}

// Pending returns how many requests wait.
func (q *Queue) Pending() int { return q.pending }

// Arrive adds a request at the end of its method's line. The queue keeps the
// counters of each method for ever: the owner refuses requests of methods that
// it does not have.
func (q *Queue) Arrive(r *Request) {
	if r.state != fresh {
		panic("requests: a request arrives twice")
	}
	q.last++
	q.pending++
	r.number, r.state = q.last, waiting
	l := q.line(r.Method)
	l.push(r)
	l.counters.Invocations++
	l.counters.Pending++
}

// Next accepts the oldest request that may run now, and returns it, or nil if
// there is none.
func (q *Queue) Next() *Request {
	r := q.Candidate(nil, nil)
	if r != nil {
		q.Accept(r)
	}
	return r
}

// Candidate returns the oldest waiting request whose guards hold, without
// accepting it. It passes over methods for which closed, and requests for which
// skip, returns true; both may be nil. If a guard panics, the queue is as
// before.
func (q *Queue) Candidate(closed func(method string) bool, skip func(*Request) bool) *Request {
	var oldest *Request
	for _, l := range q.lines {
		if l.head == nil || oldest != nil && oldest.number < l.head.number {
			continue
		}
		if closed != nil && closed(l.method) {
			l.shut = true
			continue
		}
		if r := q.first(l, skip); r != nil && (oldest == nil || r.number < oldest.number) {
			oldest = r
		}
	}
	return oldest
}

// Holds reports whether the guards of a waiting request hold now.
func (q *Queue) Holds(r *Request) bool {
	l := q.methods[r.Method]
	return r.state == waiting && q.open(l) && q.allows(l, r)
}

// Accept takes a waiting request out of the queue: it runs from now on.
func (q *Queue) Accept(r *Request) {
	l := q.take(r)
	r.state = accepted
	l.counters.Accepted++
	l.counters.Current++
}

// Withdraw removes a request that waits, since its caller has given up, and
// reports whether it did wait.
func (q *Queue) Withdraw(r *Request) bool {
	if r.state != waiting {
		return false
	}
	l := q.take(r)
	r.state = ended
	l.counters.Invocations--
	return true
}

// Complete books that an accepted request has ended, in whatever way. It does
// nothing for a request that has ended before.
func (q *Queue) Complete(r *Request) {
	if r.state != accepted {
		return
	}
	r.state = ended
	l := q.methods[r.Method]
	l.counters.Completed++
	l.counters.Current--
}

// first returns the oldest request of a line that may run now.
func (q *Queue) first(l *line, skip func(*Request) bool) *Request {
	l.shut = true
	asked, open := false, false // the state guards are evaluated once, and only if a request is left for them
	for r := l.head; r != nil; r = r.next {
		if skip != nil && skip(r) {
			continue
		}
		if !asked {
			asked, open = true, q.open(l)
		}
		if !open {
			return nil
		}
		if q.allows(l, r) {
			l.shut = false
			return r
		}
	}
	return nil
}

// open reports whether the guards that see the state only allow requests of the
// line.
func (q *Queue) open(l *line) bool {
	for _, g := range l.guards {
		if !g(q.count) {
			return false
		}
	}
	return true
}

// allows reports whether the guards that see requests allow this one.
func (q *Queue) allows(l *line, r *Request) bool {
	for _, g := range l.requestGuards {
		if !g(r.Request, q.count) {
			return false
		}
	}
	return true
}

// line returns the line of a method, which it makes if there is none.
func (q *Queue) line(method string) *line {
	l := q.methods[method]
	if l == nil {
		l = &line{method: method}
		q.methods[method] = l
		q.lines = append(q.lines, l)
	}
	return l
}

// take takes a waiting request out of its line.
func (q *Queue) take(r *Request) *line {
	if r.state != waiting {
		panic("requests: the request of " + r.Method + " does not wait")
	}
	l := q.methods[r.Method]
	l.remove(r)
	q.pending--
	l.counters.Pending--
	return l
}

func (l *line) push(r *Request) {
	r.prev = l.tail
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
}

func (l *line) remove(r *Request) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}
