package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/worker"
)

// relayBatch is how many commands are sent to another process at once.
const relayBatch = 256

// Send sends commands to the process that handles them, in order. It returns an error for each command, nil if that cannot be lost any
// more.
type Send func(ctx context.Context, cmds []any) []error

// Relay has the commands of a stage handled in another process: the worker of the stage sends them there, and no code of the stage's
// user is called here. If send is nil no command can go there, and elsewhere is why. It is called before the stage is started.
func (c *Core) Relay(process string, send Send, elsewhere error) {
	c.process = process
	c.inbox.Relay(relayBatch, elsewhere)
	c.config.Inbox = c.inbox.Config()
	c.config.Blocking, c.config.ExpiresAt, c.config.Timeout, c.config.RetryIf = true, nil, 0, nil
	c.config.Fewest, c.config.Most, c.config.Asks = 1, 1, true
	c.Pool.least, c.Pool.most = 1, 1
	c.staff.Runs, c.staff.Defers = nil, false
	v := c.Share()
	v.Take(&relay{of: v, stage: c.Name(), process: process, send: send, elsewhere: elsewhere})
}

// Process returns the name of the process that handles the stage's commands, empty if it is this one.
func (c *Core) Process() string { return c.process }

// ElsewhereError refuses what only the process can do that runs a stage.
type ElsewhereError struct {
	Stage, Process string
	Problem        string // what cannot be done, and what to do about it
}

// Error says which stage, where it runs, and what the problem is.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("stage %q: runs in process %q: %s", e.Stage, e.Process, e.Problem)
}

// Is reports whether the target is inbox.ErrElsewhere.
func (e *ElsewhereError) Is(target error) bool { return target == inbox.ErrElsewhere } //nolint:errorlint // as errors.Is asks

// relay is an instance that sends commands to another process.
type relay struct {
	of             *worker.Version
	stage, process string
	send           Send
	elsewhere      error
}

// Start is for [worker.Instance].
func (r *relay) Start(context.Context) error { return nil }

// Stop is for [worker.Instance].
func (r *relay) Stop() {}

// Stops is for [worker.Instance].
func (r *relay) Stops() bool { return false }

// Of is for [worker.Instance].
func (r *relay) Of() *worker.Version { return r.of }

// Version is for [worker.Instance].
func (r *relay) Version() string { return "" }

// Saved is for [worker.Instance].
func (r *relay) Saved() *worker.Saved { return nil }

// Suspends is for [worker.Instance].
func (r *relay) Suspends() bool { return false }

// Many is for [worker.Instance].
func (r *relay) Many() bool { return true }

// Handle is for [worker.Instance]. The worker calls HandleMany.
func (r *relay) Handle(ctx context.Context, load any) behaviour.Outcome {
	return r.HandleMany(ctx, worker.Batch{{Load: load}})[0]
}

// HandleEach is for [worker.Instance]. The worker calls HandleMany.
func (r *relay) HandleEach(ctx context.Context, w *worker.Worker, batch worker.Batch) {
	for _, o := range r.HandleMany(ctx, batch) {
		w.Settle(o)
	}
}

// HandleMany sends the commands of a batch. Those whose callers wait for a result fail: it would be made in the other process.
func (r *relay) HandleMany(ctx context.Context, batch worker.Batch) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(batch))
	var cmds []any
	var places []int
	for i := range batch {
		if err := r.check(&batch[i]); err != nil {
			outcomes[i] = behaviour.Error(err)
			continue
		}
		cmds, places = append(cmds, batch[i].Command()), append(places, i)
	}
	if len(cmds) == 0 {
		return outcomes
	}
	errs := r.send(ctx, cmds)
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
	case !e.Child() && e.Ticket().WantsResult():
		return &ElsewhereError{r.stage, r.process, "a caller waits for the result of a command, and results do not come back from there"}
	default:
		return nil
	}
}

// outcome returns the outcome of the command at a place among those that were sent.
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
