package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// BenchmarkPolicy measures one command through five stages that do nothing, under every named policy: what it costs that workers go
// from stage to stage.
//
//	go test -run '^$' -bench Policy -benchtime 300000x -count 5 ./pipeline
func BenchmarkPolicy(b *testing.B) {
	for _, name := range policy.Names() {
		if name == "codel" || name == "rt90" {
			continue // they drop or refuse commands in an overload
		}
		b.Run(name, func(b *testing.B) {
			law, err := policy.ByName(name)
			require.NoError(b, err)
			var entry *stage.Stage[*lap]
			parts := []pipeline.Part{pipeline.System(system()), quiet, pipeline.Control(law)}
			for i := range 5 {
				next := entry
				entry = stage.Func(fmt.Sprintf("s%d", i), func(_ context.Context, l *lap) behaviour.Outcome {
					if next == nil {
						return behaviour.OK(nil)
					}
					return behaviour.Forward(next, l)
				}, stage.Workers(1, 1))
				parts = append(parts, entry)
			}
			p, err := pipeline.New("bench", parts...)
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			l := &lap{}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				_ = entry.Submit(context.Background(), l)
			}
			_ = p.Drain(context.Background())
			b.StopTimer()
			require.NoError(b, p.Stop(context.Background()))
			require.EqualValues(b, b.N, p.Snapshot().Replied)
		})
	}
}
