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
	if w.stage.Timeout == 0 && !w.stage.mayExpire() {
		w.instance.HandleEach(w.handling(), w, batch)
		return
	}
	for n := range batch {
		if w.Halted() {
			return
		}
		e := &batch[n]
		if ctx := w.Begin(e); ctx != nil {
			w.Settle(w.one(ctx, w.instance, e))
		}
	}
}

// one runs an instance on one command.
func (w *Worker) one(ctx context.Context, inst Instance, e *command.Envelope) behaviour.Outcome {
	if w.stage.Timeout > 0 {
		return w.limited(ctx, e)
	}
	o := inst.Handle(ctx, e.Cmd)
	w.End()
	return o
}

// limited runs the worker's instance on one command within the stage's time limit.
func (w *Worker) limited(within context.Context, e *command.Envelope) behaviour.Outcome {
	ctx := w.limit(within, e.From)
	o := w.watchedHandle(ctx, e.Cmd)
	late := ctx.Err() != nil && within.Err() == nil
	w.unlimit()
	if err := o.Err(); late && err != nil && !errors.Is(err, ErrTimeout) {
		return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", w.stage.Timeout), err))
	}
	return o
}

// handleMany runs the behaviour on a whole batch.
func (w *Worker) handleMany(batch []command.Envelope) {
	if w.Halted() {
		return
	}
	if batch = w.sift(batch); len(batch) == 0 {
		return
	}
	for _, o := range w.many(w.instance, batch) {
		w.Settle(o)
	}
}

// many runs an instance on a batch, watched if there is a time limit. It returns an outcome for each command.
func (w *Worker) many(inst Instance, batch []command.Envelope) (outcomes []behaviour.Outcome) {
	if w.stage.Timeout == 0 {
		return checked(inst.HandleMany(w.handling(), batch), len(batch))
	}
	ctx := w.limit(w.handling(), nil)
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

// Settle does what the outcome of the present command says, and moves on to the next command of the batch. An [Instance]
// calls it.
func (w *Worker) Settle(o behaviour.Outcome) {
	e := &w.Batch[w.cur]
	if next, cmd := o.Way(); next == w.lane.inlet && len(w.emits) == 0 {
		w.pass(e, cmd)
	} else {
		w.settle(e, o)
	}
	w.cur++
}

// settle is Settle for all outcomes that do not take the lane.
func (w *Worker) settle(e *command.Envelope, o behaviour.Outcome) {
	kind, next, value := o.Open()
	switch kind {
	case behaviour.KindForward:
		w.forward(e, next, value)
	case behaviour.KindOK:
		t := e.Ticket()
		if len(w.emits) > 0 {
			w.send(e, nil, nil)
		} else if w.tally.OK++; t != nil {
			w.book() // the caller that gets the answer may read the accounts next
		}
		if t != nil {
			t.Settle(e.Child(), value, nil)
		}
	default:
		w.fail(e, o.Err())
	}
}

// fail ends a command with an error, or returns it to the queue for another try.
func (w *Worker) fail(e *command.Envelope, err error) {
	if !w.recall() {
		panic(unwind{})
	}
	e.Failed()
	if w.triesAgain(e, err) {
		if w.carries() {
			w.book() // otherwise it would be booked with this one
		}
		if w.stage.Inbox.RetryLater(&w.Member, &w.tally, *e) {
			return
		}
	}
	w.tally.Errors++
	w.book() // the caller that gets the answer may read the accounts next
	w.stage.Inbox.Fail(e, err)
}

// refuse settles the ticket of a command that was not started with an error.
func (w *Worker) refuse(e *command.Envelope, err error) {
	w.stage.Inbox.Answer(e, err)
}
