package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// ErrForeign is the reason why a command failed that was forwarded to a stage which is not part of the same running
// pipeline. A handler may Submit to such a stage.
var ErrForeign = errors.New("stage: forwarded to a stage of another pipeline, or of none")

// outbox gathers what goes to one inbox.
type outbox struct {
	to    *inbox.Inbox
	items []command.Envelope
	shown int32  // how many items are pledged
	edges uint32 // the version of the pipeline's edges at which loop was computed
	back  bool   // the edge to the inbox is a back edge
	loop  bool   // the edge to the inbox is part of a loop
}

// isFull takes a command that the stage of an inbox emits off the pipeline's allowance if the edge is part of a loop. It
// returns true if nothing is left of the allowance. A forwarded command needs none, since it is in flight already.
func (out *outbox) isFull(from *inbox.Inbox) bool {
	pl := out.to.Pipeline()
	if now := pl.EdgesVersion(); now != out.edges {
		out.loop, out.edges = pl.InLoop(from, out.to), now
	}
	return out.loop && !pl.Allow()
}

// tour has the outboxes of a worker that moves from stage to stage, by the place of the stage they belong to.
type tour [][]*outbox

// from returns the outboxes of the stage at a place, or nil if the worker has not been there.
func (t *tour) from(place int) []*outbox {
	if t == nil || place >= len(*t) {
		return nil
	}
	return (*t)[place]
}

func (t *tour) put(place int, outs []*outbox) {
	for len(*t) <= place {
		*t = append(*t, nil)
	}
	(*t)[place] = outs
}

// outboxFor returns the outbox for an inlet. It makes one the first time. A stage forwards to few others, so a search is
// faster than a map.
func (w *Worker) outboxFor(to *behaviour.Inlet) (*outbox, error) {
	for _, out := range w.outs {
		if to.Inbox() == any(out.to) {
			return out, nil
		}
	}
	out, err := w.stage.newOutbox(to)
	if err == nil {
		w.outs = append(w.outs, out)
	}
	return out, err
}

// newOutbox returns a new outbox for an inlet.
func (s *Stage) newOutbox(to *behaviour.Inlet) (*outbox, error) {
	next, ok := to.Inbox().(*inbox.Inbox)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	back, ok := s.Inbox.Pipeline().Reach(s.Inbox, next)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	return &outbox{to: next, back: back}, nil
}

// forward puts a command in the outbox of its target, or starts the lane with it. The command leaves at the end of the
// batch. Most commands take the lane without a call of forward.
func (w *Worker) forward(e *command.Envelope, to *behaviour.Inlet, cmd any) {
	out, err := w.outboxFor(to)
	switch {
	case err != nil:
		w.fail(e, err)
	case len(w.emits) > 0:
		w.send(e, out, cmd)
	case w.carries():
		w.load(out, e.Ticket()).Carry(cmd, e)
		w.tally.Forwarded++
	default:
		w.lane = lane{inlet: to, out: out}
		w.pass(e, cmd)
	}
}

// load appends an envelope to an outbox and returns it for the caller to fill. If a ticket waits for the command it is
// given, otherwise it is nil.
func (w *Worker) load(out *outbox, ticket *command.Ticket) *command.Envelope {
	n := len(out.items)
	if n == cap(out.items) {
		out.items = slices.Grow(out.items, max(n, 8))
	}
	out.items = out.items[:n+1]
	w.loaded++
	if ticket != nil {
		w.mustBook = true
	}
	return &out.items[n]
}

// carries reports whether there is anything to deliver.
func (w *Worker) carries() bool { return w.loaded > 0 || w.lane.n > 0 }

// deliver hands over what was gathered, and reports whether the worker may go on. What a full inbox does not take stays.
// With park the worker then waits in line at the full inboxes, unless it may go on.
//
// If a ticket waits for one of the commands, what the worker did is booked first, so that the accounts never lag behind an
// answer. If some commands were emitted it must be booked first; otherwise they could end before they were accepted.
func (w *Worker) deliver(park bool) bool {
	if !w.carries() {
		return true
	}
	if w.mustBook {
		w.stage.Inbox.Book(&w.Member, &w.tally)
		w.mustBook = false
	}
	w.deliverLane()
	if w.loaded == 0 {
		return true
	}
	for _, out := range w.outs {
		w.empty(out, false)
	}
	if w.loaded == 0 || !park {
		return w.loaded == 0
	}
	if w.goesOn() {
		return true
	}
	if w.pool == nil {
		w.stage.Inbox.Blocked(&w.Member, &w.tally, w.now())
	}
	if w.Member.Carried > 0 {
		w.stage.Inbox.Carry(&w.Member, int(w.loaded))
	}
	return w.parkLoaded()
}

// goesOn reports whether the worker takes further commands though a stage that it forwards to is full. It does if they may
// lead to another stage, until it carries as many commands as its own stage has slots. A worker that takes its commands one
// by one does not: a handler may wait for what an earlier one forwarded.
//
// If the stage's handlers suspend, the worker goes on in any case: those that have been woken need a worker, and what they do
// may be what the full stage waits for. When it carries as many commands as its stage has slots, it starts no others.
func (w *Worker) goesOn() bool {
	own := w.stage.Inbox
	if w.stage.Runs != nil {
		return w.pool == nil
	}
	return w.pool == nil && own.Forks() && own.Config().Batch > 1 && int(w.loaded) < own.Config().Capacity
}

// parkLoaded parks the worker at each stage that does not take what the worker has for it. It returns true if everything has
// left after all.
func (w *Worker) parkLoaded() bool {
	for _, out := range w.outs {
		w.empty(out, true)
	}
	w.parked = w.loaded > 0
	for _, out := range w.outs { // one stage may have woken the worker before it parked at another
		if len(out.items) > 0 && !out.to.InLine(&w.Member) {
			w.Member.MarkReady()
		}
	}
	return w.loaded == 0
}

// restLoaded parks a worker that has nothing to do, as its own stage knows already, at the stages that do not take what the
// worker has for them. Any of them may wake it.
func (w *Worker) restLoaded() {
	gone := w.parkLoaded()
	if !w.stage.Inbox.Carry(&w.Member, int(w.loaded)) {
		w.Member.MarkReady()
	}
	w.parked = !gone
}

// withdraw leaves the lines of full stages. The worker could not use a slot that is promised to it there before its next
// batch is done, so other workers are to have it.
func (w *Worker) withdraw() {
	if !w.parked {
		return
	}
	w.parked = false
	for _, out := range w.outs {
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

// handOver hands commands to the outbox's target and returns how many it took.
func (w *Worker) handOver(out *outbox, es []command.Envelope, park bool) int {
	force := out.back || w.pool != nil && out.to.Waits() // a shared worker never waits for a slot
	return out.to.HandOver(&w.Member, es, w.now(), force, park)
}

// shift removes the first n commands, which have left, from an outbox.
func (w *Worker) shift(out *outbox, n int) {
	w.loaded -= int32(n)
	rest := copy(out.items, out.items[n:])
	clear(out.items[rest:])
	out.items = out.items[:rest]
}
