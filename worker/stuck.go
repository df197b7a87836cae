package worker

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/stacks"
)

// ErrStuck is the value of a crash in which a handler did not return when its
// context had ended. The worker was given up when the stage's time limit and
// its grace had passed.
var ErrStuck = errors.New("worker: handler is stuck")

// onAlarm runs when the alarm goes off. It gives the worker up if its handler's
// grace is over.
func (w *Worker) onAlarm() {
	ended, over := w.isOverdue()
	if ended != nil {
		<-ended
		w.onAlarm()
		return
	}
	if over {
		w.settleStuck()
	}
}

// isOverdue reports whether the handler's grace is over and the worker was
// given up. If the time limit has passed and the context has not ended,
// isOverdue returns the channel that is closed when it has.
func (w *Worker) isOverdue() (ended <-chan struct{}, over bool) {
	w.watching.Lock()
	defer w.watching.Unlock()
	if !w.calling {
		return nil, false
	}
	left := w.due - w.pipeline.Now()
	switch {
	case left > 0:
		w.alarm.Reset(time.Duration(left))
	case w.ctx == nil:
		return nil, w.giveUpStuckLocked()
	case w.ctx.Err() == nil:
		return w.ctx.Done(), false
	default:
		w.ctx, w.due = nil, w.pipeline.Now()+int64(w.stage.Grace)
		w.alarm.Reset(w.stage.Grace)
	}
	return nil, false
}

// giveUpStuckLocked makes the caller, which is the watchdog, the owner of a
// worker whose handler is stuck. It returns false if that is not possible now.
// While a handler emits it changes what the worker holds, so the watchdog tries
// again soon; if Emit waits for a free slot, it has waited for long enough.
func (w *Worker) giveUpStuckLocked() bool {
	if !w.emitting.TryLock() {
		w.checkSoon(&w.wait)
		return false
	}
	defer w.emitting.Unlock()
	if !w.giveUpLocked(stuck, func() bool {
		run := w.running.Load()
		if !run.tryLock() {
			w.checkSoon(&run.wait)
			return false
		}
		return true
	}) {
		return false
	}
	w.calling = false
	w.Since.Store(-w.batchStart()) // what the handler emits from now on is refused
	return true
}

// checkSoon ends a wait of Emit and has the watchdog check again.
func (w *Worker) checkSoon(wait *emitWait) {
	wait.end()
	w.alarm.Reset(checkAgain)
}

// settleStuck settles the accounts of a worker whose handler is stuck, as if it
// had crashed, and has the supervisor replace the worker. It runs in the
// watchdog's goroutine, which owns the worker.
func (w *Worker) settleStuck() {
	if w.stage.Inbox.AddAbandoned() {
		w.stage.Log.Error("as many abandoned handlers run as there may be: the stage handles no command until one of them returns",
			"stage", w.stage.Inbox.Name())
	}
	defer close(w.over)
	stack := w.stuckAt()
	w.blame = w.running.Load()
	err := w.stage.hangs.begin(fmt.Errorf("%w: %v past its time limit of %v", ErrStuck, w.stage.Grace, w.stage.Timeout), w.presentTry())
	w.loseRun(w.blame, err)
	for i := range w.Batch[w.cur:w.n] { // the handler's goroutine may not have taken them out of their boxes yet
		w.Batch[int(w.cur)+i].Unbox()
	}
	self, system, parent := w.self.Self(), w.self.ActorSystem(), w.self.Parent()
	if w.blame == nil {
		w.hung = err
	}
	w.settleCrash(&thrown{err, newSite(nil, stack), w.crashedInstance().Version()})
	w.leavePool()
	w.releaseInstance()                 // though the instance is not stopped: the stage is to have as many as before
	actor.Abandon(system, parent, self) // if the actor has ended by itself this changes nothing
}

// stuckAt returns the stack of the handler that is stuck.
func (w *Worker) stuckAt() []byte {
	if w.running.Load() == nil {
		return stackOf(w.header)
	}
	found, _ := findHandlers([]*Worker{w}, nil)
	if stack := found[w]; stack != nil {
		return stack
	}
	return unknownStack
}

// stackOf finds the stack of another goroutine by its header. It stops the
// world for a moment, so it is for rare events.
func stackOf(header []byte) []byte {
	if len(header) == 0 {
		return debug.Stack()
	}
	found := unknownStack
	stacks.Each(func(stack []byte) {
		if bytes.HasPrefix(stack, header) {
			found = bytes.Clone(stack)
		}
	})
	return found
}

var unknownStack = []byte("the goroutine's stack was not found")

// Inherit takes over what a worker that was given up had still to deliver. It
// waits until the worker's accounts are settled, which takes a moment. A worker
// that was abandoned has nothing left.
func (w *Worker) Inherit(from *Worker) {
	if from.fate.Load() == abandoned {
		return
	}
	<-from.over
	w.stage, w.failure, w.executor = from.stage, from.failure, from.executor
	w.seen.Store(w.stage)
	w.inOrder(w.stage.Inbox)
	w.tour, w.outs, w.loaded, w.mustBook = from.tour, from.outs, from.loaded, from.mustBook
	from.tour, from.outs, from.loaded = nil, nil, 0
	w.stage.Inbox.Succeed(&from.Member, &w.Member)
}
