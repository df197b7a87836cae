package stage

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// lastContext remembers the last context of a submission, and the origin of its commands: most programs submit with the same
// context again and again. It keeps a reference to that context until a submission has another one.
type lastContext struct{ seen atomic.Pointer[knownContext] }

type knownContext struct {
	ctx    context.Context
	origin *command.Origin // nil: the context has no values
}

// origin returns the origin of a command that is submitted to an inbox with ctx.
func (l *lastContext) origin(ctx context.Context, to *inbox.Inbox) *command.Origin {
	if seen := l.seen.Load(); seen != nil && seen.ctx == ctx {
		return seen.origin
	}
	return l.find(ctx, to)
}

// find finds the origin of a context that is not the last one. It does not remember a handler's own context, whose origin is
// found quickly and which is seldom used twice, or a context that cannot be compared.
func (l *lastContext) find(ctx context.Context, to *inbox.Inbox) *command.Origin {
	origin := command.Submitted(ctx, to.Pipeline())
	switch ctx.(type) {
	case command.Handling, behaviour.Suspender:
		return origin
	}
	if reflect.ValueOf(ctx).Comparable() {
		l.seen.Store(&knownContext{ctx, origin})
	}
	return origin
}
