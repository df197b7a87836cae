package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestThresholdsAreLimitedByTheCapacity(t *testing.T) {
	tests := map[string]struct {
		capacity, up, down int
	}{
		"capacity of one":       {1, 0, 1},
		"capacity of two":       {2, 1, 1},
		"capacity of three":     {3, 1, 1},
		"a small capacity":      {16, 8, 8},
		"down is itself":        {20, 10, 10},
		"ERLDA's mailbox":       {50, 25, 10},
		"one below twice up":    {199, 99, 10},
		"twice up":              {200, 100, 10},
		"the usual":             {1024, 100, 10},
		"no capacity is stated": {0, 100, 10},
		"a negative capacity":   {-1, 100, 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			up, down := ERLDA{}.withDefaults().thresholds(tt.capacity)
			require.Equal(t, tt.up, up)
			require.Equal(t, tt.down, down)
		})
	}
}

func TestAtAnyCapacityFullIsHotEmptyIsColdAndNothingIsBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anySound(t)
		capacity := rapid.IntRange(1, 5000).Draw(t, "capacity")
		queue := rapid.IntRange(0, capacity).Draw(t, "queue")
		up, down := law.thresholds(capacity)
		require.False(t, queue > up && queue < down)
		require.Greater(t, capacity, up, "a full queue is hot")
		require.Positive(t, down, "an empty one is cold")
		require.LessOrEqual(t, up, law.Up)
		require.LessOrEqual(t, down, law.Down)
	})
}

func anySound(t *rapid.T) ERLDA {
	down := rapid.IntRange(1, 300).Draw(t, "down")
	law := ERLDA{Down: down, Up: down + rapid.IntRange(1, 300).Draw(t, "more")}
	require.NoError(t, law.Check())
	return law.withDefaults()
}
