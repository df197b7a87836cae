package stage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

type sender = func(context.Context, int) behaviour.Outcome

func TestAFlowOfNothingIsAFault(t *testing.T) {
	for want, of := range map[string]*stage.Flow[int, int]{
		`stage "f": New: the behaviour is nil`:  stage.FlowOf[int, int]("f", nil),
		`stage "f": New: the behaviour is nil `: stage.FlowOf("f", func(sender) (behaviour.Behaviour[int], error) { return nil, nil }), //nolint:nilnil // on purpose
		`stage "f": FlowOf: no disk`: stage.FlowOf("f", func(sender) (behaviour.Behaviour[int], error) {
			return nil, errors.New("no disk")
		}),
		`stage "f": Size(0): too small`: stage.FlowOf("f", func(sender) (behaviour.Behaviour[int], error) {
			return nil, errors.Join(&stage.OptionError{Option: "Size(0)", Problem: "too small"}, errors.New("no disk"))
		}),
	} {
		_, err := pipeline.New("test", of)
		require.ErrorContains(t, err, want[:len(want)-1])
	}
}

func TestAFlowOfABehaviourHasTypedResults(t *testing.T) {
	double := stage.FlowOf("double", func(send sender) (behaviour.Behaviour[int], error) {
		return behaviour.Func[int](func(ctx context.Context, n int) behaviour.Outcome { return send(ctx, 2*n) }), nil
	})
	whole := stage.Chain(double, stage.Map("add", func(_ context.Context, n int) (int, error) { return n + 1, nil }))
	p, err := pipeline.New("test", whole)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	got, err := whole.Call(t.Context(), 20)
	require.NoError(t, err)
	require.Equal(t, 41, got)
	require.NoError(t, p.Stop(t.Context()))
}
