package coro

import (
	"context"
	"fmt"
	"time"
)

// A task is a context, but most tasks are never asked for one. So the context proper is
// made when it is first needed, and those that the standard library derives from the
// task hang on to it, without a goroutine for each.

// Deadline returns that of the context given to Start.
func (t *Task) Deadline() (time.Time, bool) { return t.parent.Deadline() }

// Done is closed when the task is stopped or has ended, or the context given to Start
// is done.
func (t *Task) Done() <-chan struct{} { return t.proper().Done() }

// Err tells whether Done is closed.
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

// Value returns what the context given to Start has under that key. Package context asks so for the context that
// ends, and with what cause, which is the proper one.
func (t *Task) Value(key any) any {
	t.mu.Lock()
	ctx := t.ctx
	t.mu.Unlock()
	if ctx != nil {
		return ctx.Value(key)
	}
	v := t.parent.Value(key)
	if _, suspect := v.(context.Context); suspect {
		return t.proper().Value(key)
	}
	return v
}

// Parent returns the context that was given to Start.
func (t *Task) Parent() context.Context { return t.parent }

func (t *Task) proper() context.Context {
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

// finish ends the context of a task that has ended, as that of a request does.
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
