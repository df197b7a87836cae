package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/yield"
)

// Context is a handler's context.
type Context = context.Context

// ErrTimeout is the cause with which a handler's context ends when the stage's
// time limit for a command has passed.
var ErrTimeout = errors.New("stage: command took longer than its time limit")

// turns is how many batches a worker handles before its mailbox has a look at
// other messages; a system message that waits is seen after each batch.
const turns = 64

// Stage is what the workers of one stage have in common.
type Stage struct {
	Inbox   *inbox.Inbox
	Timeout time.Duration
	Grace   time.Duration // how long past Timeout a handler may go on
	RetryIf func(error) bool
	// TTL is how long a command may wait in the queue, and ExpiresAt, if it is not nil, when it expires by itself.
	TTL       time.Duration
	ExpiresAt func(cmd any) time.Time
	Log       *slog.Logger
	// Crashed is told of every crash of a handler, and whether the command is
	// to be tried again.
	Crashed func(crash *CrashError, again bool)
	// Context ends when the pipeline stops hard; see [Labelled].
	Context context.Context
	// Endures is how many crashes beyond one for each worker the stage endures, and
	// Pause how long it is left alone after so many.
	Endures int32
	Pause   func(beyond int) time.Duration
	// Runs has the coroutines of handlers that may suspend; nil if the stage has no such.
	Runs *coro.Host

	// Apart decides when a command goes on that was woken from beside the actors; nil: at once.
	// It is given the stage's name and the command's number.
	Apart func(stage string, number uint64, goOn func())

	begun   atomic.Uint64 // commands that have a number
	present atomic.Pointer[Version]
	moving  atomic.Int32 // above 0 while there may be instances that are not of the present version

	crashSite atomic.Pointer[site] // where a handler crashed last; nil if none has
}

// Worker is one worker's slot. It outlives the actors that fill it, one after
// another; only the present one touches it, and its room.
//
// A worker of a stage's own is always at that stage. One of a shared pool goes from stage to
// stage, and at each is what one of the stage's own would be.
type Worker struct {
	inbox.Member
	*guarded // nil: never yet
	*called  // nil: no command has had its caller's context yet

	pipeline *inbox.Pipeline
	pool     *inbox.SharedPool // nil: it is a stage's own
	stage    *Stage            // where it is; for one of a shared pool nil at first
	base     Context           // handlers' contexts end with it
	box      atomic.Pointer[actor.Mailbox]
	seen     atomic.Pointer[Stage] // stage, for those who ask
	claimed  atomic.Bool           // the slot is taken, or about to be
	lost     atomic.Bool           // it was given up, its handler being stuck
	ended    bool                  // the command that it ran has ended, whose handler may suspend
	left     bool                  // the actor left because it was asked to
	again    bool                  // the actor takes the place of one that crashed
	parked   bool                  // it may stand in line at stages that were full
	mustBook bool                  // some of the commands in outs are waited for, or emitted: book before handing over

	halted bool // it was given up in a hard stop; guarded by emitting

	running atomic.Pointer[Run] // what it runs, if it is a command whose handler may suspend
	blame   *Run                // the one that crashed, while that is settled

	self     actor.Context
	instance Instance
	both     *Both    // the instance, if it is two, while it handles a batch
	kept     Instance // what did not crash of one that was two
	failure  error    // why the actor failed, nil if it did not

	n, cur int32 // the batch's size, 0 between batches, and the place of the command in hand
	mark   int64 // the last reading of the clock, 0 if it is stale
	tally  inbox.Tally
	emits  []emission

	emitting sync.Mutex // guards emits, while a handler runs that has others emit for it; and all below
	pledged  []pledge   // what was booked as gone on, in the middle of a batch, and is still here

	tour   *tour     // nil: it never left a stage
	outs   []*outbox // those of the present stage
	lane   lane
	loaded int // commands in outs
}

// New returns an empty slot for a worker of the stage's own.
func New(stage *Stage) *Worker {
	w := newWorker(stage.Inbox.Pipeline(), stage.Context)
	w.stage = stage
	w.seen.Store(stage)
	return w
}

