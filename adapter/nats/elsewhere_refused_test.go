package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// One process is stopped while calls wait there for a slot. They have not begun, so another process handles them.
func TestCallsThatWaitInAProcessThatStopsGoToAnotherOne(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	var handled [1000]atomic.Int32
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(time.Millisecond)
			handled[n].Add(1)
			return behaviour.OK(n)
		}, stage.Capacity(1), stage.Workers(1, 1))
	}
	far := pair(t, conn, makeStage)
	_, err := call[int](t, far, 999)
	require.NoError(t, err)
	for end, stop := range map[string]func(p *pipeline.Pipeline) error{
		"stopped": func(p *pipeline.Pipeline) error { return p.Stop(context.Background()) },
		"drained": func(p *pipeline.Pipeline) error { return p.Drain(t.Context()) },
	} {
		t.Run(end, func(t *testing.T) {
			_, other := half(t, conn, "b", makeStage)
			eventually(t, "the other one is called", func() bool {
				_, err := stage.Call[int](t.Context(), far, 999)
				require.NoError(t, err)
				return other.Snapshot().Accepted > 0
			})
			for i := range handled {
				handled[i].Store(0)
			}
			var calls sync.WaitGroup
			before := other.Snapshot().Accepted
			for i := range 300 {
				calls.Go(func() {
					got, err := stage.Call[int](context.Background(), far, i)
					assert.NoError(t, err)
					assert.Equal(t, i, got)
				})
			}
			defer calls.Wait()
			eventually(t, "some are handled", func() bool { return other.Snapshot().Accepted > before+20 })
			require.NoError(t, stop(other))
			calls.Wait()
			for i := range 300 {
				assert.EqualValues(t, 1, handled[i].Load(), i)
			}
		})
	}
}

// A stage that is drained in the only process that runs it refuses calls as it does there.
func TestACallOfAStageThatIsDrainedIsRefused(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	}
	near, p := half(t, conn, "b", makeStage)
	far, _ := half(t, conn, "a", makeStage)
	_, err := call[int](t, far, 1)
	require.NoError(t, err)
	require.NoError(t, p.Drain(t.Context(), near))
	for range 10 {
		_, err = stage.Call[int](t.Context(), far, 1)
		require.ErrorIs(t, err, stage.ErrDraining)
	}
	require.NoError(t, p.Reopen(near))
	_, err = call[int](t, far, 1)
	require.NoError(t, err)
}

// What a handler returns of a call that it has made itself does not have its own command handled again.
func TestACommandWhoseHandlerWasRefusedIsHandledOnce(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	var handled atomic.Int32
	makeParts := func() (first, second *stage.Stage[int], parts []pipeline.Part) {
		second = stage.Func("second", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
		first = stage.Func("first", func(ctx context.Context, n int) behaviour.Outcome {
			handled.Add(1)
			got, err := stage.Call[int](ctx, second, n)
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(got)
		})
		near := stage.Sink("near", func(context.Context, int) error { return nil })
		return first, second, []pipeline.Part{
			near, first, second, quiet, pipeline.Entry(near, first, second),
			pipeline.Assign("a", "near"), pipeline.Assign("b", "first"), pipeline.Assign("c", "second"),
		}
	}
	start := func(process string) (*pipeline.Pipeline, *stage.Stage[int], *stage.Stage[int]) {
		first, second, parts := makeParts()
		p, err := pipeline.New("three", append(parts, pipeline.RunsHere(nats.NewCarrier(conn, "three", nats.Options[any]{}), process))...)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
		return p, first, second
	}
	start("b")
	start("b")
	c, _, second := start("c")
	_, first, _ := start("a")
	_, err := call[int](t, first, 1)
	require.NoError(t, err)
	eventually(t, "all answer", func() bool { _, err := stage.Call[int](t.Context(), first, 1); return err == nil })
	require.NoError(t, c.Drain(t.Context(), second))
	for range 10 {
		before := handled.Load()
		_, err = stage.Call[int](t.Context(), first, 1)
		require.ErrorIs(t, err, stage.ErrDraining)
		require.Equal(t, before+1, handled.Load())
	}
}

// A user of the server lacks a permission that calls need. The process that lacks it says which, and nothing waits for long.
func TestCallsNameThePermissionThatTheyLack(t *testing.T) {
	t.Parallel()
	user := func(name string, more ...string) *server.User {
		all := append([]string{"$JS.>", "golda.inlet.>", "golda.dead.>", "golda.back.>"}, more...)
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: append([]string{"_INBOX_all.>", "_INBOX_nodes.>", "_INBOX_calls.>"}, all...)},
			Subscribe: &server.SubjectPermission{Allow: append([]string{"_INBOX_" + name + ".>"}, all...)},
		}}
	}
	s := serve(t, &server.Options{Users: []*server.User{
		user("all", "golda.node.>", "golda.calls.>"), user("nodes", "golda.node.>"), user("calls", "golda.calls.>"),
	}})
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	}
	for name, row := range map[string]struct {
		caller, callee string
		err            string // of a call
		log            string // of the process that is called
	}{
		"none":                                {"all", "all", "", ""},
		"the caller may not ask":              {"nodes", "all", `to "golda.calls.`, ""},
		"the caller may not have a node":      {"calls", "all", `"golda.node.`, ""},
		"the called one may not hear callers": {"all", "nodes", "no process of that name runs the stage", `for Subscription to \"golda.calls.`},
		"the called one may not have a node":  {"all", "calls", "do not answer", `for Publish to \"golda.node.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log buffer
			start := func(process, as string) *stage.Stage[int] {
				far := makeStage()
				near := stage.Sink("near", func(context.Context, int) error { return nil })
				name := strings.NewReplacer(" ", "-", "/", "-").Replace(t.Name())
				conn := connect(t, strings.Replace(s.ClientURL(), "nats://", "nats://"+as+":p@", 1))
				o := nats.Options[any]{Logger: slog.New(slog.NewTextHandler(&log, nil))}
				p, err := pipeline.New(name, near, far, quiet, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
					pipeline.RunsHere(nats.NewCarrier(conn, name, o), process))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
				return far
			}
			start("b", row.callee)
			far := start("a", row.caller)
			if row.err == "" {
				_, err := call[int](t, far, 1)
				require.NoError(t, err)
				return
			}
			var calls sync.WaitGroup
			for range 100 { // one after the other they would take minutes
				calls.Go(func() {
					_, err := stage.Call[int](t.Context(), far, 1)
					assert.ErrorContains(t, err, row.err)
					assert.True(t, errors.Is(err, transport.ErrUnreachable) || strings.Contains(row.err, "golda.node"), err)
				})
			}
			calls.Wait()
			eventually(t, "it says so", func() bool { return strings.Contains(log.String(), row.log) })
		})
	}
}
