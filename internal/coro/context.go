package coro

import (
	"context"
	"fmt"
	"time"
)

// A task is a context, but most tasks are never used as one. So the real
// context is made when it is first needed. The contexts that the standard
// library derives from the task are then children of it, without a goroutine
// for each.

// Deadline returns the deadline of the context given to Start.
func (t *Task) Deadline() (time.Time, bool) { return t.parent.Deadline() }

// Done returns a channel that is closed when the task is stopped or has ended,
// or when the context given to Start is done.
func (t *Task) Done() <-chan struct{} { return t.real().Done() }

// Err returns a non-nil error if Done is closed.
func (t *Task) Err() error {
	t.mu.Lock()
	ctx, over := t.ctx, t.over
	t.mu.Unlock()
	switch {
	case ctx != nil:
		return ctx.Err()
	case over:
		return context.Canceled
	default:
		return t.parent.Err()
	}
}

// Value returns the value of the context given to Start for that key. Package
// context looks up in this way the context that ends, and its cause; this is
// the real context.
func (t *Task) Value(key any) any {
	t.mu.Lock()
	ctx := t.ctx
	t.mu.Unlock()
	if ctx != nil {
		return ctx.Value(key)
	}
	v := t.parent.Value(key)
	if _, suspect := v.(context.Context); suspect {
		return t.real().Value(key)
	}
	return v
}

// Parent returns the context that was given to Start.
func (t *Task) Parent() context.Context { return t.parent }

func (t *Task) real() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(t.parent)
		if t.over {
			t.cancel(t.cause)
		}
	}
	return t.ctx
}

// stopContext marks the task as stopped; the first cause counts.
func (t *Task) stopContext(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over, t.cause = true, ErrStopped
	if cause != nil {
		t.cause = fmt.Errorf("%w: %w", ErrStopped, cause)
	}
	if t.cancel != nil {
		t.cancel(t.cause)
	}
	t.stopped.Store(true)
}

// finish ends the context of a task that has ended, as the context of an HTTP
// request ends.
func (t *Task) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.cancel != nil {
		t.cancel(t.cause)
	}
}

func (t *Task) stopError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}
