package stage_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkSynchronizer measures what a command costs in a stage under a rule over two stages: alone, when both stages want to be the
// only one, and beside commands that another rule holds back. BenchmarkGuard is the same with guards.
func BenchmarkSynchronizer(b *testing.B) {
	on := func(of synchronizer.Member, method string) synchronizer.Event {
		return synchronizer.Event{Of: of, Method: method}
	}
	for _, kind := range []struct {
		name string
		most int
		both bool // both stages have commands
		held int
	}{
		{"no conflict", 4, false, 0},
		{"two stages, one at a time", 1, true, 0},
		{"beside 10 held", 4, false, 10},
		{"beside 10000 held", 4, false, 10_000},
	} {
		b.Run(kind.name, func(b *testing.B) {
			busy := make(chan struct{})
			handle := func(ctx context.Context, cmd any) behaviour.Outcome {
				if _, waits := cmd.(get); waits {
					select {
					case <-busy:
					case <-ctx.Done():
					}
				}
				return behaviour.OK(nil)
			}
			x := stage.Func("x", handle, stage.Capacity(kind.held+1024))
			y := stage.Func("y", handle, stage.Workers(2, 2))
			p, err := pipeline.New("bench", x, y, quiet, pipeline.Control(policy.Fixed{}),
				pipeline.Synchronize("rule", func(s *synchronizer.Synchronizer) { s.AtMost(kind.most, on(x, "put"), on(y, "put")) }),
				pipeline.Synchronize("held", func(s *synchronizer.Synchronizer) { s.AtMost(1, on(x, "get"), on(y, "get")) }))
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			if kind.held > 0 {
				require.NoError(b, y.Submit(b.Context(), get{})) // it is current until the end
				for y.Snapshot().Busy == 0 {
					runtime.Gosched()
				}
			}
			for range kind.held {
				require.NoError(b, x.Submit(b.Context(), get{}))
			}
			var cmd any = put{1}
			stages := []*stage.Stage[any]{x, x}
			if kind.both {
				stages[1] = y
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := stages[i%2].Submit(context.Background(), cmd); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.StopTimer()
			require.GreaterOrEqual(b, x.Snapshot().Queued, kind.held, fmt.Sprint(x.Snapshot().Methods))
			close(busy)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = p.Stop(ctx)
		})
	}
}
