package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The stage's one worker carries commands for a full stage when the swap asks it to leave. It must leave when they are gone:
// it has the only instance, without which the shared workers can do nothing.
func TestASwapToSharedWorkersReleasesAWorkerThatCarriesCommands(t *testing.T) {
	for i := range fewer(60) {
		to := behaviour.NewPort[int]("to")
		s := stage.Coroutine("s", func(c behaviour.Suspender, d int) behaviour.Outcome {
			if d%3 == 0 {
				coroutine.Sleep(c, 100*time.Microsecond)
			}
			for range 3 {
				if err := behaviour.Emit(c, to, d); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.Forward(to, d)
		}, stage.Instances(1), stage.Workers(1, 1), stage.Out(to))
		b := stage.Func("b", echo[int], stage.Capacity(2), stage.Workers(1, 1))
		p, err := pipeline.New("p", s, b, pipeline.Wire(to, b), quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for j := range 100 {
			require.NoError(t, s.Submit(t.Context(), j))
		}
		time.Sleep(time.Duration(i%10) * 200 * time.Microsecond)
		require.NoError(t, p.SetPolicy(policy.Cohort{}))
		require.Eventually(t, func() bool { return p.Snapshot().InFlight == 0 }, enough, time.Millisecond,
			"run %d: %+v", i, p.Snapshot().Stages[0])
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		require.NoError(t, p.Stop(ctx))
		cancel()
	}
}
