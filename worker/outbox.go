package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// ErrForeign is the reason of a command forwarded to a stage that is not part
// of the same running pipeline. A handler may Submit to such a stage.
var ErrForeign = errors.New("stage: forwarded to a stage of another pipeline, or of none")

// held is how many commands a handler may emit before they begin to leave.
const slotsHeld = 256

// outbox gathers what goes to one inbox.
type outbox struct {
	room  *inbox.Inbox
	items []command.Envelope
	shown int32 // so many of them are pledged
	paid  int32 // of the items on a back edge, those that are off the host's allowance
	back  bool  // the way there closes a loop
}

// crowded takes a command off the host's allowance if the way closes a loop. It reports true if
// nothing is left of that.
func (out *outbox) crowded() bool { return out.back && out.room.Pipeline().Allow(1) == 0 }

// noted is the result of Emit. A command that the pipeline had no place for leaves a letter; its
// subscribers are a user's code, so the handler's lock is not held.
func noted(err error, to *behaviour.Inlet, cmd any) error {
	if errors.Is(err, inbox.ErrMaxInFlight) {
		to.Inbox().(*inbox.Inbox).RefuseNew(cmd, err)
	}
	return err
}

// tour has the outlets of a worker that goes from stage to stage, by the place of the stage they lead from.
type tour [][]*outbox

// from are those that lead from a place; the worker may never have been there, or anywhere.
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

// emission is a command that leaves when its handler has returned.
type emission struct {
	to   *outbox
	cmd  any
	from *command.Origin
}

// outboxFor returns the outlet that leads to an inlet, making it if this is the
// first time. A stage has few ways out, so a walk beats a map.
func (w *Worker) outboxFor(to *behaviour.Inlet) (*outbox, error) {
	for _, out := range w.outs {
		if to.Inbox() == any(out.room) {
			return out, nil
		}
	}
	out, err := w.stage.wayTo(to)
	if err == nil {
		w.outs = append(w.outs, out)
	}
	return out, err
}

// wayTo returns a new outlet that leads to an inlet.
func (s *Stage) wayTo(to *behaviour.Inlet) (*outbox, error) {
	next, ok := to.Inbox().(*inbox.Inbox)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	back, ok := s.Inbox.Pipeline().Reach(s.Inbox, next)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	return &outbox{room: next, back: back}, nil
}

// forward puts a command on its way; it leaves at the end of the batch. Most
// commands take the lane instead.
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

// load adds a place to an outlet and returns it, to be filled with a command that a ticket waits
// for, if it is not nil.
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

// carries reports whether there is anything to hand over.
func (w *Worker) carries() bool { return w.loaded > 0 || w.lane.n > 0 }

// deliver hands over what was gathered. An inbox that is full keeps the rest
// waiting: with park, the worker is parked there and deliver reports false.
//
// If somebody waits for one of the commands, what this worker did is booked
// first, so that no row of the accounts lags behind an answer. If some were
// emitted it must be: else they could end before they were accepted.
func (w *Worker) deliver(park bool) bool {
	if !w.carries() {
		return true
	}
	if w.mustBook {
		w.stage.Inbox.Book(&w.Member, &w.tally)
		w.mustBook = false
	}
	w.leave()
	if w.loaded == 0 {
		return true
	}
	for _, out := range w.outs {
		w.handOver(out, false)
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
		w.stage.Inbox.Carry(&w.Member, w.loaded)
	}
	return w.parkLoaded()
}

// goesOn reports whether the worker takes further commands though a stage that it forwards to is full:
// if there is another one to which they may lead, up to as many commands as its own stage has slots. One
// that takes its commands one by one does not: a handler may wait for what an earlier one forwarded.
//
// If the stage's handlers suspend it goes on in any case: those that have been woken need a worker, and what they
// do may be what the full stage waits for. With as many commands as its stage has slots it begins no others.
func (w *Worker) goesOn() bool {
	own := w.stage.Inbox
	if w.stage.Runs != nil {
		return w.pool == nil
	}
	return w.pool == nil && own.Forks() && own.Config().Batch > 1 && w.loaded < own.Config().Capacity
}

