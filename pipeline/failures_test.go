package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

func TestACallTellsTheErrorsOfAllCommandsThatItsHandlerEmitted(t *testing.T) {
	odd, even := errors.New("odd"), errors.New("even")
	page := stage.Func("page", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Error(fmt.Errorf("page %d: %w", n, []error{even, odd}[n%2]))
	}, stage.Workers(1, 1))
	site := stage.Func("site", func(ctx context.Context, pages int) behaviour.Outcome {
		for n := range pages {
			if err := behaviour.Emit(ctx, page, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(pages)
	}, stage.Workers(1, 1))
	run(t, site, page)
	_, err := stage.Call[int](soon(t), site, 40)
	require.ErrorIs(t, err, even)
	require.ErrorIs(t, err, odd, "the error of the first page is not all that there is to tell")
	var all *stage.Errors
	require.ErrorAs(t, err, &all)
	require.Equal(t, 40, all.Count)
	require.Len(t, all.Errs, stage.MostErrors)

	_, err = stage.Call[int](soon(t), site, 1)
	require.EqualError(t, err, `stage "page": page 0: even`)
}
