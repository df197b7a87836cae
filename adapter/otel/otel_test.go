package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/golda-dev/golda/adapter/otel"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// recorded returns a provider that keeps all spans.
func recorded(t testing.TB) (*sdk.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	return sdk.NewTracerProvider(sdk.WithSyncer(kept)), kept
}

// request returns a context with a sampled span, and that span.
func request(ctx context.Context, p trace.TracerProvider) (context.Context, trace.Span) {
	return p.Tracer("test").Start(ctx, "request") //nolint:spancheck // it need not end
}

// run starts a pipeline, has do submit commands, and drains and stops it.
func run(t testing.TB, do func(), parts ...pipeline.Part) {
	t.Helper()
	p, err := pipeline.New("p", append(parts, quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	do()
	require.NoError(t, p.Drain(context.Background()))
	require.NoError(t, p.Stop(context.Background()))
}

// named returns the spans of a stage, in the order in which they began.
func named(kept *tracetest.InMemoryExporter, name string) (all tracetest.SpanStubs) {
	for _, s := range kept.GetSpans() {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

func only(t *testing.T, kept *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	all := named(kept, name)
	require.Len(t, all, 1, name)
	return all[0]
}

func attributeOf(s tracetest.SpanStub, name string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == name {
			return a.Value
		}
	}
	return attribute.Value{}
}

func TestEachVisitIsAChildOfTheVisitBefore(t *testing.T) {
	for _, kind := range []string{"func", "coroutine", "submits", "emits"} {
		t.Run(kind, func(t *testing.T) {
			provider, kept := recorded(t)
			last := stage.Sink("last", func(context.Context, int) error { return nil })
			var middle *stage.Stage[int]
			switch kind {
			case "func":
				middle = stage.Func("middle", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) })
			case "coroutine":
				middle = stage.Coroutine("middle", func(c behaviour.Suspender, n int) behaviour.Outcome {
					if err := c.Suspend(func(wake func()) { go wake() }); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.Forward(last, n)
				})
			case "submits":
				middle = stage.Func("middle", func(ctx context.Context, n int) behaviour.Outcome {
					if err := last.Submit(ctx, n); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(nil)
				})
			default:
				middle = stage.Func("middle", func(ctx context.Context, n int) behaviour.Outcome {
					if err := behaviour.Emit(ctx, last, n); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(nil)
				})
			}
			first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(middle, n) })
			ctx, root := request(t.Context(), provider)
			run(t, func() { require.NoError(t, first.Submit(ctx, 1)) }, first, middle, last,
				pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider})))
			root.End()

			parent := root.SpanContext().SpanID()
			for _, name := range []string{"first", "middle", "last"} {
				span := only(t, kept, name)
				assert.Equal(t, parent, span.Parent.SpanID(), name)
				assert.Equal(t, root.SpanContext().TraceID(), span.SpanContext.TraceID())
				assert.Equal(t, name, attributeOf(span, "golda.stage").AsString())
				assert.Empty(t, span.Links)
				parent = span.SpanContext.SpanID()
			}
			assert.Equal(t, "ok", attributeOf(only(t, kept, "last"), "golda.outcome").AsString())
			if kind != "submits" {
				assert.Equal(t, attribute.FLOAT64, attributeOf(only(t, kept, "last"), "golda.wait").Type())
			}
		})
	}
}

func TestAFurtherTryIsLinkedToTheTryBefore(t *testing.T) {
	for _, how := range []string{"error", "crash"} {
		for _, traced := range []bool{true, false} {
			t.Run(fmt.Sprint(how, ", comes with a trace: ", traced), func(t *testing.T) {
				provider, kept := recorded(t)
				s := stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
					switch {
					case behaviour.Attempt(ctx) == 3:
						return behaviour.OK(nil)
					case how == "crash":
						panic("a bad try")
					default:
						return behaviour.Error(errors.New("a bad try"))
					}
				}, stage.Retry(stage.RetryPolicy{Attempts: 3}))
				ctx := context.Background()
				var parent trace.SpanID
				if traced {
					with, root := request(ctx, provider)
					ctx, parent = with, root.SpanContext().SpanID()
				}
				run(t, func() { require.NoError(t, s.Submit(ctx, 1)) }, s,
					pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider, Roots: []string{"s"}})))

				tries := named(kept, "s")
				require.Len(t, tries, 3)
				for i, span := range tries {
					if i == 0 {
						assert.Empty(t, span.Links)
						assert.Equal(t, parent, span.Parent.SpanID())
					} else {
						require.Len(t, span.Links, 1)
						assert.Equal(t, tries[i-1].SpanContext.SpanID(), span.Links[0].SpanContext.SpanID())
						assert.EqualValues(t, i+1, attributeOf(span, "golda.attempt").AsInt64())
						if !traced {
							parent = tries[0].SpanContext.SpanID()
						}
						assert.Equal(t, parent, span.Parent.SpanID())
					}
					assert.Equal(t, tries[0].SpanContext.TraceID(), span.SpanContext.TraceID())
					if i < 2 {
						assert.Equal(t, codes.Error, span.Status.Code)
						assert.Equal(t, how, attributeOf(span, "golda.outcome").AsString())
					}
				}
				assert.Equal(t, codes.Unset, tries[2].Status.Code)
			})
		}
	}
}

