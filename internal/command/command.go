// Package command holds what travels through a pipeline: a command in its
// envelope, and the ticket of whoever waits for its end.
package command

import (
	"sync/atomic"
)

// Envelope is one command on its way. It is passed by value: nothing is
// allocated for a hop.
type Envelope struct {
	// Cmd is the command itself.
	Cmd any
	// Ticket is told how the command ends; nil if nobody waits.
	Ticket *Ticket
	// Since is when the command entered the room it is in, in nanoseconds of
	// the host's clock; 0 if nobody looked at the clock.
	Since int64
	// Tries counts the tries in the present room that did not succeed.
	Tries uint32
	// Child marks a command that was emitted: the ticket waits for it, but
	// its result is not the ticket's result.
	Child bool
	// Pack is how many commands, this one and those right behind it, are to be handled
	// in one batch and apart from all others, because the batch they were in crashed; 0
	// if it does not matter.
	Pack uint8
	// Proven marks a command with which a canary crashed, or is at work: if it comes
	// back, it is for the version before.
	Proven bool
	// Woken marks a command that was begun and set aside, and may go on: Cmd is the run.
	Woken bool
}

// Ticket collects the end of a command and of all that was emitted on its way.
// The zero Ticket is not usable; see [NewTicket].
type Ticket struct {
	pending atomic.Int32
	result  any // written by the root's end, before pending drops
	failure atomic.Pointer[failure]
	then    func(result any, err error)
	done    chan struct{}
}

type failure struct{ err error }

// NewTicket returns a ticket for one command. If then is not nil it is called
// once, by whoever ends the last command.
func NewTicket(then func(result any, err error)) *Ticket {
	t := &Ticket{then: then, done: make(chan struct{})}
	t.pending.Store(1)
	return t
}

// Join adds an emitted command to those the ticket waits for. It may only be
// called while another one is still on its way.
func (t *Ticket) Join() {
	if t != nil {
		t.pending.Add(1)
	}
}

// Settle tells the end of the command in e. The first error of any of the
// ticket's commands is the ticket's error.
func (t *Ticket) Settle(child bool, result any, err error) {
	if t == nil {
		return
	}
	if err != nil {
		t.failure.CompareAndSwap(nil, &failure{err})
	} else if !child {
		t.result = result
	}
	if t.pending.Add(-1) > 0 {
		return
	}
	close(t.done)
	if t.then != nil {
		t.then(t.Result(), t.Err())
	}
}

// Done is closed when the command and its children have ended.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Err returns the first error, nil before the end.
func (t *Ticket) Err() error {
	select {
	case <-t.done:
	default:
		return nil
	}
	if f := t.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Result returns the result, nil before the end.
func (t *Ticket) Result() any {
	select {
	case <-t.done:
		return t.result
	default:
		return nil
	}
}
