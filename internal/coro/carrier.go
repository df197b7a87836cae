package coro

import (
	"runtime/debug"

	"github.com/golda-dev/golda/internal/goid"
)

// carrier is a coroutine: a stack that carries tasks, one after another.
type carrier struct {
	next  func() (struct{}, bool) // called by who runs the task
	stop  func()
	yield func(struct{}) bool // called by the task
	task  *Task
	id    uint64 // its goroutine, if the host checks
	check bool
	lost  bool // it is held in the midst of runtime.Goexit
}

func newCarrier(cfg Config) *carrier {
	c := &carrier{check: cfg.Check}
	c.next, c.stop = cfg.Engine(c.body)
	return c
}

// body serves tasks until it is stopped. A task that calls runtime.Goexit takes the
// coroutine along, and with the engine Pull whoever runs it, too. So the last
// deferred call yields once more: who runs the task is told that it has ended, and
// somebody else lets the coroutine end (unwind).
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

// serve runs one task. This is the one place where panics are caught.
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

// end settles what became of the task's function.
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