// NewShared returns an empty slot for a worker of a shared pool. Handlers' contexts end
// with ctx.
func NewShared(sp *inbox.SharedPool, pl *inbox.Pipeline, ctx Context) *Worker {
	w := newWorker(pl, ctx)
	w.pool = sp
	return w
}

func newWorker(pl *inbox.Pipeline, ctx Context) *Worker {
	w := &Worker{pipeline: pl, lane: noLane}
	w.base = ctx
	w.Member.Owner = w
	w.Member.Wake = func() {
		if box := w.box.Load(); box != nil {
			box.Wake()
		}
	}
	return w
}

// Up tells a stage that a worker's actor is ready, or why it is not.
type Up struct {
	Worker *Worker
	Err    error
}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (Up) IgnoreDeadLetterLogging() {}

// Spawn fills the slot with a fresh actor, which the keeper whose context it is has hired: see
// [actor.Hire]. With again it takes the place of one that crashed.
func (w *Worker) Spawn(keeper actor.Context, name string, again bool) (*actor.PID, error) {
	w.failure, w.left, w.again = nil, false, again
	box := actor.NewMailbox((*mailboxFeed)(w))
	w.box.Store(box)
	return actor.SpawnUnregistered(keeper, name, box, func() actor.Actor { return (*actorRole)(w) })
}

// Failure returns why the last actor failed, nil if it did not. It is for the
// stage, after the actor has ended.
func (w *Worker) Failure() error { return w.failure }

// Left reports whether the last actor left because it was asked to. It is for
// the stage, after the actor has ended.
func (w *Worker) Left() bool { return w.left }

// Loaded reports whether the last actor left behind commands that it could not
// hand over. It is for the stage, after the actor has ended.
func (w *Worker) Loaded() bool { return w.carries() }

// Claim takes the slot for an actor to come. It reports false if it is taken:
// by an actor that lives, or by one that was given up and may still be at work.
func (w *Worker) Claim() bool { return w.claimed.CompareAndSwap(false, true) }

// Unclaim gives the slot back, when its actor has ended.
func (w *Worker) Unclaim() { w.claimed.Store(false) }

// Unload hands over what the last actor left behind, as far as there is room. It
// is for the stage, when the slot is claimed.
func (w *Worker) Unload() { w.deliver(false) }

// Busy returns how long the worker has been at its present batch, 0 if it has
// none. Anybody may ask.
func (w *Worker) Busy() time.Duration {
	since := w.Since.Load()
	if since <= 0 {
		return 0
	}
	return time.Duration(max(w.pipeline.Now()-since, 1))
}

// At is the name of the stage where the worker is, or was last; empty if it never
// was at one. Anybody may ask.
func (w *Worker) At() string {
	if s := w.seen.Load(); s != nil {
		return s.Inbox.Name()
	}
	return ""
}

// Stage is the stage where the worker was last, nil if it never was at one. It is for
// the keeper, after the actor has ended.
func (w *Worker) Stage() *Stage { return w.stage }

// mailboxFeed is the worker as its mailbox sees it.
type mailboxFeed Worker

func (f *mailboxFeed) Ready() bool { return f.Member.Ready() && !f.lost.Load() }

func (f *mailboxFeed) Len() int {
	if f.pool != nil {
		return f.pool.Len()
	}
	return f.stage.Inbox.Len()
}

// actorRole is the worker as an actor.
type actorRole Worker

// Receive handles a message to the actor.
func (h *actorRole) Receive(ctx actor.Context) {
	w := (*Worker)(h)
	if w.lost.Load() {
		return // it has come back too late; its affairs are settled
	}
	switch ctx.Message().(type) {
	case *actor.Turn:
		w.serve()
	case *actor.Started:
		w.begin(ctx)
	case *actor.Stopping:
		w.end()
	}
}

// begin takes the seat. One of a stage's own makes its instance first, so that a
// stage which cannot start is told of at once; one of a shared pool finds them on its way.
func (w *Worker) begin(ctx actor.Context) {
	w.self = ctx
	if w.pool != nil {
		w.pool.Join(&w.Member)
		ctx.Send(ctx.Parent(), Up{w, nil})
		return
	}
	w.failure = w.join(w.again)
	ctx.Send(ctx.Parent(), Up{w, w.failure})
	if w.failure != nil {
		actor.Fail(ctx, w.failure)
	}
}

