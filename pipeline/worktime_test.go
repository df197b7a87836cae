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

// Three workers take 100 ms for a command and forward it to a stage that has one worker and a capacity of one, and takes a second for
// each.
func TestBusyBlockedAndIdleAddUpToTheWorkersAndToTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := stage.Func("slow", func(context.Context, int) behaviour.Outcome {
			time.Sleep(time.Second)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1), stage.Capacity(1))
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(100 * time.Millisecond)
			return behaviour.Forward(slow, n)
		}, stage.Workers(3, 3))
		p := start(t, pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler))), first, slow)
		synctest.Wait()
		begin := time.Now()
		look := func(busy, blocked, idle int, busyTime, blockedTime time.Duration) {
			t.Helper()
			synctest.Wait()
			for _, st := range p.Snapshot().Stages {
				require.Equal(t, st.Workers.Live, st.Workers.Busy+st.Workers.Blocked+st.Workers.Idle)
				require.Equal(t, time.Duration(st.Workers.Live)*time.Since(begin), st.Counts.BusyTime+st.Counts.BlockedTime+st.Counts.IdleTime)
			}
			s := first.Snapshot()
			require.Equal(t, []int{busy, blocked, idle}, []int{s.Workers.Busy, s.Workers.Blocked, s.Workers.Idle})
			require.Equal(t, []time.Duration{busyTime, blockedTime}, []time.Duration{s.Counts.BusyTime, s.Counts.BlockedTime})
		}
		const ms = time.Millisecond
		time.Sleep(500 * ms)
		look(0, 0, 3, 0, 0)
		for n := range 4 {
			require.NoError(t, first.Submit(t.Context(), n))
		}
		look(3, 0, 0, 0, 0)
		time.Sleep(50 * ms)
		look(3, 0, 0, 150*ms, 0) // handlers that have not returned count, too
		time.Sleep(50 * ms)
		look(1, 1, 1, 300*ms, 0) // one command is handled by slow, one is in its queue, the third blocks its worker, and the fourth is handled
		time.Sleep(200 * ms)
		look(0, 2, 1, 400*ms, 300*ms)
		time.Sleep(800 * ms) // slow completes the first at 1.1 s, and takes the next
		look(0, 1, 2, 400*ms, 300*ms+800*ms+800*ms)
		time.Sleep(5 * time.Second)
		look(0, 0, 3, 400*ms, 300*ms+800*ms+800*ms+time.Second)
		require.NoError(t, p.Stop(t.Context()))
	})
}
