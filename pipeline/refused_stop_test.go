package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// A service refuses each call, and asks for ten seconds.
func TestASoftStopWaitsForRefusedCommandsUntilItsContextEnds(t *testing.T) {
	for name, test := range map[string]struct {
		refusals int
		within   time.Duration
		took     time.Duration // of Stop
		done     uint64
	}{
		"the service recovers":       {refusals: 2, within: time.Minute, took: 20 * time.Second, done: 1},
		"it refuses for ever":        {refusals: 1 << 30, within: 25 * time.Second, took: 25 * time.Second},
		"the context has ended":      {refusals: 1 << 30, within: 0, took: 0},
		"it ends before the pause":   {refusals: 1, within: 3 * time.Second, took: 3 * time.Second},
		"it ends at the last moment": {refusals: 1, within: 10*time.Second + time.Millisecond, took: 10 * time.Second, done: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s, _, _ := refusedStage(test.refusals, asks{after: 10 * time.Second}, stage.Retry(stage.RetryPolicy{Attempts: 2}))
				p := bubble(t, s)
				ticket, err := s.Ask(t.Context(), 1)
				require.NoError(t, err)
				time.Sleep(time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), test.within)
				defer cancel()
				began := time.Now()
				err = p.Stop(ctx)
				require.InDelta(t, test.took, time.Since(began), float64(10*time.Millisecond))
				atRest(t, p)
				snap := p.Snapshot()
				require.Equal(t, test.done, snap.Replied)
				if test.done == 1 {
					require.NoError(t, err)
					require.NoError(t, ticket.Err())
					return
				}
				report, ok := errors.AsType[*pipeline.StopError](err)
				require.True(t, ok, err)
				require.ErrorContains(t, report, "1 waiting for a retry")
				require.EqualValues(t, 1, snap.DeadLettered)
				require.ErrorIs(t, ticket.Err(), stage.ErrStopped)
				list := p.DeadLetters().List(letters.Filter{})
				require.Len(t, list, 1, "it can be retried in the next process")
				require.Equal(t, 1, list[0].Command)
			})
		})
	}
}
