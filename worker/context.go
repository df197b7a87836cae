package worker

import (
	"context"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
)

// There are three contexts of handlers. A command without a caller's context is
// handled with its worker's context, which is always the same: handling. Other
// commands have contexts of their own: valued has the values of the caller's
// context, and calling ends with it too. So a context that a handler keeps
// still has the values of its command, whatever the worker does by then.

// called is what a worker needs for commands with callers' contexts.
type called struct {
	last    *valued  // of the last command whose caller's context gives values only; the next command may have the same
	present *calling // of the present command, if it may end with its caller's context
}

// calls returns what the worker needs for commands with callers' contexts, and
// makes it the first time.
func (w *Worker) calls() *called {
	if w.called == nil {
		w.called = new(called)
	}
	return w.called
}

// End ends the context of a handler that has returned, if it is registered with
// the caller's context.
func (w *Worker) End() {
	if w.called != nil && w.called.present != nil {
		w.called.present.release()
		w.called.present = nil
	}
}

// handling is the context of a handler whose command has no caller's context.
// It ends when the pipeline stops hard.
type handling Worker

func (w *Worker) handling() context.Context { return (*handling)(w) }

// Deadline returns the deadline of the context that handlers' contexts end
// with.
func (h *handling) Deadline() (deadline time.Time, ok bool) { return h.base.Deadline() }

// Done is closed when the pipeline stops hard.
func (h *handling) Done() <-chan struct{} { return h.base.Done() }

// Err returns why the context has ended.
func (h *handling) Err() error { return h.base.Err() }

// Value returns the worker as the emitter, and otherwise what the pipeline's
// context has.
func (h *handling) Value(key any) any {
	if _, ok := key.(link.EmitterKey); ok {
		return (*emitter)(h)
	}
	return h.base.Value(key)
}

// Origin returns nil, because there is no caller's context.
func (h *handling) Origin() *command.Origin { return nil }

// Pipeline returns the worker's pipeline.
func (h *handling) Pipeline() any { return h.pipeline }

// Lasts returns true: the context ends with the pipeline.
func (h *handling) Lasts() bool { return true }

// valued is the context of a handler whose command has the values of its
// caller's context.
type valued struct {
	w    *Worker
	from *command.Origin
}

// Deadline returns the deadline of the pipeline's context.
func (v *valued) Deadline() (deadline time.Time, ok bool) { return v.w.base.Deadline() }

// Done is closed when the pipeline stops hard.
func (v *valued) Done() <-chan struct{} { return v.w.base.Done() }

// Err returns why the pipeline has stopped hard.
func (v *valued) Err() error { return v.w.base.Err() }

// Value returns the worker as the emitter, then what the caller's context has,
// and then what the pipeline's context has.
func (v *valued) Value(key any) any {
	if known, ok := v.own(key); ok {
		return known
	}
	if value := v.from.Value(key); value != nil {
		return value
	}
	return v.w.base.Value(key)
}

// own returns the values that are never the caller's: the caller may be a
// handler itself.
func (v *valued) own(key any) (value any, known bool) {
	switch key.(type) {
	case link.EmitterKey:
		return (*emitter)(v.w), true
	case command.OriginKey:
		return v.from, true
	case link.SuspenderKey:
		return nil, true
	}
	if key == profileKey {
		return v.w.base.Value(key), true
	}
	return nil, false
}

// Origin returns the origin of the command.
func (v *valued) Origin() *command.Origin { return v.from }

// Pipeline returns the worker's pipeline.
func (v *valued) Pipeline() any { return v.w.pipeline }

// Lasts returns true: the context ends with the pipeline.
func (v *valued) Lasts() bool { return true }

// calling is the context of a handler whose command ends with its caller's
// context. It ends with that, when the pipeline stops hard, and when the
// handler has returned.
//
// Most handlers never wait for the end of their context, so the context that
// can be waited for is made on demand.
type calling struct {
	valued

	mu     sync.Mutex      // guards the rest
	proper context.Context // derived from the caller's; nil until it is needed
	cancel context.CancelCauseFunc
	unhook func() bool
	over   bool // the handler has returned
}

