package inbox

import (
	"reflect"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/requests"
	"github.com/golda-dev/golda/stage/queue"
)

// look finds the next command that may be given out.
func (q *guarded) look() {
	if q.looked {
		return
	}
	q.enter()
	defer q.leave()
	clear(q.failed)
	if q.member == nil {
		q.next = q.queue.Candidate(nil, nil)
	} else {
		q.lookAtRules()
	}
	q.looked = true
	if q.next != nil && q.failed[q.next.Method] != nil {
		entry(q.next).failed = q.failed[q.next.Method]
	}
	q.profile()
}

// takeable is how many commands may be given out: the guards are asked again after each.
func (q *guarded) takeable() int {
	if q.look(); q.next == nil && q.due == nil {
		return 0
	}
	return 1
}

// Len returns how many commands wait.
func (q *guarded) Len() int {
	if q.due != nil {
		return q.queue.Pending() + 1
	}
	return q.queue.Pending()
}

func (q *guarded) make(e command.Envelope, k queue.Key) *requests.Request {
	var c *guardedCommand
	if n := len(q.spare); n > 0 {
		c, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		c = new(guardedCommand)
	}
	c.e = e
	c.Request.Request = guard.Request{Process: q.stage, Method: q.names.name(k)}
	if q.sees[c.Method] {
		c.Args = link.Bare(e.Load)
	}
	c.Value = c
	return &c.Request
}

// mostSpare is how many entries of the queue are kept for other commands.
const mostSpare = 256

// open returns the command of an entry that the queue has no more, and keeps the entry for another.
func (q *guarded) open(r *requests.Request) command.Envelope {
	c := entry(r)
	e := c.e
	*c = guardedCommand{}
	if len(q.spare) < mostSpare {
		q.spare = append(q.spare, c)
	}
	return e
}

// Push adds a command at the end of its method's line.
func (q *guarded) Push(e command.Envelope, k queue.Key) {
	q.queue.Arrive(q.make(e, k))
	q.stale()
}

// PushAll adds commands in order.
func (q *guarded) PushAll(es []command.Envelope, keys []queue.Key) {
	for i := range es {
		q.Push(es[i], keyAt(keys, i))
	}
}

// PushFront takes commands back that were given out. They are not current any more: their handlers have ended, or they were cancelled.
func (q *guarded) PushFront(es []command.Envelope, keys []queue.Key) {
	for i, e := range slices.Backward(es) {
		q.queue.Return(q.make(e, keyAt(keys, i)))
	}
	q.stale()
}

// PopInto gives out the next command that may be.
func (q *guarded) PopInto(dst []command.Envelope) int {
	q.enter()
	defer q.leave()
	if len(dst) == 0 || q.takeable() == 0 {
		return 0
	}
	r := q.due
	if r == nil {
		r = q.next
		q.accept(r)
	}
	q.due, q.next = nil, nil
	method, failed := r.Method, entry(r).failed
	dst[0] = q.open(r)
	if failed != nil {
		q.faults = append(q.faults[max(len(q.faults)-mostFaults, 0):], guardFault{method, link.Bare(dst[0].Load), failed})
	}
	q.stale()
	return 1
}

// accept counts a command that is given out.
func (q *guarded) accept(r *requests.Request) {
	q.queue.Accept(r)
	q.track(r.Method, 1)
	if q.member == nil {
		return
	}
	q.callRules(func() {
		if err := q.member.Accepted(r.Request, q.queue.Count(r.Method)); err != nil && entry(r).failed == nil {
			entry(r).failed = err
		}
	})
}

// mostFaults is how many faults are kept of commands that have not come to their handlers. Some never do.
const mostFaults = 1024

// fault returns why a command that has come to its handler is to crash; nil if it is not.
func (q *guarded) fault(method string, cmd any) error {
	i := slices.IndexFunc(q.faults, func(f guardFault) bool { return f.method == method && reflect.DeepEqual(f.cmd, cmd) })
	if i < 0 {
		return nil
	}
	err := q.faults[i].err
	q.faults = slices.Delete(q.faults, i, i+1)
	return err
}

// Drop removes the command that has waited for longest.
func (q *guarded) Drop() command.Envelope {
	q.enter()
	defer q.leave()
	r := q.oldest()
	q.stale()
	q.next = nil
	if r != q.due {
		q.queue.Withdraw(r)
		return q.open(r)
	}
	method := r.Method
	q.due = nil
	e := q.open(r)
	q.cancelled(method, link.Bare(e.Load))
	return e
}

// oldest returns the command that has waited for longest. One that an atomic rule has allowed is the last.
func (q *guarded) oldest() *requests.Request {
	if r := q.queue.Oldest(); r != nil {
		return r
	}
	return q.due
}

// At returns the command that has waited for longest, and nil for others: in which order they come out is not known.
func (q *guarded) At(i int) *command.Envelope {
	if i > 0 || q.Len() == 0 {
		return nil
	}
	return q.Oldest()
}

// Oldest returns the command that has waited for longest.
func (q *guarded) Oldest() *command.Envelope { return envelope(q.oldest()) }

// Count counts the commands for which so is true.
func (q *guarded) Count(so func(*command.Envelope) bool) (n int) {
	q.queue.Waiting(func(r *requests.Request) bool {
		if so(envelope(r)) {
			n++
		}
		return true
	})
	if q.due != nil && so(envelope(q.due)) {
		n++
	}
	return n
}

// Remove takes out the waiting commands that is reports. One that an atomic rule has allowed does not wait any more.
func (q *guarded) Remove(is func(*command.Envelope) bool) (es []command.Envelope) {
	q.enter()
	defer q.leave()
	var removed []*requests.Request
	q.queue.Waiting(func(r *requests.Request) bool {
		if is(envelope(r)) {
			removed = append(removed, r)
		}
		return true
	})
	if len(removed) > 0 {
		q.stale()
		q.next = nil
	}
	for _, r := range removed {
		q.queue.Withdraw(r)
		es = append(es, q.open(r))
	}
	return es
}

// Drain empties the queue.
func (q *guarded) Drain() []command.Envelope {
	es := make([]command.Envelope, 0, q.Len())
	for q.Len() > 0 {
		es = append(es, q.Drop())
	}
	return es
}
