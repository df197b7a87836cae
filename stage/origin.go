package stage

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/room"
)

// last remembers the context that was submitted with last, and the origin of its commands: most programs submit with
// the same context again and again. It holds on to that context until the stage is submitted to with another.
type last struct{ seen atomic.Pointer[sighting] }

type sighting struct {
	ctx    context.Context
	origin *command.Origin // nil: the context has no values
}

// origin returns the origin of a command that is submitted to a room with ctx.
func (l *last) origin(ctx context.Context, to *room.Room) *command.Origin {
	if seen := l.seen.Load(); seen != nil && seen.ctx == ctx {
		return seen.origin
	}
	return l.look(ctx, to)
}

// look finds the origin of a context that is not the last one. It does not remember a handler's own context, which is
// looked at quickly and seldom submitted with twice, or one that cannot be compared.
func (l *last) look(ctx context.Context, to *room.Room) *command.Origin {
	origin := command.Submitted(ctx, to.Host())
	switch ctx.(type) {
	case command.Handling, behaviour.Suspender:
		return origin
	}
	if reflect.ValueOf(ctx).Comparable() {
		l.seen.Store(&sighting{ctx, origin})
	}
	return origin
}
