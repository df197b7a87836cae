package coro

import (
	"context"
	"sync"
	"time"
)

// idleByDefault is how many idle coroutines a host keeps by default.
const idleByDefault = 64

// Config configures a host. Its zero value is ready for use if no task ever
// suspends.
type Config struct {
	// Idle is how many coroutines are kept for reuse; 0 means 64, and a
	// negative number none.
	Idle int

	// Engine makes the coroutines; nil means [Pull].
	Engine Engine

	// Ready is called once for each time that a task is woken, by any
	// goroutine, and must arrange a call of Resume. It must neither block nor
	// call Resume itself: the waking goroutine may be running another task. If
	// Close has unwound the task in the meantime, Resume does nothing.
	Ready func(*Task)

	// Apart, if set, is called instead of Ready for a task that was woken from
	// outside the tasks: by the end of a Sleep, or of a function that it
	// awaits, or by Stop. Such wake-ups come in no defined order; an owner that
	// needs an order may define one here.
	Apart func(*Task)

	// Left, if set, is called with each task that has suspended or ended, by
	// the goroutine that ran it, before any other goroutine can get the task.
	Left func(*Task)

	// Ended, if set, is called with each task that has ended, by the goroutine
	// that ran it, after its coroutine is free again.
	Ended func(*Task)

	// Closing, if set, is called with each task before Close resumes it; the
	// returned function is called when the task has ended, or when Close could
	// not resume it.
	Closing func(*Task) (done func())

	// After, if set, wakes a sleeping task when a time has passed, instead of
	// [time.AfterFunc]. A sleeping task that is stopped calls cancel.
	After func(d time.Duration, w Waker) (cancel func())

	// Check makes each suspension find out whether its goroutine is the task's,
	// and fail otherwise. This costs microseconds; it is meant for tests.
	Check bool
}

// Host runs tasks on coroutines that it keeps. New makes one.
type Host struct {
	cfg Config

	mu      sync.Mutex // guards the fields below
	idle    []*carrier
	tasks   *Task // tasks that have not ended, the youngest first
	live    int
	created int
	closed  bool
}

// Stats counts the coroutines and tasks of a host.
type Stats struct {
	Created int // coroutines made since the start
	Idle    int // coroutines kept for reuse
	Live    int // tasks that have not ended, suspended or not
}

// New returns a host. It holds no coroutine until it runs a task.
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

// Start runs f as a new task until it suspends itself or ends. The task has the
// values and the deadline of ctx, and its context is done when ctx is. This
// does not end its suspensions; Stop does. The tag is for the caller, which
// finds it in the task. The only error is ErrClosed; the task holds the outcome
// of f.
func (h *Host) Start(ctx context.Context, tag any, f func(*Task)) (*Task, error) {
	t := &Task{Tag: tag, host: h, parent: ctx, f: f}
	if !h.admit(t) {
		return nil, ErrClosed
	}
	h.GoOn(t)
	return t, nil
}

// Resume continues a ready task until it suspends itself again or ends. It
// returns false, and does nothing, if the task is not ready: another goroutine
// was first.
func (h *Host) Resume(t *Task) bool {
	if !h.Claim(t) {
		return false
	}
	t.carrier.next()
	h.settle(t)
	return true
}

// Claim is the first half of Resume: if it returns true, the caller owns the
// task and must call GoOn.
func (h *Host) Claim(t *Task) bool { return t.move(ready, running) }

// GoOn is the second half of Resume.
func (h *Host) GoOn(t *Task) {
	t.carrier.next()
	h.settle(t)
}

// Close stops all tasks and runs the suspended ones to their ends, the youngest
// first: their suspensions return ErrStopped, and their deferred calls run. A
// task that another goroutine runs, or that called Close itself, is stopped at
// its next suspension. From then on no task can be started. Close waits for the
// tasks that it runs. A task that continues to suspend is ended (see
// [Task.Refused]); one that neither returns nor suspends holds Close up for
// ever. Another goroutine may call Close again meanwhile: that call runs the
// tasks that are still suspended.
func (h *Host) Close() { h.CloseFor(nil) }

// CloseFor is Close with a cause for ErrStopped.
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

// Each calls f with each task that has not ended. f must neither block nor call
// the host.
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

// settle handles a task whose coroutine has yielded or ended. Once the task is
// parked or ready, another goroutine may own it, and settle does not touch it
// any more.
//
// settle is called after the switch, and not around it: a return from a
// function that was called before a switch goes where the processor does not
// predict it, and costs more than all the work here.
func (h *Host) settle(t *Task) {
	if h.cfg.Left != nil {
		h.cfg.Left(t)
	}
	switch word := t.word.Load(); word & stateMask {
	case ended:
		h.release(t)
		h.cfg.Ended(t)
	case running: // it yields, and no other goroutine can have moved it
		t.word.Store(word&^stateMask | ready)
		h.cfg.Ready(t)
	default:
		if !t.move(parking, parked) {
			t.move(woken, ready)
			h.again(t)
		}
	}
}

// again passes on a task that was woken before it had parked, as the goroutine
// that woke it would have done.
func (h *Host) again(t *Task) {
	if t.apart {
		h.cfg.Apart(t)
		return
	}
	h.cfg.Ready(t)
}

// admit gives a new task a coroutine and adds it to the live tasks, unless the
// host is closed.
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

// release takes the coroutine back from a task that has ended.
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

// unwind lets a coroutine end that is suspended during runtime.Goexit. The
// engine passes the Goexit on to the goroutine that stops it, so unwind uses a
// new goroutine. It waits for that, since it takes no time: all deferred calls
// of the task have run already.
func unwind(c *carrier) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.stop()
	}()
	<-over
}

// shut closes the host and returns its tasks and idle coroutines.
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
