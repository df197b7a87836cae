package rpc_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
	"github.com/golda-dev/golda/stage/headers/headerstest"
)

func TestCallsCarryHeaders(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		for _, how := range []string{"Call", "Future", "a call of a function that calls a stage"} {
			t.Run(name+", "+how, func(t *testing.T) {
				n, m := nodes(t)
				got := make(chan context.Context, 1)
				s := stage.Sink("s", func(ctx context.Context, _ int) error { got <- ctx; return nil })
				running(t, s)
				a := spawn(t, m, "A", func(p *rpc.Process) {
					rpc.Func(p, "f", func(c coroutine.Context, _ int) (none, error) { got <- c; return none{}, nil })
					rpc.Stage[none](p, "s", s.Stage)
				})
				from := n.Remote(a.Node(), "A")
				f := rpc.At[int, none](from, "f")
				headerstest.Run(t, func(t *testing.T, ctx context.Context) context.Context {
					var err error
					switch how {
					case "Call":
						_, err = f.Call(coroutine.Blocking(ctx), 1)
					case "Future":
						_, err = f.Future(ctx, 1).Wait(coroutine.Blocking(ctx))
					default:
						_, err = rpc.At[int, none](from, "s").Call(coroutine.Blocking(ctx), 1)
					}
					require.NoError(t, err)
					return <-got
				})
			})
		}
	}
}

// The deadline of stage.WithDeadline is that of the commands that the function submits; a plain one is not.
func TestACallCarriesTheDeadlineOfCommands(t *testing.T) {
	const far = 24 * time.Hour
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			got := make(chan time.Time, 1)
			s := stage.Sink("s", func(ctx context.Context, _ int) error {
				at, _ := ctx.Deadline()
				got <- at
				return nil
			})
			running(t, s)
			a := spawn(t, m, "A", func(p *rpc.Process) {
				rpc.Func(p, "f", func(c coroutine.Context, i int) (none, error) { return none{}, s.Submit(c, i) })
			})
			f := rpc.At[int, none](n.Remote(a.Node(), "A"), "f")

			plain, cancel := context.WithTimeout(t.Context(), far)
			defer cancel()
			_, err := f.Call(coroutine.Blocking(plain), 1)
			require.NoError(t, err)
			assert.Zero(t, <-got)

			dated, cancel := stage.WithDeadline(t.Context(), time.Now().Add(far))
			defer cancel()
			shorter, cancel := context.WithTimeout(dated, far/2)
			defer cancel()
			_, err = f.Call(coroutine.Blocking(shorter), 1)
			require.NoError(t, err)
			assert.WithinDuration(t, time.Now().Add(far), <-got, time.Hour)
		})
	}
}

// breaking is a propagator that panics when it reads.
type breaking struct{}

func (breaking) Inject(_ context.Context, set func(name, value string)) {
	set("X-A", "a")
	set("Golda-Time-Left", "1ns")
}
func (breaking) Extract(context.Context, func(string) string) context.Context { panic("boom") }

func TestAPropagatorThatPanicsHarmsNoCall(t *testing.T) {
	headers.Use(breaking{})
	defer headers.Use()
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			a := spawn(t, m, "A", func(p *rpc.Process) {
				rpc.Func(p, "f", func(c coroutine.Context, _ int) (bool, error) { _, ok := c.Deadline(); return ok, nil })
			})
			got, err := rpc.At[int, bool](n.Remote(a.Node(), "A"), "f").Call(blocking(t), 1)
			require.NoError(t, err)
			assert.False(t, got)
		})
	}
}

// running starts a pipeline of one stage.
func running(t *testing.T, s pipeline.Part) {
	t.Helper()
	p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
}
