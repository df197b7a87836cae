package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
)

// ErrStuck is the value of a crash in which a handler did not return when its context
// had ended: past the stage's time limit and its grace the worker was given up.
var ErrStuck = errors.New("worker: handler is stuck")

// guarded is a worker that is watched while it handles a command with a time limit.
//
// A stuck handler cannot be ended: its goroutine goes on, and may come back at any time. So calling says who owns
// the worker's affairs: the worker clears it when its handler has returned, the watch when it gives the worker up.
// The one that comes second touches nothing more.
//
// Most workers have no time limit, so one has it from its first watched call on.
type guarded struct {
	alarm *time.Timer
	over  chan struct{} // closed when a worker that was given up has been settled
	mine  []byte        // "goroutine 7 ", to find the stack of the one that is stuck
	wait  emitWait      // of a handler that does not suspend

	cancel context.CancelFunc // ends the present call's context; nil between calls, and if handlers suspend

	watching sync.Mutex // guards all below
	calling  bool       // a handler runs
	taken    bool       // the watch has given the worker up
	due      int64      // when the watch looks at the call
	ctx      Context    // the call's context; nil once the grace has begun
}

// lookAgain is how soon the watch looks again at a handler that emits.
const lookAgain = 10 * time.Millisecond

// abandoned unwinds a goroutine that has come back too late.
type abandoned struct{}

// limit returns a context for the next call, which ends with the stage's time limit or at [Worker.unlimit]. Without
// them it would be the given one.
func (w *Worker) limit(within Context, from *command.Origin) Context {
	w.arm()
	ctx, cancel := context.WithTimeoutCause(within, w.stage.Timeout, ErrTimeout)
	w.cancel = cancel
	return &timed{ctx, from, w.pipeline}
}

// unlimit lets go of the context of the last call, if it had one of its own.
func (w *Worker) unlimit() {
	w.End()
	if w.guarded != nil && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// watched runs a handler's call under the watch. Its context is one that limit made.
func (w *Worker) watched(ctx Context, call func()) {
	if w.mine == nil {
		w.mine = goroutine()
	}
	w.watch(ctx, w.stage.Timeout)
	call()
	if !w.returned() {
		panic(abandoned{})
	}
}

// arm makes what the watch needs.
func (w *Worker) arm() {
	if w.guarded == nil {
		w.guarded = &guarded{over: make(chan struct{})}
		w.alarm = time.AfterFunc(math.MaxInt64, w.look)
	}
}

// watch begins a call whose context ends after so long; the grace begins then. On a busy machine that is late, and
// of two timers that are due either may run first: so the watch does not take the limit for the end.
func (w *Worker) watch(ctx Context, limit time.Duration) {
	w.arm()
	w.wait.renew()
	w.watching.Lock()
	defer w.watching.Unlock()
	w.calling, w.ctx, w.due = true, ctx, w.pipeline.Now()+int64(limit)
	w.alarm.Reset(limit)
}

// returned notes that a handler has ended, or was suspended, if it is watched. It reports
// false if the worker was given up before.
func (w *Worker) returned() bool {
	if w.guarded == nil {
		return true
	}
	w.watching.Lock()
	defer w.watching.Unlock()
	if w.calling {
		w.calling, w.ctx = false, nil
		w.alarm.Stop()
	}
	return !w.taken
}

// look is the watch's: it gives the worker up if its handler's grace is over.
func (w *Worker) look() {
	ended, over := w.late()
	if ended != nil {
		<-ended
		w.look()
		return
	}
	if over {
		w.abandon()
	}
}

// late reports whether the handler's grace is over: then the worker is the caller's. If the time limit has passed and the
// context has not ended, late returns the channel that is closed when it has.
func (w *Worker) late() (ended <-chan struct{}, over bool) {
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
		return nil, w.giveUp()
	case w.ctx.Err() == nil:
		return w.ctx.Done(), false
	default:
		w.ctx, w.due = nil, w.pipeline.Now()+int64(w.stage.Grace)
		w.alarm.Reset(w.stage.Grace)
	}
	return nil, false
}

