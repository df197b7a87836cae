package controller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

func TestAStageIsBoundFromABlockedWorkerUntilNoQueueAheadIsHalfFull(t *testing.T) {
	var w controller.Windows
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

func TestKeepMakesANoteAndNoChange(t *testing.T) {
	s := &controller.Snapshot{
		At:     time.Second,
		Stages: []controller.StageStats{{Name: "a", Workers: 3, MinWorkers: 1, MaxWorkers: 9}},
		Pools:  []controller.PoolStats{{Name: "a", Own: true, Workers: 3}, {Name: "g", Group: true, Workers: 5}},
	}
	var d controller.Decisions
	d.Keep(0, "a", "that is ahead")
	d.Keep(controller.NoStage, "g", "the same")
	d.Keep(7, "", "of no stage")
	d.Keep(controller.NoStage, "ghost", "of no pool")
	changes, faults := controller.Settle("p", s, &d)
	require.Empty(t, changes)
	require.Empty(t, faults)
	var lines []string
	for _, c := range controller.Kept("p", s, &d) {
		require.Equal(t, c.Before, c.After)
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		`1s p: stage "a": workers stay 3: that is ahead`,
		`1s p: pool "g": workers stay 5: the same`,
	}, lines)
	d.Reset()
	require.Empty(t, controller.Kept("p", s, &d))
}
