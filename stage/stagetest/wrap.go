package stagetest

import (
	"context"
	"runtime"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
)

// Wrap puts an injector before a behaviour: for each command either a fault
// happens or the behaviour handles it. The result has the behaviour's other
// interfaces, too (Starter, Stopper, Batcher, Versioned, Suspending,
// Snapshotter with Restorer). A handler that may suspend is suspended while a
// fault delays or hangs it.
func Wrap[C any](in *Injector, b behaviour.Behaviour[C]) behaviour.Behaviour[C] {
	if b == nil {
		return nil // the stage has a better message
	}
	w := wrapped[C]{in, b}
	if s, ok := b.(behaviour.Suspending[C]); ok {
		return wrappedSuspending[C]{w, s}
	}
	many, batches := b.(behaviour.Batcher[C])
	saved, saves := b.(state)
	switch {
	case batches && saves:
		return struct {
			wrappedBatcher[C]
			state
		}{wrappedBatcher[C]{w, many}, saved}
	case batches:
		return wrappedBatcher[C]{w, many}
	case saves:
		return struct {
			wrapped[C]
			state
		}{w, saved}
	default:
		return w
	}
}

// state is a behaviour whose state survives it.
type state interface {
	behaviour.Snapshotter
	behaviour.Restorer
}

// wrapped is a behaviour with an injector before it.
type wrapped[C any] struct {
	in *Injector
	of behaviour.Behaviour[C]
}

// HandleCommand injects a fault or calls the behaviour.
func (w wrapped[C]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	if err := w.in.inject(ctx, cmd); err != nil {
		return behaviour.Error(err)
	}
	return w.of.HandleCommand(ctx, cmd)
}

// Start calls the behaviour's Start, if it has one.
func (w wrapped[C]) Start(ctx context.Context) error {
	if s, ok := w.of.(behaviour.Starter); ok {
		return s.Start(ctx)
	}
	return nil
}

// Stop calls the behaviour's Stop, if it has one.
func (w wrapped[C]) Stop() {
	if s, ok := w.of.(behaviour.Stopper); ok {
		s.Stop()
	}
}

// Version calls the behaviour's Version, if it has one.
func (w wrapped[C]) Version() string {
	if v, ok := w.of.(behaviour.Versioned); ok {
		return v.Version()
	}
	return ""
}

// wrappedBatcher is a wrapped behaviour that handles batches.
type wrappedBatcher[C any] struct {
	wrapped[C]
	many behaviour.Batcher[C]
}

// HandleBatch removes the commands that are to end with an error and calls the
// behaviour for the others. Any other fault of one command affects the whole
// batch.
func (w wrappedBatcher[C]) HandleBatch(ctx context.Context, cmds []C) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(cmds))
	var rest []C
	var at []int
	for i, cmd := range cmds {
		if err := w.in.inject(ctx, cmd); err != nil {
			outcomes[i] = behaviour.Error(err)
			continue
		}
		rest, at = append(rest, cmd), append(at, i)
	}
	if len(rest) == 0 {
		return outcomes
	}
	done := w.many.HandleBatch(ctx, rest)
	if len(done) != len(rest) {
		return done // the engine reports it
	}
	for i, o := range done {
		outcomes[at[i]] = o
	}
	return outcomes
}

// wrappedSuspending is a wrapped behaviour whose handler may suspend.
type wrappedSuspending[C any] struct {
	wrapped[C]
	suspending behaviour.Suspending[C]
}

// HandleSuspending injects a fault or calls the behaviour.
func (w wrappedSuspending[C]) HandleSuspending(c behaviour.Suspender, cmd C) behaviour.Outcome {
	if err := w.in.inject(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	return w.suspending.HandleSuspending(c, cmd)
}

// inject injects the fault of an attempt. An error is the command's answer; nil
// means that the behaviour is to be called.
func (in *Injector) inject(ctx context.Context, cmd any) error {
	attempt := behaviour.Attempt(ctx)
	f, delay := in.draw(cmd, attempt)
	in.injected[f].Add(1)
	switch f {
	case Panic, Poison:
		panic(&InjectedError{Fault: f, Attempt: attempt})
	case Goexit:
		runtime.Goexit()
	case Error:
		return &InjectedError{Fault: f, Attempt: attempt}
	case Delay:
		in.wait(ctx, delay)
	case Hang:
		in.hang(ctx)
		return &InjectedError{f, attempt, context.Cause(ctx)}
	case Stuck:
		<-in.released
		return &InjectedError{Fault: f, Attempt: attempt}
	default: // none
	}
	return nil
}

// hang waits until the context ends or the injector is released.
func (in *Injector) hang(ctx context.Context) {
	over := func(ctx context.Context) (none struct{}, err error) {
		select {
		case <-ctx.Done():
		case <-in.released:
		}
		return none, nil
	}
	if c, ok := ctx.(behaviour.Suspender); ok {
		_, _ = coroutine.Await(c, over)
		return
	}
	_, _ = over(ctx)
}

// wait waits, but not beyond the end of the context or the release.
func (in *Injector) wait(ctx context.Context, d time.Duration) {
	if c, ok := ctx.(behaviour.Suspender); ok {
		_ = coroutine.Sleep(c, d) // the behaviour will notice that it was stopped
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-in.released:
	}
}
