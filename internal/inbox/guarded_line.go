package inbox

import (
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/requests"
	"github.com/golda-dev/golda/stage/queue"
)

// look finds the next command that may be given out.
func (q *guarded) look() {
	if q.looked {
		return
	}
	clear(q.failed)
	q.next = q.queue.Candidate(nil, nil)
	q.looked = true
	if q.next != nil {
		entry(q.next).fault = q.failed[q.next.Method]
	}
	q.profile()
}

// takeable is how many commands may be given out: the guards are asked again after each.
func (q *guarded) takeable() int {
	if q.look(); q.next == nil {
		return 0
	}
	return 1
}

// Len returns how many commands wait.
func (q *guarded) Len() int { return q.queue.Pending() }

func (q *guarded) make(e command.Envelope, k queue.Key) *requests.Request {
	var c *guardedCommand
	if n := len(q.spare); n > 0 {
		c, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		c = new(guardedCommand)
	}
	c.e = e
	c.Request.Request = guard.Request{Process: q.stage, Method: q.names.name(k)}
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
	if len(dst) == 0 || q.takeable() == 0 {
		return 0
	}
	r := q.next
	q.next = nil
	q.queue.Accept(r)
	q.track(r.Method, 1)
	q.given = Permit{valid: true, method: r.Method, Fault: entry(r).fault}
	dst[0] = q.open(r)
	q.stale()
	return 1
}

// Drop removes the command that has waited for longest.
func (q *guarded) Drop() command.Envelope {
	r := q.queue.Oldest()
	q.stale()
	q.next = nil
	q.queue.Withdraw(r)
	return q.open(r)
}

// At returns the command that has waited for longest, and nil for others: in which order they come out is not known.
func (q *guarded) At(i int) *command.Envelope {
	if i > 0 || q.Len() == 0 {
		return nil
	}
	return q.Oldest()
}

// Oldest returns the command that has waited for longest.
func (q *guarded) Oldest() *command.Envelope { return envelope(q.queue.Oldest()) }

// Count counts the commands for which so is true.
func (q *guarded) Count(so func(*command.Envelope) bool) (n int) {
	q.queue.Waiting(func(r *requests.Request) bool {
		if so(envelope(r)) {
			n++
		}
		return true
	})
	return n
}

// Remove removes and returns the commands for which match returns true.
func (q *guarded) Remove(match func(*command.Envelope) bool) (es []command.Envelope) {
	var removed []*requests.Request
	q.queue.Waiting(func(r *requests.Request) bool {
		if match(envelope(r)) {
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
