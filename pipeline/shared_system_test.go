package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// runEmpty makes, starts and stops a pipeline of two stages that is given no system.
func runEmpty(t testing.TB) {
	out := behaviour.NewPort[int]("out")
	b := stage.Func("b", echo[int])
	a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out))
	p, err := pipeline.New("p", quiet, a, b, pipeline.Wire(out, b))
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	require.NoError(t, p.Stop(context.Background()))
}

func TestThePipelinesOfAProgramShareASystemSoASecondOneIsCheap(t *testing.T) {
	runEmpty(t)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() { runEmpty(t) }), 1000.0)
}

func TestPipelinesOfOneNameRunAtOnce(t *testing.T) {
	for range 3 {
		p, err := pipeline.New("p", quiet, stage.Func("s", echo[int]))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		defer func() { require.NoError(t, p.Stop(context.Background())) }()
	}
}

func BenchmarkStartAndStop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		runEmpty(b)
	}
}
