package worker

import "github.com/golda-dev/golda/internal/command"

// pass puts a command on the lane.
func (w *Worker) pass(e *command.Envelope, load any) {
	slot := &w.Member.Batch[w.out.lane.n]
	slot.Continue(load, e)
	if slot.From != nil { // a ticket may wait for the command; to look for one would cost more than to book
		w.out.mustBook = true
	}
	w.out.lane.n++
	w.progress.tally.Forwarded++
}

// deliverLane hands over the lane's commands, and moves the commands that the
// target does not take to its outbox.
func (w *Worker) deliverLane() {
	run, out := w.Member.Batch[:w.out.lane.n], w.out.lane.out
	if len(run) == 0 {
		return
	}
	gone := w.handOver(out, run, false)
	w.endLane(run[gone:])
	clear(run)
}

// spill moves the lane's commands to its outbox, so that other commands can be
// put behind them.
func (w *Worker) spill() {
	run := w.Member.Batch[:w.out.lane.n]
	w.endLane(run)
	clear(run)
}

// endLane ends the lane and moves the remaining commands to its outbox.
func (w *Worker) endLane(left []command.Envelope) {
	if len(left) > 0 {
		w.out.lane.out.items = append(w.out.lane.out.items, left...)
		w.out.lane.out.shown = w.out.lane.shown
		w.out.loaded += int32(len(left))
	}
	w.out.lane = noLane
}
