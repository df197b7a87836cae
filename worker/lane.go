package worker

import (
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
)

// lane is the way that the first command of a batch takes which is forwarded, and with it
// most often all others. They need not be gathered in an outlet: they stay in the
// worker's hand, and move to the front there, over those that were handled and went
// nowhere. So a command is copied three times for a hop: from the queue to the hand, for the inbox that
// may have to end it in a hard stop, since what is in the hand is written over here, and from the hand to the next queue.
type lane struct {
	inlet *behaviour.Inlet
	out   *outbox
	n     int32 // the first n of the hand are on the lane
	shown int32 // so many of them are pledged
}

// noLane leads through a door that nobody forwards to.
var noLane = lane{inlet: new(behaviour.Inlet)}

// pass puts a command on the lane.
func (w *Worker) pass(e *command.Envelope, cmd any) {
	slot := &w.Batch[w.lane.n]
	slot.Carry(cmd, e)
	if slot.From != nil { // whether it has a ticket is not worth a look
		w.mustBook = true
	}
	w.lane.n++
	w.tally.Forwarded++
}

// leave hands the lane's commands over, and moves those to its outlet for which there is
// no room.
func (w *Worker) leave() {
	run, out := w.Batch[:w.lane.n], w.lane.out
	if len(run) == 0 {
		return
	}
	gone := w.hand(out, run, false)
	w.take(run[gone:])
	clear(run)
}

// spill moves the lane's commands to its outlet, so that others can be put behind them.
func (w *Worker) spill() {
	run := w.Batch[:w.lane.n]
	w.take(run)
	clear(run)
}

// take ends the lane and leaves to its outlet what is left.
func (w *Worker) take(left []command.Envelope) {
	if len(left) > 0 {
		w.lane.out.items = append(w.lane.out.items, left...)
		w.lane.out.shown = w.lane.shown
		w.loaded += len(left)
	}
	w.lane = noLane
}
