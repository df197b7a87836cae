package line

import (
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/requests"
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

// Takeable returns how many commands may be given out: the guards are asked
// again after each.
func (q *guarded) Takeable() int {
	if q.look(); q.next == nil {
		return 0
	}
	return 1
}

// Len returns how many commands wait.
func (q *guarded) Len() int { return q.queue.Pending() }

// Droppable returns all.
func (q *guarded) Droppable() int { return q.Len() }

// Singly returns true: the guards may decide differently after each command
// that begins.
func (q *guarded) Singly() bool { return true }

// Ranker returns the function that asks a command for its method.
func (q *guarded) Ranker() func(load any) Rank {
	return func(load any) Rank { return Rank{Key: q.names.key(q.method(load))} }
}

// Asks returns true.
func (q *guarded) Asks() bool { return true }

func (q *guarded) make(e command.Envelope, k uint64) *requests.Request {
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

// open returns the command of an entry that the queue has no more, and keeps
// the entry for another.
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
func (q *guarded) Push(e command.Envelope, r Rank) {
	q.queue.Arrive(q.make(e, r.Key))
	q.Reconsider()
}

// PushAll adds commands in order.
func (q *guarded) PushAll(es []command.Envelope, ranks []Rank) {
	for i := range es {
		q.Push(es[i], rankAt(ranks, i))
	}
}

// Return takes commands back that were given out. They are not current any
// more: their handlers have ended, or they were cancelled.
func (q *guarded) Return(es []command.Envelope, ranks []Rank) {
	for i := range slices.Backward(es) {
		q.queue.Return(q.make(es[i], rankAt(ranks, i).Key))
	}
	q.Reconsider()
}

// PopInto gives out the next command that may be.
func (q *guarded) PopInto(dst []command.Envelope) int {
	if len(dst) == 0 || q.Takeable() == 0 {
		return 0
	}
	r := q.next
	q.next = nil
	q.queue.Accept(r)
	q.track(r.Method, 1)
	q.given = Permit{valid: true, method: r.Method, Fault: entry(r).fault}
	dst[0] = q.open(r)
	q.Reconsider()
	return 1
}

// Drop removes the command that has waited for longest.
func (q *guarded) Drop() command.Envelope {
	r := q.queue.Oldest()
	q.Reconsider()
	q.next = nil
	q.queue.Withdraw(r)
	return q.open(r)
}

// At returns the command that has waited for longest, and nil for others: in
// which order they come out is not known.
func (q *guarded) At(i int) *command.Envelope {
	if i > 0 || q.Len() == 0 {
		return nil
	}
	return q.Oldest()
}

// Oldest returns the command that has waited for longest.
func (q *guarded) Oldest() *command.Envelope { return envelope(q.queue.Oldest()) }

// Count counts the commands that match.
func (q *guarded) Count(match func(*command.Envelope) bool) (n int) {
	q.queue.Waiting(func(r *requests.Request) bool {
		if match(envelope(r)) {
			n++
		}
		return true
	})
	return n
}

// Remove removes and returns the commands that match.
func (q *guarded) Remove(match func(*command.Envelope) bool) (es []command.Envelope) {
	var removed []*requests.Request
	q.queue.Waiting(func(r *requests.Request) bool {
		if match(envelope(r)) {
			removed = append(removed, r)
		}
		return true
	})
	if len(removed) > 0 {
		q.Reconsider()
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
