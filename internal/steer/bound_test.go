package steer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

func TestAStageIsBoundFromABlockedWorkerUntilNoQueueAheadIsHalfFull(t *testing.T) {
	var w steer.Windows
	total := controller.Counters{}
	look := func(busy, blocked time.Duration, stalled bool, ahead int) bool {
		total.Busy += busy
		total.Blocked += blocked
		s := &controller.Snapshot{Stages: []controller.StageStats{
			{Name: "first", Next: []controller.StageID{1, 7}, Total: total, Stalled: stalled},
			{Name: "ahead", QueueLen: ahead, QueueCap: 11, Total: controller.Counters{Accepted: 1}},
		}}
		w.Fill(s)
		require.False(t, s.Stages[1].Bound)
		return s.Stages[0].Bound
	}
	require.False(t, look(900, 0, false, 11), "the queue ahead is full, but no worker was blocked")
	require.False(t, look(900, 99, false, 11), "less than a tenth of the time")
	require.True(t, look(900, 100, false, 6))
	require.True(t, look(900, 0, false, 6), "the queue ahead is more than half full: blocked workers have just resumed")
	require.True(t, look(0, 0, false, 6))
	require.False(t, look(900, 0, false, 5))
	require.False(t, look(900, 0, false, 11), "a blocked worker is needed to make it bound again")
	require.True(t, look(0, 0, true, 0), "a stalled stage is bound")
	require.False(t, look(0, 0, false, 0))
	require.True(t, look(0, 1, false, 0))
}