// Deadline returns the deadline of the caller or of the pipeline, whichever is
// earlier.
func (c *calling) Deadline() (deadline time.Time, ok bool) {
	deadline, ok = c.w.base.Deadline()
	if theirs, limited := c.from.Context().Deadline(); limited && (!ok || theirs.Before(deadline)) {
		return theirs, true
	}
	return deadline, ok
}

// Done is closed when the context has ended.
func (c *calling) Done() <-chan struct{} { return c.ending().Done() }

// Err returns why the context has ended.
func (c *calling) Err() error {
	c.mu.Lock()
	proper, over := c.proper, c.over
	c.mu.Unlock()
	switch {
	case proper != nil:
		return proper.Err()
	case over:
		return context.Canceled
	}
	if err := c.w.base.Err(); err != nil {
		return err
	}
	return c.from.Context().Err()
}

// Value returns the same value as a valued. With it package context also
// looks up which context ends, and with what cause; that is the proper one.
func (c *calling) Value(key any) any {
	value := (*upstream)(c).Value(key)
	if _, suspect := value.(context.Context); suspect {
		return c.ending().Value(key)
	}
	return value
}

// Lasts returns false: the context may end with the caller's.
func (c *calling) Lasts() bool { return false }

// ending returns the proper context, and makes it the first time.
func (c *calling) ending() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proper != nil {
		return c.proper
	}
	c.proper, c.cancel = context.WithCancelCause((*upstream)(c))
	base := c.w.base
	switch {
	case c.over:
		c.cancel(nil)
	case base.Err() != nil:
		c.cancel(context.Cause(base))
	default:
		cancel := c.cancel
		c.unhook = context.AfterFunc(base, func() { cancel(context.Cause(base)) })
	}
	return c.proper
}

// release ends the context: its handler has returned.
func (c *calling) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.unhook != nil {
		c.unhook()
	}
	if c.cancel != nil {
		c.cancel(nil)
	}
}

// upstream is a calling that does not end with the pipeline. It is the parent
// of the proper context, which has its error and its cause from the caller's.
type upstream calling

// Deadline returns the caller's deadline.
func (c *upstream) Deadline() (deadline time.Time, ok bool) { return c.from.Context().Deadline() }

// Done is closed when the caller's context has ended.
func (c *upstream) Done() <-chan struct{} { return c.from.Context().Done() }

// Err returns why the caller's context has ended.
func (c *upstream) Err() error { return c.from.Context().Err() }

// Value returns the same value as valued. If package context looks up which
// context ends, it finds the caller's.
func (c *upstream) Value(key any) any {
	if known, ok := c.own(key); ok {
		return known
	}
	if value := c.from.Context().Value(key); value != nil {
		return value
	}
	return c.w.base.Value(key)
}

// timed is the context of a handler with a time limit.
type timed struct {
	context.Context // ends with the limit

	from *command.Origin
	host *inbox.Pipeline
}

// Origin returns the origin of the command, nil if there is none.
func (t *timed) Origin() *command.Origin { return t.from }

// Pipeline returns the worker's pipeline.
func (t *timed) Pipeline() any { return t.host }

// Lasts returns false: the context ends with the limit.
func (t *timed) Lasts() bool { return false }

// profileKey is the key under which package runtime/pprof keeps the labels of a
// context. A handler's context always has the labels of its stage, not the
// caller's. Otherwise pprof.Do would leave the worker's goroutine with the
// labels of another stage.
var profileKey = func() any {
	var spy keySpy
	pprof.Label(&spy, "")
	return spy.key
}()

// keySpy is a context that records the key of the last call of Value.
type keySpy struct {
	context.Context
	key any
}

// Value records the key.
func (k *keySpy) Value(key any) any {
	k.key = key
	return nil
}
