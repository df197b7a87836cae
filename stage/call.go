package stage

import (
	"context"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

// Ticket gives the result of one command, and of all commands that were emitted
// on its way. Several goroutines may use it.
type Ticket struct{ t command.Ticket }

// Done returns a channel that is closed when the command has ended.
func (t *Ticket) Done() <-chan struct{} { return t.t.Done() }

// Wait waits for the end of the command and returns its result or its error. If
// ctx ends first it returns the error of ctx and its cause, and the command
// continues. If ctx is a coroutine.Context the handler is suspended while it
// waits; [Call] does that without a goroutine.
func (t *Ticket) Wait(ctx context.Context) (any, error) {
	link.CheckContext(ctx, "stage: Ticket.Wait")
	if c, ok := ctx.(behaviour.Suspender); ok {
		if err := handling.Until(c, t.t.Done()); err != nil { //nolint:contextcheck // c is ctx
			return nil, err
		}
		return t.t.Result(), t.t.Err()
	}
	return t.t.Wait(ctx)
}

// Result returns the command's result, or nil if it has none or has not ended.
func (t *Ticket) Result() any { return t.t.Result() }

// Err returns the error of the command, or of one that was emitted on its way,
// and [*JoinedError] if several of them failed. It returns nil if none failed
// or if they have not all ended.
func (t *Ticket) Err() error { return t.t.Err() }

// Ask submits a command and returns a ticket for its result, or the reason why
// it was not accepted, as [Stage.Submit] does.
//
// The handlers of the command see the values of ctx, as with Submit, and the
// command ends with ctx. When ctx ends, the context of a handler that runs ends
// too, with the same cause. A command that is queued, or waits for its next
// try, fails with the error of ctx and its cause; its handler is not called. It
// does not wait for its turn, but frees its slot as soon as [TTL] says for a
// command that has expired. It is not tried again. The commands that it
// forwards and emits end in the same way. To let a command continue after the
// end of ctx, pass context.WithoutCancel(ctx). A handler that asks another
// stage and does not wait must do so too, because its own context may end when
// it returns.
func (s *Stage[C]) Ask(ctx context.Context, cmd C) (*Ticket, error) {
	link.CheckContext(ctx, "stage: Ask")
	if !s.isMade() {
		return nil, unmadeError("Ask")
	}
	if err := s.core.CheckCall(); err != nil {
		return nil, err
	}
	return s.ask(ctx, cmd, nil)
}

// ask is Ask for a result of a type; nil is any.
func (s *Stage[C]) ask(ctx context.Context, cmd C, want reflect.Type) (*Ticket, error) {
	t := new(Ticket)
	t.t.Want(want)
	if err := s.inbox.Submit(ctx, &command.Envelope{Load: s.boxes.Load(cmd), From: t.t.Asked(ctx, s.inbox.Pipeline())}); err != nil {
		return nil, err
	}
	return t, nil
}

// Call submits a command and waits for its end, in whichever stage of the
// pipeline that is. The result is what that stage gave to [behaviour.OK]. If it
// is of another type than R the error is a [*TypeError]. If commands that
// were emitted on the way failed, so does the call: with the error of the
// failed command, or with a [*JoinedError] if several failed. If ctx ends
// first, Call returns the error of ctx and its cause at once, and the command
// ends with ctx, as with [Stage.Ask].
//
// If ctx is a coroutine.Context the handler is suspended while it waits, and
// holds no worker. A context that was derived from it holds the worker.
//
// The stage may run in another process, see pipeline.RunsHere. Then the call
// may also fail because of the connection between the two processes. A [Keyed]
// stage in another process is not called: the error is [ErrElsewhere], at once.
// So it is if the command is forwarded to such a stage. Submit or forward such
// commands, or call a process of package coordination/rpc.
//
// A handler that calls its own stage may wait for itself. If it does so with a
// command of its own key, in a stage whose handlers suspend and that is [Keyed]
// or has [Fair] with a bound for handlers, the error is [ErrSelfCall]. The same
// holds for stages that call one another in a circle, and for a handler that
// calls a stage which forwards to the handler's own: the pipeline does not know
// which stages call which, so that stage waits for a free slot in a stage where
// all handlers may be waiting for it.
func Call[R, C any](ctx context.Context, s *Stage[C], cmd C) (result R, err error) {
	link.CheckContext(ctx, "stage: Call")
	got, err := s.call(ctx, cmd, reflect.TypeFor[R]())
	if err != nil || got == nil {
		return result, err
	}
	result, ok := got.(R)
	if !ok {
		return result, &TypeError{Stage: s.Name(), Want: reflect.TypeFor[R]().String(), Got: reflect.TypeOf(got).String(), Result: true}
	}
	return result, nil
}

func (s *Stage[C]) call(ctx context.Context, cmd C, want reflect.Type) (any, error) {
	if !s.isMade() {
		return nil, unmadeError("Call")
	}
	if err := s.core.CheckCall(); err != nil {
		return nil, err
	}
	if s.inbox.CallsItself(ctx, cmd) {
		return nil, plain.Wrap(fmt.Sprintf("stage %q", s.Name()), ErrSelfCall)
	}
	if c, ok := ctx.(behaviour.Suspender); ok {
		return s.callSuspended(c, cmd, want) //nolint:contextcheck // c is ctx
	}
	t, err := s.ask(ctx, cmd, want)
	if err != nil {
		return nil, err
	}
	return t.t.Wait(ctx)
}

// callSuspended calls for a handler that may suspend. The end of the command
// resumes it.
func (s *Stage[C]) callSuspended(c behaviour.Suspender, cmd C, want reflect.Type) (any, error) {
	var end signal
	t := command.NewTicket(end.set)
	t.Want(want)
	if err := s.inbox.Submit(c, &command.Envelope{Load: s.boxes.Load(cmd), From: t.Asked(c, s.inbox.Pipeline())}); err != nil {
		return nil, err
	}
	return waitAside(t, c, &end)
}

// waitAside waits for a ticket that sets the signal. stacks.Awaits finds this
// function in a stack by its name, and the ticket by its position among the
// arguments.
//
//go:noinline
func waitAside(t *command.Ticket, c behaviour.Suspender, end *signal) (any, error) {
	if err := end.await(c); err != nil {
		return nil, err
	}
	return t.Result(), t.Err()
}
