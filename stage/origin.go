package stage

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// lastContext remembers a context with which two submissions in a row were
// made, and the origin of its commands: many programs submit with the same
// context again and again, and others, such as servers, with a new one each
// time. It keeps a reference to that context until two submissions have another
// one.
type lastContext struct {
	seen atomic.Pointer[knownContext]
	met  atomic.Uintptr // the address of the context of the last submission that found another one in seen; not a reference
}

type knownContext struct {
	ctx    context.Context
	origin *command.Origin // nil: the context has no values
}

// origin returns the origin of a command that is submitted to an inbox with
// ctx.
func (l *lastContext) origin(ctx context.Context, to *inbox.Inbox) *command.Origin {
	if seen := l.seen.Load(); seen != nil && seen.ctx == ctx {
		return seen.origin
	}
	return l.find(ctx, to)
}

// find finds the origin of a context that is not the one seen. It does not
// remember a handler's own context, whose origin is found quickly and which is
// seldom used twice, or a context that cannot be compared.
func (l *lastContext) find(ctx context.Context, to *inbox.Inbox) *command.Origin {
	origin := command.Submitted(ctx, to.Pipeline())
	switch ctx.(type) {
	case command.Handling, behaviour.Suspender:
		return origin
	}
	v := reflect.ValueOf(ctx)
	if v.Kind() == reflect.Pointer { // as most are
		if at := v.Pointer(); l.met.Load() != at {
			l.met.Store(at)
			return origin
		}
	}
	if v.Comparable() {
		l.seen.Store(&knownContext{ctx, origin})
	}
	return origin
}
