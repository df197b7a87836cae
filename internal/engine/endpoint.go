package engine

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// patience is how long a full stage holds an actor that sends to it: long
// enough for a burst, short enough that actors which send in a circle come free.
const patience = 5 * time.Second

// Reply answers a request that an actor made to a stage's PID: the end of the
// command, wherever in the pipeline that was.
type Reply struct {
	Result any   // what was given to behaviour.OK
	Err    error // why there is no result
}

// TypeError refuses a message that is not of the stage's command type.
type TypeError struct {
	Stage string
	Want  string // the stage's command type
	Got   string // the message's type
}

// Error tells both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("stage %q: takes %s, was sent %s", e.Stage, e.Want, e.Got)
}

// endpoint is where a stage's door stands. It is hung when somebody asks for the stage's
// address: most stages are never sent anything by an actor.
type endpoint struct {
	door atomic.Pointer[actor.Endpoint]

	mu   sync.Mutex // guards open, and who changes door
	open bool
}

// OpenEndpoint lets the stage have a PID from now on.
func (c *Core) OpenEndpoint() {
	c.endpoint.mu.Lock()
	defer c.endpoint.mu.Unlock()
	c.endpoint.open = true
}

// CloseEndpoint takes the stage's PID back, and tells those who watch it.
func (c *Core) CloseEndpoint() {
	c.endpoint.mu.Lock()
	c.endpoint.open = false
	door := c.endpoint.door.Swap(nil)
	c.endpoint.mu.Unlock()
	if door != nil {
		door.Close()
	}
}

// PID returns the stage's address, nil if it has none.
func (c *Core) PID() *actor.PID {
	door := c.endpoint.door.Load()
	if door == nil {
		door = c.makeEndpoint()
	}
	if door == nil {
		return nil
	}
	return door.PID()
}

// makeEndpoint gives the stage its door, if it may have one.
func (c *Core) makeEndpoint() *actor.Endpoint {
	c.endpoint.mu.Lock()
	defer c.endpoint.mu.Unlock()
	if door := c.endpoint.door.Load(); door != nil || !c.endpoint.open {
		return door
	}
	door, ok := actor.OpenEndpoint(c.env.System, c.env.Name+"/"+c.Name(), c.receive)
	if !ok {
		return nil // the name is taken
	}
	c.endpoint.door.Store(door)
	return door
}

// receive takes in what an actor sent. It runs in the sender's goroutine.
func (c *Core) receive(message any, sender *actor.PID) {
	e := command.Envelope{Cmd: message}
	if sender != nil {
		e.From = command.NewTicket(func(result any, err error) { c.answer(sender, result, err) }).Origin()
	}
	if !c.typed.Takes(message) {
		c.inbox.Mistyped()
		err := &TypeError{c.Name(), c.Takes(), fmt.Sprintf("%T", message)}
		c.refuse(sender, message, inbox.ReasonType, err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.env.Context, patience, inbox.ErrFull)
	defer cancel()
	if err := c.inbox.Submit(ctx, &e); err != nil {
		c.refuse(sender, message, c.refusedWhy(), err)
	}
}

// Resubmit is a Submit for those who do not know the type of a command: one of the
// wrong type is refused with a [*TypeError].
func (c *Core) Resubmit(ctx context.Context, cmd any) error {
	if !c.typed.Takes(cmd) && (cmd != nil || c.typed.Type().Kind() != reflect.Interface) {
		c.inbox.Mistyped()
		return &TypeError{c.Name(), c.Takes(), fmt.Sprintf("%T", cmd)}
	}
	return c.inbox.Submit(ctx, &command.Envelope{Cmd: cmd, From: command.Submitted(ctx, c.inbox.Pipeline())})
}

// refusedWhy tells why the door did not let a command in.
func (c *Core) refusedWhy() inbox.Reason {
	if c.inbox.IsOpen() {
		return inbox.ReasonFull
	}
	return inbox.ReasonClosed
}

// refuse tells the sender that a message was not taken, or, if it does not
// listen, the subscriber of dead letters.
func (c *Core) refuse(sender *actor.PID, message any, why inbox.Reason, err error) {
	if sender != nil {
		c.answer(sender, nil, err)
		return
	}
	c.env.Host.ReportLost(inbox.Ending{Inbox: c.inbox, Cmd: message, Reason: why, Err: err})
}

func (c *Core) answer(to *actor.PID, result any, err error) {
	c.env.System.Root.Send(to, &Reply{Result: result, Err: err})
}
