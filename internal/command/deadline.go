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
	if earlier, ok := DeadlineOf(ctx); ok && earlier.Before(at) {
		at = earlier
	}
	ctx, cancel := context.WithDeadline(ctx, at)
	return context.WithValue(ctx, deadlineKey{}, at), cancel
}

// Dated returns a context with the values of ctx, and a deadline that the
// commands which are submitted with it take along. The context itself does not
// end at that time.
func Dated(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, deadlineKey{}, at)
}

// DeadlineOf returns the deadline that commands which are submitted with a
// context take along, if there is one.
func DeadlineOf(ctx context.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(deadlineKey{}).(time.Time)
	return at, ok
}

// expire returns the context of an origin with the values of a context, and its
// deadline if commands take that along.
func expire(values context.Context) context.Context {
	if at, ok := DeadlineOf(values); ok {
		return &expiring{values: values, at: at}
	}
	return timeless(values)
}

// timeless returns the values of an origin's context.
func timeless(ctx context.Context) context.Context {
	if x, ok := ctx.(*expiring); ok {
		return x.values
	}
	return ctx
}

// expiring is the context of commands with a deadline, or with an end that
// their source gave them: the values of the submitter's context, without its
// end. Most handlers do not wait for the end of their context, so the timer is
// made on demand.
type expiring struct {
	values context.Context
	at     time.Time       // zero if there is no deadline
	end    context.Context // ends the commands, too; nil if there is none, or of has it

	of      *expiring  // the context whose timer this one uses; nil if it has its own
	mu      sync.Mutex // guards the rest
	proper  context.Context
	release context.CancelFunc // is called by [Origin.Release] only: proper is for all commands of the origin
}

// Deadline returns the deadline, if there is one.
func (x *expiring) Deadline() (time.Time, bool) { return x.at, !x.at.IsZero() }

// Done is closed when the context has ended.
func (x *expiring) Done() <-chan struct{} { return x.ending().Done() }

// Err returns why the context has ended.
func (x *expiring) Err() error {
	x = x.timed()
	x.mu.Lock()
	proper := x.proper
	x.mu.Unlock()
	switch {
	case proper != nil:
		return proper.Err()
	case x.isCanceled():
		return x.end.Err()
	case x.at.IsZero() || time.Now().Before(x.at):
		return nil
	default:
		return context.DeadlineExceeded
	}
}

// Value returns the submitter's value. If package context looks up which
// context ends, it finds the proper one.
func (x *expiring) Value(key any) any {
	v := x.values.Value(key)
	if end := x.timed().end; v == nil && end != nil {
		v = end.Value(key)
	}
	if _, suspect := v.(context.Context); !suspect {
		return v
	}
	if own := context.WithoutCancel(x.values).Value(key); own != nil {
		return own // package context has not asked for the context whose end counts
	}
	return x.ending().Value(key)
}

// ending returns a context that ends with the commands, and makes it the first
// time.
func (x *expiring) ending() context.Context {
	x = x.timed()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.proper == nil {
		x.proper = x.end
		if x.end == nil {
			x.proper = context.WithoutCancel(x.values)
		}
		if !x.at.IsZero() {
			x.proper, x.release = context.WithDeadline(x.proper, x.at) //nolint:gosec // see release
		}
	}
	return x.proper
}

// isCanceled reports whether the commands have ended with the context of their
// source.
func (x *expiring) isCanceled() bool {
	x = x.timed()
	return x.end != nil && x.end.Err() != nil
}

// timed returns the context that has the timer.
func (x *expiring) timed() *expiring {
	if x.of != nil {
		return x.of
	}
	return x
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

// Lapsed is [Origin.Ended], and reports whether it is the deadline that has
// passed. It reads the clock once: a command that is not late at one reading,
// and has ended at the next, would fail with an error that no caller hears.
func (o *Origin) Lapsed() (expired bool, err error) {
	if err = o.Ended(); err == nil {
		return false, nil
	}
	x, expired := o.expires()
	return expired && !x.isCanceled(), err
}

// Until returns an origin with the values of this one, without its ticket,
// whose commands have a deadline, unless at is zero, and end with a context,
// unless that is nil. If the origin has an earlier deadline, that stays.
func (o *Origin) Until(at time.Time, end context.Context) *Origin {
	values := context.Background()
	if o != nil && o.ctx != nil {
		values = timeless(o.ctx)
	}
	if earlier, ok := DeadlineOf(values); ok && (at.IsZero() || earlier.Before(at)) {
		at = earlier
	}
	if !at.IsZero() {
		values = context.WithValue(values, deadlineKey{}, at)
	}
	return &Origin{ctx: &expiring{values: values, at: at, end: end}}
}

// Release stops the timer of the origin's deadline. It is called when all
// commands of the origin have ended, if that is known.
func (o *Origin) Release() {
	x, ok := o.expires()
	if !ok {
		return
	}
	x = x.timed()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.release != nil {
		x.release()
	}
}

// Deadline returns the deadline that the commands take along, if they have one.
// The deadline of a caller that waits for a result is one only if it is from
// [WithDeadline].
func (o *Origin) Deadline() (at time.Time, ok bool) {
	if x, ok := o.expires(); ok {
		return x.Deadline()
	}
	if !o.Ticket().WantsResult() || !o.Ends() {
		return time.Time{}, false
	}
	return DeadlineOf(o.ctx)
}
