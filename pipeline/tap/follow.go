package tap

import (
	"context"

	"github.com/golda-dev/golda/stage/headers"
)

// trail marks the context of the command that a watch follows. The command takes
// it along through all stages, and so do all commands that result from it.
type trail struct{ of *Watch }

// follows reports whether a watch that follows one command shows a try. The
// first command that the other options choose is the one.
func (w *Watch) follows(ctx context.Context, stage string, cmd any) bool {
	if ctx.Value(trail{w}) != nil {
		w.asked.Add(1)
		return true
	}
	if w.following.Load() || !w.chooses(ctx, stage, cmd) || !w.following.CompareAndSwap(false, true) {
		return false
	}
	marked := headers.Derive(ctx, func(values context.Context) context.Context {
		return context.WithValue(values, trail{w}, true)
	})
	if !marked { // a member of a batch
		w.following.Store(false)
	}
	return marked
}

// memberContext is the context of a batch with the values of one of its
// commands.
type memberContext struct {
	context.Context

	values context.Context
}

// Value returns a value of the handler's context, or else of the command's.
func (c memberContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// contextOf returns the context of a command of a batch.
func contextOf(ctx context.Context, all []context.Context, i int) context.Context {
	if i < len(all) && all[i] != nil {
		return memberContext{ctx, all[i]}
	}
	return ctx
}
