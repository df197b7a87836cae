package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
)

// ErrForeign is the reason why a command failed that was forwarded to a stage
// which is not part of the same running pipeline. A handler may Submit to such
// a stage.
var ErrForeign = errors.New("stage: forwarded to a stage of another pipeline, or of none; " +
	"a channel leads to another pipeline, see source.Chan")

// outbox gathers the commands for one inbox.
type outbox struct {
	to    *inbox.Inbox
	items []command.Envelope
	shown int32  // how many items are pledged
	edges uint32 // the version of the pipeline's edges at which loop was computed
	asked uint32 // the version at which back was
	back  bool   // the edge to the inbox is a back edge
	loop  bool   // the edge to the inbox is part of a loop
}

// isFull takes a command that the stage of an inbox emits off the pipeline's
// allowance if the edge is part of a loop. It returns true if nothing is left
// of the allowance. A forwarded command needs none, since it is in flight
// already.
func (out *outbox) isFull(from *inbox.Inbox) bool {
	pl := out.to.Pipeline()
	if now := pl.EdgesVersion(); now != out.edges {
		out.loop, out.edges = pl.InLoop(from, out.to), now
	}
	return out.loop && !pl.Allow()
}

// check asks again how the edge from a stage leads, if edges have come or gone
// since. Only then does the graph know that the edge is taken, since it forgets
// edges that are not. If it does not know the inbox, the inbox was removed, and
// ends the commands that come.
func (out *outbox) check(from *inbox.Inbox) {
	pl := from.Pipeline()
	now := pl.EdgesVersion()
	if now == out.asked {
		return
	}
	out.asked = now
	if back, ok := pl.Reach(from, out.to); ok {
		out.back = back
	}
}

// tour has the outboxes of a worker that moves from stage to stage, by the
// place of the stage they belong to.
type tour [][]*outbox

// from returns the outboxes of the stage at a place, or nil if the worker has
// not been there.
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

// newOutbox returns a new outbox for an inlet.
func (s *Stage) newOutbox(to *behaviour.Inlet) (*outbox, error) {
	next, ok := to.Inbox().(*inbox.Inbox)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	now := s.Inbox.Pipeline().EdgesVersion()
	back, ok := s.Inbox.Pipeline().Reach(s.Inbox, next)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	return &outbox{to: next, back: back, asked: now}, nil
}

// settling is a call of a [link.Settler] to be made.
type settling struct {
	link.Settler

	use any
}

// emission is a command that leaves when its handler has returned.
type emission struct {
	to   *outbox
	load any
	from *command.Origin
}

// pledge is a copy of a command that was booked as forwarded or emitted and has
// not left. During a batch only the worker touches its outboxes, so a goroutine
// that abandons the worker could not deliver their commands; it delivers the
// pledges instead. Pledges are rare, because most often all of a batch is
// booked when it has left.
type pledge struct {
	to *inbox.Inbox
	e  command.Envelope
}

// lane is the path to one stage for the first command of a batch that is
// forwarded, and for those after it that go to the same stage: most often all
// of them. They are not gathered in an outbox. They stay in the batch and move
// to its front, over commands that were handled and went nowhere. So a command
// is copied three times for a hop: from the queue to the batch; to the copies
// of the inbox, which may have to end the batch in a hard stop, since the batch
// is overwritten here; and from the batch to the next queue.
type lane struct {
	inlet *behaviour.Inlet
	out   *outbox
	n     int32 // how many commands at the front of the batch are on the lane
	shown int32 // how many of these are pledged
}

// noLane leads to an inlet that no handler forwards to.
var noLane = lane{inlet: new(behaviour.Inlet)}

// outboxFor returns the outbox for an inlet. It makes one the first time. A
// stage forwards to few others, so a search is faster than a map.
func (w *Worker) outboxFor(to *behaviour.Inlet) (*outbox, error) {
	for _, out := range w.out.outs {
		if to.Inbox() == any(out.to) {
			out.check(w.stage.Inbox)
			return out, nil
		}
	}
	out, err := w.stage.newOutbox(to)
	if err == nil {
		w.out.outs = append(w.out.outs, out)
	}
	return out, err
}

// load appends an envelope to an outbox and returns it for the caller to fill.
// If a ticket waits for the command it is given, otherwise it is nil. In an
// ordered stage the envelope is a result of the present command instead.
func (w *Worker) load(out *outbox, ticket *command.Ticket) *command.Envelope {
	if w.out.numbers != nil {
		return w.out.numbers.Add(w.progress.cur, out.to.Inlet())
	}
	n := len(out.items)
	if n == cap(out.items) {
		out.items = slices.Grow(out.items, max(n, 8))
	}
	out.items = out.items[:n+1]
	w.out.loaded++
	if ticket != nil {
		w.out.mustBook = true
	}
	return &out.items[n]
}

// handOver hands commands to the outbox's target and returns how many it took.
func (w *Worker) handOver(out *outbox, es []command.Envelope, park bool) int {
	force := out.back || w.pool != nil && out.to.Waits() // a shared worker never waits for a slot
	return out.to.HandOver(&w.Member, es, w.now(), force, park)
}

// shift removes the first n commands, which have left, from an outbox.
func (w *Worker) shift(out *outbox, n int) {
	w.out.loaded -= int32(n)
	rest := copy(out.items, out.items[n:])
	clear(out.items[rest:])
	out.items = out.items[:rest]
}
