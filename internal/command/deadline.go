package command

import (
	"context"
	"sync"
	"time"
)

// deadlineKey is the key under which a context has the deadline that commands
// take along.
type deadlineKey struct{}

// WithDeadline returns a context that ends at a time, and whose end the
// commands that are submitted with it take along.
func WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if earlier, ok := ctx.Value(deadlineKey{}).(time.Time); ok && earlier.Before(at) {
		at = earlier
	}
	ctx, cancel := context.WithDeadline(ctx, at)
	return context.WithValue(ctx, deadlineKey{}, at), cancel
}

// expire returns the context of an origin with the values of a context, and its
// deadline if commands take that along.
func expire(values context.Context) context.Context {
	if at, ok := values.Value(deadlineKey{}).(time.Time); ok {
		return &expiring{values: values, at: at}
	}
	return values
}

// timeless returns the values of an origin's context.
func timeless(ctx context.Context) context.Context {
	if x, ok := ctx.(*expiring); ok {
		return x.values
	}
	return ctx
}

// expiring is the context of commands with a deadline: the values of the
// submitter's context, without its end. Most handlers do not wait for the end
// of their context, so the timer is made on demand.
type expiring struct {
	values context.Context
	at     time.Time

	mu      sync.Mutex // guards the rest
	proper  context.Context
	release context.CancelFunc // is not called: proper is for all commands of the origin, until the deadline
}

// Deadline returns the deadline.
func (x *expiring) Deadline() (time.Time, bool) { return x.at, true }

// Done is closed when the deadline has passed.
func (x *expiring) Done() <-chan struct{} { return x.ending().Done() }

// Err returns whether the deadline has passed.
func (x *expiring) Err() error {
	x.mu.Lock()
	proper := x.proper
	x.mu.Unlock()
	switch {
	case proper != nil:
		return proper.Err()
	case time.Now().Before(x.at):
		return nil
	default:
		return context.DeadlineExceeded
	}
}

// Value returns the submitter's value. If package context looks up which
// context ends, it finds the proper one.
func (x *expiring) Value(key any) any {
	v := x.values.Value(key)
	if _, suspect := v.(context.Context); suspect {
		return x.ending().Value(key)
	}
	return v
}

// ending returns a context that ends at the deadline, and makes it the first
// time.
func (x *expiring) ending() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.proper == nil {
		x.proper, x.release = context.WithDeadline(context.WithoutCancel(x.values), x.at) //nolint:gosec // see release
	}
	return x.proper
}

// forever returns the values without the deadline.
func (x *expiring) forever() context.Context {
	return context.WithValue(context.WithoutCancel(x.values), deadlineKey{}, nil)
}

// expires returns the context of commands with a deadline, and whether the
// origin has one.
func (o *Origin) expires() (*expiring, bool) {
	if o == nil {
		return nil, false
	}
	x, ok := o.ctx.(*expiring)
	return x, ok
}

// Late reports whether the deadline that the command was submitted with has
// passed.
func (o *Origin) Late() bool {
	x, ok := o.expires()
	return ok && x.Err() != nil
}
