package coro

import (
	"context"
	"fmt"
	"sync/atomic"
)

// suspender is behaviour.Suspender, of which this package knows nothing.
type suspender interface {
	context.Context
	Suspend(start func(wake func())) error
}

// Bound is a context that suspends as another does, and whose suspensions also end when a context ends.
type Bound struct {
	context.Context // that ends them
	c               suspender
}

// NewBound returns the context of c whose suspensions end when ctx does.
func NewBound(ctx context.Context, c suspender) *Bound { return &Bound{ctx, c} }

// Suspend suspends c until it has been woken, or the context ends and that is the error.
func (b *Bound) Suspend(start func(wake func())) error { return b.wait(start, b.c.Suspend) }

// SuspendApart is Suspend for a wake-up by a goroutine that runs beside the tasks; see [Config.Apart].
func (b *Bound) SuspendApart(start func(wake func())) error {
	if a, ok := b.c.(interface {
		SuspendApart(start func(wake func())) error
	}); ok {
		return b.wait(start, a.SuspendApart)
	}
	return b.wait(start, b.c.Suspend)
}

// wait ends with the first of two: the wake-up, or the end of the context.
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

// Ended returns why nothing suspends any more, nil if that may be: the task was stopped, or the context has ended.
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
	if cause != b.Err() { //nolint:errorlint // one and the same is said once
		return fmt.Errorf("coroutine: the wait ended with its context: %w: %w", b.Err(), cause)
	}
	return fmt.Errorf("coroutine: the wait ended with its context: %w", cause)
}

// TaskOf returns the task that suspends with a context, if it is one's, or bound to one's.
func TaskOf(c any) (*Task, bool) {
	for {
		switch of := c.(type) {
		case *Task:
			return of, true
		case *Bound:
			c = of.c
		default:
			return nil, false
		}
	}
}
