package controller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

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
	for _, c := range d.Kept("p", s) {
		require.Equal(t, c.Before, c.After)
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		`1s p: stage "a": workers stay 3: that is ahead`,
		`1s p: pool "g": workers stay 5: the same`,
	}, lines)
	d.Reset()
	require.Empty(t, d.Kept("p", s))
}
