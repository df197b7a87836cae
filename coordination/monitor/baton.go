package monitor

import (
	"errors"
	"slices"
)

// baton is the logic of a lock, as a state machine: it has no goroutine, no
// clock and no transport. At most one entry holds it.
type baton struct {
	token      uint64 // of the last entry that got it
	holder     *entry
	waiting    []*entry            // to enter, in order
	conditions map[string][]*entry // that wait for a signal, in order
}

// entry is one run of a function of the monitor, from the request to enter
// until the function has left.
type entry struct {
	id    uint64 // chosen at random by the function that enters
	node  string // whose end is the end of the entry
	owner uint64 // the coroutine on that node; 0 if it is not known
	token uint64 // of the last time that it got the baton; 0 while it waits
}

var errNested = errors.New("monitor: the caller is inside already")

// enter queues an entry. It refuses one by the coroutine that is inside.
func (b *baton) enter(e *entry) (granted *entry, err error) {
	if h := b.holder; h != nil && e.owner != 0 && h.owner == e.owner && h.node == e.node {
		return nil, errNested
	}
	b.waiting = append(b.waiting, e)
	return b.next(), nil
}

// next gives the baton to the first that waits, if it is free.
func (b *baton) next() (granted *entry) {
	if b.holder != nil || len(b.waiting) == 0 {
		return nil
	}
	b.holder = b.waiting[0]
	b.waiting[0], b.waiting = nil, b.waiting[1:]
	b.token++
	b.holder.token = b.token
	return b.holder
}

// holds reports whether token belongs to the present holder.
func (b *baton) holds(token uint64) bool { return b.holder != nil && token == b.holder.token }

// release takes the baton back. It returns false if the token does not belong
// to the present holder: the caller has lost the baton.
func (b *baton) release(token uint64) (granted *entry, ok bool) {
	if !b.holds(token) {
		return nil, false
	}
	b.holder = nil
	return b.next(), true
}

// wait has the holder wait for a condition, and passes the baton on.
func (b *baton) wait(token uint64, condition string) (waits, granted *entry) {
	if !b.holds(token) {
		return nil, nil
	}
	waits = b.holder
	waits.token = 0
	if b.conditions == nil {
		b.conditions = map[string][]*entry{}
	}
	b.conditions[condition] = append(b.conditions[condition], waits)
	b.holder = nil
	return waits, b.next()
}

// signal moves the first waiter of a condition, or all of them, to the end of
// the queue of functions that wait to enter. The holder keeps the baton. A
// signal with an old token does nothing.
func (b *baton) signal(token uint64, condition string, all bool) {
	queue := b.conditions[condition]
	if !b.holds(token) || len(queue) == 0 {
		return
	}
	n := 1
	if all {
		n = len(queue)
	}
	b.waiting = append(b.waiting, queue[:n]...)
	b.setCondition(condition, slices.Delete(queue, 0, n))
}

// leave removes an entry, wherever it is.
func (b *baton) leave(id uint64) (granted *entry) {
	return b.remove(func(e *entry) bool { return e.id == id })
}

// lose removes all entries of a node.
func (b *baton) lose(node string) (lost []*entry, granted *entry) {
	granted = b.remove(func(e *entry) bool {
		if e.node == node {
			lost = append(lost, e)
		}
		return e.node == node
	})
	return lost, granted
}

func (b *baton) remove(chosen func(e *entry) bool) (granted *entry) {
	b.waiting = slices.DeleteFunc(b.waiting, chosen)
	for condition, queue := range b.conditions {
		b.setCondition(condition, slices.DeleteFunc(queue, chosen))
	}
	if b.holder != nil && chosen(b.holder) {
		b.holder = nil
	}
	return b.next()
}

func (b *baton) setCondition(condition string, queue []*entry) {
	if len(queue) == 0 {
		delete(b.conditions, condition)
		return
	}
	b.conditions[condition] = queue
}
