package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
)

// handleEach runs the behaviour on the commands of the batch, one after the other.
func (w *Worker) handleEach(batch []command.Envelope) {
	saved := w.instance.Saved()
	if saved == nil && w.stage.Timeout == 0 && !w.stage.mayExpire() && !w.stage.Inbox.Keyed() && !w.pipeline.Follows {
		w.instance.HandleEach(w.handling(), w, batch)
		return
	}
	for n := range batch {
		w.follow(n + 1)
		if w.Halted() || n >= int(w.n) { // a keyed stage may take back the rest
			return
		}
		if ctx := w.Begin(); ctx != nil {
			o := w.callOne(ctx, w.instance, &batch[n])
			if saved != nil {
				saved.Note(1)
			}
			w.settleDeferred(true, o.Err())
			w.Settle(o)
		}
	}
}

// callOne runs an instance on one command.
func (w *Worker) callOne(ctx context.Context, inst Instance, e *command.Envelope) behaviour.Outcome {
	if w.stage.Timeout > 0 {
		return w.callLimited(ctx, e)
	}
	o := inst.Handle(ctx, e.Load)
	w.End()
	return o
}

// callLimited runs the worker's instance on one command within the stage's time limit.
func (w *Worker) callLimited(within context.Context, e *command.Envelope) behaviour.Outcome {
	ctx := w.limit(within, e.From)
	o := w.watchedHandle(ctx, e.Load)
	late := ctx.Err() != nil && within.Err() == nil
	w.unlimit()
	if err := o.Err(); late && err != nil && !errors.Is(err, ErrTimeout) {
		return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", w.stage.Timeout), err))
	}
	return o
}

// handleMany runs the behaviour on a whole batch.
func (w *Worker) handleMany(batch []command.Envelope) {
	w.follow(0)
	if w.Halted() {
		return
	}
	if batch = w.sift(batch); len(batch) == 0 {
		return
	}
	outcomes := w.callMany(w.instance, batch)
	if saved := w.instance.Saved(); saved != nil {
		saved.Note(len(batch))
	}
	for _, o := range outcomes {
		w.Settle(o)
	}
}

// callMany runs an instance on a batch, watched if there is a time limit. It returns an outcome for each command.
func (w *Worker) callMany(inst Instance, batch []command.Envelope) (outcomes []behaviour.Outcome) {
	if w.stage.Timeout == 0 {
		return checked(inst.HandleMany(w.handling(), batch), len(batch))
	}
	ctx := w.limit(w.handling(), nil)
	given := slices.Clone(batch) // if the watchdog gives the worker up, the batch is the watchdog's
	w.watched(ctx, func() { outcomes = inst.HandleMany(ctx, given) })
	w.unlimit()
	return checked(outcomes, len(batch))
}