// giveUp makes the caller the owner of a worker whose handler is stuck. It reports false if that cannot be now.
func (w *Worker) giveUp() bool {
	// While the handler emits, its affairs are not at rest. If Emit waits for a place it has waited for long enough.
	if !w.emitting.TryLock() {
		w.wait.end()
		w.alarm.Reset(lookAgain)
		return false
	}
	defer w.emitting.Unlock()
	if w.lost.Load() { // a hard stop was faster
		return false
	}
	if run := w.running.Load(); !run.isQuiet() {
		run.wait.end()
		w.alarm.Reset(lookAgain)
		return false
	}
	w.calling, w.taken = false, true
	w.lost.Store(true)
	w.Since.Store(-w.started()) // what it emits from now on is nobody's
	return true
}

// abandon settles the accounts of a worker whose handler is stuck, and has the keeper
// replace it. It runs in the watch's goroutine, which owns the worker now.
func (w *Worker) abandon() {
	w.stage.Inbox.CountAbandoned(1)
	defer close(w.over)
	stack := w.stuckAt()
	w.loseRun()
	self, system, parent := w.self.Self(), w.self.ActorSystem(), w.self.Parent()
	err := fmt.Errorf("%w: %v past its time limit of %v", ErrStuck, w.stage.Grace, w.stage.Timeout)
	w.settleCrash(&thrown{err, newSite(nil, stack), w.crashed().Version()})
	w.leavePool()
	w.depart()                          // though its instance is not stopped: the stage is to stay at strength
	actor.Abandon(system, parent, self) // it may have ended by itself; then this says nothing new
}

// comeBack is what a goroutine does whose worker was given up while it was stuck: it
// gives its instance the last word and goes.
func (w *Worker) comeBack(inst Instance) {
	<-w.over // until then what of its instance can go on is taken out
	w.stage.Inbox.CountAbandoned(-1)
	w.stage.Log.Info("a handler that was given up has returned", "stage", w.stage.Inbox.Name())
	StopInstance(w.stage, inst)
}

// Lost reports whether the worker was given up: its slot is not to be used again.
func (w *Worker) Lost() bool { return w.lost.Load() }

// Inherit takes over what a worker that was given up had still to hand over. It waits for
// the moment that it takes to settle its accounts.
//
// One that was abandoned has nothing any more.
func (w *Worker) Inherit(from *Worker) {
	if from.isAbandoned() {
		return
	}
	<-from.over
	w.stage, w.failure = from.stage, from.failure
	w.seen.Store(w.stage)
	w.tour, w.outs, w.loaded, w.mustBook = from.tour, from.outs, from.loaded, from.mustBook
	from.tour, from.outs, from.loaded = nil, nil, 0
	w.stage.Inbox.Succeed(&from.Member, &w.Member)
}

// limitedCall runs the behaviour on one command under the watch.
func (w *Worker) limitedCall(ctx Context, cmd any) (o behaviour.Outcome) {
	instance := w.instance
	w.watched(ctx, func() { o = instance.Handle(ctx, cmd) })
	return o
}

// stuckAt is the stack of the handler that is stuck.
func (w *Worker) stuckAt() []byte {
	if w.running.Load() == nil {
		return stackOf(w.mine)
	}
	if stack := Stacks([]*Worker{w})[w]; stack != nil {
		return stack
	}
	return unknownStack
}

// goroutine is how the stack of the present goroutine begins.
func goroutine() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	if i := bytes.IndexByte(buf, '['); i > 0 {
		return buf[:i]
	}
	return nil
}

// mostStack bounds what is looked through for a stack.
const mostStack = 8 << 20

// stackOf finds the stack of another goroutine. It stops the world for a moment, so it
// is for what happens seldom.
func stackOf(head []byte) []byte {
	if len(head) == 0 {
		return debug.Stack()
	}
	for stack := range bytes.SplitSeq(everyStack(), []byte("\n\n")) {
		if bytes.HasPrefix(stack, head) {
			return bytes.Clone(stack)
		}
	}
	return unknownStack
}

var unknownStack = []byte("the goroutine's stack was not found")
