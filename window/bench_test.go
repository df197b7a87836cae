package window_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// BenchmarkWindow measures a command on its way through a stage with windows, in windows of 100 commands of 10 keys.
func BenchmarkWindow(b *testing.B) {
	key, bounds := func(n int) int { return n % 10 }, window.Bounds[int]{Count: 100}
	for name, form := range map[string]func() drained{
		"By": func() drained { return drain(window.By("w", key, bounds)) },
		"Aggregate": func() drained {
			return drain(window.Aggregate("w", key, func(sum, n int) int { return sum + n }, bounds))
		},
		"Throttle": func() drained { return drain(window.Throttle("w", key, time.Second)) },
	} {
		b.Run(name, func(b *testing.B) {
			of := form()
			p, err := pipeline.New("bench", of.part, pipeline.Logger(slog.New(slog.DiscardHandler)))
			require.NoError(b, err)
			require.NoError(b, p.Start(b.Context()))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				_ = of.submit(b.Context(), n)
				n++
			}
			require.NoError(b, p.Stop(b.Context()))
		})
	}
}

// drained is a stage with windows, and the stage that takes their results.
type drained struct {
	part   pipeline.Part
	submit func(ctx context.Context, n int) error
}

func drain[T any](of *stage.Flow[int, T]) drained {
	return drained{of.To(stage.Sink("sink", func(context.Context, T) error { return nil })), of.Submit}
}

// BenchmarkHeard is BenchmarkWindow with commands of a source that hears of their ends, so each has a ticket.
func BenchmarkHeard(b *testing.B) {
	key, bounds := func(n int) int { return n % 10 }, window.Bounds[int]{Count: 100}
	for name, of := range map[string]func(source.Source[int]) pipeline.Part{
		"By": func(s source.Source[int]) pipeline.Part { return fedBy(window.By("w", key, bounds), s) },
		"Aggregate": func(s source.Source[int]) pipeline.Part {
			return fedBy(window.Aggregate("w", key, func(sum, n int) int { return sum + n }, bounds), s)
		},
		"Throttle": func(s source.Source[int]) pipeline.Part { return fedBy(window.Throttle("w", key, time.Second), s) },
	} {
		b.Run(name, func(b *testing.B) {
			ended := func(error) {}
			numbers := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
				for n := range b.N {
					if err := submit(n, ended); err != nil {
						return err
					}
				}
				return nil
			})
			p, err := pipeline.New("bench", of(numbers), pipeline.Logger(slog.New(slog.DiscardHandler)))
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			require.NoError(b, p.Run(b.Context()))
		})
	}
}

func fedBy[T any](of *stage.Flow[int, T], s source.Source[int]) pipeline.Part {
	return pipeline.Subgraph(drain(of).part, pipeline.Feed("f", of.Stage, s))
}