// parkLoaded parks the worker at each stage that does not take what it has for it. It reports
// true if all has gone after all.
func (w *Worker) parkLoaded() bool {
	for _, out := range w.outs {
		w.handOver(out, true)
	}
	w.parked = w.loaded > 0
	for _, out := range w.outs { // one may have woken the worker before it was parked at another
		if len(out.items) > 0 && !out.room.InLine(&w.Member) {
			w.Member.MarkReady()
		}
	}
	return w.loaded == 0
}

// restLoaded parks a worker that has nothing to do, which its own stage knows already, at the stages that
// do not take what it has for them. Any of them may wake it.
func (w *Worker) restLoaded() {
	gone := w.parkLoaded()
	if !w.stage.Inbox.Carry(&w.Member, w.loaded) {
		w.Member.MarkReady()
	}
	w.parked = !gone
}

// withdraw gives up the worker's places in the lines of full stages. What is promised to it there could
// not be used before its next batch is done, so others are to have it.
func (w *Worker) withdraw() {
	if !w.parked {
		return
	}
	w.parked = false
	for _, out := range w.outs {
		if len(out.items) > 0 {
			out.room.Withdraw(&w.Member)
		}
	}
}

// handOver leaves as many commands as the target takes.
func (w *Worker) handOver(out *outbox, park bool) {
	if len(out.items) > 0 {
		w.shift(out, w.hand(out, out.items, park))
	}
}

// hand hands commands to the outlet's room and returns how many have gone.
func (w *Worker) hand(out *outbox, es []command.Envelope, park bool) int {
	if out.back {
		return w.handBack(out, es, park)
	}
	shared := w.pool != nil && out.room.Waits() // a shared worker waits for no seat
	return out.room.HandOver(&w.Member, es, w.now(), shared, park)
}

// handBack hands commands over along a way that closes a loop. The inbox takes them however full
// it is; those for which the pipeline has no place are shed.
func (w *Worker) handBack(out *outbox, es []command.Envelope, park bool) int {
	n := min(int(out.paid), len(es))
	n += w.pipeline.Allow(len(es) - n)
	gone := 0
	if n > 0 {
		gone = out.room.HandOver(&w.Member, es[:n], w.now(), true, park)
	}
	out.paid = int32(n - gone)
	if gone == n && n < len(es) {
		out.room.ShedBackEdge(es[n:])
		gone = len(es)
	}
	return gone
}

// shift takes the first n commands, which have gone, out of an outlet.
func (w *Worker) shift(out *outbox, n int) {
	w.loaded -= n
	rest := copy(out.items, out.items[n:])
	clear(out.items[rest:])
	out.items = out.items[:rest]
}

// send puts the emitted commands of a successful try on their way, and behind them what its command is forwarded as, if
// out is not nil. If a ticket waits for them they are booked together with the end of the try, so that a worker that is
// abandoned has sent all of them or none.
func (w *Worker) send(e *command.Envelope, out *outbox, cmd any) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.spill()
	ticket := e.Ticket()
	for _, m := range w.emits {
		*w.load(m.to, ticket) = command.Emitted(m.cmd, e.From, w.stage.Inbox.Place)
		if m.to.back {
			m.to.paid++
		}
	}
	w.tally.Emitted += len(w.emits)
	w.mustBook = true
	clear(w.emits)
	w.emits = w.emits[:0]
	if out == nil {
		w.tally.OK++
	} else {
		w.tally.Forwarded++
		w.load(out, ticket).Carry(cmd, e)
	}
	if ticket != nil { // it waits for them, whatever becomes of this worker
		if !w.stage.Inbox.Book(&w.Member, &w.tally) {
			panic(abandoned{})
		}
		w.pledge()
	}
}

