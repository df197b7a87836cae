package coro

import (
	"context"
	"sync"
	"time"
)

// idleByDefault is how many idle coroutines a host keeps if it is not told.
const idleByDefault = 64

// Config says how a host runs its tasks. Its zero value is ready for use by who
// never has a task suspended.
type Config struct {
	// Idle is how many coroutines are kept for reuse; 0 means 64, negative none.
	Idle int

	// Engine makes the coroutines; nil means [Pull].
	Engine Engine

	// Ready is called once for each time that a task is woken, by any goroutine, and
	// must have somebody call Resume. It must neither block nor resume by itself: who
	// wakes may be another task. A task that Close has unwound in the meantime may be
	// resumed all the same; nothing happens then.
	Ready func(*Task)

	// Apart, if set, is called instead of Ready for a task that was woken by what goes on beside its host:
	// by the end of a Sleep, or of what it awaits, or by Stop. Such wake-ups have no order among them,
	// and who has to have one may give it to them.
	Apart func(*Task)

	// Left, if set, is called with each task that has been set aside, or has ended, by
	// the goroutine that ran it, before anybody else can have it.
	Left func(*Task)

	// Ended, if set, is called with each task that has ended, by the goroutine that ran
	// it, after its coroutine is free again.
	Ended func(*Task)

	// Closing, if set, is called with each task before Close goes on with it; what it returns is called when the
	// task has ended, or has not been the host's to go on with.
	Closing func(*Task) (done func())

	// After, if set, wakes a sleeping task when a time has passed, instead of
	// [time.AfterFunc]. Cancel is called by a sleeper that was stopped.
	After func(d time.Duration, w Waker) (cancel func())

	// Check has each suspension find out whether its goroutine is the task's, and refuse
	// if not. That costs microseconds; it is meant for tests.
	Check bool
}

// Host runs tasks on coroutines that it keeps. New makes one.
type Host struct {
	cfg Config

	mu      sync.Mutex // guards what follows
	idle    []*carrier
	tasks   *Task // those that have not ended, the youngest first
	live    int
	created int
	closed  bool
}

// Stats counts what a host has.
type Stats struct {
	Created int // coroutines made since the beginning
	Idle    int // coroutines kept for reuse
	Live    int // tasks that have not ended, suspended or not
}

// New returns a host. It holds nothing until it runs a task.
func New(cfg Config) *Host {
	if cfg.Idle == 0 {
		cfg.Idle = idleByDefault
	}
	if cfg.Engine == nil {
		cfg.Engine = Pull
	}
	if cfg.Ready == nil {
		cfg.Ready = func(*Task) {}
	}
	if cfg.Apart == nil {
		cfg.Apart = cfg.Ready
	}
	if cfg.Ended == nil {
		cfg.Ended = func(*Task) {}
	}
	if cfg.Closing == nil {
		cfg.Closing = func(*Task) func() { return func() {} }
	}
	if cfg.After == nil {
		cfg.After = func(d time.Duration, w Waker) func() {
			timer := time.AfterFunc(d, w.WakeApart)
			return func() { timer.Stop() }
		}
	}
	return &Host{cfg: cfg}
}

// Start runs f as a new task until it suspends itself or ends. The task's values and
// deadline are those of ctx, and it is done when ctx is; it suspends all the
// same, until it is stopped. The tag is for the caller, who finds it in the task. The only
// error is ErrClosed; what becomes of f is told by the task.
func (h *Host) Start(ctx context.Context, tag any, f func(*Task)) (*Task, error) {
	t := &Task{Tag: tag, host: h, parent: ctx, f: f}
	if !h.admit(t) {
		return nil, ErrClosed
	}
	h.GoOn(t)
	return t, nil
}

// Resume goes on with a task that is ready, until it suspends itself again or ends. It
// reports false, and does nothing, if the task is not ready: somebody else was first.
func (h *Host) Resume(t *Task) bool {
	if !h.Claim(t) {
		return false
	}
	t.carrier.next()
	h.settle(t)
	return true
}

// Claim is the first half of Resume: if it reports true, the task is the caller's, who must have
// it go on.
func (h *Host) Claim(t *Task) bool { return t.move(ready, running) }

