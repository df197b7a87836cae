package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/coro"
)

// Origin is shared by a command and all commands that result from it. It has
// the ticket of the caller that waits for them, and the caller's context.
// Envelopes point to it, so that neither costs a word of its own in an
// envelope. A nil Origin has neither.
//
// An Origin does not change after a command with it was submitted.
type Origin struct {
	ticket *Ticket
	// ctx has the values. If there is a ticket, or ctx is expiring, the
	// commands also end with ctx.
	ctx context.Context
}

// OriginKey is the key under which the context of a handler has the [Origin] of
// its command, if there is one.
type OriginKey struct{}

// AgainKey is the key under which the context of a command has the pipeline
// whose checkpoint the command comes again from, until the checkpoint has
// passed it.
type AgainKey struct{}

// ComesAgain reports whether the next process of a pipeline has the command
// again if a hard stop of the pipeline ends it here: its source has it, or the
// checkpoint of the pipeline. If it is the result of several commands,
// ComesAgain reports whether that is so for all of them.
func (o *Origin) ComesAgain(pipeline any) bool {
	switch t := o.Ticket(); {
	case t != nil && t.of != nil:
		return t.of.comesAgain(pipeline)
	case t.hasSource():
		return true
	default:
		again := o.Value(AgainKey{})
		return again != nil && again == pipeline
	}
}

// Ticket returns the ticket, or nil if no caller waits.
func (o *Origin) Ticket() *Ticket {
	if o == nil {
		return nil
	}
	return o.ticket
}

// Context returns the caller's context, or nil if it has neither values nor an
// end.
func (o *Origin) Context() context.Context {
	if o == nil {
		return nil
	}
	return o.ctx
}

// Ends reports whether the commands may end with the caller's context: a caller
// waits for them and the context can end, or they have a deadline, or an end
// that their source gave them.
func (o *Origin) Ends() bool {
	if _, ok := o.expires(); ok {
		return true
	}
	return o != nil && o.ticket != nil && o.ctx != nil && ends(o.ctx)
}

// MayEnd reports whether [Origin.Ended] may return an error some day. It may
// report true in vain, and calls no code of users.
func (o *Origin) MayEnd() bool {
	if o == nil || o.ctx == nil {
		return false
	}
	_, deadline := o.expires()
	return deadline || o.ticket != nil && !o.ticket.watches
}

// Ended returns nil if the commands may continue. If the caller's context has
// ended, and the commands with it, Ended returns the context's error, joined
// with its cause if that is another error.
func (o *Origin) Ended() error {
	if o == nil || o.ctx == nil {
		return nil
	}
	if _, late := o.expires(); !late && o.ticket == nil {
		return nil
	}
	return Ended(o.ctx)
}

// Ended returns nil if ctx has not ended, and otherwise its error, joined with
// its cause if that is another error.
func Ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return EndedBy(ctx, context.Cause(ctx))
}

// EndedBy returns why a wait with ctx failed. If ctx has ended, that is its
// error, joined with why if that is another error. The error of ctx shows
// whether its deadline has passed; its cause need not.
func EndedBy(ctx context.Context, why error) error {
	switch err := ctx.Err(); {
	case err == nil || errors.Is(why, err):
		return why
	case why == nil:
		return err
	default:
		return fmt.Errorf("%w: %w", err, why)
	}
}

// Detached returns an origin with the same ticket and values whose commands do
// not end with the caller's context.
func (o *Origin) Detached() *Origin {
	if x, ok := o.expires(); ok {
		return &Origin{ticket: o.ticket, ctx: x.forever()}
	}
	if o == nil || o.ticket == nil || o.ctx == nil {
		return o
	}
	return &Origin{ticket: o.ticket, ctx: context.WithoutCancel(o.ctx)}
}

// Alone returns an origin for commands of the pipeline that result from a
// command which has been answered: no ticket waits for them, and otherwise they
// are as if they had been submitted with the caller's context.
func (o *Origin) Alone(pipeline any) *Origin {
	if o == nil || o.ctx == nil {
		return nil
	}
	return Submitted(o.ctx, pipeline)
}

