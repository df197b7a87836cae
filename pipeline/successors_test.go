package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestSuccessorsAreWhereCommandsGo(t *testing.T) {
	last := stage.Sink("last", func(context.Context, int) error { return nil })
	middle := stage.Map("middle", func(_ context.Context, n int) (int, error) { return n, nil })
	first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) })
	p, err := pipeline.New("p", first, middle, last, middle.To(last), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	require.Equal(t, map[string][]string{"middle": {"last"}}, p.Successors(), "what is declared is known before")
	require.NoError(t, first.Submit(t.Context(), 1))
	require.NoError(t, p.Drain(t.Context()))
	require.Equal(t, map[string][]string{"first": {"last"}, "middle": {"last"}}, p.Successors())
}