// batches answers each command of a batch.
type batches struct{ behaviour.Func[int] }

func (batches) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i := range cmds {
		outcomes[i] = behaviour.OK(nil)
	}
	return outcomes
}

func TestTheSpanOfABatchIsLinkedToAllTracedCommands(t *testing.T) {
	provider, kept := recorded(t)
	s := stage.New("s", batches{}, stage.Batch(8), stage.Workers(1, 1))
	p, err := pipeline.New("p", s, quiet, pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider})))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Pause(s))
	require.NoError(t, s.Submit(context.Background(), 0))
	var spans []trace.SpanID
	for i := range 3 {
		ctx, span := request(t.Context(), provider)
		require.NoError(t, s.Submit(ctx, i))
		spans = append(spans, span.SpanContext().SpanID())
	}
	require.NoError(t, p.Resume(s))
	require.NoError(t, p.Drain(t.Context()))
	require.NoError(t, p.Stop(t.Context()))

	var linked []trace.SpanID
	for _, span := range named(kept, "s") {
		assert.Equal(t, span.Parent.SpanID(), span.Links[0].SpanContext.SpanID())
		assert.Positive(t, attributeOf(span, "golda.batch.size").AsInt64())
		for _, l := range span.Links {
			linked = append(linked, l.SpanContext.SpanID())
		}
	}
	assert.Equal(t, spans, linked)
}

func TestASpanHasAHashOfTheKey(t *testing.T) {
	provider, kept := recorded(t)
	key := func(_ string, cmd any) (any, bool) { return cmd.(int) % 2, true }
	s := stage.Sink("s", func(context.Context, int) error { return nil }, stage.Workers(1, 1))
	run(t, func() {
		for n := range 3 {
			require.NoError(t, s.Submit(context.Background(), n))
		}
	}, s, pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider, Roots: []string{"s"}, Key: key})))
	all := named(kept, "s")
	require.Len(t, all, 3)
	hash := func(i int) string { return attributeOf(all[i], "golda.key.hash").AsString() }
	assert.Len(t, hash(0), 16)
	assert.Equal(t, hash(0), hash(2))
	assert.NotEqual(t, hash(0), hash(1))
}

func TestOnlyOneCommandInManyBeginsATraceAndOnlyAtARoot(t *testing.T) {
	provider, kept := recorded(t)
	last := stage.Sink("last", func(context.Context, int) error { return nil })
	first := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil })
	run(t, func() {
		for n := range 1000 {
			require.NoError(t, first.Submit(context.Background(), n))
		}
	}, first.To(last), last, pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider, Roots: []string{"first"}, Every: 100})))
	assert.Len(t, named(kept, "first"), 10)
	assert.Len(t, named(kept, "last"), 10)
	roots := map[trace.TraceID]trace.SpanID{}
	for _, s := range named(kept, "first") {
		assert.False(t, s.Parent.IsValid())
		roots[s.SpanContext.TraceID()] = s.SpanContext.SpanID()
	}
	for _, s := range named(kept, "last") {
		assert.Equal(t, roots[s.SpanContext.TraceID()], s.Parent.SpanID())
	}
}

// A loop does not make the context of its command deeper.
func TestALoopAddsNoContexts(t *testing.T) {
	provider, kept := recorded(t)
	back := behaviour.NewPort[int]("back")
	loop := stage.Func("loop", func(ctx context.Context, n int) behaviour.Outcome {
		ctx.Value(probe{})
		if n == 0 {
			return behaviour.OK(nil)
		}
		return behaviour.Forward(back, n-1)
	}, stage.Out(back))
	depth := &depth{Context: context.Background()}
	run(t, func() { require.NoError(t, loop.Submit(depth, 100)) }, loop, pipeline.Wire(back, loop),
		pipeline.Middleware(otel.Middleware(otel.Options{Provider: provider, Roots: []string{"loop"}})))
	require.Len(t, named(kept, "loop"), 101)
	assert.Less(t, depth.most, 40)
}

