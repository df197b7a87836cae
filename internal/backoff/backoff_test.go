package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/backoff"
)

func TestAPauseDoublesUpToTheLongest(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: 3, 0: 3, 1: 3, 2: 6, 3: 12, 4: 20, 5: 20, math.MaxInt: 20} {
		require.Equal(t, want, backoff.Pause(3, 20, n, 0), n)
	}
	require.Equal(t, time.Duration(2), backoff.Pause(3, 2, 1, 0), "the first pause is limited, too")
	require.Equal(t, time.Duration(1<<61), backoff.Pause(1, math.MaxInt64, 62, 0))
	require.Equal(t, time.Duration(math.MaxInt64), backoff.Pause(1, math.MaxInt64, 64, 0), "no overflow")
	require.Zero(t, backoff.Pause(0, time.Minute, 9, 0.5))
}

func TestAShareMakesAPauseLongerOrShorter(t *testing.T) {
	for share, want := range map[float64]time.Duration{-1: 0, -0.5: 50, 0: 100, 0.5: 150, 1: 200} {
		require.Equal(t, want, backoff.Pause(100, 1000, 1, share), share)
	}
}

func TestAPauseThatAnotherProgramAsksForIsBounded(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		-1: 0, 0: 0, time.Second: time.Second, time.Minute: time.Minute, time.Minute + 1: time.Minute, math.MaxInt64: time.Minute,
	} {
		pause, cut := backoff.Heed(asked, backoff.LongestAsked)
		require.Equal(t, want, pause, asked)
		require.Equal(t, asked > time.Minute, cut, asked)
	}
}
