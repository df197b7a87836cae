package worker

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/inbox"
)

// Worker is the part of a worker that outlives its actors. Actors follow one
// another in it; only the present one and the inbox touch it, except for what
// slot says, and for the fields that emitting guards.
//
// A worker of a stage's own is always at that stage. One of a shared pool moves
// from stage to stage, and works at each as the stage's own workers do.
type Worker struct {
	Member   inbox.Member // the worker as its inbox, or its shared pool, sees it
	watchdog *watchdog    // nil until the first call with a time limit
	called   *called      // nil until the first command with its caller's context

	post
	slot       slot
	acting     acting
	gear       gear
	progress   progress
	suspending suspending
	order      ordering
	out        outgoing

	emitting sync.Mutex // guards the fields below while a handler runs, and out.pledged; the worker is given up under it
	emits    emits
	settling []settling // deferred calls that are being made
}

// post is where a worker works. Its stage changes between batches only, and
// never if pool is nil.
type post struct {
	pipeline *inbox.Pipeline
	pool     *inbox.SharedPool     // nil for a worker of a stage's own
	stage    *Stage                // nil until the first turn of a shared worker
	base     handling.Plain        // the context of handlers whose commands have none
	seen     atomic.Pointer[Stage] // stage, for other goroutines
}

// slot is what any goroutine may read, or compete for: at most one actor at a
// time has claimed the worker.
type slot struct {
	box     atomic.Pointer[actor.Mailbox]
	claimed atomic.Bool // an actor has the worker, or is about to be started in it
	fate    atomicFate  // whether the worker was given up, see fate.go
	hung    *hang       // the error of the command of a worker that was given up; nil if that is the command of a run
}

// acting is the present actor, and how the last one ended. The supervisor reads
// failure and left when the actor has ended.
type acting struct {
	self    actor.Context
	failure error // why the actor failed; nil if it did not
	left    bool  // the actor ended because the inbox asked it to
	again   bool  // the actor replaces one that crashed
	ended   bool  // the run that the actor resumed last has ended
}

// An executor gives the commands of a batch to their handlers. Each form of
// handlers has one, and the worker, which calls it once a batch, knows none of
// the forms. So a further form is another type with these methods, and a case
// in [Stage.executorOf].
//
// Executors have no state: the worker keeps it.
type executor interface {
	// execute handles a batch: all commands of the worker from the present one
	// on. It settles each command in order, and returns early if the inbox is
	// halted. The panic of a handler leaves it as it is.
	execute(w *Worker, batch []command.Envelope)
	// charge returns the command of the batch that a crash is charged to, nil
	// if that cannot be known, and the commands that return to the queue.
	charge(w *Worker, batch []command.Envelope) (culprit *command.Envelope, rest []command.Envelope)
	// refusesEmit returns why a handler must not emit, nil if it may.
	refusesEmit() error
	// takesMore reports whether a worker may take another batch though a full
	// stage has not taken all commands from it.
	takesMore(w *Worker) bool
}

// suspending is what a worker needs for commands whose handlers may suspend: at
// most one of them runs in the worker.
type suspending struct {
	running atomic.Pointer[Run] // the run that the worker runs
	blame   *Run                // the run that crashed, while the crash is settled
}

// gear is the instance that the worker uses, and the executor for it. The
// instance is of the stage where the worker is, and the worker alone uses it.
type gear struct {
	instance instance
	executor executor // of the last instance; nil before the first
}

// called has the contexts of commands that bring a caller's.
type called struct {
	last    *handling.Valued  // of the last command whose caller's context gives values only; the next command may have the same
	present *handling.Calling // of the present command, if it may end with its caller's context
}

// New returns a worker of the stage's own, without an actor.
func New(stage *Stage) *Worker {
	w := newWorker(stage.Context, stage.Inbox.Pipeline())
	w.stage = stage
	w.seen.Store(stage)
	w.order.join(stage.Inbox, &w.Member)
	return w
}

// NewShared returns a worker of a shared pool, without an actor. Handlers'
// contexts end with ctx.
func NewShared(ctx context.Context, sp *inbox.SharedPool, pl *inbox.Pipeline) *Worker {
	w := newWorker(ctx, pl)
	w.pool = sp
	return w
}

