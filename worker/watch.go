package worker

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/stacks"
)

// watchdog watches a worker while its handler runs a command with a time limit.
// When the limit has passed it waits for the grace, and then gives the worker
// up as stuck: see fate.go.
//
// Most workers have no time limit, so a worker has a watchdog from its first
// watched call on.
type watchdog struct {
	alarm  *time.Timer
	over   chan struct{} // closed when a worker that was given up as stuck has been settled
	header []byte        // "goroutine 7 ": how the stack of the handler's goroutine begins
	wait   emitWait      // of a handler that does not suspend

	cancel context.CancelFunc // ends the present call's context; nil between calls, and if handlers suspend

	watching sync.Mutex      // guards the rest
	calling  bool            // a handler runs
	due      int64           // when the watchdog checks the call
	ctx      context.Context // the call's context; nil once the grace has started
}

// checkAgain is how soon the watchdog checks again if a handler emits.
const checkAgain = 10 * time.Millisecond

// limit returns a context for the next call. It ends with the stage's time
// limit or at [Worker.unlimit].
func (w *Worker) limit(within context.Context, from *command.Origin) context.Context {
	w.arm()
	ctx, cancel := context.WithTimeoutCause(within, w.stage.Timeout, ErrTimeout)
	w.watchdog.cancel = cancel
	return &timed{ctx, from, w.pipeline}
}

// unlimit releases the context of the last call, if it had one of its own.
func (w *Worker) unlimit() {
	w.End()
	if w.watchdog != nil && w.watchdog.cancel != nil {
		w.watchdog.cancel()
		w.watchdog.cancel = nil
	}
}

// watchedHandle runs the worker's instance on one command, watched.
func (w *Worker) watchedHandle(ctx context.Context, load any) (o behaviour.Outcome) {
	instance := w.gear.instance
	w.watched(ctx, func() { o = instance.Handle(ctx, load) })
	return o
}

// watched runs a handler's call while the watchdog watches. Limit made its
// context.
func (w *Worker) watched(ctx context.Context, call func()) {
	if w.watchdog.header == nil {
		w.watchdog.header = stacks.Header()
	}
	w.watch(ctx, w.stage.Timeout)
	call()
	if !w.returned() {
		panic(unwind{})
	}
}

// arm makes the watchdog if there is none.
func (w *Worker) arm() {
	if w.watchdog == nil {
		w.watchdog = &watchdog{over: make(chan struct{})}
		w.watchdog.alarm = time.AfterFunc(math.MaxInt64, w.onAlarm)
	}
}

// watch starts to watch a call whose context ends after the limit. The grace
// starts when the context has ended, which may be after the limit on a busy
// machine; and of two timers that are due either may run first. So the watchdog
// does not take the limit for the end of the context.
func (w *Worker) watch(ctx context.Context, limit time.Duration) {
	w.arm()
	w.watchdog.wait.renew()
	w.watchdog.watching.Lock()
	defer w.watchdog.watching.Unlock()
	w.watchdog.calling, w.watchdog.ctx, w.watchdog.due = true, ctx, w.pipeline.Now()+int64(limit)
	w.watchdog.alarm.Reset(limit)
}

// returned records that a handler has returned, or was suspended, if it is
// watched. It returns false if the worker was given up as stuck before: then
// the goroutine must touch nothing of the worker.
func (w *Worker) returned() bool {
	if w.watchdog == nil {
		return true
	}
	w.watchdog.watching.Lock()
	defer w.watchdog.watching.Unlock()
	if w.watchdog.calling {
		w.watchdog.calling, w.watchdog.ctx = false, nil
		w.watchdog.alarm.Stop()
	}
	return w.slot.fate.Load() != stuck
}
