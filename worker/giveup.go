package worker

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/stacks"
)

// ErrStuck is the value of a crash in which a handler did not return when its context had ended. The worker was given up
// when the stage's time limit and its grace had passed.
var ErrStuck = errors.New("worker: handler is stuck")

// fate says whether a worker was given up. A goroutine cannot be ended from outside, so a worker whose handler does not
// return is given up instead: another goroutine settles what the worker held, and the handler's goroutine goes on without a
// worker until it returns, if it ever does.
//
// A worker is given up once, in one of two ways. [Worker.giveUpLocked] decides, under emitting, which way that is:
//
//	                  stuck                                abandoned
//	why               a handler ran past its time          a hard stop waited for its grace,
//	                  limit and the grace                  and the worker still has a batch
//	given up by       the watchdog, which has watching     [AbandonAll], which has the inbox's lock
//	not if            the handler has returned (calling),  the worker delivers, or has nothing in
//	                  or emits just now                    its batch (see [inbox.Inbox.Abandon])
//	owner afterwards  the watchdog owns the whole worker   the worker's goroutine still owns the
//	                                                       worker; the inbox owns the batch
//	the batch         is settled like a crash: the         is dead-lettered; what the worker has
//	                  command is charged, the rest goes    emitted is discarded, and copies of what
//	                  back, what went before is delivered  was booked as gone (pledges) are delivered
//	successor         a new worker, which inherits what    none: the pipeline has stopped
//	                  could not be delivered
//	the goroutine     at once when the handler returns:    when it next meets the inbox, emits, or
//	finds out         returned is false                    ends its batch
//	it may then       stop its instance, when over is      drop what it holds and stop its
//	                  closed                               instance
//
// Why two: the watchdog may take all of a worker, because a call with a time limit pays two locks to say when a handler runs.
// Calls without a limit do not pay for that, so at a hard stop the handler may return at any moment and use the worker;
// there the inbox ends the batch by copies of its own, under its own lock.
type fate int32

// The fates of a worker.
const (
	kept      fate = iota // it was not given up
	stuck                 // by the watchdog
	abandoned             // at the end of a hard stop
)

// atomicFate is a fate that any goroutine may load.
type atomicFate struct{ v atomic.Int32 }

func (f *atomicFate) Load() fate { return fate(f.v.Load()) }

// unwind is the value of the panic that ends a batch of a worker that was given up.
type unwind struct{}

// giveUpLocked gives the worker up, unless that was done before or take returns false. The caller has emitting, so the
// handler does not emit; to give the worker up as stuck it also has watching, so the handler does not return.
func (w *Worker) giveUpLocked(f fate, take func() bool) bool {
	if w.fate.Load() != kept || !take() {
		return false
	}
	w.fate.v.Store(int32(f))
	return true
}

// giveUpStuckLocked makes the caller, which is the watchdog, the owner of a worker whose handler is stuck. It returns false
// if that is not possible now. While a handler emits it changes what the worker holds, so the watchdog tries again soon; if
// Emit waits for a free slot, it has waited for long enough.
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
	w.Since.Store(-w.started()) // what the handler emits from now on is refused
	return true
}

// checkSoon ends a wait of Emit and has the watchdog check again.
func (w *Worker) checkSoon(wait *emitWait) {
	wait.end()
	w.alarm.Reset(checkAgain)
}

// settleStuck settles the accounts of a worker whose handler is stuck, as if it had crashed, and has the supervisor replace
// the worker. It runs in the watchdog's goroutine, which owns the worker.
func (w *Worker) settleStuck() {
	w.stage.Inbox.CountAbandoned(1)
	defer close(w.over)
	stack := w.stuckAt()
	w.loseRun()
	self, system, parent := w.self.Self(), w.self.ActorSystem(), w.self.Parent()
	err := fmt.Errorf("%w: %v past its time limit of %v", ErrStuck, w.stage.Grace, w.stage.Timeout)
	w.settleCrash(&thrown{err, newSite(nil, stack), w.crashed().Version()})
	w.leavePool()
	w.releaseInstance()                 // though the instance is not stopped: the stage is to have as many as before
	actor.Abandon(system, parent, self) // if the actor has ended by itself this changes nothing
}