// recall takes back what a try that did not succeed has emitted. It reports false if the worker was abandoned:
// then that is done.
func (w *Worker) recall() bool {
	if len(w.emits) == 0 {
		return true
	}
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if w.halted {
		return false
	}
	if ticket := w.Batch[w.cur].Ticket(); ticket != nil {
		for range w.emits {
			ticket.Settle(true, nil, nil)
		}
	}
	clear(w.emits)
	w.emits = w.emits[:0]
	return true
}

// emitter is the worker as a handler sees it.
type emitter Worker

// Inbox is the inbox of the stage whose handler it is.
func (m *emitter) Inbox() *inbox.Inbox { return m.stage.Inbox }

// Shared reports whether the worker is one of a shared pool.
func (m *emitter) Shared() bool { return m.pool != nil }

// Quality is what the stage's handlers are asked for.
func (m *emitter) Quality() float64 { return m.stage.Inbox.Quality() }

// Attempt is the number of the present try, 0 if there is none.
func (m *emitter) Attempt() int {
	m.emitting.Lock() // so that the worker is not given up meanwhile
	defer m.emitting.Unlock()
	if m.Since.Load() <= 0 || m.halted {
		return 0
	}
	return m.Batch[m.cur].Tries() + 1
}

// Emit holds a command until its handler returns, or, beyond a number, sends it
// on at once and waits for room.
func (m *emitter) Emit(ctx context.Context, to *behaviour.Inlet, cmd any) error {
	return noted(m.emit(ctx, to, cmd), to, cmd)
}

func (m *emitter) emit(ctx context.Context, to *behaviour.Inlet, cmd any) error {
	w := (*Worker)(m)
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if w.Since.Load() <= 0 || w.halted {
		return behaviour.ErrNoWorker // the context was kept, and its time is over
	}
	if w.instance.Many() {
		return fmt.Errorf("stage %q: %w", w.stage.Inbox.Name(), ErrBatchEmit)
	}
	out, err := w.outboxFor(to)
	if err != nil {
		return err
	}
	if out.crowded() {
		return out.room.LoopFull()
	}
	from := w.Batch[w.cur].From
	from.Ticket().Join()
	if len(w.emits) < slotsHeld {
		w.emits = append(w.emits, emission{out, cmd, from})
		return nil
	}
	if w.guarded != nil {
		var release func()
		ctx, release = w.wait.begin(ctx)
		defer release()
	}
	if err := w.sendNow(ctx, emission{out, cmd, from}); err != nil {
		from.Ticket().Settle(true, nil, nil)
		return err
	}
	return nil
}

// sendNow sends what is held, and then one command more.
func (w *Worker) sendNow(ctx context.Context, more emission) error {
	if err := w.clear(ctx, more.to); err != nil {
		return err
	}
	for i, m := range w.emits {
		if err := w.sendOne(ctx, m); err != nil {
			w.emits = append(w.emits[:0], w.emits[i:]...)
			return err
		}
	}
	clear(w.emits)
	w.emits = w.emits[:0]
	return w.sendOne(ctx, more)
}

// clear waits until what earlier commands of the batch forwarded the same way has
// gone: what is emitted now must not overtake it.
func (w *Worker) clear(ctx context.Context, out *outbox) error {
	w.mustBook = true // this is in the middle of a batch: what has left is to be booked
	w.deliver(false)
	defer w.pledge()
	w.redeem()
	for len(out.items) > 0 {
		if err := out.room.Send(ctx, out.items[0], nil, out.back, w.pool != nil); err != nil {
			return err
		}
		w.shift(out, 1)
	}
	return nil
}

// sendOne sends one emitted command on and waits until it is queued. The inbox that queues it counts it, so it can
// neither end before it is counted nor be counted in vain.
func (w *Worker) sendOne(ctx context.Context, m emission) error {
	return m.to.room.Send(ctx, command.Emitted(m.cmd, m.from, w.stage.Inbox.Place), w.stage.Inbox, m.to.back, w.pool != nil)
}

// ErrBatchEmit tells that a batch handler tried to emit: the command that a
// ticket waits with is not known.
var ErrBatchEmit = errors.New("stage: a batch handler cannot emit; forward, or handle commands one at a time")
