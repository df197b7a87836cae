package coro

import (
	"context"
	"fmt"
	"sync/atomic"
)

// suspender is behaviour.Suspender, which this package does not import.
type suspender interface {
	context.Context
	Suspend(start func(wake func())) error
}

// Bound is a context that suspends like another one, and whose suspensions also
// end when a context ends.
type Bound struct {
	context.Context // the context that ends the suspensions
	c               suspender
}

// NewBound returns a context that suspends like c, and whose suspensions end
// when ctx ends.
func NewBound(ctx context.Context, c suspender) *Bound { return &Bound{ctx, c} }

// Suspend suspends c until it is woken, or until the context ends; then it
// returns the context's error.
func (b *Bound) Suspend(start func(wake func())) error { return b.wait(start, b.c.Suspend) }

// SuspendApart is Suspend for a wake-up by a goroutine outside the tasks; see
// [Config.Apart].
func (b *Bound) SuspendApart(start func(wake func())) error {
	if a, ok := b.c.(interface {
		SuspendApart(start func(wake func())) error
	}); ok {
		return b.wait(start, a.SuspendApart)
	}
	return b.wait(start, b.c.Suspend)
}

// wait ends with the first of two events: the wake-up, or the end of the
// context.
func (b *Bound) wait(start func(wake func()), suspend func(start func(wake func())) error) error {
	if err := b.Ended(); err != nil {
		return err
	}
	const woken, ended = 1, 2
	var by atomic.Int32
	stop := func() bool { return true }
	defer func() { stop() }()
	err := suspend(func(wake func()) {
		stop = context.AfterFunc(b.Context, func() {
			if by.CompareAndSwap(0, ended) {
				wake()
			}
		})
		start(func() {
			if by.CompareAndSwap(0, woken) {
				wake()
			}
		})
	})
	if err == nil && by.Load() == ended {
		return b.Ended()
	}
	return err
}

// Ended returns why suspensions fail now, or nil if they do not: the task was
// stopped, or the context has ended.
func (b *Bound) Ended() error {
	if b.Err() == nil {
		return nil
	}
	if t, ok := TaskOf(b); ok {
		if err := t.Refused(); err != nil {
			return err
		}
	}
	cause := context.Cause(b.Context)
	if cause != b.Err() { //nolint:errorlint // do not print the same error twice
		return fmt.Errorf("coroutine: the wait ended with its context: %w: %w", b.Err(), cause)
	}
	return fmt.Errorf("coroutine: the wait ended with its context: %w", cause)
}

// TaskOf returns the task whose context c is, or to whose context c is bound.
func TaskOf(c any) (*Task, bool) {
	t, ok := Origin(c).(*Task)
	return t, ok
}

// Origin returns the context that c is bound to, through any number of bounds,
// or c itself.
func Origin(c any) any {
	for {
		b, ok := c.(*Bound)
		if !ok {
			return c
		}
		c = b.c
	}
}
