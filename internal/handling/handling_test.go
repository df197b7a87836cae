package handling_test

import (
	"context"
	"errors"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/link"
)

type key string

var (
	errHalt = errors.New("hard stop")
	errGone = errors.New("the caller has gone")
)

// fixture is the context of a worker, and the caller's of a command.
type fixture struct {
	plain   handling.Plain
	halt    context.CancelCauseFunc
	caller  context.Context
	leave   context.CancelCauseFunc
	emitter any
}

func (f *fixture) calling() *handling.Calling {
	return f.plain.Calling(new(command.Ticket).Asked(f.caller, "p"))
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{emitter: new(int)}
	base, halt := context.WithCancelCause(context.WithValue(t.Context(), key("pipeline"), "its own"))
	f.plain, f.halt = handling.Plain{Base: base, Host: "p", Emitter: f.emitter}, halt
	f.caller, f.leave = context.WithCancelCause(context.WithValue(t.Context(), key("caller"), "theirs"))
	t.Cleanup(func() { f.halt(nil); f.leave(nil) })
	return f
}

func TestAHandlerReachesItsWorkerByWhateverContextItHas(t *testing.T) {
	f := setup(t)
	origin := command.Submitted(f.caller, "p")
	for name, ctx := range map[string]command.Handling{
		"plain": &f.plain, "valued": f.plain.Valued(origin), "calling": f.calling(), "timed": f.plain.Timed(&f.plain, nil),
	} {
		require.Same(t, f.emitter, ctx.Value(link.EmitterKey{}), name)
		require.Equal(t, "its own", ctx.Value(key("pipeline")), name)
		require.Equal(t, "p", ctx.Pipeline(), name)
		require.NoError(t, ctx.Err(), name)
	}
}

func TestTheValuesOfACallerAreBeforeThoseOfThePipeline(t *testing.T) {
	f := setup(t)
	f.caller = context.WithValue(f.caller, key("pipeline"), "another")
	for name, ctx := range map[string]context.Context{"valued": f.plain.Valued(command.Submitted(f.caller, "p")), "calling": f.calling()} {
		require.Equal(t, "theirs", ctx.Value(key("caller")), name)
		require.Equal(t, "another", ctx.Value(key("pipeline")), name)
	}
	require.Nil(t, f.plain.Value(key("caller")))
}

func TestTheEmitterAndTheLabelsAreNeverTheCallers(t *testing.T) {
	f := setup(t)
	f.plain.Base = pprof.WithLabels(f.plain.Base, pprof.Labels("stage", "own"))
	f.caller = pprof.WithLabels(f.caller, pprof.Labels("stage", "another"))
	f.caller = context.WithValue(f.caller, link.EmitterKey{}, "the caller is a handler")
	f.caller = context.WithValue(f.caller, link.SuspenderKey{}, "and suspends")
	for name, ctx := range map[string]context.Context{"valued": f.plain.Valued(command.Submitted(f.caller, "p")), "calling": f.calling()} {
		require.Same(t, f.emitter, ctx.Value(link.EmitterKey{}), name)
		require.Nil(t, ctx.Value(link.SuspenderKey{}), name)
		label, _ := pprof.Label(ctx, "stage")
		require.Equal(t, "own", label, name)
	}
}

func TestACallingEndsWithItsCallerThePipelineOrTheHandler(t *testing.T) {
	for name, row := range map[string]struct {
		end        func(f *fixture, ctx *handling.Calling)
		err, cause error
	}{
		"the caller":   {func(f *fixture, _ *handling.Calling) { f.leave(errGone) }, context.Canceled, errGone},
		"the pipeline": {func(f *fixture, _ *handling.Calling) { f.halt(errHalt) }, context.Canceled, errHalt},
		"the handler":  {func(_ *fixture, ctx *handling.Calling) { ctx.Release() }, context.Canceled, context.Canceled},
	} {
		for _, waited := range []bool{false, true} { // whether the handler waits for the end before it comes
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				ctx := f.calling()
				derived, cancel := context.WithCancel(f.plain.Base)
				if waited {
					cancel()
					derived, cancel = context.WithCancel(ctx)
				}
				row.end(f, ctx)
				synctest.Wait()
				require.Equal(t, row.err, ctx.Err(), name)
				<-ctx.Done()
				require.Equal(t, row.cause, context.Cause(ctx), name)
				if waited {
					<-derived.Done()
					require.Equal(t, row.cause, context.Cause(derived), name)
				}
				cancel()
				ctx.Release()
			})
		}
	}
}

func TestTheEarlierDeadlineCounts(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct{ pipeline, caller, want time.Duration }{
		"the pipeline's": {1, 2, 1}, "the caller's": {2, 1, 1}, "only the pipeline's": {2, 0, 2}, "only the caller's": {0, 3, 3},
	} {
		f := setup(t)
		limit := func(ctx context.Context, hours time.Duration) context.Context {
			if hours == 0 {
				return ctx
			}
			limited, cancel := context.WithDeadline(ctx, now.Add(hours*time.Hour))
			t.Cleanup(cancel)
			return limited
		}
		f.plain.Base, f.caller = limit(f.plain.Base, row.pipeline), limit(f.caller, row.caller)
		at, ok := f.calling().Deadline()
		require.True(t, ok, name)
		require.Equal(t, now.Add(row.want*time.Hour), at, name)
	}
}