// join makes an instance, if the worker is to have one, and takes a seat among the stage's
// own workers.
func (w *Worker) join(again bool) error {
	if err := w.equip(w.stage.Inbox.Claim(&w.Member)); err != nil {
		w.stage.Inbox.CrashIdle()
		w.stage.Inbox.StartFailed()
		w.stage.Inbox.Leave(&w.Member)
		return err
	}
	w.stage.Inbox.Join(&w.Member, again)
	return nil
}

// equip takes the instance that the inbox has lent, or makes one if it is to.
func (w *Worker) equip(make bool) error {
	if make {
		return w.start()
	}
	w.instance, _ = w.Member.Instance.(Instance)
	return nil
}

// end books what is left, and gives back the instance or has it stopped.
func (w *Worker) end() {
	if w.stage != nil {
		w.stage.Inbox.Book(&w.Member, &w.tally)
		w.deliver(false)
	}
	if w.pool != nil {
		w.leavePool()
	} else {
		if !w.carries() {
			w.stage.Inbox.Yield(&w.Member)
		}
		w.stage.Inbox.Leave(&w.Member)
	}
	if w.failure == nil && w.Member.Instance == nil {
		w.instance = nil // it is back on its shelf
	}
	w.stop()
	w.depart()
	w.self = nil
}

// depart tells the inbox that the instance which the worker still had is stopped: only now
// may another take its place.
func (w *Worker) depart() {
	if w.stage == nil {
		return
	}
	if w.kept != nil {
		w.Member.Instance, w.kept = w.kept, nil
	}
	switch {
	case w.pool != nil:
		w.stage.Inbox.Quit(&w.Member)
	default:
		w.stage.Inbox.ReturnInstance(&w.Member)
	}
	w.discard()
	w.stage.tidy()
}

// tidy renews what a worker may have put back among the idle instances.
func (s *Stage) tidy() {
	if s.moving.Load() > 0 {
		s.sweep()
	}
}

// serve handles batches until there are none, a target is full, or another
// message presses.
func (w *Worker) serve() {
	if w.lost.Load() {
		return
	}
	if w.guarded != nil {
		w.mine = nil
	}
	w.label()
	defer w.stale() // the next batch may begin much later
	box := w.box.Load()
	for range turns {
		if !w.wakeNext(box) || box.Pressing() {
			w.runAfter(box)
			return
		}
		n := w.next()
		if n == 0 {
			if w.loaded > 0 {
				w.restLoaded()
			}
			w.rest(box)
			return
		}
		if w.loaded > 0 {
			w.goOnLoaded()
		}
		w.wakeCalled()
		if n < 0 {
			w.left = true
			w.self.Stop(w.self.Self())
			return
		}
		if !w.ready(n) || !w.work(n) || box.Stepped() {
			return
		}
	}
}

// next is the worker's next turn. If there is nothing to do it is parked, but looks around once
// more before: who forwards or calls may be about to do so again, and parking and waking
// cost more than that. With somebody to follow it does not: he would wait for it.
func (w *Worker) next() int {
	if w.Member.Called != nil {
		return w.turn(true)
	}
	n := w.turn(false)
	if n == 0 {
		w.mark = 0
		yield.Once()
		n = w.turn(true)
	}
	return n
}

// rest is for a worker that is parked.
func (w *Worker) rest(box *actor.Mailbox) {
	if w.pool == nil && w.stage.moving.Load() > 0 {
		w.wakeCalled() // to renew an instance may take any time
		w.refresh()
	}
	w.runAfter(box)
}

func (w *Worker) stale() {
	if !w.lost.Load() {
		w.mark = 0
	}
}

// turn books the last batch and takes the next.
func (w *Worker) turn(park bool) int {
	if w.pool == nil {
		if w.loaded != int(w.Member.Carried) {
			w.stage.Inbox.Carry(&w.Member, w.loaded)
		}
		return w.stage.Inbox.Turn(&w.Member, &w.tally, park)
	}
	left := w.stage
	in, n := w.pool.Turn(&w.Member, &w.tally, park)
	if n > 0 {
		w.visit(in)
	}
	w.discard()
	if left != nil {
		left.tidy()
	}
	return n
}

