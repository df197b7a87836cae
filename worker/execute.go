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

func (each) execute(w *Worker, batch []command.Envelope) {
	w.gear.instance.HandleEach(w.handling(), w, batch)
}

func (stepwise) execute(w *Worker, batch []command.Envelope) {
	w.handleStepwise(batch, func(ctx context.Context, e *command.Envelope) behaviour.Outcome {
		o := w.gear.instance.Handle(ctx, e.Load)
		w.End()
		return o
	})
}

func (limited) execute(w *Worker, batch []command.Envelope) {
	w.handleStepwise(batch, w.handleLimited)
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

// errBatchEmit means that a batch handler tried to emit. The ticket that would
// wait for the emitted command is not known.
var errBatchEmit = errors.New("stage: a batch handler cannot emit; forward, or handle commands one at a time")

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

func (many) refusesEmit() error { return errBatchEmit }

// callMany runs the worker's instance on a batch, watched if there is a time
// limit. It returns an outcome for each command.
func (w *Worker) callMany(batch []command.Envelope) (outcomes []behaviour.Outcome) {
	if w.stage.Timeout == 0 {
		return checked(w.gear.instance.HandleMany(w.handling(), batch), len(batch))
	}
	ctx, inst := w.limit(w.handling(), nil), w.gear.instance
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

func (relayed) execute(w *Worker, batch []command.Envelope) {
	var rest []command.Envelope
	calls := batch[:0]
	for _, e := range batch {
		if w.stage.Calls(&e) {
			calls = append(calls, e)
		} else {
			rest = append(rest, e)
		}
	}
	copy(batch[len(calls):], rest)
	coroutines{}.execute(w, calls)
	if len(rest) == 0 {
		return
	}
	if len(calls) > 0 {
		w.bookMidBatch() // the others may take long
	}
	many{}.execute(w, batch[len(calls):])
}

func (relayed) takesMore(w *Worker) bool { return coroutines{}.takesMore(w) }
