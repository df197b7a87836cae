package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/bigstack"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/worker"
)

const (
	relayBatch = 256  // how many commands are sent to another process at once
	relayCalls = 1024 // how many calls of a stage there are under way
)

// Send sends commands to the process that handles them, in order. It returns an
// error for each command, nil if that cannot be lost any more. If some commands
// have values of their submitters' contexts, or deadlines, of has the context of
// each command, nil of a command without one; otherwise of is nil.
type Send func(ctx context.Context, cmds []any, of []context.Context) []error

// Call has a command handled in another process, and returns the result: one of
// the type want, unless that is nil. Ctx has the values of the caller's context.
// It is called by many goroutines at once.
type Call func(ctx context.Context, cmd any, want reflect.Type) (result any, err error)

// Relay has the commands of a stage handled in another process: the worker of
// the stage sends them there, and no code of the stage's user is called here.
// Commands whose callers wait for the result are called there; if call is nil
// they are refused. If send is nil no command can go there, and elsewhere is
// why. It is called before the stage is started.
func (c *Core) Relay(process string, send Send, call Call, elsewhere error) {
	c.process = process
	instances := 1
	if call != nil {
		instances = relayCalls
	}
	c.inbox.Settings().Relay(relayBatch, instances, elsewhere)
	c.spec.config.Inbox = c.inbox.Config()
	c.spec.config.Blocking, c.spec.config.ExpiresAt, c.spec.config.Timeout, c.spec.config.RetryIf = true, nil, 0, nil
	c.spec.config.Fewest, c.spec.config.Most, c.spec.config.Asks, c.spec.config.Fits = 1, 1, true, false
	c.Pool.SetBounds(part.Seal{}, 1, 1)
	c.staff.Runs, c.staff.Versions.Suspends, c.staff.Defers = nil, false, false
	if call != nil {
		c.staff.Suspends()
		c.staff.Calls = isCall
	} else {
		c.uncalled = c.refusesCalls(elsewhere)
	}
	v := c.Share()
	v.Take(&relay{of: v, stage: c.Name(), process: process, send: send, call: call, elsewhere: elsewhere, uncalled: c.uncalled})
}

// refusesCalls returns why a stage that runs in another process takes no calls.
// Elsewhere is why it takes no commands at all, nil if it does.
func (c *Core) refusesCalls(elsewhere error) error {
	problem := "its carrier takes no calls, so no result comes back from there; submit or forward the command"
	switch {
	case c.Spec().IsKeyed():
		problem = "it is keyed, and a keyed stage takes no calls from other processes; submit or forward the command, " +
			"or call a process of package coordination/rpc instead"
	case elsewhere != nil:
		return elsewhere
	}
	return &ElsewhereError{c.Name(), c.process, problem}
}

// CheckCall returns why a command whose caller waits for the result is refused
// here, nil if it is not: the stage runs in another process and is keyed, or
// the carrier takes no calls.
func (c *Core) CheckCall() error { return c.uncalled }

// Process returns the name of the process that handles the stage's commands,
// empty if it is this one.
func (c *Core) Process() string { return c.process }

// ElsewhereError refuses a call that only the process that runs the stage can
// serve.
type ElsewhereError struct {
	Stage, Process string
	Problem        string // the call that is refused, and an alternative
}

// Error names the stage, its process and the problem.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("stage %q: runs in process %q: %s", e.Stage, e.Process, e.Problem)
}

// Is reports whether the target is inbox.ErrElsewhere.
func (e *ElsewhereError) Is(target error) bool { return target == inbox.ErrElsewhere } //nolint:errorlint // as errors.Is asks

// relay is an instance that sends commands to another process.
type relay struct {
	of             *version.Version
	stage, process string
	send           Send
	call           Call
	elsewhere      error
	uncalled       error // why a command whose caller waits for the result fails; nil if call is not
}

// isCall reports whether a caller waits for the result of a command.
func isCall(e *command.Envelope) bool { return !e.Child() && e.Ticket().WantsResult() }

// Start is for [version.Instance].
func (r *relay) Start(context.Context) error { return nil }

// Stop is for [version.Instance].
func (r *relay) Stop() {}

// Stops is for [version.Instance].
func (r *relay) Stops() bool { return false }

// Of is for [version.Instance].
func (r *relay) Of() *version.Version { return r.of }

// Version is for [version.Instance].
func (r *relay) Version() string { return "" }

// Saved is for [version.Instance].
func (r *relay) Saved() *version.Saved { return nil }

// Suspends is for [version.Instance].
func (r *relay) Suspends() bool { return false }

// Many is for [version.Instance].
func (r *relay) Many() bool { return true }

