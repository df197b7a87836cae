package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestAStageThatFailsSpendsItsRetryBudgetAndNoMore(t *testing.T) {
	down := errors.New("down")
	for _, test := range []struct {
		name     string
		commands int
		calls    int64 // of handlers: one for each command, ten of the reserve, and a fifth of the commands
		retry    stage.RetryPolicy
	}{
		{"few commands are all tried again", 3, 9, stage.RetryPolicy{Attempts: 3, Budget: 0.2}},
		{"many commands are tried again now and then", 100, 100 + 10 + 20, stage.RetryPolicy{Attempts: 2, Budget: 0.2}},
		{"so are those with many attempts", 100, 100 + 10 + 20, stage.RetryPolicy{Attempts: 1000, Budget: 0.2}},
		{"without a budget all are", 100, 300, stage.RetryPolicy{Attempts: 3}},
	} {
		for _, crashes := range []bool{false, true} {
			name := test.name
			if crashes {
				name += ", if they crash"
			}
			t.Run(name, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					var calls atomic.Int64
					s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
						calls.Add(1)
						if crashes {
							panic(down)
						}
						return behaviour.Error(down)
					}, stage.Retry(test.retry), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 10_000}))
					p := bubble(t, s)
					spent := 0
					for i := range test.commands {
						_, err := stage.Call[int](t.Context(), s, i)
						require.Error(t, err)
						require.Equal(t, crashes, stage.Crashed(err))
						require.True(t, crashes || errors.Is(err, down), "the error of the try is there")
						if errors.Is(err, stage.ErrRetryBudget) {
							spent++
							o, ok := stage.Overloaded(err)
							require.True(t, ok)
							require.Equal(t, reason.RetryBudget, o.Reason)
						}
					}
					require.InDelta(t, test.calls, calls.Load(), 1, "the last commands have not earned yet")
					snap := s.Snapshot()
					require.EqualValues(t, calls.Load(), uint64(test.commands)+snap.Counts.Retries)
					require.EqualValues(t, spent, snap.Counts.RetriesRefused)
					require.True(t, snap.Balanced())
					require.NoError(t, p.Stop(t.Context()))
				})
			})
		}
	}
}

func TestARetryBudgetIsSavedAgainByCommandsThatSucceed(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		down := errors.New("down")
		var fails atomic.Bool
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
			if fails.Load() {
				return behaviour.Error(down)
			}
			return behaviour.OK(nil)
		}, stage.Retry(stage.RetryPolicy{Attempts: 100, Budget: 0.1}), stage.Workers(1, 1))
		p := bubble(t, s)
		retries := func(commands int) uint64 {
			before := s.Snapshot().Counts.Retries
			for i := range commands {
				_, _ = stage.Call[any](t.Context(), s, i)
			}
			return s.Snapshot().Counts.Retries - before
		}
		fails.Store(true)
		require.EqualValues(t, 10, retries(1), "the reserve")
		require.Zero(t, retries(8))
		require.EqualValues(t, 1, retries(2))
		fails.Store(false)
		require.Zero(t, retries(5000))
		fails.Store(true)
		require.EqualValues(t, 10, retries(1), "no more than the reserve is saved")
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestARetryBudgetThatMeansNothingIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		retry   stage.RetryPolicy
		problem string
	}{
		"negative":        {stage.RetryPolicy{Attempts: 2, Budget: -0.1}, "Retry(Budget: -0.1): must be 0, or from 0.001 to 1"},
		"above one":       {stage.RetryPolicy{Attempts: 2, Budget: 20}, "Retry(Budget: 20): must be 0, or from 0.001 to 1"},
		"next to nothing": {stage.RetryPolicy{Attempts: 2, Budget: 1e-9}, "Retry(Budget: 1e-09): must be 0, or from 0.001 to 1"},
		"of no retries":   {stage.RetryPolicy{Budget: 0.2}, "asks for no retry, yet says how"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New(t.Name(), stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }, stage.Retry(test.retry)))
			require.ErrorContains(t, err, test.problem)
		})
	}
}
