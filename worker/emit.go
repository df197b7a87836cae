package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

// mostHeld is how many emitted commands are held until the handler has
// returned. With one more they begin to leave.
const mostHeld = 256

// emitter is the worker as a handler sees it.
type emitter Worker

// Inbox returns the inbox of the handler's stage.
func (m *emitter) Inbox() *inbox.Inbox { return m.stage.Inbox }

// AsMember returns the worker as its inbox sees it.
func (m *emitter) AsMember() *inbox.Member { return &m.Member }

// Shared reports whether the worker is one of a shared pool.
func (m *emitter) Shared() bool { return m.pool != nil }

// Quality returns the quality that the stage's handlers are asked for.
func (m *emitter) Quality() float64 { return m.stage.Inbox.Settings().Quality() }

// Attempt returns the number of the present try, or 0 if there is none.
func (m *emitter) Attempt() int {
	m.emitting.Lock() // so that the worker is not given up meanwhile
	defer m.emitting.Unlock()
	if m.Member.Since.Load() <= 0 || m.slot.fate.Load() == abandoned {
		return 0
	}
	return (*Worker)(m).presentTry()
}

// Defer has the worker call s.Settled when the present try has ended.
func (m *emitter) Defer(s link.Settler, use any) bool {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.Member.Since.Load() <= 0 || m.slot.fate.Load() == abandoned || !s.Deferred(use) {
		return false
	}
	m.emits.deferred = append(m.emits.deferred, settling{s, use})
	return true
}

// Derive gives the present command other values for its further tries, and for
// the commands that result from it. The handler of a batch has no present
// command.
func (m *emitter) Derive(derive func(values context.Context) context.Context) bool {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.Member.Since.Load() <= 0 || m.slot.fate.Load() == abandoned || m.gear.executor.refusesEmit() != nil {
		return false
	}
	e := &m.Member.Batch[m.progress.cur]
	e.From = e.From.Derived(derive)
	return true
}

// settleDeferred makes the calls that Defer was asked for: the present try has
// ended, with an outcome that has the error, or with a crash.
func (w *Worker) settleDeferred(ended bool, err error) {
	if !w.stage.Defers {
		return
	}
	w.emitting.Lock()
	w.emits.deferred, w.settling = w.settling, w.emits.deferred
	w.emitting.Unlock()
	for _, d := range w.settling {
		d.Settled(d.use, ended, err)
	}
	clear(w.settling)
	w.settling = w.settling[:0]
}

// Emit holds a command until its handler returns. If the handler has emitted
// many, Emit sends all of them on at once, and waits for free slots.
func (m *emitter) Emit(ctx context.Context, to *behaviour.Inlet, load any) error {
	return reported(m.emit(ctx, to, load), to, load)
}

func (m *emitter) emit(ctx context.Context, to *behaviour.Inlet, load any) error {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	return m.emitLocked(ctx, to, load, func(present *command.Origin) *command.Origin { return present })
}

// Origin returns the origin of the present command; nil if it has none, or if
// there is no command. The context of a handler shows it only if it has a
// caller's values.
func (m *emitter) Origin() *command.Origin {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	if m.Member.Since.Load() <= 0 || m.slot.fate.Load() == abandoned || m.gear.executor.refusesEmit() != nil {
		return nil
	}
	return m.Member.Batch[m.progress.cur].From
}

// EmitApart is Emit for a command that does not end with its caller, and whose
// end is learned: see [command.Origin.Apart]. It returns the command's origin.
func (m *emitter) EmitApart(ctx context.Context, to *behaviour.Inlet, load any, ended func(error)) (from *command.Origin, err error) {
	m.emitting.Lock()
	defer m.emitting.Unlock()
	err = m.emitLocked(ctx, to, load, func(present *command.Origin) *command.Origin {
		from = present.Apart(ended)
		return from
	})
	return from, err
}

