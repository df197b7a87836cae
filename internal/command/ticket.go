package command

import (
	"context"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/yield"
)

// Ticket collects the end of a command and of all that was emitted on its way. It is
// opened once, by [NewTicket] or [Ticket.Open], and serves one command: were it used again, an
// end that came twice by a mistake would be told to a stranger.
type Ticket struct {
	origin  Origin // of the commands that it waits for
	pending atomic.Int32
	result  any                      // written by the root's end, before pending drops
	failed  atomic.Pointer[failures] // nil while no command has failed
	then    func(result any, err error)
	// done is the chan struct{} that those who wait listen to, if there are any; at the end it
	// is over.
	done atomic.Value
}

// over is Done of all tickets that have ended.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// NewTicket returns a ticket for one command. If then is not nil it is called
// once, by whoever ends the last command.
func NewTicket(then func(result any, err error)) *Ticket {
	t := &Ticket{then: then}
	t.Open()
	return t
}

// Open makes a zero Ticket one for one command. It is for who has a place for it.
func (t *Ticket) Open() {
	t.origin.ticket = t
	t.pending.Store(1)
}

// Origin returns the origin of the commands that the ticket waits for, nil if there is no ticket.
func (t *Ticket) Origin() *Origin {
	if t == nil {
		return nil
	}
	return &t.origin
}

// Join adds an emitted command to those the ticket waits for. It may only be
// called while another one is still on its way.
func (t *Ticket) Join() {
	if t != nil {
		t.pending.Add(1)
	}
}

// Settle tells the end of one of the ticket's commands. The errors of all of them are the
// ticket's error: one as it is, several as [*JoinedError].
func (t *Ticket) Settle(child bool, result any, err error) {
	if t == nil {
		return
	}
	if err != nil {
		t.fail(err)
	} else if !child {
		t.result = result
	}
	switch left := t.pending.Add(-1); {
	case left > 0:
		return
	case left < 0:
		panic("command: a ticket has ended twice")
	}
	if t.done.Load() != nil { // most often nobody listens, and to look costs less than to tell
		t.tell()
	}
	if t.then != nil {
		t.then(t.end())
	}
}

// tell wakes those who listen, once, however often it is called.
func (t *Ticket) tell() {
	if done := t.done.Swap(over).(chan struct{}); done != over {
		close(done)
	}
}

// Done is closed when the command and its children have ended. It is made when it is first
// asked for: most who hold a ticket wait for it in one place, or never.
func (t *Ticket) Done() <-chan struct{} {
	if t.done.Load() == nil && t.done.CompareAndSwap(nil, make(chan struct{})) && t.ended() {
		t.tell() // whoever ended it may have looked before
	}
	return t.done.Load().(chan struct{})
}

// Wait waits for the end of the command and its children, and returns what Result and Err
// would. If ctx ends first it returns the context's cause.
//
// First it lets others run, once: a stage that has nothing else to do, and does not take long,
// has the answer then. To listen and to be woken would cost several times as much, for both.
func (t *Ticket) Wait(ctx context.Context) (result any, err error) {
	if !t.ended() {
		yield.Once()
	}
	if t.ended() {
		return t.end()
	}
	ends := ctx.Done()
	if ends == nil { // a select takes more of the stack, which a goroutine that has just begun would have to grow
		<-t.Done()
		return t.end()
	}
	select {
	case <-t.Done():
		return t.end()
	case <-ends:
		return nil, context.Cause(ctx)
	}
}

// Err returns the error of the one command that failed, or [*JoinedError] if several did; nil before the end.
func (t *Ticket) Err() error {
	if !t.ended() {
		return nil
	}
	_, err := t.end()
	return err
}

// Result returns the result, nil before the end.
func (t *Ticket) Result() any {
	if !t.ended() {
		return nil
	}
	return t.result
}

// ended is true also of one that has ended twice: it has ended.
func (t *Ticket) ended() bool { return t.pending.Load() <= 0 }

// end is how it ended.
func (t *Ticket) end() (result any, err error) {
	if f := t.failed.Load(); f != nil {
		err = f.err()
	}
	return t.result, err
}
