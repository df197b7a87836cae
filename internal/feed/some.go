package feed

import (
	"context"
	"reflect"
)

// MostAtOnce is how many commands a source submits at once at most.
const MostAtOnce = 64

// some is how a source submits several commands at once.
type some[C any] struct {
	one  func(cmd C) error
	some func(cmds []C, next func(i int) int64) int
}

type someKey struct{}

// WithSome returns a context in which a source finds a function for several
// commands beside the feed's function for a single command.
func WithSome[C any](ctx context.Context, one func(cmd C) error, all func(cmds []C, next func(i int) int64) int) context.Context {
	return context.WithValue(ctx, someKey{}, &some[C]{one, all})
}

// Some returns the function that submits as many of several commands as the
// stage has free slots for, and returns how many; 0 says that the first must be
// submitted alone. Next returns the position after a command.
//
// Submit is the function that the source was given for a single command. If it
// is not the feed's own function, but a user's function around that, each command
// must pass through it, and Some returns nil. Some also returns nil if there is
// no feed, and if the feed hears the end of each command.
func Some[C any](ctx context.Context, submit func(cmd C) error) func(cmds []C, next func(i int) int64) int {
	s, ok := ctx.Value(someKey{}).(*some[C])
	if c := Of(ctx); !ok || c == nil || c.window.Load() != nil || reflect.ValueOf(submit).Pointer() != reflect.ValueOf(s.one).Pointer() {
		return nil
	}
	return s.some
}
