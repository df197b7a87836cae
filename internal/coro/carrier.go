package coro

import (
	"runtime/debug"

	"github.com/golda-dev/golda/internal/goid"
)

// carrier is a coroutine: a stack that runs tasks, one after another.
type carrier struct {
	next  func() (struct{}, bool) // called by the goroutine that runs the task
	stop  func()
	yield func(struct{}) bool // called by the task
	task  *Task
	id    uint64 // the number of its goroutine, if the host checks
	check bool
	lost  bool // it is suspended during runtime.Goexit and cannot be reused
}

func newCarrier(cfg Config) *carrier {
	c := &carrier{check: cfg.Check}
	c.next, c.stop = cfg.Engine(c.body)
	return c
}

// body runs tasks until it is stopped. A task that calls runtime.Goexit ends
// the coroutine, too, and with the engine Pull also the goroutine that runs it.
// So the last deferred call yields once more: the goroutine that runs the task
// learns that the task has ended, and another goroutine lets the coroutine end
// (unwind).
func (c *carrier) body(yield func(struct{}) bool) {
	if c.check {
		c.id = goid.ID()
	}
	c.yield = yield
	defer c.survive()
	for {
		c.serve()
		if !yield(struct{}{}) {
			return
		}
	}
}

// serve runs one task. Panics are caught only here.
func (c *carrier) serve() {
	t := c.task
	defer t.end()
	t.f(t)
	t.returned = true
}

func (c *carrier) survive() {
	if t := c.task; t != nil && !t.returned {
		c.lost = true
		c.yield(struct{}{})
	}
}

// end records how the task's function ended.
func (t *Task) end() {
	if !t.returned {
		if v := recover(); v != nil {
			t.returned = true
			t.fault = &PanicError{Value: v, Stack: debug.Stack()}
		} else if t.fault == nil {
			t.fault = ErrGoexit
		}
	}
	t.f = nil
	t.finish()
	t.word.Store(ended)
}