// Handle calls the other process for one command. It is suspended meanwhile.
func (r *relay) Handle(ctx context.Context, load any) behaviour.Outcome {
	e := command.Envelope{Load: load}
	from, _ := ctx.Value(command.OriginKey{}).(*command.Origin)
	called, cancel := within(ctx, from)
	answer := &answer{err: errNoAnswer}
	err := suspend(ctx, func(wake func()) {
		go func() {
			bigstack.Grow()
			defer wake()
			answer.of(func() (any, error) { return r.call(called, e.Command(), from.Ticket().Wanted()) })
		}()
	})
	cancel(err)
	if err == nil {
		err = answer.err
	}
	if err != nil {
		return behaviour.Error(fmt.Errorf("call to process %q: %w", r.process, err))
	}
	return behaviour.OK(answer.result)
}

// within returns a context with the deadline of a handler's, and the values that
// commands of the origin take along.
func within(ctx context.Context, from *command.Origin) (context.Context, context.CancelCauseFunc) {
	own, cancel := context.WithCancelCause(outside(from.Carried()))
	deadline, ok := ctx.Deadline()
	if !ok {
		return own, cancel
	}
	limited, release := context.WithDeadline(own, deadline)
	return limited, func(cause error) {
		cancel(cause)
		release()
	}
}

// outside returns the values of a caller's context, which may be nil, without
// its end. It has none of the engine's: the caller may be a handler of this
// process, and code that is given the context is not called by that handler.
func outside(carried context.Context) context.Context {
	if carried == nil {
		return context.Background()
	}
	return outsider{context.WithoutCancel(carried)}
}

type outsider struct{ context.Context }

// Value returns the caller's value.
func (o outsider) Value(key any) any {
	switch key.(type) {
	case command.OriginKey, link.EmitterKey, link.SuspenderKey:
		return nil
	default:
		return o.Context.Value(key)
	}
}

// suspend suspends a handler until wake is called, by a goroutine beside the
// handlers.
func suspend(ctx context.Context, start func(wake func())) error {
	c := ctx.(interface { // a task of the stage
		SuspendApart(start func(wake func())) error
	})
	return c.SuspendApart(start)
}

var errNoAnswer = errors.New("the carrier returned no answer")

// answer is the result of a call.
type answer struct {
	result any
	err    error
}

// of notes the results of a carrier's function. A panic is an error.
func (a *answer) of(call func() (any, error)) {
	defer func() {
		if v := recover(); v != nil {
			a.err = fmt.Errorf("the carrier panicked: %v", v)
		}
	}()
	a.result, a.err = call()
}

// HandleEach is for [worker.Handler]. The worker calls HandleMany.
func (r *relay) HandleEach(ctx context.Context, w *worker.Worker, batch worker.Batch) {
	for _, o := range r.HandleMany(ctx, batch) {
		w.Settle(o)
	}
}

// HandleMany sends the commands of a batch. Those whose callers wait for a
// result fail if the other process cannot be called.
func (r *relay) HandleMany(ctx context.Context, batch worker.Batch) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(batch))
	var cmds []any
	var places []int
	var of []context.Context // of cmds
	contexts := command.Contexts(batch)
	for i := range batch {
		if err := r.check(&batch[i]); err != nil {
			outcomes[i] = behaviour.Error(err)
			continue
		}
		cmds, places = append(cmds, batch[i].Command()), append(places, i)
		if contexts != nil {
			of = append(of, contexts[i])
		}
	}
	if len(cmds) == 0 {
		return outcomes
	}
	errs := r.send(ctx, cmds, of)
	for n, i := range places {
		outcomes[i] = r.outcome(ctx, errs, n, len(cmds))
	}
	return outcomes
}

// check returns why a command cannot be sent.
func (r *relay) check(e *command.Envelope) error {
	switch {
	case r.send == nil:
		return r.elsewhere
	case isCall(e):
		return r.uncalled
	default:
		return nil
	}
}

// outcome returns the outcome of the command at place i of the commands that
// were sent.
func (r *relay) outcome(ctx context.Context, errs []error, i, sent int) behaviour.Outcome {
	switch {
	case errs == nil:
		return behaviour.OK(nil)
	case len(errs) != sent:
		return behaviour.Error(fmt.Errorf("stage %q: its carrier was given %d commands and returned %d errors", r.stage, sent, len(errs)))
	case errs[i] == nil:
		return behaviour.OK(nil)
	case ctx.Err() != nil && !errors.Is(errs[i], inbox.ErrStopped):
		return behaviour.Error(fmt.Errorf("stage %q: send to process %q: %w: %w", r.stage, r.process, inbox.ErrStopped, errs[i]))
	default:
		return behaviour.Error(fmt.Errorf("stage %q: send to process %q: %w", r.stage, r.process, errs[i]))
	}
}
