package stagetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// sum is an instance whose state survives it; sums takes batches.
type (
	sum  struct{ n int }
	sums struct{ sum }
)

func (s *sum) HandleCommand(context.Context, int) behaviour.Outcome { s.n++; return behaviour.OK(s.n) }
func (s *sum) Snapshot() any                                        { return s.n }
func (s *sum) Restore(state any) error                              { s.n = state.(int); return nil }

func (s *sums) HandleBatch(ctx context.Context, cmds []int) []behaviour.Outcome {
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i, cmd := range cmds {
		outcomes[i] = s.HandleCommand(ctx, cmd)
	}
	return outcomes
}

func TestAWrappedBehaviourKeepsItsStateOverFaults(t *testing.T) {
	for name, factory := range map[string]behaviour.Factory[int]{
		"one at a time": func() behaviour.Behaviour[int] { return &sum{} },
		"in batches":    func() behaviour.Behaviour[int] { return &sums{} },
	} {
		t.Run(name, func(t *testing.T) {
			in := stagetest.Inject(t, 1, stagetest.Faults{Panic: 0.2, Goexit: 0.1})
			s := stage.Each("sum", func() behaviour.Behaviour[int] { return stagetest.Wrap(in, factory()) }, stage.Workers(1, 1), stage.Retry(stage.RetryPolicy{Attempts: 10}))
			stagetest.Run(t, s)
			for want := 1; want <= 200; want++ {
				n, err := stage.Call[int](t.Context(), s, want)
				require.NoError(t, err)
				require.Equal(t, want, n)
			}
			require.Greater(t, s.Snapshot().Counts.Crashes, uint64(20))
		})
	}
}
