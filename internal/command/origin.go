package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/coro"
)

// Origin is what a command has in common with all commands that come of it: the ticket of the caller who waits for
// them, and the caller's context. Envelopes point to it, so that neither costs a word of its own. A nil Origin
// has neither.
//
// An Origin does not change once a command with it was submitted.
type Origin struct {
	ticket *Ticket
	// ctx gives the values. If there is a ticket, the commands end with it too.
	ctx context.Context
}

// OriginKey is the key under which the context of a handler has the [Origin] of its command, if there is one.
type OriginKey struct{}

// Ticket returns the ticket, nil if nobody waits.
func (o *Origin) Ticket() *Ticket {
	if o == nil {
		return nil
	}
	return o.ticket
}

// Context returns the caller's context, nil if it has nothing to tell.
func (o *Origin) Context() context.Context {
	if o == nil {
		return nil
	}
	return o.ctx
}

// Ends reports whether the commands may end with the caller's context: somebody waits for them, and the context can
// end.
func (o *Origin) Ends() bool { return o != nil && o.ticket != nil && o.ctx != nil && ends(o.ctx) }

// Ended returns nil if the commands may go on. If the caller's context has ended, and they with it, it returns the
// context's error, and its cause if that is another error.
func (o *Origin) Ended() error {
	if o == nil || o.ticket == nil || o.ctx == nil {
		return nil
	}
	err := o.ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(o.ctx); cause != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Value returns the value that the caller's context has under a key. What package context finds out about a context by
// Value, such as how to be told of its end, is left out: a handler's context does not end as the caller's does.
func (o *Origin) Value(key any) any {
	if o == nil || o.ctx == nil {
		return nil
	}
	v := o.ctx.Value(key)
	if _, suspect := v.(context.Context); suspect {
		return context.WithoutCancel(o.ctx).Value(key)
	}
	return v
}

// Handling is a context that was given to a handler.
type Handling interface {
	context.Context
	// Origin is that of the handler's command.
	Origin() *Origin
	// Pipeline tells the handler's pipeline from others.
	Pipeline() any
	// Lasts reports whether the context ends with its pipeline only.
	Lasts() bool
}

// Submitted returns the origin of a command that is submitted with ctx to a stage of the given house: the values of
// ctx, and not its end. It is nil if ctx has no values, as far as that can be seen.
func Submitted(ctx context.Context, house any) *Origin {
	values, known := valuesOf(ctx, house)
	if known != nil || values == nil {
		return known
	}
	return &Origin{ctx: values}
}

// Asked opens a ticket for a command that is submitted with ctx to a stage of the given house, and returns its origin: the
// ticket, and the values and the end of ctx.
func (t *Ticket) Asked(ctx context.Context, house any) *Origin {
	t.Open()
	if ctx == context.Background() || ctx == context.TODO() {
		return &t.origin
	}
	h, handling := ctx.(Handling)
	lasts := handling && h.Lasts() && h.Pipeline() == house // it ends with the pipeline, and so does the command
	if !lasts && ends(ctx) {
		t.origin.ctx = ctx //nolint:fatcontext // it is the caller's, for one command
		return &t.origin
	}
	values, _ := valuesOf(ctx, house)
	if values != nil && ends(values) {
		values = context.WithoutCancel(values)
	}
	t.origin.ctx = values
	return &t.origin
}

// valuesOf returns a context with the values of ctx, nil if there are none, and the origin of a handler's command if it
// is one for just these.
func valuesOf(ctx context.Context, house any) (values context.Context, known *Origin) {
	ctx = bare(ctx)
	if ctx == context.Background() || ctx == context.TODO() {
		return nil, nil
	}
	if h, ok := ctx.(Handling); ok && h.Pipeline() == house {
		o := h.Origin()
		switch {
		case o == nil || o.ctx == nil:
			return nil, nil
		case o.ticket == nil:
			return o.ctx, o
		}
		return valuesOf(o.ctx, house)
	}
	return nest(ctx), nil
}

// ends reports whether a context can end. A task can, and would make a channel to say so.
func ends(ctx context.Context) bool {
	if _, ok := ctx.(*coro.Task); ok {
		return true
	}
	return ctx.Done() != nil
}

// Nested is how many times a command may be submitted by the handler of another one, with a context that the handler made
// of its own, before what handlers have added to the context is forgotten. A pipeline that feeds itself so for ever
// would else hold the contexts of all commands that ever were.
const Nested = 256

// nested is a context that was made of a handler's, whose command was submitted with such a context, and so on.
type nested struct {
	context.Context
	first context.Context // the one that was made of no handler's
	depth int
}

// nest counts how deep a context is nested, and returns the first one if it is too deep.
func nest(ctx context.Context) context.Context {
	if _, counted := ctx.(*nested); counted {
		return ctx
	}
	from, _ := ctx.Value(OriginKey{}).(*Origin)
	if from == nil || from.ctx == nil {
		return ctx
	}
	n := &nested{Context: ctx, first: from.ctx, depth: 1}
	if outer, ok := from.ctx.(*nested); ok {
		n.first, n.depth = outer.first, outer.depth+1
	}
	if n.depth > Nested {
		return n.first
	}
	return n
}
