package pipeline_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestTheDefaultPolicyBringsASleepingHandlerToFullRateWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
			time.Sleep(10 * time.Millisecond)
			return behaviour.OK(nil)
		}, stage.Workers(1, 32))
		p, err := pipeline.New("p", s, quiet, pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler))))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		fill(ctx, s)
		time.Sleep(time.Second)
		require.Equal(t, 32, s.Snapshot().Workers.Live, "%v", p.Journal())
		before := s.Snapshot().Counts.OK
		time.Sleep(time.Second)
		require.InDelta(t, 3200, s.Snapshot().Counts.OK-before, 64)
		cancel()
		require.NoError(t, p.Stop(t.Context()))
	})
}