// Value returns the value that the caller's context has for a key. Package
// context also uses Value to find the context whose end it must watch; Value
// hides that one, because a handler's context does not end when the caller's
// does.
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
	// Origin returns the origin of the handler's command.
	Origin() *Origin
	// Pipeline returns a value that identifies the handler's pipeline.
	Pipeline() any
	// Lasts reports whether the context ends with its pipeline only.
	Lasts() bool
}

// Submitted returns the origin of a command that is submitted with ctx to a
// stage of the pipeline: the values of ctx, without its end unless that is from
// [WithDeadline]. It returns nil if ctx is known to have no values.
func Submitted(ctx context.Context, pipeline any) *Origin {
	values, known := valuesOf(ctx, pipeline)
	if known != nil || values == nil {
		return known
	}
	return &Origin{ctx: expire(values)}
}

// Asked opens a ticket for a command that is submitted with ctx to a stage of
// the pipeline, and returns the command's origin: the ticket, and the values
// and the end of ctx.
func (t *Ticket) Asked(ctx context.Context, pipeline any) *Origin {
	t.Open()
	if ctx == context.Background() || ctx == context.TODO() {
		return &t.origin
	}
	h, handling := ctx.(Handling)
	lasts := handling && h.Lasts() && h.Pipeline() == pipeline // it ends with the pipeline, and so does the command
	if !lasts && ends(ctx) {
		t.origin.ctx = ctx //nolint:fatcontext // it is the caller's, for one command
		return &t.origin
	}
	values, _ := valuesOf(ctx, pipeline)
	if values != nil && ends(values) {
		values = context.WithoutCancel(values)
	}
	t.origin.ctx = values
	return &t.origin
}

// valuesOf returns a context with the values of ctx, or nil if there are none.
// If ctx is a handler's context, and the origin of its command has exactly
// these values and no ticket, valuesOf returns that origin too.
func valuesOf(ctx context.Context, pipeline any) (values context.Context, known *Origin) {
	ctx = bare(ctx)
	if ctx == context.Background() || ctx == context.TODO() {
		return nil, nil
	}
	if h, ok := ctx.(Handling); ok && h.Pipeline() == pipeline {
		o := h.Origin()
		switch {
		case o == nil || o.ctx == nil:
			return nil, nil
		case o.ticket == nil:
			return o.ctx, o
		}
		return valuesOf(o.ctx, pipeline)
	}
	return nest(ctx), nil
}

// ends reports whether a context can end. A task can, and so can the contexts
// of WithCancel and the like; they are not asked, because their Done would make
// a channel, for which few commands have a use. Nor is that of a deadline,
// whose Done would start a timer.
func ends(ctx context.Context) bool {
	switch ctx.(type) {
	case *coro.Task, *expiring:
		return true
	}
	return layerOn(ctx) != nil || ctx.Done() != nil
}

// Nested is how many times in a row a handler may submit a command with a
// context derived from its own, before the values that handlers have added are
// dropped. Otherwise a pipeline that feeds itself for ever would hold the
// contexts of all commands there ever were.
const Nested = 256

// nested is a context that was derived from a handler's, and counts how often
// that was done in a row.
type nested struct {
	context.Context
	first context.Context // the context that was not derived from a handler's
	depth int
}

// nest counts how deeply a context is nested. If that is too deep it returns
// the first context.
func nest(ctx context.Context) context.Context {
	if _, counted := ctx.(*nested); counted {
		return ctx
	}
	from, _ := ctx.Value(OriginKey{}).(*Origin)
	if from == nil || from.ctx == nil {
		return ctx
	}
	parent := timeless(from.ctx)
	n := &nested{Context: ctx, first: parent, depth: 1}
	if outer, ok := parent.(*nested); ok {
		n.first, n.depth = outer.first, outer.depth+1
	}
	if n.depth > Nested {
		return n.first
	}
	return n
}