// visit makes the inbox's stage the present one.
func (w *Worker) visit(in *inbox.Inbox) {
	if w.stage == nil || w.stage.Inbox != in {
		w.stow()
		w.stage = in.Owner.(*Stage)
		w.seen.Store(w.stage)
		w.outs = w.tour.from(in.Place)
		w.label()
	}
	w.instance, _ = w.Member.Instance.(Instance)
}

// stow puts the outlets of the present stage away, for when the worker comes again.
func (w *Worker) stow() {
	if w.stage != nil {
		if w.tour == nil {
			w.tour = new(tour)
		}
		w.tour.put(w.stage.Inbox.Place, w.outs)
	}
	w.outs = nil
}

// discard stops an instance that is one too many.
func (w *Worker) discard() {
	if inst, ok := w.Member.Surplus.(Instance); ok {
		w.Member.Surplus = nil
		w.stopOne(inst)
	}
}

// ready sees to it that there is an instance for the batch in hand. It reports false
// if none could be made; the batch has gone back then, and the actor has failed.
func (w *Worker) ready(n int) bool {
	if w.instance != nil && w.stage.moving.Load() == 0 {
		return true
	}
	err := w.fit()
	if err == nil {
		return true
	}
	w.failure = err
	if !w.stage.Inbox.NoInstance(&w.Member, &w.tally, w.Batch[:n], err) {
		w.joinAbandoned(w.instance)
		return false
	}
	clear(w.Batch[:n])
	if w.pool == nil {
		w.stage.Inbox.Yield(&w.Member)
	}
	w.quit(err)
	return false
}

// quit leaves the shared pool, if the worker is of one, and fails towards the keeper.
func (w *Worker) quit(err error) {
	w.leavePool()
	actor.Fail(w.self, err)
}

func (w *Worker) leavePool() {
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
	}
}

// work handles the batch in hand. It reports false if a handler crashed and the actor with
// it.
func (w *Worker) work(n int) (ok bool) {
	w.n, w.cur = int32(n), 0
	if w.called != nil {
		w.skipped = 0
	}
	began := max(w.now(), 1)
	w.Since.Store(began)
	defer w.idle(w.instance, &ok)
	defer w.rescue(w.instance, &ok)
	wait, waited := command.Waited(w.Batch[:n], began)
	w.tally.Wait, w.tally.Waited = wait, int32(waited)
	switch {
	case w.stage.Runs != nil:
		w.handleRuns(w.Batch[:n])
	case w.both != nil:
		w.handleBoth(w.both, n)
	case w.instance.Many():
		w.handleMany(w.Batch[:n])
	default:
		w.handleEach(w.Batch[:n])
	}
	w.clock()
	w.skip(w.n)
	w.n = 0
	clear(w.Batch[w.lane.n:n])
	return true
}

// Halted reports whether the worker is to begin no further command. It asks before each.
func (w *Worker) Halted() bool { return w.stage.Inbox.Halted() }

// Halts is where an [Instance] looks before each command of a batch whether it is to begin it.
func (w *Worker) Halts() *atomic.Bool { return w.stage.Inbox.Halts() }

// skip ends those of the batch, up to the one at the given place, that were not begun because the
// room is halted.
func (w *Worker) skip(to int32) {
	if w.cur == to {
		return
	}
	if !w.stage.Inbox.End(&w.Member, &w.tally, w.Batch[w.cur:to]) {
		panic(abandoned{})
	}
	w.cur = to
}

// idle notes that no handler runs any more: a context that was kept is of no use. From now on the worker
// will not be abandoned, unless it was.
func (w *Worker) idle(inst Instance, goesOn *bool) {
	w.emitting.Lock()
	w.Since.Store(-w.started())
	if !w.lost.Load() {
		w.Member.Delivers = true
		w.redeem()
	}
	forsaken := w.halted
	w.emitting.Unlock()
	if forsaken {
		*goesOn = false
		w.joinAbandoned(inst)
	}
}

// now reads the clock, or returns the last reading if nothing has happened
// since.
func (w *Worker) now() int64 {
	if w.mark == 0 {
		w.mark = w.pipeline.Now()
	}
	return w.mark
}

