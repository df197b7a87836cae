package pipeline_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

func identity(name string) *stage.Flow[int, int] {
	return stage.Map(name, func(_ context.Context, n int) (int, error) { return n, nil })
}

func TestNewSaysWhichFlowOrFeedIsWrong(t *testing.T) {
	zero := func() *stage.Flow[int, int] { return new(stage.Flow[int, int]) }
	const unmade = "is nil, or was not made with Map, FlatMap, Filter, Sink, FlowOf or Chain"
	flowOf := func(f func()) pipeline.Part {
		return stage.FlowOf("x", func(func(context.Context, int) behaviour.Outcome) (behaviour.Behaviour[int], error) {
			f()
			return nil, nil
		})
	}
	times := stage.Sink("times", func(context.Context, time.Time) error { return nil })
	lines := stage.Sink("lines", func(context.Context, string) error { return nil })
	save := func(context.Context, int64) error { return nil }
	for name, row := range map[string]struct {
		part pipeline.Part
		says string
	}{
		"the same target twice":          {func() pipeline.Part { c := identity("c"); return identity("a").To(c, c) }(), `stage "a": To: target 2 is stage "c", which is a target already`},
		"the same target again":          {func() pipeline.Part { a, c := identity("a"), identity("c"); a.To(c); return a.To(c) }(), `stage "a": To: target 1 is stage "c", which is a target already`},
		"the same target of a route":     {func() pipeline.Part { c := identity("c"); return identity("a").Route(route.RoundRobin[int](), c, c) }(), `stage "a": Route: target 2 is stage "c", which is a target already`},
		"a chain that begins with nil":   {stage.Chain[int, int, int](nil, identity("s")), `stage "s": Chain: the first flow ` + unmade},
		"a chain that ends with nil":     {stage.Chain[int, int, int](identity("s"), nil), `stage "s": Chain: the second flow ` + unmade},
		"a chain of zero flows":          {stage.Chain(zero(), zero()), `stage "Chain": Chain: both flows are nil`},
		"a chain with nil that leads on": {stage.Chain[int, int, int](stage.Chain[int, int, int](identity("s"), nil), identity("t")).To(identity("u")), `stage "s": Chain: the second flow ` + unmade},
		"a zero flow":                    {zero(), "Flow: is nil, or was not made with a function of package stage"},
		"a nil flow":                     {(*stage.Flow[int, int])(nil), "Flow: is nil, or was not made with a function of package stage"},
		"a zero flow that leads on":      {zero().To(identity("c")), "To: the flow " + unmade},
		"a nil flow that leads on":       {(*stage.Flow[int, int])(nil).To(identity("c")), "To: the flow " + unmade},
		"a nil flow with a route":        {(*stage.Flow[int, int])(nil).Route(nil, identity("c")), "Route: the flow " + unmade},
		"a target that is a zero flow":   {identity("a").To(zero()), `stage "a": To: target 1 is nil`},
		"a make that panics":             {flowOf(func() { panic("boom") }), `stage "x": FlowOf: make crashed: boom`},
		"a make that ends its goroutine": {flowOf(runtime.Goexit), `stage "x": FlowOf: make crashed: `},
		"a feed of a zero flow":          {pipeline.Feed("f", zero(), source.Slice([]int{1})), `pipeline "p": Feed "f": the stage is nil`},
		"a period of zero":               {pipeline.Feed("tick", times, source.Every(0)), `Feed "tick": source: Every(0s): the period must be above 0`},
		"a negative length":              {pipeline.Feed("read", lines, source.Lines(strings.NewReader(""), -5)), `Feed "read": source: Lines: the longest line of -5 bytes must not be negative`},
		"a negative position": {
			pipeline.Feed("read", lines, source.Checkpoint(source.Lines(strings.NewReader(""), 0), -1, save)), `Feed "read": source: Checkpoint: the position -1 must not be negative`,
		},
		"a period of zero with a checkpoint": {pipeline.Feed("tick", times, source.Checkpoint(source.Every(-1), 0, save)), `Feed "tick": source: Every(-1ns): the period must be above 0`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", row.part)
			require.ErrorContains(t, err, row.says)
			if name == "a feed of a zero flow" {
				require.NotContains(t, err.Error(), "the source")
			}
		})
	}
}

func TestAPipelineThatRunsSaysWhereAStageIsThatItDoesNotHave(t *testing.T) {
	ctx := t.Context()
	a, b, c := identity("a"), identity("b"), identity("c")
	p := start(t, a.To(b), c)
	t.Cleanup(func() { require.NoError(t, p.Stop(soon(t))) })
	a2, b2 := identity("a2"), identity("b2")
	other, err := pipeline.New("other", a2, b2)
	require.NoError(t, err)
	zero := new(stage.Flow[int, int])
	for says, err := range map[string]error{
		`stage "a": To: target 2 is stage "c", which is a target already`:    p.Rewire(ctx, a.To(c, c)),
		`stage "a": Route: target 2 is stage "c", which is a target already`: p.Rewire(ctx, a.Route(route.RoundRobin[int](), c, c)),
		`To: the flow is nil, or was not made with`:                          p.Rewire(ctx, zero.To(c)),
		`stage "a": To: target 1 is nil`:                                     p.Rewire(ctx, a.To(zero)),
		`stage "a2": is not part of this pipeline, but of "other"`:           p.Rewire(ctx, a2.To(b2)),
		`leads to stage "b2", which is not part of this pipeline, but of "o`: p.Rewire(ctx, a.To(b2)),
		`stage "a2": is part of another pipeline already: "other"`:           p.Add(ctx, a2),
		`Flow: is nil, or was not made with a function of package stage`:     p.Add(ctx, zero),
	} {
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, p.Remove(ctx, c))
	for says, err := range map[string]error{
		`stage "c": was removed from this pipeline: a stage cannot be added again`: p.Add(ctx, c),
		`stage "c": is not part of this pipeline: it was removed`:                  p.Rewire(ctx, c.To(b)),
		`leads to stage "c", which is not part of this pipeline: it was removed`:   p.Rewire(ctx, a.To(c)),
	} {
		require.ErrorContains(t, err, says)
	}
	got, err := a.Call(ctx, 7)
	require.NoError(t, err)
	require.Equal(t, 7, got, "nothing has changed")
	require.NoError(t, other.Stop(ctx))
}

func TestServeSaysThatItsPipelineHasStopped(t *testing.T) {
	for name, started := range map[string]bool{"after it ran": true, "before it was started": false} {
		t.Run(name, func(t *testing.T) {
			p, err := pipeline.New("p", identity("s"))
			require.NoError(t, err)
			if started {
				require.NoError(t, p.Start(t.Context()))
			}
			require.NoError(t, p.Stop(t.Context()))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			err = stagehttp.Serve(t.Context(), l, new(http.Server), p)
			require.ErrorIs(t, err, pipeline.ErrStopped)
			require.ErrorContains(t, err, `stagehttp: Serve: pipeline "p": `)
			_, err = l.Accept()
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

// stuck is a reader that never has anything.
type stuck struct{ reads int }

func (s *stuck) Read([]byte) (int, error) { s.reads++; return 0, nil }

func TestAReaderThatNeverReturnsAnythingIsAFailureOfItsFeed(t *testing.T) {
	r := new(stuck)
	err := source.Lines(r, 0)(t.Context(), func(string) error { return errors.New("there is no line") })
	var line *source.LineError
	require.ErrorAs(t, err, &line)
	require.ErrorContains(t, err, "multiple Read calls return no data or error")
	require.Equal(t, 100, r.reads)
}