// GoOn is the second half of Resume.
func (h *Host) GoOn(t *Task) {
	t.carrier.next()
	h.settle(t)
}

// Close stops all tasks and runs those that are suspended to their ends, the youngest first: their
// suspensions return ErrStopped, and their deferred calls run. A task that another
// goroutine runs, or that called Close itself, is stopped at its next suspension.
// From then on no task is started. Close waits for what it runs. A task that goes on suspending is
// ended (see [Task.Refused]); one that neither returns nor suspends holds it up for ever. It may be called again, by another
// goroutine meanwhile: that one sees to the tasks which are still suspended.
func (h *Host) Close() { h.CloseFor(nil) }

// CloseFor is Close with a cause, which the tasks are told.
func (h *Host) CloseFor(cause error) {
	tasks, idle := h.shut()
	for _, c := range idle {
		c.stop()
	}
	for _, t := range tasks {
		t.interrupt(cause)
		done := h.cfg.Closing(t)
		h.Resume(t)
		done()
	}
}

// Each calls f with each task that has not ended. F must neither block nor call the host.
func (h *Host) Each(f func(*Task)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := h.tasks; t != nil; t = t.older {
		f(t)
	}
}

// Stats counts coroutines and tasks.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{Created: h.created, Idle: len(h.idle), Live: h.live}
}

// settle sees to what has become of a task whose coroutine has come back. Once the task is parked or
// ready it belongs to whoever comes for it, and is not touched any more.
//
// It is called beside the switch and not around it: a return from a function that was called before a switch
// goes where the processor does not expect it, and costs more than all that is done here.
func (h *Host) settle(t *Task) {
	if h.cfg.Left != nil {
		h.cfg.Left(t)
	}
	switch word := t.word.Load(); word & stateMask {
	case ended:
		h.release(t)
		h.cfg.Ended(t)
	case running: // it yields: nobody else can have moved it
		t.word.Store(word&^stateMask | ready)
		h.cfg.Ready(t)
	default:
		if !t.move(parking, parked) {
			t.move(woken, ready)
			h.again(t)
		}
	}
}

// again hands over a task that was woken on its way out, as whoever woke it would have.
func (h *Host) again(t *Task) {
	if t.apart {
		h.cfg.Apart(t)
		return
	}
	h.cfg.Ready(t)
}

// admit gives a new task its coroutine and its place among the live, unless the host
// is closed.
func (h *Host) admit(t *Task) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if n := len(h.idle); n > 0 {
		t.carrier = h.idle[n-1]
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
	} else {
		t.carrier = newCarrier(h.cfg)
		h.created++
	}
	t.carrier.task = t
	h.link(t)
	return true
}

// release takes the coroutine of a task that has ended.
func (h *Host) release(t *Task) {
	c := t.carrier
	c.task = nil
	h.mu.Lock()
	h.unlink(t)
	keep := !c.lost && !h.closed && len(h.idle) < h.cfg.Idle
	if keep {
		h.idle = append(h.idle, c)
	}
	h.mu.Unlock()
	switch {
	case keep:
	case c.lost:
		unwind(c)
	default:
		c.stop()
	}
}

// unwind lets a coroutine end that is held in the midst of runtime.Goexit. The engine
// hands that on to whoever stops it, so that is a goroutine which has nothing to lose. It is
// waited for, since it takes no time: all that the task deferred has been done.
func unwind(c *carrier) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.stop()
	}()
	<-over
}

// shut closes the host and returns what it had.
func (h *Host) shut() (tasks []*Task, idle []*carrier) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	idle, h.idle = h.idle, nil
	for t := h.tasks; t != nil; t = t.older {
		tasks = append(tasks, t)
	}
	return tasks, idle
}

func (h *Host) link(t *Task) {
	t.older = h.tasks
	if h.tasks != nil {
		h.tasks.younger = t
	}
	h.tasks = t
	h.live++
}

func (h *Host) unlink(t *Task) {
	if t.younger != nil {
		t.younger.older = t.older
	} else {
		h.tasks = t.older
	}
	if t.older != nil {
		t.older.younger = t.younger
	}
	t.younger, t.older = nil, nil
	h.live--
}
