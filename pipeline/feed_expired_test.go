package pipeline_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// sheet is a command whose stage has a guard.
type sheet struct{ n int }

func TestTheLastCheckpointOfAStopIsBehindNoCommandThatHasExpired(t *testing.T) {
	for range 20 { // without the wait one in five is
		s := stage.Func("s", func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) },
			stage.TTL(2*time.Millisecond),
			stage.Guard("sheet", func(func(string) guard.Counters) bool { return false }))
		var saved atomic.Int64
		src := func(_ context.Context, submit func(sheet) error) error {
			for n := range 3 {
				if err := submit(sheet{n}); err != nil {
					return err
				}
			}
			return nil
		}
		save := func(_ context.Context, at int64) error { saved.Store(at); return nil }
		p, err := pipeline.New("p", s, pipeline.Feed("f", behaviour.Target[sheet](s), source.Checkpoint(src, 0, save)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for s.Snapshot().Counts.Submitted < 3 {
			time.Sleep(100 * time.Microsecond)
		}
		require.NoError(t, p.Stop(context.Background()))
		require.EqualValues(t, 3, saved.Load())
	}
}
