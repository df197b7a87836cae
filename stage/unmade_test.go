package stage_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A stage is nil if the program forgot to make it: the error says so, and names the call.
func TestACallOfAStageThatWasNotMadeIsAnError(t *testing.T) {
	type entry interface {
		Submit(ctx context.Context, cmd int) error
		SubmitAll(ctx context.Context, cmds ...int) (int, error)
		Ask(ctx context.Context, cmd int) (*stage.Ticket, error)
	}
	var noStage *stage.Stage[int]
	var noFlow *stage.Flow[int, int]
	calls := map[string]func() error{
		"nil flow":   func() error { _, err := noFlow.Call(t.Context(), 1); return err },
		"zero flow":  func() error { _, err := new(stage.Flow[int, int]).Call(t.Context(), 1); return err },
		"nil stage":  func() error { _, err := stage.Call[int](t.Context(), noStage, 1); return err },
		"zero stage": func() error { _, err := stage.Call[int](t.Context(), new(stage.Stage[int]), 1); return err },
	}
	entries := map[string]entry{
		"nil flow": noFlow, "zero flow": new(stage.Flow[int, int]), "nil stage": noStage, "zero stage": new(stage.Stage[int]),
	}
	for name, of := range entries {
		const why = ": the stage or flow is nil, or was not made with a function of package stage"
		require.EqualError(t, calls[name](), "stage: Call"+why, name)
		require.EqualError(t, of.Submit(t.Context(), 1), "stage: Submit"+why, name)
		_, err := of.SubmitAll(t.Context(), 1, 2)
		require.EqualError(t, err, "stage: SubmitAll"+why, name)
		_, err = of.Ask(t.Context(), 1)
		require.EqualError(t, err, "stage: Ask"+why, name)
	}
	_, err := pipeline.New("p", noFlow.To(stage.Sink("sink", func(context.Context, int) error { return nil })))
	require.ErrorContains(t, err, "To: the flow is nil")
}
