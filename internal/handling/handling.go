package handling

import (
	"context"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

var _ = []command.Handling{(*Plain)(nil), (*Valued)(nil), (*Calling)(nil), (*Timed)(nil)}

// Plain is the context of a handler whose command has no caller's context. It
// ends when the pipeline stops hard. A worker has one, which all its handlers
// share.
type Plain struct {
	Base    context.Context // the pipeline's, with the labels of the stage
	Host    any             // the pipeline
	Emitter any             // the worker as the handler sees it
}

// Deadline returns the deadline of the context that handlers' contexts end
// with.
func (p *Plain) Deadline() (deadline time.Time, ok bool) { return p.Base.Deadline() }

// Done is closed when the pipeline stops hard.
func (p *Plain) Done() <-chan struct{} { return p.Base.Done() }

// Err returns why the context has ended.
func (p *Plain) Err() error { return p.Base.Err() }

// Value returns the worker as the emitter, and otherwise what the pipeline's
// context has.
func (p *Plain) Value(key any) any {
	if _, ok := key.(link.EmitterKey); ok {
		return p.Emitter
	}
	return p.Base.Value(key)
}

// Origin returns nil, because there is no caller's context.
func (p *Plain) Origin() *command.Origin { return nil }

// Pipeline returns the worker's pipeline.
func (p *Plain) Pipeline() any { return p.Host }

// Lasts returns true: the context ends with the pipeline.
func (p *Plain) Lasts() bool { return true }

// Valued returns the context of a handler whose command has an origin that does
// not end it.
func (p *Plain) Valued(from *command.Origin) *Valued { return &Valued{p, from} }

// Calling returns the context of a handler whose command has an origin that may
// end it. It must be released.
func (p *Plain) Calling(from *command.Origin) *Calling { return &Calling{Valued: Valued{p, from}} }

// Timed returns the context of a handler with a time limit, with which ctx
// ends. The origin may be nil.
func (p *Plain) Timed(ctx context.Context, from *command.Origin) *Timed {
	return &Timed{ctx, from, p.Host}
}

// Valued is the context of a handler whose command has the values of its
// caller's context.
type Valued struct {
	plain *Plain
	from  *command.Origin
}

// Deadline returns the deadline of the pipeline's context.
func (v *Valued) Deadline() (deadline time.Time, ok bool) { return v.plain.Base.Deadline() }

// Done is closed when the pipeline stops hard.
func (v *Valued) Done() <-chan struct{} { return v.plain.Base.Done() }

// Err returns why the pipeline has stopped hard.
func (v *Valued) Err() error { return v.plain.Base.Err() }

// Value returns the worker as the emitter, then what the caller's context has,
// and then what the pipeline's context has.
func (v *Valued) Value(key any) any {
	if known, ok := v.own(key); ok {
		return known
	}
	if value := v.from.Value(key); value != nil {
		return value
	}
	return v.plain.Base.Value(key)
}

// own returns the values that are never the caller's: the caller may be a
// handler itself.
func (v *Valued) own(key any) (value any, known bool) {
	switch key.(type) {
	case link.EmitterKey:
		return v.plain.Emitter, true
	case command.OriginKey:
		return v.from, true
	case link.SuspenderKey:
		return nil, true
	}
	if key == ProfileKey {
		return v.plain.Base.Value(key), true
	}
	return nil, false
}

// Origin returns the origin of the command.
func (v *Valued) Origin() *command.Origin { return v.from }

// Pipeline returns the worker's pipeline.
func (v *Valued) Pipeline() any { return v.plain.Host }

// Lasts returns true: the context ends with the pipeline.
func (v *Valued) Lasts() bool { return true }

// Calling is the context of a handler whose command ends with its caller's
// context. It ends with that, when the pipeline stops hard, and when the
// handler has returned.
//
// Most handlers never wait for the end of their context, so the context that
// can be waited for is made on demand.
type Calling struct {
	Valued

	mu     sync.Mutex      // guards the rest
	proper context.Context // derived from the caller's; nil until it is needed
	cancel context.CancelCauseFunc
	unhook func() bool
	over   bool // the handler has returned
}

// Deadline returns the deadline of the caller or of the pipeline, whichever is
// earlier.
func (c *Calling) Deadline() (deadline time.Time, ok bool) {
	deadline, ok = c.plain.Base.Deadline()
	if theirs, limited := c.from.Context().Deadline(); limited && (!ok || theirs.Before(deadline)) {
		return theirs, true
	}
	return deadline, ok
}

// Done is closed when the context has ended.
func (c *Calling) Done() <-chan struct{} { return c.ending().Done() }

// Err returns why the context has ended.
func (c *Calling) Err() error {
	c.mu.Lock()
	proper, over := c.proper, c.over
	c.mu.Unlock()
	switch {
	case proper != nil:
		return proper.Err()
	case over:
		return context.Canceled
	}
	if err := c.plain.Base.Err(); err != nil {
		return err
	}
	return c.from.Context().Err()
}

// Value returns the same value as a Valued. With it package context also
// looks up which context ends, and with what cause; that is the proper one.
func (c *Calling) Value(key any) any {
	value := (*upstream)(c).Value(key)
	if _, suspect := value.(context.Context); suspect {
		return c.ending().Value(key)
	}
	return value
}

// Lasts returns false: the context may end with the caller's.
func (c *Calling) Lasts() bool { return false }

// ending returns the proper context, and makes it the first time.
func (c *Calling) ending() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proper != nil {
		return c.proper
	}
	c.proper, c.cancel = context.WithCancelCause((*upstream)(c))
	base := c.plain.Base
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

// Release ends the context: its handler has returned.
func (c *Calling) Release() {
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

// upstream is a Calling that does not end with the pipeline. It is the parent
// of the proper context, which has its error and its cause from the caller's.
type upstream Calling

// Deadline returns the caller's deadline.
func (c *upstream) Deadline() (deadline time.Time, ok bool) { return c.from.Context().Deadline() }

// Done is closed when the caller's context has ended.
func (c *upstream) Done() <-chan struct{} { return c.from.Context().Done() }

// Err returns why the caller's context has ended.
func (c *upstream) Err() error { return c.from.Context().Err() }

// Value returns the same value as Valued. If package context looks up which
// context ends, it finds the caller's.
func (c *upstream) Value(key any) any {
	if known, ok := c.own(key); ok {
		return known
	}
	if value := c.from.Context().Value(key); value != nil {
		return value
	}
	return c.plain.Base.Value(key)
}

// Timed is the context of a handler with a time limit.
type Timed struct {
	context.Context // ends with the limit

	from *command.Origin
	host any
}

// Origin returns the origin of the command, nil if there is none.
func (t *Timed) Origin() *command.Origin { return t.from }

// Pipeline returns the worker's pipeline.
func (t *Timed) Pipeline() any { return t.host }

// Lasts returns false: the context ends with the limit.
func (t *Timed) Lasts() bool { return false }

// ProfileKey is the key under which package runtime/pprof keeps the labels of a
// context. A handler's context always has the labels of its stage, not the
// caller's. Otherwise pprof.Do would leave the worker's goroutine with the
// labels of another stage.
var ProfileKey = func() any {
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
