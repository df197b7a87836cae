package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/act"
)

// ErrStuck is the value of a crash in which a handler did not return when its context
// had ended: past the stage's time limit and its grace the worker was given up.
var ErrStuck = errors.New("worker: handler is stuck")

// guarded is a worker that is watched while it handles a command with a time limit.
//
// A stuck handler cannot be ended: its goroutine goes on, and may come back at any time.
// So who owns the worker's affairs is settled by one word: the worker notes that a
// handler runs, and notes that it has returned, if the watch has not taken the word
// meanwhile. Whoever loses touches nothing more.
//
// Most workers have no time limit, so one has it from its first watched call on.
type guarded struct {
	word  atomic.Uint64 // twice the number of the present call, and 1 while it runs
	call  uint64        // the word of the present call, 0 between calls; the worker's own
	due   atomic.Int64  // when the handler is to be given up
	alarm *time.Timer
	over  chan struct{} // closed when a worker that was given up has been settled
	mine  []byte        // "goroutine 7 ", to find the stack of the one that is stuck

	cancel context.CancelFunc // ends the present call's context; nil between calls, and if handlers suspend
}

// lookAgain is how soon the watch looks again at a handler that emits.
const lookAgain = 10 * time.Millisecond

// abandoned unwinds a goroutine that has come back too late.
type abandoned struct{}

// limit returns a context for the next call, which ends with the stage's time limit or at [Worker.unlimit].
func (w *Worker) limit() (ctx Context) {
	w.arm()
	ctx, w.cancel = context.WithTimeoutCause(w.handling(), w.stage.Timeout, ErrTimeout)
	return ctx
}

// unlimit lets go of the context of the last call, if it had one of its own.
func (w *Worker) unlimit() {
	if w.guarded != nil && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// watched runs a handler's call under the watch.
func (w *Worker) watched(call func()) {
	w.arm()
	if w.mine == nil {
		w.mine = goroutine()
	}
	w.watch(w.stage.Timeout + w.stage.Grace)
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

// watch begins a call that may take so long, and is watched meanwhile.
func (w *Worker) watch(limit time.Duration) {
	w.arm()
	w.due.Store(w.host.Now() + int64(limit))
	word := w.word.Load() + 3 // the next number, and running
	w.call = word
	w.word.Store(word)
	w.alarm.Reset(limit)
}

// returned notes that a handler has ended, or was set aside, if it is watched. It reports
// false if the worker was given up before.
func (w *Worker) returned() bool {
	if w.guarded == nil || w.call == 0 {
		return true
	}
	word := w.call
	if !w.word.CompareAndSwap(word, word-1) {
		return false
	}
	w.call = 0
	w.alarm.Stop()
	return true
}

// look is the watch's: it gives the worker up if its time is over.
func (w *Worker) look() {
	word := w.word.Load()
	if word&1 == 0 {
		return
	}
	if left := w.due.Load() - w.host.Now(); left > 0 {
		w.alarm.Reset(time.Duration(left))
		return
	}
	// While the handler emits, its affairs are not at rest. Its context has ended, so
	// it does not for long.
	if !w.emitting.TryLock() {
		w.alarm.Reset(lookAgain)
		return
	}
	if w.lost.Load() { // a hard stop was faster
		w.emitting.Unlock()
		return
	}
	run := w.running.Load()
	if !run.still() {
		w.emitting.Unlock()
		w.alarm.Reset(lookAgain)
		return
	}
	taken := w.word.CompareAndSwap(word, word+1)
	if taken {
		w.lost.Store(true)
		w.since.Store(0) // what it emits from now on is nobody's
	}
	w.emitting.Unlock()
	if !taken {
		run.stir()
		return
	}
	w.abandon()
}

// abandon settles the accounts of a worker whose handler is stuck, and has the keeper
// replace it. It runs in the watch's goroutine, which owns the worker now.
func (w *Worker) abandon() {
	w.stage.Room.Abandoned(1)
	defer close(w.over)
	stack := w.stuckAt()
	w.lose()
	self, system, parent := w.self.Self(), w.self.ActorSystem(), w.self.Parent()
	err := fmt.Errorf("%w: %v past its time limit of %v", ErrStuck, w.stage.Grace, w.stage.Timeout)
	w.settleCrash(&thrown{err, newSite(nil, stack), w.crashed().Version()})
	w.leaveCrew()
	w.part()                          // though its instance is not stopped: the stage is to stay at strength
	act.Abandon(system, parent, self) // it may have ended by itself; then this says nothing new
}

// comeBack is what a goroutine does whose worker was given up while it was stuck: it
// gives its instance the last word and goes.
func (w *Worker) comeBack(inst Instance) {
	<-w.over // until then what of its instance can go on is taken out
	w.stage.Room.Abandoned(-1)
	w.stage.Log.Info("a handler that was given up has returned", "stage", w.stage.Room.Name())
	StopInstance(w.stage, inst)
}

// Lost reports whether the worker was given up: its slot is not to be used again.
func (w *Worker) Lost() bool { return w.lost.Load() }

// Inherit takes over what a worker that was given up had still to hand over. It waits for
// the moment that it takes to settle its accounts.
//
// One that was forsaken has nothing any more.
func (w *Worker) Inherit(from *Worker) {
	if from.isForsaken() {
		return
	}
	<-from.over
	w.stage, w.failure = from.stage, from.failure
	w.seen.Store(w.stage)
	w.tour, w.outs, w.loaded, w.told = from.tour, from.outs, from.loaded, from.told
	from.tour, from.outs, from.loaded = nil, nil, 0
	w.stage.Room.Succeed(&from.Seat, &w.Seat)
}

// limitedCall runs the behaviour on one command under the watch.
func (w *Worker) limitedCall(ctx Context, cmd any) (o behaviour.Outcome) {
	instance := w.instance
	w.watched(func() { o = instance.Handle(ctx, cmd) })
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
