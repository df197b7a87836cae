package headers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
	"github.com/golda-dev/golda/stage/headers/headerstest"
)

type tenantKey struct{}

// tenant carries the tenant of a command.
type tenant struct{}

func (tenant) Inject(ctx context.Context, set func(name, value string)) {
	if t, ok := ctx.Value(tenantKey{}).(string); ok {
		set("X-Tenant", t)
	}
}

func (tenant) Extract(ctx context.Context, get func(name string) string) context.Context {
	if t := get("X-Tenant"); t != "" {
		return context.WithValue(ctx, tenantKey{}, t)
	}
	return ctx
}

func ExampleUse() {
	headers.Use(tenant{})
	defer headers.Use()

	sent := map[string]string{}
	ctx := context.WithValue(context.Background(), tenantKey{}, "acme")
	headers.Inject(ctx, func(name, value string) { sent[name] = value })

	got := headers.Extract(context.Background(), func(name string) string { return sent[name] })
	fmt.Println(got.Value(tenantKey{}))
	// Output: acme
}

func ExampleFrom() {
	headers.Use(tenant{})
	defer headers.Use()

	message := map[string]string{"X-Tenant": "acme"}
	derive := headers.From(func(name string) string { return message[name] }) // nil if no propagator is in use
	fmt.Println(derive(context.Background()).Value(tenantKey{}))
	// Output: acme
}

// A middleware counts the stages that a command has passed.
func ExampleDerive() {
	counts := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		headers.Derive(ctx, func(values context.Context) context.Context {
			passed, ok := values.(*layer)
			if !ok {
				return &layer{values, 1, values}
			}
			return &layer{passed.under, passed.n + 1, passed.under} // in the place of the old one
		})
		return next(ctx, cmd)
	}
	last := stage.Sink("last", func(ctx context.Context, _ int) error {
		fmt.Println("stages before:", numberOf(ctx))
		return nil
	})
	first := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Middleware(counts))
	second := stage.Map("second", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Middleware(counts))
	p, err := pipeline.New("p", first.To(second), second.To(last), last)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(p.Start(ctx), first.Submit(ctx, 1), p.Drain(ctx), p.Stop(ctx))
	// Output:
	// stages before: 2
	// <nil> <nil> <nil> <nil>
}

// tenants prints the tenant of each command of a batch.
type tenants struct{ behaviour.Func[int] }

func (tenants) HandleBatch(ctx context.Context, cmds []int) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(cmds))
	of := headers.Batch(ctx)
	for i, n := range cmds {
		if of != nil && of[i] != nil {
			fmt.Println(n, of[i].Value(tenantKey{}))
		}
		outcomes[i] = behaviour.OK(nil)
	}
	return outcomes
}

func ExampleBatch() {
	s := stage.New("s", tenants{}, stage.Batch(8))
	p, err := pipeline.New("p", s)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	acme := context.WithValue(ctx, tenantKey{}, "acme")
	fmt.Println(p.Start(ctx), s.Submit(acme, 1), p.Drain(ctx), p.Stop(ctx))
	// Output:
	// 1 acme
	// <nil> <nil> <nil> <nil>
}

// A map of headers passes the test of all carriers.
func TestHeadersThemselvesAreCarried(t *testing.T) {
	headerstest.Run(t, func(t *testing.T, ctx context.Context) context.Context {
		sent := map[string]string{}
		headers.Inject(ctx, func(name, value string) { sent[name] = value })
		from := headers.From(func(name string) string { return sent[name] })
		require.NotNil(t, from)
		return from(t.Context())
	})
}

func TestWithoutPropagatorsNothingIsCarried(t *testing.T) {
	headers.Use()
	assert.Nil(t, headers.From(func(string) string { return "x" }))
	headers.Inject(context.WithValue(t.Context(), tenantKey{}, "acme"), func(name, value string) { t.Error(name, value) })
	assert.Equal(t, t.Context(), headers.Extract(t.Context(), func(string) string { return "x" }))
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	assert.Zero(t, testing.AllocsPerRun(100, func() { headers.Inject(ctx, func(string, string) {}) }))
}

// odd sets headers that must not reach a message.
type odd struct{}

func (odd) Inject(_ context.Context, set func(name, value string)) {
	set("", "a")
	set("a b", "a")
	set("a:", "a")
	set("good", "yes")
	for i := range 20 {
		set(fmt.Sprint("n", i), strings.Repeat("x", 1000))
	}
}

func (odd) Extract(context.Context, func(string) string) context.Context { return nil }

func TestBadNamesAndTooManyHeadersAreLeftOut(t *testing.T) {
	headers.Use(odd{})
	defer headers.Use()
	sent := map[string]string{}
	headers.Inject(t.Context(), func(name, value string) { sent[name] = value })
	assert.Equal(t, "yes", sent["good"])
	assert.Len(t, sent, 9, "eight of a thousand bytes, and one")
	assert.Equal(t, t.Context(), headers.Extract(t.Context(), func(string) string { return "" }), "a nil context is none")
}

// layer is a value that replaces itself: a command has one, however many stages
// it passes.
type layer struct {
	context.Context

	n     int
	under context.Context
}

type layerKey struct{}

func (l *layer) Value(key any) any {
	if key == (layerKey{}) {
		return l
	}
	return l.Context.Value(key)
}

func numberOf(ctx context.Context) int {
	if l, ok := ctx.Value(layerKey{}).(*layer); ok {
		return l.n
	}
	return 0
}

