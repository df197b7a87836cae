package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/gate"
)

func TestAnAllowanceGivesOutAPartOfTheFreePlacesWithEachCount(t *testing.T) {
	var a gate.Allowance
	inFlight, counts := 0, 0
	count := func() int { counts++; return inFlight }
	for range 10 {
		require.True(t, a.Take(80, count))
	}
	require.Equal(t, 1, counts, "an eighth of the places, which are ten")
	inFlight = 79
	require.True(t, a.Take(80, count))
	inFlight = 80
	require.False(t, a.Take(80, count))
	require.False(t, a.Take(80, count), "it is counted each time while there is no place")
	require.Equal(t, 4, counts)
	inFlight = 70
	require.True(t, a.Take(80, count))
}

func TestNoMoreCommandsAreAllowedThanTheFreePlaces(t *testing.T) {
	var a gate.Allowance
	var inFlight atomic.Int64
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 100 {
				if a.Take(100, func() int { return int(inFlight.Load()) }) {
					inFlight.Add(1)
				}
			}
		})
	}
	done.Wait()
	require.LessOrEqual(t, inFlight.Load(), int64(107), "besides one for each goroutine that has not been counted yet")
	require.GreaterOrEqual(t, inFlight.Load(), int64(100))
}
