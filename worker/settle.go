package worker

import (
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
)

// Settle does what the outcome of the present command says, moves on to the
// next command of the batch, and recycles the command's box. An [Handler]
// calls it.
func (w *Worker) Settle(o behaviour.Outcome) {
	load := w.Member.Batch[w.progress.cur].Load // another may be in its place afterwards
	if w.SettleBare(o) && w.stage.Boxes != nil {
		w.progress.spend(load)
	}
}

// SettleBare is Settle for a command that is not in a box. It reports whether
// the command is completed; see applyOutcome.
func (w *Worker) SettleBare(o behaviour.Outcome) (completed bool) {
	e := &w.Member.Batch[w.progress.cur]
	if next, load := o.Way(); next == w.out.lane.inlet && len(w.emits.held) == 0 {
		w.out.pass(w.Member.Batch, e, load)
		w.progress.tally.Forwarded++
		completed = true
	} else {
		completed = w.applyOutcome(e, o)
	}
	w.progress.cur++
	return completed
}

// applyOutcome is SettleBare for all outcomes that do not take the lane. It
// reports whether the command is completed: it is replied to or goes on, and
// will never be read again.
func (w *Worker) applyOutcome(e *command.Envelope, o behaviour.Outcome) (completed bool) {
	next, value := o.Way()
	switch o.Kind() {
	case behaviour.KindForward:
		if r, ok := value.(*link.Reply); ok {
			return w.reply(e, r)
		}
		return w.forward(e, next, value)
	case behaviour.KindOK:
		w.order.endNumber(w.progress.cur)
		t := e.Ticket()
		if len(w.emits.held) > 0 {
			w.send(e, nil, nil)
		} else if w.progress.tally.OK++; t != nil {
			w.bookMidBatch() // the caller that gets the answer may read the accounts next
		}
		if t != nil {
			t.Settle(e.Child(), value, nil)
		}
		return true
	default:
		w.fail(e, o.Err())
		return false
	}
}

// forward puts a command in the outbox of its target, or starts the lane with
// it. The command leaves at the end of the batch. Most commands take the lane
// without a call of forward. It returns false if the command has failed
// instead.
func (w *Worker) forward(e *command.Envelope, to *behaviour.Inlet, load any) bool {
	out, err := w.out.outboxFor(w.stage.Inbox, to)
	if err != nil {
		w.fail(e, err)
		return false
	}
	w.order.endNumber(w.progress.cur)
	switch {
	case len(w.emits.held) > 0:
		w.send(e, out, load)
	case w.out.pending() || w.order.numbers != nil:
		w.load(out, e.Ticket()).Continue(load, e)
		w.progress.tally.Forwarded++
	default:
		w.out.startLane(to, out)
		w.out.pass(w.Member.Batch, e, load)
		w.progress.tally.Forwarded++
	}
	return true
}

// reply answers the caller of a command and emits the command that it is
// forwarded as. If a source waits for the end too, the caller is answered when
// both have ended.
func (w *Worker) reply(e *command.Envelope, r *link.Reply) (completed bool) {
	t := e.Ticket()
	if !t.WantsResult() {
		return w.forward(e, r.Next, r.Command)
	}
	out, err := w.out.outboxFor(w.stage.Inbox, r.Next)
	if err != nil {
		w.fail(e, err)
		return false
	}
	w.order.endNumber(w.progress.cur)
	w.holdRest(emission{out, r.Command, e.From}, t)
	w.send(e, nil, nil)
	t.Settle(e.Child(), r.Result, nil)
	return true
}

// fail ends a command with an error, or returns it to the queue for another
// try.
func (w *Worker) fail(e *command.Envelope, err error) {
	if !w.recall() {
		panic(unwind{})
	}
	asked, refused := w.refusal(err)
	if refused {
		e.Refused()
	} else {
		e.Failed()
	}
	again, err := w.triesAgain(e, err, refused)
	if again {
		if w.out.pending() {
			w.bookMidBatch() // otherwise it would be booked with this one
		}
		if w.stage.Inbox.Book(&w.Member, &w.progress.tally, &inbox.Retried{Command: *e, Rest: w.behind(), Asked: asked}) {
			if w.stage.Inbox.Config().TakesBack() {
				w.progress.n = w.progress.cur + 1
			}
			return
		}
	}
	w.progress.tally.Errors++
	w.order.endNumber(w.progress.cur)
	var park *inbox.Park
	if w.stage.Inbox.Batches().ParksFor(e, false) {
		park = w.park(e)
	} else {
		w.bookMidBatch() // the caller that gets the answer may read the accounts next
	}
	w.stage.Inbox.Fail(e, err, park)
}

// park books a command that has failed and leaves a letter, and parks its key.
// The inbox takes back the commands behind it, as before a retry.
func (w *Worker) park(e *command.Envelope) *inbox.Park {
	if w.out.pending() {
		w.bookMidBatch()
	}
	x := &inbox.Parked{Command: *e, Rest: w.behind()}
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, x) {
		panic(unwind{})
	}
	if x.Took {
		w.progress.n = w.progress.cur + 1
	}
	return x.Park
}

// behind returns the commands behind the present one in the batch.
func (w *Worker) behind() []command.Envelope {
	return w.Member.Batch[w.progress.cur+1 : max(w.progress.n, w.progress.cur+1)]
}

// refusal reports whether an error says that what the handler needs has refused
// it, and how long the command must wait then. It calls methods of the error,
// which are user code; if they crash, the answer is no.
func (w *Worker) refusal(err error) (asked time.Duration, refused bool) {
	retry := &w.stage.Inbox.Config().Retry
	if retry.Attempts < 2 || w.stage.Refusal == nil {
		return 0, false
	}
	if broken := crash.Guard(w.stage.Inbox.Name(), func() error { asked, refused = w.stage.Refusal(err); return nil }); broken != nil {
		w.stage.LogPanic("the method Overload of an error crashed", broken)
		return 0, false
	}
	pause, cut := backoff.Heed(asked, retry.LongestAsked)
	if cut {
		w.stage.logCut(w.pipeline.Now(), asked, pause, err)
	}
	return pause, refused
}

// triesAgain reports whether a command is to be tried again after an error. It
// is not if its caller's context has ended, if it was tried often enough, if
// the stage's policy says no, or if the retry budget is spent. A command that
// was refused uses up no try and no budget. The policy is user code; if it
// crashes, its answer is no. The result is also the error of a command that is
// not tried again.
func (w *Worker) triesAgain(e *command.Envelope, err error, refused bool) (bool, error) {
	switch {
	case e.From.Ended() != nil || e.Tries() >= w.stage.Inbox.Config().Retry.Attempts || !w.retries(err):
		return false, err
	case !refused && !w.stage.Inbox.SpendRetry(&w.progress.tally):
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
	if broken := crash.Guard(w.stage.Inbox.Name(), func() error { yes = w.stage.RetryIf(err); return nil }); broken != nil {
		w.stage.LogPanic("retry condition crashed", broken)
		return false
	}
	return yes
}