// emitLocked emits a command with the origin that is made of the present
// command's.
func (m *emitter) emitLocked(ctx context.Context, to *behaviour.Inlet, load any, origin func(present *command.Origin) *command.Origin) error {
	w := (*Worker)(m)
	if w.Member.Since.Load() <= 0 || w.slot.fate.Load() == abandoned {
		return behaviour.ErrNoWorker // the handler that this context was for has returned
	}
	if err := w.gear.executor.refusesEmit(); err != nil {
		return plain.Wrap(fmt.Sprintf("stage %q", w.stage.Inbox.Name()), err)
	}
	out, err := w.out.outboxFor(w.stage.Inbox, to)
	if err != nil {
		return err
	}
	if out.isFull(w.stage.Inbox) {
		return out.to.LoopFull()
	}
	w.emits.hold(emission{out, load, origin(w.Member.Batch[w.progress.cur].From)})
	if len(w.emits.held) <= mostHeld || w.order.numbers != nil { // its emitted commands may leave later than its handler returns
		return nil
	}
	if w.watchdog != nil {
		var release func()
		ctx, release = w.watchdog.wait.start(ctx)
		defer release()
	}
	if err := w.sendNowLocked(ctx, out); err != nil {
		w.emits.unhold()
		return err
	}
	return nil
}

// reported returns the result of Emit. A command that exceeds the pipeline's
// allowance becomes a letter. The subscribers of letters are user code, so the
// caller does not hold emitting.
func reported(err error, to *behaviour.Inlet, load any) error {
	if errors.Is(err, inbox.ErrMaxInFlight) {
		to.Inbox().(*inbox.Inbox).RefuseNew(load, err)
	}
	return err
}

// send loads the emitted commands of a successful try, and behind them the
// command itself as it is forwarded, if out is not nil. If a ticket waits for
// them they are booked together with the end of the try, so that a worker that
// is abandoned has sent all of them or none.
func (w *Worker) send(e *command.Envelope, out *outbox, load any) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.out.spill(w.Member.Batch)
	ticket := e.Ticket()
	for _, m := range w.emits.held {
		*w.load(m.to, ticket) = command.Emitted(m.load, m.from, w.stage.Inbox.Place)
	}
	w.progress.tally.Emitted += len(w.emits.held)
	w.out.mustBook = true
	w.emits.clear()
	if out == nil {
		w.progress.tally.OK++
	} else {
		w.progress.tally.Forwarded++
		w.load(out, ticket).Continue(load, e)
	}
	if ticket != nil { // it waits for them, whatever becomes of this worker
		if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, nil) {
			panic(unwind{})
		}
		w.out.pledge(w.Member.Batch)
	}
}

// holdRest holds a command that goes on when the present command has been
// answered. If only callers wait for the ticket, they wait for none of the
// commands that are held.
func (w *Worker) holdRest(m emission, t *command.Ticket) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.emits.hold(m)
	if t.IsCallers() {
		w.emits.release(t, w.stage.Inbox.Pipeline())
	}
}

// recall discards what a try that did not succeed has emitted. It returns false
// if the worker was abandoned: then the emitted commands are discarded already.
func (w *Worker) recall() bool {
	if len(w.emits.held) == 0 {
		return true
	}
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if w.slot.fate.Load() == abandoned {
		return false
	}
	w.emits.recall()
	return true
}

// sendNowLocked sends the commands that are held, the last one of which is for
// an outbox.
func (w *Worker) sendNowLocked(ctx context.Context, out *outbox) error {
	if err := w.sendGatheredLocked(ctx, out); err != nil {
		return err
	}
	return w.emits.send(ctx, w.sendOne)
}

// sendGatheredLocked waits until what earlier commands of the batch forwarded
// to the same stage has left: a command that is emitted now must not overtake
// it.
func (w *Worker) sendGatheredLocked(ctx context.Context, out *outbox) error {
	w.out.mustBook = true // in the middle of a batch: commands that have left must be booked
	w.deliver(false)
	defer func() { w.out.pledge(w.Member.Batch) }()
	w.out.redeem()
	for len(out.items) > 0 {
		if err := out.hand(ctx, out.items[0], nil, w.pool != nil); err != nil {
			return err
		}
		w.out.shift(out, 1)
	}
	return nil
}

// sendOne sends one emitted command and waits until it is queued. The inbox
// that queues it counts it as emitted, so it can neither end before it is
// counted nor be counted and not queued.
func (w *Worker) sendOne(ctx context.Context, m emission) error {
	return m.to.hand(ctx, command.Emitted(m.load, m.from, w.stage.Inbox.Place), w.stage.Inbox, w.pool != nil)
}
