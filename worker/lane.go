package worker

import (
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// lane is the path to one stage for the first command of a batch that is forwarded, and for those after it that go to the
// same stage: most often all of them. They are not gathered in an outbox. They stay in the batch and move to its front, over
// commands that were handled and went nowhere. So a command is copied three times for a hop: from the queue to the batch; to
// the copies of the inbox, which may have to end the batch in a hard stop, since the batch is overwritten here; and from the
// batch to the next queue.
type lane struct {
	inlet *behaviour.Inlet
	out   *outbox
	n     int32 // how many commands at the front of the batch are on the lane
	shown int32 // how many of these are pledged
}

// noLane leads to an inlet that no handler forwards to.
var noLane = lane{inlet: new(behaviour.Inlet)}

// pass puts a command on the lane.
func (w *Worker) pass(e *command.Envelope, cmd any) {
	slot := &w.Batch[w.lane.n]
	slot.Carry(cmd, e)
	if slot.From != nil { // to check whether it has a ticket would cost more
		w.mustBook = true
	}
	w.lane.n++
	w.tally.Forwarded++
}

// deliverLane hands over the lane's commands, and moves those that the target does not take to its outbox.
func (w *Worker) deliverLane() {
	run, out := w.Batch[:w.lane.n], w.lane.out
	if len(run) == 0 {
		return
	}
	gone := w.handOver(out, run, false)
	w.endLane(run[gone:])
	clear(run)
}

// spill moves the lane's commands to its outbox, so that other commands can be put behind them.
func (w *Worker) spill() {
	run := w.Batch[:w.lane.n]
	w.endLane(run)
	clear(run)
}

// endLane ends the lane and moves to its outbox what is left.
func (w *Worker) endLane(left []command.Envelope) {
	if len(left) > 0 {
		w.lane.out.items = append(w.lane.out.items, left...)
		w.lane.out.shown = w.lane.shown
		w.loaded += int32(len(left))
	}
	w.lane = noLane
}
