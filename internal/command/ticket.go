package command

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/yield"
)

// Ticket waits for the end of a command and of all commands that were emitted
// on its way. It is opened once, by [NewTicket] or [Ticket.Open], and serves
// one command. If it were used again, an end that was reported twice by mistake
// would be taken for the end of another command.
type Ticket struct {
	origin  Origin // of the commands that it waits for
	pending atomic.Int32
	watches bool                     // set before the command is submitted
	repeats bool                     // likewise
	ends    bool                     // only the end matters, not the result; set before the command is submitted
	want    reflect.Type             // of the result; nil if it may be of any; set before the command is submitted
	result  any                      // written by the root's end, before pending drops
	failed  atomic.Pointer[failures] // nil while no command has failed
	then    func(result any, err error)
	of      *whole                  // nil unless it is the ticket of a result of several commands
	holders atomic.Pointer[holders] // nil while no command is held back
	// done is the chan struct{} that waiting goroutines receive from, if there
	// are any. At the end it is over.
	done atomic.Value
}

// over is the closed channel that Done returns for every ticket that has ended.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// NewTicket returns a ticket for one command. If then is not nil, the goroutine
// that ends the last command calls it, once.
func NewTicket(then func(result any, err error)) *Ticket {
	t := &Ticket{then: then}
	t.Open()
	return t
}

// A Watch says what is done about the error of a command whose end is learned
// by a ticket of [NewWatch].
type Watch int

const (
	// Learns is for the end alone. A failure leaves a letter, as if there were
	// no ticket.
	Learns Watch = iota
	// Repeats is for a source with a checkpoint, which submits a command again,
	// in the next process, that a hard stop has ended. Other failures leave a
	// letter.
	Repeats
	// Hears is for a source that deals with all failures.
	Hears
)

// NewWatch returns a ticket by which only the end of a command is learned. The
// command has the values of an origin, and does not end with a context, but
// with the deadline that commands take along, if the origin has one.
func NewWatch(of *Origin, w Watch, then func(err error)) *Ticket {
	t := NewTicket(func(_ any, err error) { then(err) })
	t.watches, t.repeats, t.ends = w != Hears, w == Repeats, true
	values := of.Context()
	if _, expires := of.expires(); !expires && values != nil && ends(values) {
		values = expire(context.WithoutCancel(values))
	}
	t.origin.ctx = values
	return t
}

// Watches reports whether the ticket was made by [NewWatch] and is not heard.
func (t *Ticket) Watches() bool { return t != nil && t.watches }

// Heard reports whether the ticket was made by [NewWatch] and is heard.
func (t *Ticket) Heard() bool { return t != nil && t.ends && !t.watches }

// WantsResult reports whether a caller may wait for the result of the command,
// and not only for its end.
func (t *Ticket) WantsResult() bool { return t != nil && !t.ends }

// IsCallers reports whether only callers wait for the result of the command,
// and no source waits for its end. If several commands were made into one, that
// must be so of each command that has a ticket.
func (t *Ticket) IsCallers() bool {
	return t != nil && !t.Includes(func(t *Ticket) bool { return t.ends })
}

// Want says of which type the caller wants the result, before the command is
// submitted. It matters only if the result is made in another process.
func (t *Ticket) Want(result reflect.Type) { t.want = result }

// Wanted returns the type that Want was given; nil if the result may be of any
// type.
func (t *Ticket) Wanted() reflect.Type {
	if t == nil {
		return nil
	}
	return t.want
}

// Open opens a zero Ticket for one command. It is for callers that have
// allocated the ticket as part of another value.
func (t *Ticket) Open() {
	t.origin.ticket = t
	t.pending.Store(1)
}

// Origin returns the origin of the commands that the ticket waits for, or nil
// if the ticket is nil.
func (t *Ticket) Origin() *Origin {
	if t == nil {
		return nil
	}
	return &t.origin
}

// Join adds an emitted command to the commands that the ticket waits for. It
// may only be called while another command of the ticket is on its way.
func (t *Ticket) Join() {
	if t != nil {
		t.pending.Add(1)
	}
}