// count is a middleware that gives the commands which come of a command a
// number that is one larger.
func count(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	headers.Derive(ctx, func(values context.Context) context.Context {
		if l, ok := values.(*layer); ok {
			return &layer{l.under, l.n + 1, l.under}
		}
		return &layer{values, 1, values}
	})
	return next(ctx, cmd)
}

// Each command passes three stages; the second is of the kind that is tested,
// and fails once.
func TestDerivedValuesReachFurtherTriesAndAllThatComesOfACommand(t *testing.T) {
	for _, kind := range []string{"func", "timeout", "coroutine", "keyed", "ordered"} {
		for _, way := range []string{"forward", "emit"} {
			for _, how := range []string{"submitted", "called", "with values", "with a deadline"} {
				t.Run(strings.Join([]string{kind, way, how}, ", "), func(t *testing.T) {
					var tries, last []int
					final := stage.Func("final", func(ctx context.Context, _ int) behaviour.Outcome {
						last = append(last, numberOf(ctx))
						if how == "with values" {
							assert.Equal(t, "acme", ctx.Value(tenantKey{}))
						}
						_, dated := ctx.Deadline()
						assert.Equal(t, how == "with a deadline", dated)
						return behaviour.OK(numberOf(ctx))
					})
					handle := func(ctx context.Context, n int) behaviour.Outcome {
						tries = append(tries, numberOf(ctx))
						if len(tries) == 1 {
							return behaviour.Error(errors.New("the first try"))
						}
						if way == "emit" {
							if err := behaviour.Emit(ctx, final, n); err != nil {
								return behaviour.Error(err)
							}
							return behaviour.OK(0)
						}
						return behaviour.Forward(final, n)
					}
					opts := []stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Middleware(count)}
					var middle *stage.Stage[int]
					switch kind {
					case "timeout":
						middle = stage.Func("middle", handle, append(opts, stage.Timeout(time.Hour))...)
					case "coroutine":
						middle = stage.Coroutine("middle", func(c behaviour.Suspender, n int) behaviour.Outcome {
							if err := c.Suspend(func(wake func()) { go wake() }); err != nil {
								return behaviour.Error(err)
							}
							return handle(c, n)
						}, opts...)
					case "keyed":
						middle = stage.Keyed("middle", func(int) int { return 1 },
							func(int) behaviour.Behaviour[int] { return behaviour.Func[int](handle) }, opts...)
					case "ordered":
						middle = stage.Func("middle", handle, append(opts, stage.Ordered())...)
					default:
						middle = stage.Func("middle", handle, opts...)
					}
					first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(middle, n) },
						stage.Middleware(count))
					p, err := pipeline.New("p", first, middle, final)
					require.NoError(t, err)
					require.NoError(t, p.Start(t.Context()))

					ctx := context.Background()
					switch how {
					case "with values":
						ctx = context.WithValue(ctx, tenantKey{}, "acme")
					case "with a deadline":
						dated, cancel := stage.WithDeadline(ctx, time.Now().Add(time.Hour))
						defer cancel()
						ctx = dated
					}
					if how == "called" {
						_, err = stage.Call[int](ctx, first, 1)
					} else {
						err = first.Submit(ctx, 1)
					}
					require.NoError(t, err)
					require.NoError(t, p.Drain(t.Context()))
					require.NoError(t, p.Stop(t.Context()))
					assert.Equal(t, []int{1, 2}, tries)
					assert.Equal(t, []int{3}, last)
				})
			}
		}
	}
}

func TestABatchHasTheContextOfEachCommand(t *testing.T) {
	for _, timeout := range []bool{false, true} {
		opts := []stage.Option{stage.Batch(8), stage.Workers(1, 1), stage.Middleware(count)}
		if timeout {
			opts = append(opts, stage.Timeout(time.Hour))
		}
		var b batches
		s := stage.New("s", &b, opts...)
		p, err := pipeline.New("p", s)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, p.Pause(s))
		require.NoError(t, s.Submit(context.Background(), 1))
		require.NoError(t, s.Submit(context.WithValue(context.Background(), tenantKey{}, "acme"), 2))
		require.NoError(t, s.Submit(context.WithValue(context.Background(), tenantKey{}, "zenith"), 3))
		require.NoError(t, p.Resume(s))
		require.NoError(t, p.Drain(t.Context()))
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, map[int]any{1: nil, 2: "acme", 3: "zenith"}, b.tenants)
	}
}

type batches struct{ tenants map[int]any }

func (b *batches) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }

func (b *batches) HandleBatch(ctx context.Context, cmds []int) []behaviour.Outcome {
	if b.tenants == nil {
		b.tenants = map[int]any{}
	}
	of := headers.Batch(ctx)
	all := make([]behaviour.Outcome, len(cmds))
	for i, n := range cmds {
		b.tenants[n] = nil
		if of != nil && of[i] != nil {
			b.tenants[n] = of[i].Value(tenantKey{})
		}
		all[i] = behaviour.OK(nil)
	}
	return all
}

func TestOutsideOfAHandlerNothingIsDerived(t *testing.T) {
	never := func(context.Context) context.Context { t.Error("derive is called"); return nil }
	assert.False(t, headers.Derive(t.Context(), never))
	var kept context.Context
	s := stage.Sink("s", func(ctx context.Context, _ int) error { kept = ctx; return nil })
	p, err := pipeline.New("p", s)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	_, err = s.Call(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Stop(t.Context()))
	assert.False(t, headers.Derive(kept, never))
	assert.Nil(t, headers.Batch(kept))
}
