package cookbook

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func TestACrashCostsOneCommand(t *testing.T) {
	divide := stage.Map("divide", func(_ context.Context, n int) (int, error) { return 100 / n, nil })
	trial := stagetest.Run(t, divide, stagetest.MayCrash()) // stops it after the test, and checks it

	_, err := divide.Call(t.Context(), 0)
	crash := new(stage.CrashError)
	require.ErrorAs(t, err, &crash)
	require.ErrorContains(t, err, "divide by zero")

	n, err := divide.Call(t.Context(), 25)
	require.NoError(t, err)
	require.Equal(t, 4, n)

	letters := trial.Quarantine() // the command is kept
	require.Equal(t, 1, letters.Len())
	require.NoError(t, letters.RetryAs(t.Context(), 1, 5))
}
