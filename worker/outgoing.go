package worker

import (
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// outgoing is the commands that have not left the worker: they are on the lane
// or in the outbox for their target, in order. While there are commands on the
// lane, the outboxes of the present batch get none; see spill.
//
// Loaded is the number of commands in outs. The pledges are copies of those on
// the lane and in outs which are booked; each has one at most.
type outgoing struct {
	lane     lane
	outs     []*outbox // of the present stage
	tour     tour      // the outboxes of other stages
	loaded   int32
	parked   bool     // the worker may wait in line at stages that were full
	mustBook bool     // a ticket waits for some of the commands, or they were emitted: book before handing over
	pledged  []pledge // guarded by Worker.emitting
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

// pledge is a copy of a command that was booked as forwarded or emitted and has
// not left. During a batch only the worker touches its outboxes, so a goroutine
// that abandons the worker could not deliver their commands; it delivers the
// pledges instead. Pledges are rare, because most often all of a batch is
// booked when it has left.
type pledge struct {
	to *inbox.Inbox
	e  command.Envelope
}

// tour has the outboxes of a worker that moves from stage to stage, by the
// place of the stage they belong to.
type tour [][]*outbox

// pending reports whether there is anything to deliver.
func (o *outgoing) pending() bool { return o.loaded > 0 || o.lane.n > 0 }

// outboxFor returns the outbox for an inlet of the present stage. It makes one
// the first time. A stage forwards to few others, so a search is faster than a
// map.
func (o *outgoing) outboxFor(from *inbox.Inbox, to *behaviour.Inlet) (*outbox, error) {
	for _, out := range o.outs {
		if to.Inbox() == any(out.to) {
			out.check(from)
			return out, nil
		}
	}
	out, err := newOutbox(from, to)
	if err == nil {
		o.outs = append(o.outs, out)
	}
	return out, err
}

// load appends an envelope to an outbox and returns it for the caller to fill.
// If a ticket waits for the command it is given, otherwise it is nil.
func (o *outgoing) load(out *outbox, ticket *command.Ticket) *command.Envelope {
	n := len(out.items)
	if n == cap(out.items) {
		out.items = slices.Grow(out.items, max(n, 8))
	}
	out.items = out.items[:n+1]
	o.loaded++
	if ticket != nil {
		o.mustBook = true
	}
	return &out.items[n]
}

// shift removes the first n commands, which have left, from an outbox.
func (o *outgoing) shift(out *outbox, n int) {
	o.loaded -= int32(n)
	rest := copy(out.items, out.items[n:])
	clear(out.items[rest:])
	out.items = out.items[:rest]
}

// startLane starts the lane to an inlet. There must be nothing to deliver.
func (o *outgoing) startLane(to *behaviour.Inlet, out *outbox) { o.lane = lane{inlet: to, out: out} }

// pass puts a command of the batch on the lane.
func (o *outgoing) pass(batch []command.Envelope, e *command.Envelope, load any) {
	slot := &batch[o.lane.n]
	slot.Continue(load, e)
	if slot.From != nil { // a ticket may wait for the command; to look for one would cost more than to book
		o.mustBook = true
	}
	o.lane.n++
}

// spill moves the lane's commands to its outbox, so that other commands can be
// put behind them.
func (o *outgoing) spill(batch []command.Envelope) { o.endLane(batch, 0) }

// endLane ends the lane and moves its commands to its outbox, but the first
// ones, which have left.
func (o *outgoing) endLane(batch []command.Envelope, gone int) {
	run := batch[:o.lane.n]
	if left := run[gone:]; len(left) > 0 {
		o.lane.out.items = append(o.lane.out.items, left...)
		o.lane.out.shown = o.lane.shown
		o.loaded += int32(len(left))
	}
	clear(run)
	o.lane = noLane
}

// pledge copies the commands that are booked, have not left, and were not
// copied yet. Without the copies, the commands that a worker had forwarded
// before it was abandoned would never end, nor would the calls that wait for
// them. The caller holds Worker.emitting.
func (o *outgoing) pledge(batch []command.Envelope) {
	for l := &o.lane; l.shown < l.n; l.shown++ {
		o.pledged = append(o.pledged, pledge{l.out.to, batch[l.shown]})
	}
	for _, out := range o.outs {
		for ; int(out.shown) < len(out.items); out.shown++ {
			o.pledged = append(o.pledged, pledge{out.to, out.items[out.shown]})
		}
	}
}

// redeem discards the pledges: the commands have left, or the worker is about
// to deliver them.
func (o *outgoing) redeem() {
	if len(o.pledged) == 0 {
		return
	}
	clear(o.pledged)
	o.pledged = o.pledged[:0]
	o.lane.shown = 0
	for _, out := range o.outs {
		out.shown = 0
	}
}

// leadsTo reports whether a command in an outbox is for one of the inboxes.
func (o *outgoing) leadsTo(targets []*inbox.Inbox) bool {
	return slices.ContainsFunc(o.outs, func(out *outbox) bool { return len(out.items) > 0 && slices.Contains(targets, out.to) })
}

// store keeps the outboxes of the present stage, which is at a place, for the
// worker's next visit.
func (o *outgoing) store(place int) {
	for len(o.tour) <= place {
		o.tour = append(o.tour, nil)
	}
	o.tour[place], o.outs = o.outs, nil
}

// fetch makes the outboxes of the stage at a place those of the present stage.
func (o *outgoing) fetch(place int) {
	if o.outs = nil; place < len(o.tour) {
		o.outs = o.tour[place]
	}
}

// inherit takes over what another worker had still to deliver.
func (o *outgoing) inherit(from *outgoing) {
	o.tour, o.outs, o.loaded, o.mustBook = from.tour, from.outs, from.loaded, from.mustBook
	from.tour, from.outs, from.loaded = nil, nil, 0
}

// drop forgets all commands. Others have ended them.
func (o *outgoing) drop() {
	o.lane = noLane
	o.tour, o.outs, o.loaded, o.mustBook = nil, nil, 0, false
}
