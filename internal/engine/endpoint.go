package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/reason"
)

// patience is how long a full stage holds an actor that sends to it: long
// enough for a burst, and short enough to free actors that send in a circle.
const patience = 5 * time.Second

// Reply is the answer to a request that an actor sent to a stage's PID. Package
// stage documents it.
type Reply struct {
	Result any   // the argument of behaviour.OK
	Err    error // why there is no result
}

// TypeError reports a message or a result of the wrong type. Package stage
// documents it.
type TypeError struct {
	Stage  string
	Want   string // the stage's command type, or the type that a caller asked for
	Got    string // the type of the message or of the result
	Result bool   // the value is the result of a call
}

// Error names the stage and both types, and for a result says what to do.
func (e *TypeError) Error() string {
	if e.Result {
		return fmt.Sprintf("stage %q: called for a result of type %s and got %s; use stage.Call[%s]", e.Stage, e.Want, e.Got, e.Got)
	}
	return fmt.Sprintf("stage %q: takes %s, was sent %s", e.Stage, e.Want, e.Got)
}

// OpenEndpoint lets the stage have a PID from now on.
func (c *Core) OpenEndpoint() {
	c.endpoint.mu.Lock()
	defer c.endpoint.mu.Unlock()
	c.endpoint.allowed = true
}

// CloseEndpoint removes the stage's PID, and notifies the actors that watch it.
func (c *Core) CloseEndpoint() {
	c.endpoint.mu.Lock()
	c.endpoint.allowed = false
	opened := c.endpoint.opened.Swap(nil)
	c.endpoint.mu.Unlock()
	if opened != nil {
		opened.Close()
	}
}

// PID returns the stage's address, or nil if it has none.
func (c *Core) PID() *actor.PID {
	opened := c.endpoint.opened.Load()
	if opened == nil {
		opened = c.makeEndpoint()
	}
	if opened == nil {
		return nil
	}
	return opened.PID()
}

// makeEndpoint opens the stage's endpoint, if it may have one.
func (c *Core) makeEndpoint() *actor.Endpoint {
	c.endpoint.mu.Lock()
	defer c.endpoint.mu.Unlock()
	if opened := c.endpoint.opened.Load(); opened != nil || !c.endpoint.allowed {
		return opened
	}
	opened, ok := actor.OpenEndpoint(c.env.System, c.env.Name+"/"+c.Name(), c.receive)
	if !ok {
		return nil // the name is taken
	}
	c.endpoint.opened.Store(opened)
	return opened
}

// receive submits a message that an actor sent. It runs in the sender's
// goroutine.
func (c *Core) receive(message any, sender *actor.PID) {
	e := command.Envelope{Load: message}
	if sender != nil {
		e.From = command.NewTicket(func(result any, err error) { c.answer(sender, result, err) }).Origin()
	}
	if !c.spec.typed.Takes(message) {
		c.refuse(sender, message, reason.Type, c.mistyped(message))
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.env.Context, patience, inbox.ErrFull)
	defer cancel()
	if err := c.inbox.Submit(ctx, &e); err != nil {
		c.refuse(sender, message, c.refusalReason(), err)
	}
}

// Resubmit submits a command whose type the caller does not know, or a result
// that the stage passes on, see [link.Summer]. It refuses one of another type
// with a [*TypeError]. If a key is parked for the command, it comes before all
// others of the key.
func (c *Core) Resubmit(ctx context.Context, cmd any, park *inbox.Park, ended func(error)) error {
	load := cmd
	if s := c.spec.config.Inbox.Summer(); s != nil && cmd != nil && reflect.TypeOf(cmd) == s.SumType() && s.SumType() != c.Spec().Type() {
		load = s.PassAgain(cmd)
	} else if err := c.CheckType(cmd); err != nil {
		return err
	}
	from := command.Submitted(ctx, c.inbox.Pipeline())
	if ended != nil {
		from = command.NewWatch(from, command.Learns, ended).Origin()
	}
	e := &command.Envelope{Load: load, From: from}
	if park.Of(c.inbox) {
		return park.Submit(ctx, e)
	}
	return c.inbox.Submit(ctx, e)
}

// ErrNotBegun is wrapped by an error of [Core.HandleCall] if the command was
// not accepted, because the stage takes no more commands from outside. Package
// pipeline documents it.
var ErrNotBegun = errors.New("pipeline: the command was not begun")

// notBegun is such an error.
type notBegun struct{ error }

func (e notBegun) Unwrap() []error { return []error{ErrNotBegun, e.error} }

// HandleCall handles a command of a caller in another process that wants a
// result of a type; nil is any. It returns when the command has ended, and the
// end of ctx ends the command: so code after HandleCall runs after the
// handlers. If the pipeline stops hard the error is inbox.ErrStopped, whatever
// the handler returned.
func (c *Core) HandleCall(ctx context.Context, cmd any, want reflect.Type) (result any, err error) {
	result, err = c.handleCall(ctx, cmd, want)
	if err != nil && c.env.Context.Err() != nil && !errors.Is(err, inbox.ErrStopped) {
		err = fmt.Errorf("%w: %w", inbox.ErrStopped, err)
	}
	return result, err
}

func (c *Core) handleCall(ctx context.Context, cmd any, want reflect.Type) (result any, err error) {
	if err := c.CheckType(cmd); err != nil {
		return nil, err
	}
	t := new(command.Ticket)
	t.Want(want)
	if err := c.inbox.Submit(ctx, &command.Envelope{Load: cmd, From: t.Asked(ctx, c.inbox.Pipeline())}); err != nil {
		if errors.Is(err, inbox.ErrClosed) {
			return nil, notBegun{err}
		}
		return nil, err
	}
	return t.Wait(context.WithoutCancel(ctx))
}

// CheckType returns a [*TypeError] for a command of another type than the
// stage's, and counts it.
func (c *Core) CheckType(cmd any) error {
	if !c.spec.typed.Takes(cmd) && (cmd != nil || c.spec.typed.Type().Kind() != reflect.Interface) {
		return c.mistyped(cmd)
	}
	return nil
}

// mistyped counts a command of another type than the stage's, and returns the
// error.
func (c *Core) mistyped(cmd any) error {
	c.inbox.Mistyped()
	return &TypeError{Stage: c.Name(), Want: c.Spec().Takes(), Got: fmt.Sprintf("%T", cmd)}
}

// refusalReason returns why the inbox refused a command.
func (c *Core) refusalReason() reason.Reason {
	if c.inbox.Phases().IsOpen() {
		return reason.Full
	}
	return reason.Closed
}

// refuse reports a message that was not accepted: to the sender of a request,
// or as a dead letter.
func (c *Core) refuse(sender *actor.PID, message any, why reason.Reason, err error) {
	if sender != nil {
		c.answer(sender, nil, err)
		return
	}
	c.env.Host.ReportLost(inbox.Ending{Inbox: c.inbox, Cmd: message, Reason: why, Err: err})
}

func (c *Core) answer(to *actor.PID, result any, err error) {
	c.env.System.Root.Send(to, &Reply{Result: result, Err: err})
}
