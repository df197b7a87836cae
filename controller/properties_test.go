package controller_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
)

// anyInt draws small numbers, where the borders are, and the greatest there are.
func anyInt() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(-3, 12), rapid.SampledFrom([]int{math.MinInt, math.MaxInt}))
}

func anySnapshot(t *rapid.T) *controller.Snapshot {
	s := &controller.Snapshot{At: time.Duration(rapid.Int64().Draw(t, "at"))}
	for i := range rapid.IntRange(0, 4).Draw(t, "stages") {
		s.Stages = append(s.Stages, controller.StageStats{
			ID:         controller.StageID(i),
			Workers:    anyInt().Draw(t, "workers"),
			MinWorkers: anyInt().Draw(t, "min"),
			MaxWorkers: anyInt().Draw(t, "max"),
		})
	}
	return s
}

func anyDecisions(t *rapid.T) *controller.Decisions {
	var d controller.Decisions
	for range rapid.IntRange(0, 12).Draw(t, "wishes") {
		d.Workers(controller.StageID(anyInt().Draw(t, "stage")), anyInt().Draw(t, "n"), "because")
	}
	return &d
}

func TestSettleOfAnythingIsWithinTheBoundsAndIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, d := anySnapshot(t), anyDecisions(t)
		changes, faults := controller.Settle("any", s, d)
		again, faultsAgain := controller.Settle("any", s, d)
		require.Equal(t, changes, again, "it only tells")
		require.Equal(t, faults, faultsAgain)

		turned := map[controller.StageID]bool{}
		for _, c := range changes {
			st := &s.Stages[c.Stage]
			require.False(t, turned[c.Stage], "a knob is turned once")
			turned[c.Stage] = true
			require.NotEqual(t, c.Before, c.After)
			require.GreaterOrEqual(t, c.After, st.MinWorkers)
			require.LessOrEqual(t, c.After, max(st.MinWorkers, st.MaxWorkers))
			st.Workers = c.After
		}
		changes, _ = controller.Settle("any", s, d)
		require.Empty(t, changes, "what is done is done")
	})
}
