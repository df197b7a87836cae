package worker

import "slices"

// deliver hands over the commands on the lane and in the outboxes, and reports
// whether the worker may go on. Commands that a full inbox does not take stay.
// With park the worker then waits in line at the full inboxes, unless it may go
// on.
//
// If a ticket waits for one of the commands, the worker books its batch first,
// so that the accounts never lag behind an answer. So it does if some commands
// were emitted: otherwise they could end before they were accepted.
func (w *Worker) deliver(park bool) bool {
	if w.out.numbers != nil {
		return w.deliverInOrder(park)
	}
	return w.deliverOutboxes(park)
}

// deliverOutboxes is deliver for the commands on the lane and in the outboxes.
func (w *Worker) deliverOutboxes(park bool) bool {
	if !w.hasUndelivered() {
		return true
	}
	if w.out.mustBook {
		w.stage.Inbox.Book(&w.Member, &w.progress.tally)
		w.out.mustBook = false
	}
	w.deliverLane()
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
	for w.hasUndelivered() || w.takeResults() {
		if !w.deliverOutboxes(park) {
			return false
		}
		if w.hasUndelivered() {
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
		if len(out.items) > 0 && !out.to.InLine(&w.Member) {
			w.Member.MarkReady()
		}
	}
	w.passMark()
	return w.out.loaded == 0
}

// passMark tells the inbox if it has been marked and what the worker carries is
// for none of the stages that the mark is about.
func (w *Worker) passMark() {
	mark := w.stage.Inbox.Present()
	if mark == nil || w.out.loaded == 0 || slices.ContainsFunc(w.out.outs, func(out *outbox) bool {
		return len(out.items) > 0 && slices.Contains(mark.To, out.to)
	}) {
		return
	}
	w.stage.Inbox.Pass(&w.Member, mark)
}

// restLoaded parks a worker that has nothing to do, as its own stage knows
// already, at the stages that do not take what the worker has for them. Any of
// them may wake it.
func (w *Worker) restLoaded() {
	gone := w.parkLoaded()
	if !w.stage.Inbox.Carry(&w.Member, int(w.out.loaded)) || gone && w.out.numbers != nil { // more may leave an ordered stage now
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
			out.to.Withdraw(&w.Member)
		}
	}
}

// empty hands over as many commands of an outbox as its target takes.
func (w *Worker) empty(out *outbox, park bool) {
	if len(out.items) > 0 {
		w.shift(out, w.handOver(out, out.items, park))
	}
}