// clock notes how long the commands of the batch took that were handled.
func (w *Worker) clock() {
	n := int(w.cur)
	if w.called != nil {
		n -= int(w.skipped)
	}
	if n > 0 {
		w.mark = 0
		w.tally.Timed, w.tally.Busy = int32(n), time.Duration(max(w.now()-w.started(), 0))
	}
}

// started is when the last batch began.
func (w *Worker) started() int64 {
	began := w.Since.Load()
	return max(began, -began)
}

// handleEach runs the behaviour on one command of the batch after the other.
func (w *Worker) handleEach(batch []command.Envelope) {
	if w.stage.Timeout == 0 && !w.stage.perishes() {
		w.instance.HandleEach(w.handling(), w, batch)
		return
	}
	for n := range batch {
		if w.Halted() {
			return
		}
		e := &batch[n]
		if ctx := w.Begin(e); ctx != nil {
			w.Settle(w.one(ctx, w.instance, e))
		}
	}
}

// limited runs the behaviour within the stage's time limit.
func (w *Worker) limited(within Context, e *command.Envelope) behaviour.Outcome {
	ctx := w.limit(within, e.From)
	o := w.limitedCall(ctx, e.Cmd)
	late := ctx.Err() != nil && within.Err() == nil
	w.unlimit()
	if err := o.Err(); late && err != nil && !errors.Is(err, ErrTimeout) {
		return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", w.stage.Timeout), err))
	}
	return o
}

// handleMany runs the behaviour on a whole batch.
func (w *Worker) handleMany(batch []command.Envelope) {
	if w.Halted() {
		return
	}
	if batch = w.sift(batch); len(batch) == 0 {
		return
	}
	for _, o := range w.many(w.instance, batch) {
		w.Settle(o)
	}
}

// many runs an instance on a batch, under the watch if there is a time limit. It returns an
// outcome for each command.
func (w *Worker) many(inst Instance, batch []command.Envelope) (outcomes []behaviour.Outcome) {
	if w.stage.Timeout == 0 {
		return checked(inst.HandleMany(w.handling(), batch), len(batch))
	}
	ctx := w.limit(w.handling(), nil)
	given := slices.Clone(batch) // the batch is the watch's, if that gives the worker up
	w.watched(ctx, func() { outcomes = inst.HandleMany(ctx, given) })
	w.unlimit()
	return checked(outcomes, len(batch))
}

// Settle does what the outcome of the command in hand asks for, and goes on to the next
// one of the batch. It is for an [Instance].
func (w *Worker) Settle(o behaviour.Outcome) {
	e := &w.Batch[w.cur]
	if next, cmd := o.Way(); next == w.lane.inlet && len(w.emits) == 0 {
		w.pass(e, cmd)
	} else {
		w.settle(e, o)
	}
	w.cur++
}

// settle is Settle for all that does not take the lane.
func (w *Worker) settle(e *command.Envelope, o behaviour.Outcome) {
	kind, next, value := o.Open()
	switch kind {
	case behaviour.KindForward:
		w.forward(e, next, value)
	case behaviour.KindOK:
		t := e.Ticket()
		if len(w.emits) > 0 {
			w.send(e, nil, nil)
		} else if w.tally.OK++; t != nil {
			w.book() // whoever hears of the end may look at the accounts next
		}
		if t != nil {
			t.Settle(e.Child(), value, nil)
		}
	default:
		w.fail(e, o.Err())
	}
}

// fail ends a command with an error, or has it tried again.
func (w *Worker) fail(e *command.Envelope, err error) {
	if !w.recall() {
		panic(abandoned{})
	}
	e.Failed()
	if w.triesAgain(e, err) {
		if w.carries() {
			w.book() // it would be booked with this one
		}
		if w.stage.Inbox.RetryLater(&w.Member, &w.tally, *e) {
			return
		}
	}
	w.tally.Errors++
	w.book() // whoever is told may look at the accounts next
	w.stage.Inbox.Fail(e, err)
}

// refuse tells the ticket that the command has failed.
func (w *Worker) refuse(e *command.Envelope, err error) {
	w.stage.Inbox.Answer(e, err)
}
