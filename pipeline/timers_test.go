package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

func TestAStageSaysWhatItDoesNextWithoutACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Unix(0, time.Now().UnixNano())
		own := func(time.Time) behaviour.Func[time.Time] {
			return func(context.Context, time.Time) behaviour.Outcome { return behaviour.Error(errors.New("down")) }
		}
		s := stage.Keyed("sample", func(at time.Time) time.Time { return at }, own, stage.Passivate(40*time.Second, 0),
			stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: 5 * time.Second}))
		p := startAlone(t, pipeline.Feed("clock", s, source.Every(15*time.Second)))
		ticks := func() []link.Tick {
			synctest.Wait()
			timers, err := link.Operate(p).Timers("sample")
			require.NoError(t, err)
			require.Nil(t, timers.Windows)
			return timers.Ticks
		}
		require.Equal(t, []link.Tick{
			{What: "stop idle instances", At: begin.Add(10 * time.Second)},
			{What: "submit a command of feed clock", At: begin.Add(15 * time.Second)},
		}, local(ticks()))
		time.Sleep(16 * time.Second)
		all := local(ticks())
		require.Len(t, all, 3)
		require.Equal(t, "stop idle instances", all[0].What)
		require.Equal(t, "try a command again", all[1].What)
		require.Equal(t, link.Tick{What: "submit a command of feed clock", At: begin.Add(30 * time.Second)}, all[2])
		require.Equal(t, begin.Add(20*time.Second), all[0].At)
		require.WithinRange(t, all[1].At, begin.Add(17*time.Second), begin.Add(21*time.Second), "the pause has a jitter")
		require.NoError(t, p.Stop(t.Context()))
		require.Empty(t, ticks())
		_, err := link.Operate(p).Timers("none")
		require.ErrorIs(t, err, pipeline.ErrNotPart)
	})
}

// local returns ticks with their times in one form.
func local(ticks []link.Tick) []link.Tick {
	for i := range ticks {
		ticks[i].At = time.Unix(0, ticks[i].At.UnixNano()) // without a reading of the monotonic clock
	}
	return ticks
}