// retain adds one to the commands that the ticket waits for. It returns false
// if the ticket has ended.
func (t *Ticket) retain() bool {
	for {
		n := t.pending.Load()
		if n <= 0 {
			return false
		}
		if t.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Settle records the end of one of the ticket's commands. If one command
// failed, its error is the ticket's error; if several did, the ticket's error
// is a [*JoinedError].
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
		for h := t.holders.Load(); h != nil; h = h.next {
			h.Left(t)
		}
		return
	case left < 0:
		panic("command: a ticket has ended twice")
	}
	if t.done.Load() != nil { // most often no goroutine waits, and a load costs less than a swap
		t.notify()
	}
	if t.then != nil {
		t.then(t.end())
	}
}

// Holder holds commands back until nothing else of their ticket is on its way.
type Holder interface {
	// Left is called whenever a command of the ticket has ended that was not
	// the last, by the goroutine that ended it. It must not end a command
	// itself.
	Left(t *Ticket)
}

// holders is a list of holders, each once.
type holders struct {
	Holder

	next *holders
}

// Tell adds a holder to the holders that the ticket calls from now on. The
// holder must be comparable. Tell may only be called while a command of the
// ticket is on its way.
func (t *Ticket) Tell(holder Holder) {
	for {
		first := t.holders.Load()
		for h := first; h != nil; h = h.next {
			if h.Holder == holder {
				return
			}
		}
		if t.holders.CompareAndSwap(first, &holders{holder, first}) {
			return
		}
	}
}

// Pending returns how many commands of the ticket have not ended. If the caller
// holds all of these commands, the number stays the same.
func (t *Ticket) Pending() int { return int(t.pending.Load()) }

// HasFailed reports whether a command of the ticket has failed.
func (t *Ticket) HasFailed() bool { return t.failed.Load() != nil }

// notify closes the channel of the waiting goroutines. Only the first call has
// an effect.
func (t *Ticket) notify() {
	if done := t.done.Swap(over).(chan struct{}); done != over {
		close(done)
	}
}

// Done returns a channel that is closed when the command and its children have
// ended. The first call makes it, because most tickets are waited for in one
// place, or never.
func (t *Ticket) Done() <-chan struct{} {
	if t.done.Load() == nil && t.done.CompareAndSwap(nil, make(chan struct{})) && t.ended() {
		t.notify() // the goroutine that ended it may have read done before the channel was there
	}
	return t.done.Load().(chan struct{})
}

// Wait waits for the end of the command and its children, and returns the
// results of Result and Err. If ctx ends first it returns the context's error
// and its cause.
//
// Wait yields once before it blocks: a stage that is idle and quick has the
// answer then. Blocking and being woken costs several times as much, for the
// caller and for the stage.
func (t *Ticket) Wait(ctx context.Context) (result any, err error) {
	if !t.ended() {
		yield.Once()
	}
	if t.ended() {
		return t.end()
	}
	ends := ctx.Done()
	if ends == nil { // a select needs more stack, which a new goroutine would have to grow
		<-t.Done()
		return t.end()
	}
	select {
	case <-t.Done():
		return t.end()
	case <-ends:
		return nil, Ended(ctx)
	}
}

// Err returns the error of the one command that failed, or a [*JoinedError] if
// several did. It returns nil before the end.
func (t *Ticket) Err() error {
	if !t.ended() {
		return nil
	}
	_, err := t.end()
	return err
}

// Result returns the result of the command. It returns nil before the end.
func (t *Ticket) Result() any {
	if !t.ended() {
		return nil
	}
	return t.result
}

// ended reports whether the ticket has ended. That includes one that was ended
// twice by mistake.
func (t *Ticket) ended() bool { return t.pending.Load() <= 0 }

// end returns the result and the error of a ticket that has ended.
func (t *Ticket) end() (result any, err error) {
	if f := t.failed.Load(); f != nil {
		err = f.err()
	}
	return t.result, err
}
