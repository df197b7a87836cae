package worker

import (
	"context"
	"math"
	"sync"
	"time"
)

// watchdog watches a worker while its handler runs a command with a time limit.
// When the limit has passed it waits for the grace, and then gives the worker
// up as stuck: see fate.go.
//
// Most workers have no time limit, so a worker has a watchdog from its first
// watched call on.
//
// Of the handler's goroutine, which calls returned, and the watchdog's, which
// calls giveUp, the first to lock watching decides: a worker whose handler has
// returned is not given up.
type watchdog struct {
	clock  func() int64
	giveUp func() bool // makes the watchdog the owner of the worker, if that is possible now
	settle func()      // settles a worker that was given up

	alarm  *time.Timer
	over   chan struct{} // closed when a worker that was given up as stuck has been settled
	header []byte        // "goroutine 7 ": how the stack of the handler's goroutine begins
	wait   emitWait      // of a handler that does not suspend

	cancel context.CancelFunc // ends the present call's context; nil between calls, and if handlers suspend

	watching sync.Mutex      // guards the rest
	calling  bool            // a handler runs
	due      int64           // when the watchdog checks the call
	ctx      context.Context // the call's context; nil once the grace has started
	grace    time.Duration   // of the call
}

// checkAgain is how soon the watchdog checks again if a handler emits.
const checkAgain = 10 * time.Millisecond

func newWatchdog(clock func() int64, giveUp func() bool, settle func()) *watchdog {
	d := &watchdog{clock: clock, giveUp: giveUp, settle: settle, over: make(chan struct{})}
	d.alarm = time.AfterFunc(math.MaxInt64, d.onAlarm)
	return d
}

// watch starts to watch a call whose context ends after the limit. The grace
// starts when the context has ended, which may be after the limit on a busy
// machine; and of two timers that are due either may run first. So the watchdog
// does not take the limit for the end of the context.
func (d *watchdog) watch(ctx context.Context, limit, grace time.Duration) {
	d.wait.renew()
	d.watching.Lock()
	defer d.watching.Unlock()
	d.calling, d.ctx, d.due, d.grace = true, ctx, d.clock()+int64(limit), grace
	d.alarm.Reset(limit)
}

// returned records that a handler has returned, or was suspended, if it is
// watched. It returns false if the worker was given up as stuck before: then
// the goroutine must touch nothing of the worker. The watchdog may be nil.
func (d *watchdog) returned(f *atomicFate) bool {
	if d == nil {
		return true
	}
	d.watching.Lock()
	defer d.watching.Unlock()
	if d.calling {
		d.calling, d.ctx = false, nil
		d.alarm.Stop()
	}
	return f.Load() != stuck
}

// onAlarm runs when the alarm goes off. It gives the worker up if its handler's
// grace is over.
func (d *watchdog) onAlarm() {
	ended, over := d.check()
	if ended != nil {
		<-ended
		d.onAlarm()
		return
	}
	if over {
		d.settle()
	}
}

// check reports whether the handler's grace is over and the worker was given
// up. If the time limit has passed and the context has not ended, check returns
// the channel that is closed when it has.
func (d *watchdog) check() (ended <-chan struct{}, over bool) {
	d.watching.Lock()
	defer d.watching.Unlock()
	if !d.calling {
		return nil, false
	}
	left := d.due - d.clock()
	switch {
	case left > 0:
		d.alarm.Reset(time.Duration(left))
	case d.ctx == nil:
		over = d.giveUp()
		d.calling = !over
		return nil, over
	case d.ctx.Err() == nil:
		return d.ctx.Done(), false
	default:
		d.ctx, d.due = nil, d.clock()+int64(d.grace)
		d.alarm.Reset(d.grace)
	}
	return nil, false
}

// checkSoon ends a wait of Emit and has the watchdog check again.
func (d *watchdog) checkSoon(wait *emitWait) {
	wait.end()
	d.alarm.Reset(checkAgain)
}

// unlimit releases the context of the last call, if it had one of its own. The
// watchdog may be nil.
func (d *watchdog) unlimit() {
	if d != nil && d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
}