func newWorker(ctx context.Context, pl *inbox.Pipeline) *Worker {
	w := new(Worker)
	w.pipeline, w.out.lane = pl, noLane
	w.base = handling.Plain{Base: ctx, Host: pl, Emitter: (*emitter)(w)}
	w.Member.Owner = w
	w.follow(inbox.NoneBegun)
	w.Member.Wake = func() {
		if box := w.slot.box.Load(); box != nil {
			box.Wake()
		}
	}
	return w
}

// Claim reserves the worker for an actor to be started. It returns false if the
// worker is taken: by an actor that lives, or by one that was given up and may
// still run.
func (w *Worker) Claim() bool { return w.slot.claimed.CompareAndSwap(false, true) }

// Unclaim releases the worker when its actor has ended.
func (w *Worker) Unclaim() { w.slot.claimed.Store(false) }

// Failure returns why the last actor failed, or nil if it did not. The
// supervisor calls it after the actor has ended.
func (w *Worker) Failure() error { return w.acting.failure }

// Left reports whether the last actor ended because the inbox asked it to. The
// supervisor calls it after the actor has ended.
func (w *Worker) Left() bool { return w.acting.left }

// Loaded reports whether the last actor left commands behind that it could not
// hand over. The supervisor calls it after the actor has ended.
func (w *Worker) Loaded() bool { return w.out.pending() }

// Stage returns the stage where the worker was last, or nil if it never was at
// one. The supervisor calls it after the actor has ended.
func (w *Worker) Stage() *Stage { return w.stage }

// Busy returns how long the worker has been at its present batch, or 0 if it
// has none. Any goroutine may call it.
func (w *Worker) Busy() time.Duration {
	since := w.Member.Since.Load()
	if since <= 0 {
		return 0
	}
	return time.Duration(max(w.pipeline.Now()-since, 1))
}

// At returns the name of the stage where the worker is, or was last. It is
// empty if the worker never was at one. Any goroutine may call it.
func (w *Worker) At() string {
	if s := w.seen.Load(); s != nil {
		return s.Inbox.Name()
	}
	return ""
}

// Lost reports whether the worker was given up: it is not to be used again.
func (w *Worker) Lost() bool { return w.slot.fate.Load() != inService }

// label gives the goroutine the profiling labels of the present stage. The
// worker's mailbox may run on another goroutine each time, which may have the
// labels of any stage.
func (w *Worker) label() {
	if w.stage != nil {
		pprof.SetGoroutineLabels(w.stage.Context)
	}
}

// Halted reports whether the worker must not start another command, because its
// inbox is halted.
func (w *Worker) Halted() bool { return w.stage.Inbox.Phases().Halted() }

// Halts returns the flag that an [Handler] reads before each command of a
// batch: if it is set, the command must not be started.
func (w *Worker) Halts() *atomic.Bool { return w.stage.Inbox.Phases().Halts() }

// giveUpLocked gives the worker up, unless that was done before or take returns
// false. The caller has emitting, so the handler does not emit; to give the
// worker up as stuck it also has watching, so the handler does not return.
func (w *Worker) giveUpLocked(f fate, take func() bool) bool {
	if w.slot.fate.Load() != inService || !take() {
		return false
	}
	w.slot.fate.v.Store(int32(f))
	return true
}

// now reads the clock, or returns the last reading if that is up to date.
func (w *Worker) now() int64 {
	if w.progress.mark == 0 {
		w.progress.mark = w.pipeline.Now()
	}
	return w.progress.mark
}

// forgetTime makes the last reading of the clock out of date.
func (w *Worker) forgetTime() {
	if !w.Lost() {
		w.progress.mark = 0
	}
}

// batchStart returns when the last batch started.
func (w *Worker) batchStart() int64 {
	since := w.Member.Since.Load()
	return max(since, -since)
}

// clock tallies how long those commands of the batch took that were handled.
func (w *Worker) clock() {
	if n := w.progress.cur - w.progress.skipped; n > 0 {
		w.progress.mark = 0
		w.progress.tally.Timed, w.progress.tally.Busy = n, time.Duration(max(w.now()-w.batchStart(), 0))
	}
}

// follow stores which command of the batch is begun, where the pipeline follows
// that: see [inbox.Member.Begun]. It is called before it is checked whether the
// inbox is halted.
func (w *Worker) follow(begun int) {
	if w.pipeline.Follows {
		w.Member.Begun.Store(int32(begun))
	}
}

// presentTry returns the number of the present try of the present command.
func (w *Worker) presentTry() int { return w.Member.Batch[w.progress.cur].Tries() + 1 }
