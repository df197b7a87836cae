package stage

import (
	"context"
	"fmt"
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

// OpenDoor gives the stage its PID. It reports false if the name is taken.
func (c *Core) OpenDoor() bool {
	door, ok := act.OpenDoor(c.env.System, c.env.Name+"/"+c.Name(), c.knock)
	if ok {
		c.door.Store(door)
	}
	return ok
}

// ShutDoor takes the stage's PID back, and tells those who watch it.
func (c *Core) ShutDoor() {
	if door := c.door.Swap(nil); door != nil {
		door.Shut()
	}
}

// PID returns the stage's address, nil if it has none.
func (c *Core) PID() *act.PID {
	if door := c.door.Load(); door != nil {
		return door.PID()
	}
	return nil
}

// knock takes in what an actor sent. It runs in the sender's goroutine.
func (c *Core) knock(message any, sender *act.PID) {
	e := command.Envelope{Cmd: message}
	if sender != nil {
		e.Ticket = command.NewTicket(func(result any, err error) { c.answer(sender, result, err) })
	}
	if !c.takes(message) {
		c.room.Mistyped()
		err := &TypeError{c.Name(), c.kind, fmt.Sprintf("%T", message)}
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
	if !c.takes(cmd) && (cmd != nil || !c.nilly) {
		c.room.Mistyped()
		return &TypeError{c.Name(), c.kind, fmt.Sprintf("%T", cmd)}
	}
	return c.room.Submit(ctx, &command.Envelope{Cmd: cmd})
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
