package histogram_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/histogram"
)

func TestDurationsHaveEachSampleInOneBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		early := rapid.SliceOf(rapid.Int64Range(0, int64(15*time.Minute))).Draw(t, "early")
		late := rapid.SliceOf(rapid.Int64Range(0, int64(15*time.Minute))).Draw(t, "late")
		var h, onlyLate histogram.Histogram
		for _, s := range early {
			h.Record(time.Duration(s), 1)
		}
		before := h.Durations()
		for _, s := range late {
			h.Record(time.Duration(s), 1)
			onlyLate.Record(time.Duration(s), 1)
		}
		all := h.Durations()
		require.EqualValues(t, len(early)+len(late), all.Count)
		require.Equal(t, all.P50, h.Quantile(0.5)*time.Duration(min(1, all.Count)))
		require.Equal(t, all.P99, h.Quantile(0.99)*time.Duration(min(1, all.Count)))

		least, upTo := time.Duration(-1), uint64(0)
		for _, b := range all.Buckets {
			require.Greater(t, b.UpTo, least)
			require.NotZero(t, b.Count)
			least = b.UpTo
			upTo += b.Count
			below := 0
			for _, s := range append(early, late...) {
				if time.Duration(s) <= b.UpTo {
					below++
				}
			}
			require.EqualValues(t, below, upTo, "samples up to %v", b.UpTo)
		}

		sum := 0.0
		for _, s := range append(early, late...) {
			sum += time.Duration(s).Seconds()
		}
		require.InDelta(t, sum, all.Sum(), sum/16+1e-12)

		since := all.Since(before)
		want := onlyLate.Durations()
		require.Equal(t, want.Count, since.Count)
		require.Equal(t, want.P99, since.P99)
		require.ElementsMatch(t, want.Buckets, since.Buckets)
	})
}

func TestDurationsOfAnotherHistogramAreNotSubtracted(t *testing.T) {
	var one, other histogram.Histogram
	one.Record(time.Second, 2)
	other.Record(time.Second, 3)
	require.Equal(t, one.Durations(), one.Durations().Since(other.Durations()))
	other = histogram.Histogram{}
	other.Record(time.Minute, 1)
	require.Equal(t, one.Durations(), one.Durations().Since(other.Durations()))
	require.Zero(t, one.Durations().Since(one.Durations()).P99)
}
