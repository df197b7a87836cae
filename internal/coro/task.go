package coro

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/goid"
)

// The states of a task. The goroutine that moves it from ready to running runs
// it.
const (
	running uint64 = iota // cannot be woken; it is zero, so that a new task is running
	parking               // can be woken, but has not yet parked
	woken                 // was woken before it had parked
	parked                // suspended until it is woken
	ready                 // woken; to be resumed
	ended
)

// mostRefusals is how many suspensions of a stopped task fail before the task
// is ended: more than a loop that ends by itself makes, and soon reached by one
// that does not end.
const mostRefusals = 100_000

// A word holds a state in its low bits and the number of the suspension above
// them, so that a wake-up for an earlier suspension has no effect.
const (
	stateBits = 3
	stateMask = 1<<stateBits - 1
)

// Task is one run of a function on a coroutine. It is the function's context,
// too: done when the task is stopped, or has ended.
//
// Its suspending methods may be called only by the function, on the goroutine
// on which it was called; the other methods, the methods of a context included,
// may be called by any goroutine.
type Task struct {
	// Tag is the tag given to Start.
	Tag any

	host    *Host
	carrier *carrier
	f       func(*Task)
	parent  context.Context

	younger, older *Task // guarded by the host's lock

	word     atomic.Uint64
	stopped  atomic.Bool
	returned bool // the function has returned or panicked; belongs to the goroutine that runs the task
	blocked  bool // likewise; see Block
	apart    bool // likewise; a goroutine outside the tasks ends the suspension
	fault    error

	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   bool // stopped or ended
	cause  error

	refusals int  // suspensions that failed since it was stopped
	hurried  bool // the next suspension ends it
}

// Waker wakes a task from one suspension. It is a value and may be copied.
type Waker struct {
	task *Task
	turn uint64
}

// Host returns the host that runs the task.
func (t *Task) Host() *Host { return t.host }

// Ended reports whether the function has ended.
func (t *Task) Ended() bool { return t.word.Load()&stateMask == ended }

// Fault returns how the function ended, once it has: nil if it returned, a
// [*PanicError], ErrGoexit or ErrIgnoredStop.
func (t *Task) Fault() error { return t.fault }

// Blocked reports whether a suspended task can be woken only by other tasks of
// its host, see Block. It may be called by the goroutine that runs the task.
func (t *Task) Blocked() bool { return t.blocked }

// Stop stops the task: its current suspension, or the next one if it is
// running, returns ErrStopped, and its context is done, with the cause if it is
// not nil. A suspended task becomes ready.
func (t *Task) Stop(cause error) {
	if t.interrupt(cause) {
		t.host.cfg.Apart(t)
	}
}

// Hurry makes the next suspension of a stopped task end it; see [Task.Refused].
func (t *Task) Hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurried = true
}

// Refused returns why the task may not suspend: nil, unless it is running and
// was stopped. A task that was refused 100,000 times, or for which Hurry was
// called, ignores its stop: Refused then ends its goroutine with
// [runtime.Goexit], so that deferred calls run, and the task's fault is
// ErrIgnoredStop.
//
// It is called by the function of the task, or by code that suspends on its
// behalf. Suspend, Yield and Sleep call it themselves. Prepare and SuspendApart
// do not: their callers may have to restore some state first.
func (t *Task) Refused() error {
	if !t.stopped.Load() || !t.runs() {
		return nil
	}
	t.mu.Lock()
	t.refusals++
	ignored, err := t.hurried || t.refusals > mostRefusals, t.cause
	t.mu.Unlock()
	if ignored {
		t.fault = ErrIgnoredStop
		runtime.Goexit()
	}
	return err
}

// Suspend parks the task until wake has been called, from any goroutine,
// possibly before start returns. Further calls of wake do nothing.
func (t *Task) Suspend(start func(wake func())) error {
	if err := t.Refused(); err != nil {
		return err
	}
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	t.callStart(w, func() { start(w.Wake) })
	return t.Park()
}

// SuspendApart is Suspend for a wake-up by a goroutine outside the tasks; see
// [Config.Apart].
func (t *Task) SuspendApart(start func(wake func())) error {
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	t.callStart(w, func() { start(w.WakeApart) })
	return t.parkApart()
}

// parkApart is Park for a task that is woken with WakeApart.
func (t *Task) parkApart() error {
	t.apart = true
	err := t.Park()
	t.apart = false
	return err
}

