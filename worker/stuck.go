package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/stacks"
)

// ErrStuck is the value of a crash in which a handler did not return when its
// context had ended. The worker was given up when the stage's time limit and
// its grace had passed.
var ErrStuck = errors.New("worker: handler is stuck")

// giveUpStuckLocked makes the caller, which is the watchdog, the owner of a
// worker whose handler is stuck. It returns false if that is not possible now.
// While a handler emits it changes what the worker holds, so the watchdog tries
// again soon; if Emit waits for a free slot, it has waited for long enough.
func (w *Worker) giveUpStuckLocked() bool {
	if !w.emitting.TryLock() {
		w.watchdog.checkSoon(&w.watchdog.wait)
		return false
	}
	defer w.emitting.Unlock()
	if !w.giveUpLocked(stuck, func() bool {
		run := w.suspending.running.Load()
		if !run.tryLock() {
			w.watchdog.checkSoon(&run.wait)
			return false
		}
		return true
	}) {
		return false
	}
	w.Member.Since.Store(-w.batchStart()) // what the handler emits from now on is refused
	return true
}

// settleStuck settles the accounts of a worker whose handler is stuck, as if it
// had crashed, and has the supervisor replace the worker. It runs in the
// watchdog's goroutine, which owns the worker.
func (w *Worker) settleStuck() {
	if w.stage.Inbox.Batches().AddAbandoned() {
		w.stage.Log.Error("as many abandoned handlers run as there may be: the stage handles no command until one of them returns",
			"stage", w.stage.Inbox.Name())
	}
	defer close(w.watchdog.over)
	stack := w.stuckAt()
	w.suspending.blame = w.suspending.running.Load()
	err := w.stage.hangs.begin(fmt.Errorf("%w: %v past its time limit of %v", ErrStuck, w.stage.Grace, w.stage.Timeout), w.presentTry())
	w.loseRun(w.suspending.blame, err)
	for i := range w.Member.Batch[w.progress.cur:w.progress.n] { // the handler's goroutine may not have taken them out of their boxes yet
		w.Member.Batch[int(w.progress.cur)+i].Unbox()
	}
	self, system, parent := w.acting.self.Self(), w.acting.self.ActorSystem(), w.acting.self.Parent()
	if w.suspending.blame == nil {
		w.slot.hung = err
	}
	w.settleCrash(&crash.Thrown{Value: err, At: crash.SiteOf(stack), Version: w.crashedInstance().Version()})
	w.leavePool()
	w.releaseInstance()                 // though the instance is not stopped: the stage is to have as many as before
	actor.Abandon(system, parent, self) // if the actor has ended by itself this changes nothing
}

// mostAge is how old the stack may be with which a handler is reported.
const mostAge = 100 * time.Millisecond

// stuckAt returns the stack of the handler that is stuck.
func (w *Worker) stuckAt() []byte {
	if w.suspending.running.Load() == nil {
		return stackOf(w.watchdog.header, min(w.stage.Grace, mostAge))
	}
	found, _ := findHandlers([]*Worker{w}, nil)
	if stack := found[w]; stack != nil {
		return stack
	}
	return unknownStack
}

// stackOf finds the stack of another goroutine by its header. The goroutine has
// been where it is for longer than an age. stackOf may stop the world for a
// moment, so it is for rare events.
func stackOf(header []byte, age time.Duration) []byte {
	if len(header) == 0 {
		return debug.Stack()
	}
	if stack := stacks.Of(stacks.Recent(age), header); stack != nil {
		return stack
	}
	if stack := stacks.Of(stacks.All(), header); stack != nil {
		return stack
	}
	return unknownStack
}

var unknownStack = []byte("the goroutine's stack was not found")

// Inherit takes over what a worker that was given up had still to deliver. It
// waits until the worker's accounts are settled, which takes a moment. A worker
// that was abandoned has nothing left.
func (w *Worker) Inherit(from *Worker) {
	if from.slot.fate.Load() == abandoned {
		return
	}
	<-from.watchdog.over
	w.stage, w.acting.failure, w.gear.executor = from.stage, from.acting.failure, from.gear.executor
	w.seen.Store(w.stage)
	w.order.join(w.stage.Inbox, &w.Member)
	w.out.inherit(&from.out)
	w.stage.Inbox.Workers().Succeed(&from.Member, &w.Member)
}
