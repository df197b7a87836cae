package command

import (
	"context"
	"slices"
)

// Carried returns the context that a command takes along when it leaves the
// process: the values of its submitter, and its deadline if it has one. It
// returns nil if there are neither.
func (o *Origin) Carried() context.Context {
	if o == nil || o.ctx == nil {
		return nil
	}
	if _, dated := DeadlineOf(o.ctx); dated {
		if _, ok := o.Deadline(); !ok {
			return context.WithValue(o.ctx, deadlineKey{}, nil)
		}
	}
	return o.ctx
}

// Derived returns an origin with the same ticket and end, and with the values of
// the context that derive returns when it is given the present ones: o itself,
// if that is the same. The context that derive returns must be derived from its
// argument.
func (o *Origin) Derived(derive func(values context.Context) context.Context) *Origin {
	x, expires := o.expires()
	values := o.Context()
	switch {
	case expires:
		values = x.values
	case values == nil:
		values = context.Background()
	}
	ctx := derive(values)
	if ctx == values {
		return o
	}
	if expires {
		ctx = &expiring{values: ctx, at: x.at, of: x.timed()}
	}
	return &Origin{ticket: o.Ticket(), ctx: ctx}
}

// Contexts returns the context of each command, as [Origin.Carried] does. It
// returns nil if none has one.
func Contexts(es []Envelope) (all []context.Context) {
	for i := range es {
		if !es[i].Caller() {
			continue
		}
		if all == nil {
			all = make([]context.Context, len(es))
		}
		all[i] = es[i].From.Carried()
	}
	return all
}

// batched is the context of a batch in which some commands have contexts. It
// ends with none of them. It has the origins, which stay the same when the
// worker has taken its next batch: few handlers ask for the contexts.
type batched struct {
	context.Context

	of []*Origin
}

// batchedKey is the key under which the context of a batch has the [batched]
// one.
type batchedKey struct{}

// Value returns the context itself for its own key.
func (b *batched) Value(key any) any {
	if key == (batchedKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// Batched returns a context for the handler of a batch, by which the handler
// can ask for the contexts of its commands. It returns ctx if there are none.
func Batched(ctx context.Context, batch []Envelope) context.Context {
	i := slices.IndexFunc(batch, func(e Envelope) bool { return e.From.Context() != nil })
	if i < 0 {
		return ctx
	}
	of := make([]*Origin, len(batch))
	for ; i < len(batch); i++ {
		of[i] = batch[i].From
	}
	return &batched{ctx, of}
}

// BatchOf returns the contexts of the commands of a batch whose handler was
// given ctx, as [Contexts] does.
func BatchOf(ctx context.Context) []context.Context {
	b, ok := ctx.Value(batchedKey{}).(*batched)
	if !ok {
		return nil
	}
	all := make([]context.Context, len(b.of))
	for i, o := range b.of {
		all[i] = o.Carried()
	}
	return all
}