// callStart calls start. If start panics, the suspension is withdrawn.
func (t *Task) callStart(w Waker, start func()) {
	done := false
	defer func() {
		if !done {
			t.withdraw(w)
		}
	}()
	start()
	done = true
}

// Yield lets all other ready tasks run first. It needs no wake-up, so the task
// stays in the state running, in which it cannot be woken: this halves the
// cost.
func (t *Task) Yield() error {
	if !t.runs() {
		return ErrNotRunning
	}
	if t.stopped.Load() {
		return t.Refused()
	}
	t.carrier.yield(struct{}{}) // the same as Park, with one call less: see Host.settle
	if t.stopped.Load() {
		return t.stopError()
	}
	return nil
}

// Sleep suspends the task for at least d. If d is not positive, it yields.
func (t *Task) Sleep(d time.Duration) error {
	if err := t.Refused(); err != nil {
		return err
	}
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	cancel := t.host.cfg.After(d, w)
	if err := t.parkApart(); err != nil {
		cancel()
		return err
	}
	return nil
}

// Prepare starts a suspension: from now on the Waker may be used. A call of
// [Task.Park] or [Task.Block] must follow, with no other suspension in between.
// The two halves do the same as Suspend, without its allocation.
func (t *Task) Prepare() (Waker, error) {
	if !t.runs() {
		return Waker{}, ErrNotRunning
	}
	next := (t.word.Load() | stateMask) + 1 | parking
	t.word.Store(next) // while the task runs, no other goroutine moves it
	w := Waker{t, next >> stateBits}
	if t.stopped.Load() { // a goroutine that stops the task after this line finds it parking, and wakes it
		t.withdraw(w)
		return Waker{}, t.stopError()
	}
	return w, nil
}

// Park completes a suspension that Prepare started: it returns when the task
// has been woken and resumed, with ErrStopped if it was stopped.
func (t *Task) Park() error {
	t.carrier.yield(struct{}{})
	if t.stopped.Load() {
		return t.stopError()
	}
	return nil
}

// Block is Park for a task that only other tasks of its host will wake. So the
// owner of the host can detect that all tasks wait for one another.
func (t *Task) Block() error {
	t.blocked = true
	err := t.Park()
	t.blocked = false
	return err
}

// Wake wakes the task, if it has not been woken since the Waker was made.
func (w Waker) Wake() {
	if w.Claim() {
		w.task.host.cfg.Ready(w.task)
	}
}

// WakeApart is Wake from a goroutine outside the tasks; see [Config.Apart].
func (w Waker) WakeApart() {
	if w.Claim() {
		w.task.host.cfg.Apart(w.task)
	}
}

// Claim wakes the task as Wake does, but does not call Ready: if it returns
// true, the caller must have the task resumed. If it returns false there is
// nothing to do.
func (w Waker) Claim() bool {
	return w.task.rouse(func(turn uint64) bool { return turn == w.turn })
}

// Task returns the task of the Waker.
func (w Waker) Task() *Task { return w.task }

// interrupt marks the task as stopped and reports whether the caller must have
// it resumed.
func (t *Task) interrupt(cause error) bool {
	t.stopContext(cause)
	return t.rouse(func(uint64) bool { return true })
}

// rouse moves a task that is parked or parking, if its turn is wanted. It
// reports whether this made the task ready.
func (t *Task) rouse(wanted func(turn uint64) bool) bool {
	for {
		old := t.word.Load()
		if !wanted(old >> stateBits) {
			return false
		}
		next := old&^stateMask | ready
		switch old & stateMask {
		case parking:
			next = old&^stateMask | woken
		case parked:
		default:
			return false
		}
		if t.word.CompareAndSwap(old, next) {
			return next&stateMask == ready
		}
	}
}

// move changes the state, at any turn, and reports whether the old state was as
// expected.
func (t *Task) move(from, to uint64) bool {
	old := t.word.Load()
	return old&stateMask == from && t.word.CompareAndSwap(old, old&^stateMask|to)
}

// withdraw undoes Prepare.
func (t *Task) withdraw(w Waker) { t.word.Store(w.turn << stateBits) }

// runs reports whether the task is running, and, with Config.Check, whether the
// caller is on its goroutine.
func (t *Task) runs() bool {
	return t.word.Load()&stateMask == running && (!t.carrier.check || t.carrier.id == goid.ID())
}
