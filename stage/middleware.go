package stage

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

// MiddlewareFunc is called in the place of a stage's handler, for each try of
// each command. It calls next to have the command handled, and returns what
// next has returned, or another outcome. It may do something before and after,
// pass on another context or command, call next again, or not at all. The
// string is the stage's name.
//
//	func logged(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
//		begin := time.Now()
//		o := next(ctx, cmd)
//		slog.InfoContext(ctx, "handled", "stage", stage, "outcome", o.Kind(), "took", time.Since(begin))
//		return o
//	}
//
// Many workers call a middleware at once, whichever instances they have. A
// panic of it is a crash of the command. Its time counts as time in the
// handler, for the stage's [Timeout] too. Commands that a handler has emitted
// before next is called again remain emitted.
//
// The context that it passes to next must be its own context, or derived from
// it: with any other the handler can neither emit nor suspend. The command must
// be of the stage's type: with any other, next returns an error outcome. Next
// must be called by the goroutine that called the middleware, before the
// middleware returns.
//
// The middleware of a [behaviour.Batcher] is called for each batch, and cmd is
// the slice of its commands, a []C. Next returns [behaviour.OK] with the
// outcomes of all of them, a []behaviour.Outcome. An error outcome of the
// middleware is the outcome of each command of the batch; any other outcome
// must have as many outcomes as there are commands.
type MiddlewareFunc func(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome

// eachOf calls a function with each command that a middleware is given: the
// commands of a batch, or, if eachOf is nil, the command itself.
type eachOf func(batch any, do func(cmd any))

func (each eachOf) do(cmd any, do func(cmd any)) {
	if each == nil {
		do(cmd)
	} else {
		each(cmd, do)
	}
}

// eachCommand is the eachOf of a stage whose behaviour is a Batcher.
func eachCommand[C any](batch any, do func(cmd any)) {
	cmds, _ := batch.([]C)
	for _, c := range cmds {
		do(c)
	}
}

// chain returns the way through all middleware of a stage to its behaviour.
func chain(stage string, all []MiddlewareFunc, end behaviour.Func[any]) behaviour.Func[any] {
	for _, m := range slices.Backward(all) {
		next := end
		end = func(ctx context.Context, cmd any) behaviour.Outcome { return m(ctx, stage, cmd, next) }
	}
	return end
}

// handleOne returns the handler at the end of a chain.
func handleOne[C any](call behaviour.Func[C], suspends bool) behaviour.Func[any] {
	return func(ctx context.Context, cmd any) behaviour.Outcome { //nolint:contextcheck // the suspender is what ctx was made of
		link.CheckContext(ctx, "stage: next of a middleware")
		c, ok := cmd.(C)
		if !ok && (cmd != nil || any(c) != nil) { // any(c) is nil if C is an interface type, which has nil commands
			return mistyped(cmd, reflect.TypeFor[C]())
		}
		if suspends {
			if ctx = suspender(ctx); ctx == nil {
				return behaviour.Error(behaviour.ErrCannotSuspend)
			}
		}
		return call(ctx, c)
	}
}

// handleBatch returns the handler at the end of a chain for batches.
func handleBatch[C any](many behaviour.Batcher[C]) behaviour.Func[any] {
	return func(ctx context.Context, cmd any) behaviour.Outcome {
		link.CheckContext(ctx, "stage: next of a middleware")
		cmds, ok := cmd.([]C)
		if !ok {
			return mistyped(cmd, reflect.TypeFor[[]C]())
		}
		return behaviour.OK(many.HandleBatch(ctx, cmds))
	}
}

func mistyped(got any, want reflect.Type) behaviour.Outcome {
	return behaviour.Error(fmt.Errorf("a middleware passed on %T, and the handler takes %v", got, want))
}

// surrounded is a Batcher with middleware.
type surrounded[C any] struct {
	behaviour.Batcher[C]

	whole behaviour.Func[any]
}

// HandleBatch handles a batch.
func (s surrounded[C]) HandleBatch(ctx context.Context, cmds []C) []behaviour.Outcome {
	return outcomesOf(s.whole(ctx, cmds), len(cmds))
}

// outcomesOf returns the outcomes of the commands of a batch from the outcome
// of the middleware.
func outcomesOf(o behaviour.Outcome, n int) []behaviour.Outcome {
	if outcomes, ok := o.Result().([]behaviour.Outcome); ok {
		return outcomes
	}
	if o.Err() == nil {
		o = behaviour.Error(fmt.Errorf("a middleware answered a batch of %d with one %q outcome", n, o.Kind()))
	}
	return slices.Repeat([]behaviour.Outcome{o}, n)
}

// asked is the function of [RateBy] or [Fair] that commands are asked with when
// they arrive. A command that cannot be asked crashes in the place of its
// handler, where it is asked again; so none is asked there as long as all could
// be asked when they arrived.
type asked struct {
	takes  reflect.Type
	key    uintptr // the function, 0 if it is nil
	again  func(cmd any)
	failed atomic.Bool // a command could not be asked
}

func askedOf[C any, K comparable](key func(cmd C) K) *asked {
	return &asked{takes: reflect.TypeFor[C](), key: reflect.ValueOf(key).Pointer()}
}

// note notes that a command could not be asked, unless that was done.
func (a *asked) note(done *bool) {
	if !*done {
		a.failed.Store(true)
	}
}

// asking returns a handler that asks commands again if some could not be asked.
func asking[C any](asks []*asked, call behaviour.Func[C]) behaviour.Func[C] {
	return func(ctx context.Context, cmd C) behaviour.Outcome {
		askAgain(asks, cmd)
		return call(ctx, cmd)
	}
}

func askAgain[C any](asks []*asked, cmds ...C) {
	for _, a := range asks {
		if a.failed.Load() {
			for _, c := range cmds {
				a.again(c)
			}
		}
	}
}

// askingMany is a Batcher that asks commands again if some could not be asked.
type askingMany[C any] struct {
	behaviour.Batcher[C]

	asks []*asked
}

// HandleBatch handles a batch.
func (a askingMany[C]) HandleBatch(ctx context.Context, cmds []C) []behaviour.Outcome {
	askAgain(a.asks, cmds...)
	return a.Batcher.HandleBatch(ctx, cmds)
}

// suspender returns the context for a handler that may suspend: the context
// that a middleware has passed on, if it is derived from a context that can
// suspend, and nil otherwise.
func suspender(ctx context.Context) behaviour.Suspender {
	if c, ok := ctx.(behaviour.Suspender); ok {
		return c
	}
	c, ok := ctx.Value(link.SuspenderKey{}).(behaviour.Suspender)
	if !ok {
		return nil
	}
	return &derived{ctx, c}
}

// derived is a context that a middleware has derived from the context of a
// handler which may suspend.
type derived struct {
	context.Context

	from behaviour.Suspender
}

// Suspend suspends the handler. The suspension ends with the derived context,
// too.
func (d *derived) Suspend(start func(wake func())) error {
	if d.Done() == d.from.Done() {
		return d.from.Suspend(start)
	}
	var woken atomic.Bool
	var unhook func() bool
	err := d.from.Suspend(func(wake func()) {
		unhook = context.AfterFunc(d.Context, wake)
		start(func() { woken.Store(true); wake() })
	})
	if unhook != nil {
		unhook()
	}
	if err == nil && !woken.Load() {
		return command.Ended(d.Context)
	}
	return err
}
