package nats_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// Each partition of a keyed stage has one command in flight, which waits for a window behind the stage, which waits for other commands.
func TestWindowsThatOnlyTheirCountClosesDoNotHoldUpAKeyedStageForEver(t *testing.T) {
	for name, c := range map[string]struct{ processes, partitions, steps, keys int }{
		"more keys than partitions": {1, 4, 8, 8},
		"two processes":             {2, 8, 16, 16},
		"one key":                   {1, 4, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := embed(t, t.TempDir(), nats.Store{})
			var handled tally
			var windows []*stage.Flow[int, window.Window[int, []int]]
			place := func(process string) (*pipeline.Pipeline, *stage.Flow[int, int]) {
				route := stage.Map("route", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(1, 1))
				out := behaviour.NewPort[int]("out")
				enter := stage.Keyed("enter", func(n int) int { return n % c.keys }, func(int) behaviour.Behaviour[int] {
					return behaviour.Func[int](func(ctx context.Context, n int) behaviour.Outcome {
						if err := behaviour.Emit(ctx, out, n); err != nil {
							return behaviour.Error(err)
						}
						return behaviour.OK(nil)
					})
				}, stage.Out(out))
				of := window.By("collect", func(n int) int { return n % c.keys }, window.Bounds[int]{Count: 2})
				windows = append(windows, of)
				sink := stage.Sink("sink", func(ctx context.Context, w window.Window[int, []int]) error {
					return handled.handleAll(ctx, w.Value)
				}, stage.Workers(1, 1))
				p, err := pipeline.New("ledger", quiet, route.To(enter), of.To(sink), pipeline.Wire(out, of),
					pipeline.Assign("front", "route"), pipeline.Assign("back", "enter", "collect", "sink"),
					pipeline.RunsHere(nats.NewCarrier(conn, "ledger", nats.Options[any]{Partitions: c.partitions}), process))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				t.Cleanup(func() {
					_ = p.Stop(context.Background())
					assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
				})
				return p, route
			}
			_, route := place("front")
			var backs []*pipeline.Pipeline
			for range c.processes {
				p, _ := place("back")
				backs = append(backs, p)
			}
			for n := range c.steps {
				require.NoError(t, route.Submit(t.Context(), n))
			}
			eventually(t, "all steps are handled, or in a window", func() bool {
				st, err := conn.Status(t.Context(), "ledger_enter")
				held := 0
				for _, of := range windows {
					held += of.Snapshot().Queue.Suspended
				}
				return err == nil && st.Published == uint64(c.steps) && st.Pending == st.InFlight && handled.len()+held == c.steps
			})
			for _, p := range backs {
				require.NoError(t, p.Stop(t.Context()))
			}
			require.Equal(t, c.steps, handled.len())
		})
	}
}
