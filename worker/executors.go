package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
)

// executorOf returns the executor for the handlers of an instance.
func (s *Stage) executorOf(inst instance) executor {
	switch {
	case s.Calls != nil:
		return relayed{}
	case s.Runs != nil:
		return coroutines{}
	case inst.Many():
		return many{}
	case s.Timeout > 0:
		return limited{}
	case s.mayExpire(), s.Inbox.Config().Keyed(), s.Inbox.Pipeline().Follows, inst.Saved() != nil:
		return stepwise{}
	default:
		return each{}
	}
}

// single is how all executors behave that know which command is handled.
type single struct{}

// charge charges the present command.
func (single) charge(w *Worker, batch []command.Envelope) (culprit *command.Envelope, rest []command.Envelope) {
	return &batch[w.progress.cur], batch[w.progress.cur+1:]
}

func (single) refusesEmit() error { return nil }

// takesMore reports true if further commands may lead to a stage that is not
// full, until the worker carries as many commands as its own stage has slots.
// A worker that takes its commands one by one does not: a handler may wait for
// a command that an earlier handler forwarded.
func (single) takesMore(w *Worker) bool {
	own := w.stage.Inbox
	if w.order.numbers != nil {
		return false // no other worker hands over meanwhile
	}
	return w.pool == nil && own.Settings().Forks() && own.Config().Batch > 1 && int(w.out.loaded) < own.Config().Capacity
}

// each handles one command after the other in the loop of the instance, which
// costs one indirect call for a command. If a policy bounds how long they may
// have waited, it is stepwise.
type each struct{ single }

func (each) execute(w *Worker, batch []command.Envelope) {
	if w.Member.Sojourn > 0 {
		stepwise{}.execute(w, batch)
		return
	}
	w.gear.instance.HandleEach(&w.base, w, batch)
}

// stepwise handles one command after the other in a loop of the worker: between
// two commands it looks whether the next one has expired, whether a keyed stage
// has taken back the rest of the batch, and whether a state is to be saved, and
// it says which command is begun.
type stepwise struct{ single }

func (stepwise) execute(w *Worker, batch []command.Envelope) {
	w.handleStepwise(batch, func(ctx context.Context, e *command.Envelope) behaviour.Outcome {
		o := w.gear.instance.Handle(ctx, e.Load)
		w.End()
		return o
	})
}

// handleStepwise handles the commands of a batch. Handle calls the handler for
// one command.
func (w *Worker) handleStepwise(batch []command.Envelope, handle func(context.Context, *command.Envelope) behaviour.Outcome) {
	saved := w.gear.instance.Saved()
	for n := range batch {
		w.follow(n + 1)
		if w.Halted() || n >= int(w.progress.n) { // a keyed stage may take back the rest
			return
		}
		if ctx := w.Begin(); ctx != nil {
			o := handle(ctx, &batch[n])
			if saved != nil {
				saved.Note(1)
			}
			w.settleDeferred(true, o.Err())
			w.Settle(o)
		}
	}
}

// limited is stepwise with a time limit for each command.
type limited struct{ single }

func (limited) execute(w *Worker, batch []command.Envelope) {
	w.handleStepwise(batch, w.handleLimited)
}

// handleLimited runs the worker's instance on one command within the stage's
// time limit.
func (w *Worker) handleLimited(within context.Context, e *command.Envelope) behaviour.Outcome {
	ctx := w.limit(within, e.From)
	o := w.watchedHandle(ctx, e.Load)
	late := ctx.Err() != nil && within.Err() == nil
	w.unlimit()
	if err := o.Err(); late && err != nil && !errors.Is(err, ErrTimeout) {
		return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", w.stage.Timeout), err))
	}
	return o
}

// many handles a batch with one call of the handler.
type many struct{ single }

func (many) execute(w *Worker, batch []command.Envelope) {
	w.follow(0)
	if w.Halted() {
		return
	}
	if batch = w.sift(batch); len(batch) == 0 {
		return
	}
	outcomes := w.callMany(batch)
	if saved := w.gear.instance.Saved(); saved != nil {
		saved.Note(len(batch))
	}
	for _, o := range outcomes {
		w.Settle(o)
	}
}

// charge charges a command that was alone in its batch. Otherwise any command
// may be the culprit: all return to the queue in smaller batches. A culprit
// that was found so stays alone at further tries, because it may well crash
// again.
func (many) charge(w *Worker, batch []command.Envelope) (culprit *command.Envelope, rest []command.Envelope) {
	if rest = batch[w.progress.cur:]; len(rest) > 1 {
		inbox.Narrow(rest)
		return nil, rest
	}
	rest[0].SetPack(1)
	return &rest[0], nil
}

// errBatchEmit means that a batch handler tried to emit. The ticket that would
// wait for the emitted command is not known.
var errBatchEmit = errors.New("stage: a batch handler cannot emit; forward, or handle commands one at a time")

func (many) refusesEmit() error { return errBatchEmit }

// callMany runs the worker's instance on a batch, watched if there is a time
// limit. It returns an outcome for each command.
func (w *Worker) callMany(batch []command.Envelope) (outcomes []behaviour.Outcome) {
	if w.stage.Timeout == 0 {
		return checked(w.gear.instance.HandleMany(&w.base, batch), len(batch))
	}
	ctx, inst := w.limit(&w.base, nil), w.gear.instance
	given := slices.Clone(batch) // if the watchdog gives the worker up, the batch is the watchdog's
	w.watched(ctx, func() { outcomes = inst.HandleMany(ctx, given) })
	w.unlimit()
	return checked(outcomes, len(batch))
}

// checked panics if a Batcher has not returned an outcome for each command.
func checked(outcomes []behaviour.Outcome, n int) []behaviour.Outcome {
	if len(outcomes) != n {
		panic(fmt.Sprintf("HandleBatch was given %d commands and returned %d outcomes", n, len(outcomes)))
	}
	return outcomes
}
