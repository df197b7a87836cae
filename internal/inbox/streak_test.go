package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/streak"
)

// However many commands wait, and come meanwhile: the pauses that a command lives through add up to Delay at most.
func TestThePausesThatACommandWaitsForAddUpToNoMoreThanTheDelay(t *testing.T) {
	const delay = 100 * time.Millisecond
	for _, arriving := range []int{0, 1, 3, 100} {
		s := newTestInbox(0, Config{Name: "s", Pauses: &Pauses{Crash: func(int) time.Duration { return time.Hour }, Delay: delay}})
		s.state.streak.Add(streak.Charged, nil, 0, time.Hour)
		waiting, clock := []time.Duration{0, 0}, time.Duration(0) // when each came
		for range 1000 {
			require.LessOrEqual(t, clock-waiting[0], delay)
			waiting = waiting[1:] // it crashes
			s.state.counts.inHand = len(waiting)
			var fx effects
			began := clock
			clock += s.state.slowDown(streak.Charged, 0, &fx)
			for range arriving {
				waiting = append(waiting, began)
			}
			if len(waiting) == 0 {
				waiting = append(waiting, clock)
			}
		}
	}
}

func TestAnInboxWithAsManyAbandonedHandlersAsThereMayBeGivesOutNothing(t *testing.T) {
	in := newTestInbox(1, Config{Name: "r", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	for i := range mostAbandoned {
		require.Equal(t, i == mostAbandoned-1, in.Batches().AddAbandoned())
	}
	require.Zero(t, in.state.takeable())
	in.Batches().EndAbandoned()
	in.state.queue.next()
	require.Equal(t, 1, in.state.takeable())
}
