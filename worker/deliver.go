package worker

import (
	"sync/atomic"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// deliver hands over the commands on the lane and in the outboxes, and reports
// whether the worker may go on. Commands that a full inbox does not take stay.
// With park the worker then waits in line at the full inboxes, unless it may go
// on.
//
// If a ticket waits for one of the commands, the worker books its batch first,
// so that the accounts never lag behind an answer. So it does if some commands
// were emitted: otherwise they could end before they were accepted.
func (w *Worker) deliver(park bool) bool {
	if w.order.numbers != nil {
		return w.deliverInOrder(park)
	}
	return w.deliverOutboxes(park)
}

// deliverOutboxes is deliver for the commands on the lane and in the outboxes.
func (w *Worker) deliverOutboxes(park bool) bool {
	if !w.out.pending() {
		return true
	}
	if w.out.mustBook {
		w.stage.Inbox.Book(&w.Member, &w.progress.tally, nil)
		w.out.mustBook = false
	}
	if n := w.out.lane.n; n > 0 {
		gone := w.handOver(w.out.lane.out, w.Member.Batch[:n], false)
		w.out.endLane(w.Member.Batch, gone)
	}
	if w.out.loaded == 0 {
		return true
	}
	for _, out := range w.out.outs {
		w.empty(out, false)
	}
	if w.out.loaded == 0 || !park {
		return w.out.loaded == 0
	}
	if w.gear.executor.takesMore(w) {
		return true
	}
	if w.pool == nil {
		w.stage.Inbox.Blocked(&w.Member, &w.progress.tally, w.now())
	}
	if w.Member.Carried > 0 {
		w.stage.Inbox.Carry(&w.Member, int(w.out.loaded))
	}
	return w.parkLoaded()
}

// deliverInOrder is deliver for an ordered stage. It asks for more when all has
// left that the worker was given, so that there is always a worker that hands
// over the results that may leave.
func (w *Worker) deliverInOrder(park bool) bool {
	for w.out.pending() || w.takeResults() {
		if !w.deliverOutboxes(park) {
			return false
		}
		if w.out.pending() {
			return true // the worker goes on though it carries something
		}
	}
	return true
}

// parkLoaded parks the worker at each stage that does not take what the worker
// has for it. It returns true if everything has left after all.
func (w *Worker) parkLoaded() bool {
	for _, out := range w.out.outs {
		w.empty(out, true)
	}
	w.out.parked = w.out.loaded > 0
	for _, out := range w.out.outs { // one stage may have woken the worker before it parked at another
		if len(out.items) > 0 && !out.to.Senders().InLine(&w.Member) {
			w.Member.MarkReady()
		}
	}
	w.passMark()
	return w.out.loaded == 0
}

// passMark tells the inbox if it has been marked and what the worker carries is
// for none of the stages that the mark is about.
func (w *Worker) passMark() {
	mark := w.stage.Inbox.Marks().Present()
	if mark == nil || w.out.loaded == 0 || w.out.leadsTo(mark.To) {
		return
	}
	w.stage.Inbox.Marks().Pass(&w.Member, mark)
}

// restLoaded parks a worker that has nothing to do, as its own stage knows
// already, at the stages that do not take what the worker has for them. Any of
// them may wake it.
func (w *Worker) restLoaded() {
	gone := w.parkLoaded()
	if !w.stage.Inbox.Carry(&w.Member, int(w.out.loaded)) || gone && w.order.numbers != nil { // more may leave an ordered stage now
		w.Member.MarkReady()
	}
	w.out.parked = !gone
}

// withdraw leaves the lines of full stages. The worker could not use a slot
// that is promised to it there before its next batch is done, so other workers
// are to have it.
func (w *Worker) withdraw() {
	if !w.out.parked {
		return
	}
	w.out.parked = false
	for _, out := range w.out.outs {
		if len(out.items) > 0 {
			out.to.Senders().Withdraw(&w.Member)
		}
	}
}

// empty hands over as many commands of an outbox as its target takes.
func (w *Worker) empty(out *outbox, park bool) {
	if len(out.items) > 0 {
		w.out.shift(out, w.handOver(out, out.items, park))
	}
}

// handOver hands commands to the outbox's target and returns how many it took.
func (w *Worker) handOver(out *outbox, es []command.Envelope, park bool) int {
	force := out.edge.Back || w.pool != nil && out.to.Config().Waits() // a shared worker never waits for a slot
	n := out.to.Senders().HandOver(&w.Member, es, w.now(), force, park)
	out.edge.Moved.Add(uint64(n))
	return n
}

// load returns the envelope of a further command of the present one, for the
// caller to fill. In an ordered stage it is a result of the present command, in
// any other stage it is in an outbox.
func (w *Worker) load(out *outbox, ticket *command.Ticket) *command.Envelope {
	if w.order.numbers != nil {
		return w.order.numbers.Add(w.progress.cur, out.to.Inlet())
	}
	return w.out.load(out, ticket)
}

// bookMidBatch books in the middle of a batch.
func (w *Worker) bookMidBatch() {
	if w.out.pending() {
		w.emitting.Lock()
		defer w.emitting.Unlock()
		defer func() { w.out.pledge(w.Member.Batch) }()
	}
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, nil) {
		panic(unwind{})
	}
}

// pledge prepares a worker that could not deliver all commands for its next
// batch. Those commands are booked, so the worker must leave copies in case it
// is abandoned in the batch.
func (w *Worker) pledge() {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.out.pledge(w.Member.Batch)
}

// takeResults moves the results that may leave to the outboxes, and reports
// whether there are any.
func (w *Worker) takeResults() bool {
	w.order.leaving = w.stage.Inbox.Results().Take(&w.Member, &w.progress.tally, w.order.leaving[:0])
	w.out.mustBook = false
	for i := range w.order.leaving {
		r := &w.order.leaving[i]
		out, err := w.out.outboxFor(w.stage.Inbox, r.To)
		if err != nil { // the stage was removed meanwhile: its inbox ends the command
			out = &outbox{to: r.To.Inbox().(*inbox.Inbox), edge: inbox.Edge{Moved: new(atomic.Uint64)}}
			w.out.outs = append(w.out.outs, out)
		}
		*w.out.load(out, nil) = r.Envelope
	}
	clear(w.order.leaving)
	return w.out.loaded > 0
}
