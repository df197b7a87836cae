package stage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// tally counts what it handles.
type tally struct{ n int64 }

func (b *tally) HandleCommand(context.Context, string) behaviour.Outcome {
	b.n++
	return behaviour.OK(b.n)
}

func TestEachInfersItsCommandTypeFromTheFactory(t *testing.T) {
	var s *stage.Stage[string] = stage.Each("s", func() *tally { return new(tally) }, stage.Workers(1, 1))
	var factory behaviour.Factory[string] = func() behaviour.Behaviour[string] { return new(tally) }
	var _ *stage.Stage[string] = stage.Each("of a Factory", factory)
	defer must(s)()
	for want := range int64(2) {
		n, err := stage.Call[int64](t.Context(), s, "word")
		require.NoError(t, err)
		require.Equal(t, want+1, n)
	}
}

func TestAFactoryThatReturnsANilPointerIsAnErrorOfTheStart(t *testing.T) {
	p, err := pipeline.New("p", stage.Each("s", func() *tally { return nil }), quiet)
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), `"s"`)
}

func TestACallForAnotherTypeNamesBothTypesAndTheStage(t *testing.T) {
	s := stage.Each("s", func() *tally { return new(tally) })
	defer must(s)()
	_, err := stage.Call[int](t.Context(), s, "word")
	var result *stage.TypeError
	require.ErrorAs(t, err, &result)
	require.Equal(t, stage.TypeError{Stage: "s", Want: "int", Got: "int64", Result: true}, *result)
	require.EqualError(t, err, `stage "s": called for a result of type int and got int64; use stage.Call[int64]`)
	_, err = stage.Call[fmt.Stringer](t.Context(), s, "word")
	require.EqualError(t, err, `stage "s": called for a result of type fmt.Stringer and got int64; use stage.Call[int64]`)
}

func TestTheFirstErrorOfAnUndeclaredPortNamesTheStageAndTheOptionToAdd(t *testing.T) {
	done := behaviour.NewPort[int]("done")
	forwards := stage.Func("forwards", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(done, n) })
	emits := stage.Func("emits", func(ctx context.Context, n int) behaviour.Outcome {
		return behaviour.Error(behaviour.Emit(ctx, done, n))
	})
	defer must(forwards, emits)()
	for _, s := range []*stage.Stage[int]{forwards, emits} {
		_, err := stage.Call[int](t.Context(), s, 1)
		require.ErrorIs(t, err, behaviour.ErrUnwired)
		require.ErrorContains(t, err, fmt.Sprintf("stage %q", s.Name()))
		require.ErrorContains(t, err, `declare it with stage.Out and wire it with pipeline.Wire`)
	}
}
