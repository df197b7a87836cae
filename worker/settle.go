package worker

import (
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// Settle does what the outcome of the present command says, and moves on to the next command of the batch. An [Instance]
// calls it.
func (w *Worker) Settle(o behaviour.Outcome) {
	e := &w.Batch[w.cur]
	if next, cmd := o.Way(); next == w.lane.inlet && len(w.emits) == 0 {
		w.pass(e, cmd)
	} else {
		w.applyOutcome(e, o)
	}
	w.cur++
}

// applyOutcome is Settle for all outcomes that do not take the lane.
func (w *Worker) applyOutcome(e *command.Envelope, o behaviour.Outcome) {
	kind, next, value := o.Open()
	switch kind {
	case behaviour.KindForward:
		w.forward(e, next, value)
	case behaviour.KindOK:
		w.endNumber()
		t := e.Ticket()
		if len(w.emits) > 0 {
			w.send(e, nil, nil)
		} else if w.tally.OK++; t != nil {
			w.bookMidBatch() // the caller that gets the answer may read the accounts next
		}
		if t != nil {
			t.Settle(e.Child(), value, nil)
		}
	default:
		w.fail(e, o.Err())
	}
}

// forward puts a command in the outbox of its target, or starts the lane with it. The command leaves at the end of the
// batch. Most commands take the lane without a call of forward.
func (w *Worker) forward(e *command.Envelope, to *behaviour.Inlet, cmd any) {
	out, err := w.outboxFor(to)
	if err != nil {
		w.fail(e, err)
		return
	}
	w.endNumber()
	switch {
	case len(w.emits) > 0:
		w.send(e, out, cmd)
	case w.hasUndelivered() || w.numbers != nil:
		w.load(out, e.Ticket()).Continue(cmd, e)
		w.tally.Forwarded++
	default:
		w.lane = lane{inlet: to, out: out}
		w.pass(e, cmd)
	}
}

// fail ends a command with an error, or returns it to the queue for another try.
func (w *Worker) fail(e *command.Envelope, err error) {
	if !w.recall() {
		panic(unwind{})
	}
	e.Failed()
	again, err := w.triesAgain(e, err)
	if again {
		if w.hasUndelivered() {
			w.bookMidBatch() // otherwise it would be booked with this one
		}
		if w.stage.Inbox.RetryLater(&w.Member, &w.tally, *e, w.Batch[w.cur+1:max(w.n, w.cur+1)]) {
			if w.stage.Inbox.Keyed() { // which has taken back the rest of the batch
				w.n = w.cur + 1
			}
			return
		}
	}
	w.tally.Errors++
	w.endNumber()
	w.bookMidBatch() // the caller that gets the answer may read the accounts next
	w.stage.Inbox.Fail(e, err)
}

// triesAgain reports whether a command is to be tried again after an error. It is not if its caller's context has ended, if it
// was tried often enough, if the stage's policy says no, or if the retry budget is spent. The policy is user code; if it
// crashes, its answer is no. The result is also the error of a command that is not tried again.
func (w *Worker) triesAgain(e *command.Envelope, err error) (bool, error) {
	switch {
	case e.From.Ended() != nil || e.Tries() >= w.stage.Inbox.Config().Retry.Attempts || !w.retries(err):
		return false, err
	case !w.stage.Inbox.SpendRetry(&w.tally):
		return false, inbox.OverBudget(err)
	default:
		return true, err
	}
}

func (w *Worker) retries(err error) (yes bool) {
	switch {
	case w.stage.Inbox.Config().Retry.Attempts < 2:
		return false
	case w.stage.RetryIf == nil:
		return true
	}
	if crash := Guard(w.stage.Inbox.Name(), func() error { yes = w.stage.RetryIf(err); return nil }); crash != nil {
		w.stage.LogPanic("retry condition crashed", crash)
		return false
	}
	return yes
}
