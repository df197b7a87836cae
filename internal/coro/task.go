package coro

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/goid"
)

// The states of a task. Whoever moves it from ready to running runs it.
const (
	running uint64 = iota // and nobody may wake it; it is zero, for a task is born so
	parking               // it may be woken, but is still on its way out
	woken                 // it was woken on its way out
	parked                // suspended, until it is woken
	ready                 // woken; somebody shall resume it
	ended
)

// mostRefusals is how many suspensions a stopped task is refused before it is ended: more than
// a loop that ends by itself makes in good faith, and soon over for one that does not.
const mostRefusals = 100_000

// A word holds a state in its low bits and the number of the suspension above, so that
// wake-ups for an earlier one find nothing.
const (
	stateBits = 3
	stateMask = 1<<stateBits - 1
)

// Task is one run of a function on a coroutine. It is the function's context, too:
// done when the task is stopped, or has ended.
//
// Its suspending methods are for the function alone, on the goroutine on which it was
// called; the others, those of a context among them, are for anybody.
type Task struct {
	// Tag is what was given to Start.
	Tag any

	host    *Host
	carrier *carrier
	f       func(*Task)
	parent  context.Context

	younger, older *Task // guarded by the host's lock

	word     atomic.Uint64
	stopped  atomic.Bool
	returned bool // the function has returned or panicked; belongs to who runs the task
	blocked  bool // likewise
	apart    bool // likewise: its suspension is ended from beside the tasks
	fault    error

	mu     sync.Mutex // guards what follows
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   bool // stopped or ended
	cause  error

	refusals int  // suspensions refused since it was stopped
	hurried  bool // no further one is
}

// Waker wakes a task from one suspension. It is a value, to be copied at will.
type Waker struct {
	task *Task
	turn uint64
}

// Host returns the host that runs the task.
func (t *Task) Host() *Host { return t.host }

// Ended reports whether the function has come to its end.
func (t *Task) Ended() bool { return t.word.Load()&stateMask == ended }

// Fault returns how the function came to its end, when it has: nil if it returned, a
// [*PanicError], or ErrGoexit.
func (t *Task) Fault() error { return t.fault }

// Blocked reports, of a suspended task, whether it said that only other tasks of its
// host will wake it. It is for who runs the task.
func (t *Task) Blocked() bool { return t.blocked }

// Stop stops the task: its present suspension, or if it runs the next one, returns
// ErrStopped, and its context is done, for the cause if it is not nil. A suspended task
// is made ready.
func (t *Task) Stop(cause error) {
	if t.interrupt(cause) {
		t.host.cfg.Apart(t)
	}
}

// Hurry ends the task, if it has been stopped, at its next suspension; see [Task.Refused].
func (t *Task) Hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurried = true
}

// Refused returns why the task may not suspend, nil unless it runs and was stopped. A task that has been refused 100,000 times,
// or was told to hurry, is one that ignores its stop: Refused then ends its goroutine with [runtime.Goexit], so deferred calls
// run, and the task's fault is ErrIgnoredStop.
//
// The function of the task calls it, or what suspends on its behalf. Suspend, Yield and Sleep have called it. Prepare has not, nor has
// SuspendApart: their callers may have something to put right first.
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

// Suspend parks the task until wake has been called, from any goroutine, possibly
// before start returns. Further calls of wake do nothing.
func (t *Task) Suspend(start func(wake func())) error {
	if err := t.Refused(); err != nil {
		return err
	}
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	t.begin(w, func() { start(w.Wake) })
	return t.Park()
}

// SuspendApart is Suspend for a wake-up by a goroutine that runs beside the tasks; see [Config.Apart].
func (t *Task) SuspendApart(start func(wake func())) error {
	w, err := t.Prepare()
	if err != nil {
		return err
	}
	t.begin(w, func() { start(w.WakeApart) })
	return t.parkApart()
}

// parkApart is Park for who is woken with WakeApart.
func (t *Task) parkApart() error {
	t.apart = true
	err := t.Park()
	t.apart = false
	return err
}

// begin calls start. If that panics, the task is no longer about to suspend.
func (t *Task) begin(w Waker, start func()) {
	done := false
	defer func() {
		if !done {
			t.withdraw(w)
		}
	}()
	start()
	done = true
}

// Yield lets all others that are ready run first. It is a suspension that nobody need
// end, so the task stays in the state in which nobody can: it is cheaper by half.
func (t *Task) Yield() error {
	if !t.runs() {
		return ErrNotRunning
	}
	if t.stopped.Load() {
		return t.Refused()
	}
	t.carrier.yield(struct{}{}) // what Park does, in one call less: see Host.settle
	if t.stopped.Load() {
		return t.stopError()
	}
	return nil
}

// Sleep suspends the task for at least d. Less than nothing is nothing: it then yields.
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

// Prepare begins a suspension: from now on the Waker may be used. [Task.Park] or [Task.Block] must
// follow, with no other suspension in between. It is Suspend in two parts, for who must not allocate.
func (t *Task) Prepare() (Waker, error) {
	if !t.runs() {
		return Waker{}, ErrNotRunning
	}
	next := (t.word.Load() | stateMask) + 1 | parking
	t.word.Store(next) // while it runs, nobody else moves it
	w := Waker{t, next >> stateBits}
	if t.stopped.Load() { // whoever stops it after this line finds it parking, and wakes it
		t.withdraw(w)
		return Waker{}, t.stopError()
	}
	return w, nil
}

// Park ends what Prepare began: it returns when the task has been woken and resumed, with
// ErrStopped if it was stopped.
func (t *Task) Park() error {
	t.carrier.yield(struct{}{})
	if t.stopped.Load() {
		return t.stopError()
	}
	return nil
}

// Block is Park for a task that only other tasks of its host will wake. Who runs
// the tasks may thus find that all wait for one another.
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

// WakeApart is Wake by what goes on beside the tasks; see [Config.Apart].
func (w Waker) WakeApart() {
	if w.Claim() {
		w.task.host.cfg.Apart(w.task)
	}
}

// Claim wakes the task as Wake does, but does not hand it to Ready: if it reports true, the caller
// must have it resumed. If it reports false there is nothing to do.
func (w Waker) Claim() bool {
	return w.task.rouse(func(turn uint64) bool { return turn == w.turn })
}

// Task returns the task that it wakes.
func (w Waker) Task() *Task { return w.task }

// interrupt marks the task as stopped and reports whether the caller must have
// it resumed.
func (t *Task) interrupt(cause error) bool {
	t.stopContext(cause)
	return t.rouse(func(uint64) bool { return true })
}

// rouse moves a task that is parked, or about to be, if its turn is wanted. It
// reports whether it has become ready by that.
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

// move changes the state, whatever the turn, and reports whether it was as expected.
func (t *Task) move(from, to uint64) bool {
	old := t.word.Load()
	return old&stateMask == from && t.word.CompareAndSwap(old, old&^stateMask|to)
}

// withdraw takes back what Prepare began.
func (t *Task) withdraw(w Waker) { t.word.Store(w.turn << stateBits) }

// runs reports whether the task runs, and, if that is checked, whether the caller is on its
// goroutine.
func (t *Task) runs() bool {
	return t.word.Load()&stateMask == running && (!t.carrier.check || t.carrier.id == goid.ID())
}
