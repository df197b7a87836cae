package stage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/room"
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

// doorstep is where a stage's door stands. It is hung when somebody asks for the stage's
// address: most stages are never sent anything by an actor.
type doorstep struct {
	door atomic.Pointer[act.Door]

	mu   sync.Mutex // guards open, and who changes door
	open bool
}

// OpenDoor lets the stage have a PID from now on.
func (c *Core) OpenDoor() {
	c.step.mu.Lock()
	defer c.step.mu.Unlock()
	c.step.open = true
}

// ShutDoor takes the stage's PID back, and tells those who watch it.
func (c *Core) ShutDoor() {
	c.step.mu.Lock()
	c.step.open = false
	door := c.step.door.Swap(nil)
	c.step.mu.Unlock()
	if door != nil {
		door.Shut()
	}
}

// PID returns the stage's address, nil if it has none.
func (c *Core) PID() *act.PID {
	door := c.step.door.Load()
	if door == nil {
		door = c.hang()
	}
	if door == nil {
		return nil
	}
	return door.PID()
}

// hang gives the stage its door, if it may have one.
func (c *Core) hang() *act.Door {
	c.step.mu.Lock()
	defer c.step.mu.Unlock()
	if door := c.step.door.Load(); door != nil || !c.step.open {
		return door
	}
	door, ok := act.OpenDoor(c.env.System, c.env.Name+"/"+c.Name(), c.knock)
	if !ok {
		return nil // the name is taken
	}
	c.step.door.Store(door)
	return door
}

// knock takes in what an actor sent. It runs in the sender's goroutine.
func (c *Core) knock(message any, sender *act.PID) {
	e := command.Envelope{Cmd: message}
	if sender != nil {
		e.From = command.NewTicket(func(result any, err error) { c.answer(sender, result, err) }).Origin()
	}
	if !c.kind.takes(message) {
		c.room.Mistyped()
		err := &TypeError{c.Name(), c.kind.name(), fmt.Sprintf("%T", message)}
		c.turnAway(sender, message, room.ReasonType, err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.env.Context, patience, ErrFull)
	defer cancel()
	if err := c.room.Submit(ctx, &e); err != nil {
		c.turnAway(sender, message, c.why(), err)
	}
}

// Resubmit is a Submit for those who do not know the type of a command: one of the
// wrong type is refused with a [*TypeError].
func (c *Core) Resubmit(ctx context.Context, cmd any) error {
	if !c.kind.takes(cmd) && (cmd != nil || !c.kind.nilly()) {
		c.room.Mistyped()
		return &TypeError{c.Name(), c.kind.name(), fmt.Sprintf("%T", cmd)}
	}
	return c.room.Submit(ctx, &command.Envelope{Cmd: cmd, From: command.Submitted(ctx, c.room.Host())})
}

// why tells why the door did not let a command in.
func (c *Core) why() room.Reason {
	if c.room.IsOpen() {
		return room.ReasonFull
	}
	return room.ReasonClosed
}

// turnAway tells the sender that a message was not taken, or, if it does not
// listen, the subscriber of dead letters.
func (c *Core) turnAway(sender *act.PID, message any, why room.Reason, err error) {
	if sender != nil {
		c.answer(sender, nil, err)
		return
	}
	c.env.Host.Lost(room.End{Room: c.room, Cmd: message, Reason: why, Err: err})
}

func (c *Core) answer(to *act.PID, result any, err error) {
	c.env.System.Root.Send(to, &Reply{Result: result, Err: err})
}