// Inherit takes over what a worker that was given up had still to deliver. It waits until the worker's accounts are settled,
// which takes a moment. A worker that was abandoned has nothing left.
func (w *Worker) Inherit(from *Worker) {
	if from.fate.Load() == abandoned {
		return
	}
	<-from.over
	w.stage, w.failure = from.stage, from.failure
	w.seen.Store(w.stage)
	w.tour, w.outs, w.loaded, w.mustBook = from.tour, from.outs, from.loaded, from.mustBook
	from.tour, from.outs, from.loaded = nil, nil, 0
	w.stage.Inbox.Succeed(&from.Member, &w.Member)
}

// AbandonAll gives up the workers that have commands of a halted inbox in their batches and do not deliver: a hard stop has
// waited for them for long enough. Their commands are dead-lettered, and the tickets are settled. That counts as no crash,
// and no worker takes their place.
func AbandonAll(in *inbox.Inbox) {
	for _, m := range in.Holders() {
		if w, ok := m.Owner.(*Worker); ok {
			w.abandon(in)
		}
	}
}

func (w *Worker) abandon(in *inbox.Inbox) {
	emits, pledged, report := w.takeForAbandon(in)
	if report == nil {
		return
	}
	if w.pool != nil {
		w.pool.Abandon(&w.Member)
	}
	report()
	for _, m := range emits {
		m.from.Ticket().Settle(true, nil, nil)
	}
	for _, p := range pledged {
		p.to.HandOver(nil, []command.Envelope{p.e}, 0, true, false)
	}
}

// takeForAbandon gives the worker up and copies what the caller has to settle. Report is nil if the worker was not given up.
func (w *Worker) takeForAbandon(in *inbox.Inbox) (emits []emission, pledged []pledge, report func()) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if !w.giveUpLocked(abandoned, func() bool {
		report = in.Abandon(&w.Member, fmt.Errorf("stage %q: %w: %w", in.Name(), inbox.ErrStopped, ErrStuck))
		return report != nil
	}) {
		return nil, nil, nil
	}
	return slices.Clone(w.emits), slices.Clone(w.pledged), report
}

// comeBack is what the goroutine of a worker that was given up does when the handler has returned: it stops the instance and
// drops what the worker holds, if that is its own.
func (w *Worker) comeBack(inst Instance) {
	stop := []Instance{inst}
	if w.fate.Load() == stuck {
		<-w.over // until then the part of the instance that did not crash is being taken out
	} else {
		stop = append(stop, w.kept)
		w.drop()
	}
	w.stage.Inbox.CountAbandoned(-1)
	w.stage.Log.Info("a handler that was given up has returned", "stage", w.stage.Inbox.Name())
	for _, i := range stop {
		if i != nil {
			StopInstance(w.stage, i)
		}
	}
}

// drop empties a worker that was abandoned. What it held has ended.
func (w *Worker) drop() {
	w.unlimit()
	clear(w.Batch)
	w.n, w.tally, w.lane = 0, inbox.Tally{}, noLane
	w.tour, w.outs, w.loaded, w.mustBook = nil, nil, 0, false
	w.instance, w.pair, w.kept = nil, nil, nil
}

// stuckAt returns the stack of the handler that is stuck.
func (w *Worker) stuckAt() []byte {
	if w.running.Load() == nil {
		return stackOf(w.header)
	}
	found, _ := find([]*Worker{w}, nil)
	if stack := found[w]; stack != nil {
		return stack
	}
	return unknownStack
}

// stackOf finds the stack of another goroutine by its header. It stops the world for a moment, so it is for rare events.
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
