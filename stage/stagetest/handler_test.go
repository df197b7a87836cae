package stagetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func TestAHandlerContextHasAnAttemptAndKeepsWhatIsEmitted(t *testing.T) {
	next := stage.Func("next", func(context.Context, string) behaviour.Outcome { return behaviour.OK(nil) })
	ctx, emitted := stagetest.HandlerContext(t.Context(), 2)
	require.Equal(t, 2, behaviour.Attempt(ctx))
	require.InDelta(t, 1, behaviour.Quality(ctx), 0)
	require.Empty(t, emitted())
	require.NoError(t, behaviour.Emit(ctx, next, "a"))
	require.NoError(t, behaviour.Emit(ctx, next, "b"))
	require.Equal(t, []any{"a", "b"}, emitted())
}