type probe struct{}

// depth is a context that notes how deep the stack is when it is asked.
type depth struct {
	context.Context

	most int
}

func (d *depth) Value(key any) any {
	if key == (probe{}) {
		d.most = max(d.most, runtime.Callers(0, make([]uintptr, 1000)))
	}
	return d.Context.Value(key)
}

func TestHeadersCarryASpanOverOthers(t *testing.T) {
	provider, _ := recorded(t)
	h := otel.Headers(nil)
	ctx, span := request(t.Context(), provider)
	sent := map[string]string{}
	h.Inject(ctx, func(name, value string) { sent[name] = value })
	assert.Contains(t, sent["traceparent"], span.SpanContext().TraceID().String())
	get := func(name string) string { return sent[name] }

	got := trace.SpanContextFromContext(h.Extract(context.Background(), get))
	assert.Equal(t, span.SpanContext().SpanID(), got.SpanID())
	assert.True(t, got.IsRemote())

	other, near := request(t.Context(), provider)
	assert.Equal(t, near.SpanContext(), trace.SpanContextFromContext(h.Extract(other, get)), "the nearer span stays")
	for _, bad := range []string{"", "00-x-y-01", "ff"} {
		assert.Equal(t, context.Background(), h.Extract(context.Background(), func(string) string { return bad }))
	}
}

// unsampled returns a context with a span that is not sampled.
func unsampled() context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
}

func TestACommandThatIsNotSampledAllocatesNothing(t *testing.T) {
	provider, kept := recorded(t)
	m := otel.Middleware(otel.Options{Provider: provider, Roots: []string{"root"}, Every: 1 << 30})
	next := func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) }
	var cmd any = 1
	for name, ctx := range map[string]context.Context{"no trace": context.Background(), "a trace that is not sampled": unsampled()} {
		for _, stage := range []string{"root", "other"} {
			assert.Zero(t, testing.AllocsPerRun(1000, func() { m(ctx, stage, cmd, next) }), name)
		}
	}
	assert.Empty(t, kept.GetSpans())
}

func TestACommandThatIsNotSampledAllocatesNothingInAPipeline(t *testing.T) {
	allocations := func(all ...stage.MiddlewareFunc) float64 {
		var n float64
		s := stage.Sink("s", func(context.Context, *int) error { return nil }, stage.Workers(1, 1))
		run(t, func() {
			cmd := new(int)
			n = testing.AllocsPerRun(100, func() {
				for range 100 {
					require.NoError(t, s.Submit(context.Background(), cmd))
				}
			})
		}, s, pipeline.Middleware(all...))
		return n
	}
	provider, _ := recorded(t)
	traced := otel.Middleware(otel.Options{Provider: provider, Roots: []string{"s"}, Every: 1 << 30})
	empty := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		return next(ctx, cmd)
	}
	assert.InDelta(t, allocations(empty), allocations(traced), 50, "for 100 commands")
}

// BenchmarkMiddleware measures a command through a stage: without middleware, with one that does nothing, with a command that is not sampled,
// and with one that is. The spans are dropped.
//
//	go test -run '^$' -bench Middleware -benchmem -count 6 ./adapter/otel
func BenchmarkMiddleware(b *testing.B) {
	provider := sdk.NewTracerProvider()
	of := func(every int) stage.MiddlewareFunc {
		return otel.Middleware(otel.Options{Provider: provider, Roots: []string{"s"}, Every: every})
	}
	for _, c := range []struct {
		name string
		all  []stage.MiddlewareFunc
	}{
		{"none", nil},
		{"empty", []stage.MiddlewareFunc{func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
			return next(ctx, cmd)
		}}},
		{"unsampled", []stage.MiddlewareFunc{of(1 << 30)}},
		{"one in 100", []stage.MiddlewareFunc{of(100)}},
		{"sampled", []stage.MiddlewareFunc{of(1)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := stage.Sink("s", func(context.Context, *int) error { return nil }, stage.Workers(1, 1))
			parts := []pipeline.Part{s, quiet}
			if c.all != nil {
				parts = append(parts, pipeline.Middleware(c.all...))
			}
			p, err := pipeline.New("p", parts...)
			require.NoError(b, err)
			require.NoError(b, p.Start(context.Background()))
			b.ReportAllocs()
			cmd := new(int)
			for b.Loop() {
				if err := s.Submit(context.Background(), cmd); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, p.Drain(context.Background()))
			b.StopTimer()
			require.NoError(b, p.Stop(context.Background()))
		})
	}
}
