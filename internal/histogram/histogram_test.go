package histogram_test

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/histogram"
)

func TestAnEmptyHistogramAnswersZero(t *testing.T) {
	var h histogram.Histogram
	require.Zero(t, h.Quantile(0.99))
	require.Zero(t, h.Count())
}

func TestAQuantileIsNeverBelowTheTruthNorAnEighthAboveIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(0, int64(15*time.Minute)), 1, 200).Draw(t, "samples")
		q := rapid.SampledFrom([]float64{0.01, 0.5, 0.9, 0.99, 1}).Draw(t, "q")
		var h histogram.Histogram
		for _, s := range samples {
			h.Record(time.Duration(s), 1)
		}
		slices.Sort(samples)
		rank := max(1, int(q*float64(len(samples))+0.5))
		truth := time.Duration(samples[rank-1])
		got := h.Quantile(q)
		require.GreaterOrEqual(t, got, truth)
		require.LessOrEqual(t, got, truth+truth/8)
	})
}

func TestAHistogramAcceptsAnyDuration(t *testing.T) {
	var h histogram.Histogram
	h.Record(-time.Hour, 1)
	require.Zero(t, h.Quantile(1))
	h.Record(1<<63-1, 1)
	require.Greater(t, h.Quantile(1), 15*time.Minute)
}

func TestACloneIsIndependent(t *testing.T) {
	var h histogram.Histogram
	h.Record(time.Second, 3)
	c := h.Clone()
	h.Record(time.Hour, 100)
	require.EqualValues(t, 3, c.Count())
	require.Less(t, c.Quantile(1), 2*time.Second)
}

func TestAHistogramOfFewDurationsIsSmall(t *testing.T) {
	tests := map[string]struct {
		samples []time.Duration
		most    int // bytes
	}{
		"none":                     {nil, 0},
		"one":                      {[]time.Duration{1234}, 64},
		"one, again and again":     {[]time.Duration{70, 80, 70, 127}, 64},
		"a microsecond and twenty": {[]time.Duration{1000, 20_000}, 64 + 384},
		"nine in three doublings":  {[]time.Duration{64, 72, 80, 88, 128, 144, 160, 256, 288}, 64 + 128 + 208},
		"the shortest and longest": {[]time.Duration{0, 1<<63 - 1}, 64 + 2700},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			least := math.MaxInt // of five measurements: the runtime allocates too, now and then
			for range 5 {
				least = min(least, bytesOf(tt.samples))
			}
			require.LessOrEqual(t, least, tt.most)
		})
	}
}

// Samples in any order are all counted, and the quantiles equal those of a sorted list.
func TestSamplesInAnyOrderAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(-5, int64(20*time.Minute)), 1, 50).Draw(t, "samples")
		var one, other histogram.Histogram
		for i := range samples {
			one.Record(time.Duration(samples[i]), 2)
			other.Record(time.Duration(samples[len(samples)-1-i]), 2)
		}
		require.EqualValues(t, 2*len(samples), one.Count())
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			require.Equal(t, one.Quantile(q), other.Quantile(q))
		}
		clone := one.Clone()
		require.Equal(t, one.Quantile(0.5), clone.Quantile(0.5))
	})
}

// bytesOf returns how many bytes a histogram of the samples allocates, in the mean of a thousand.
func bytesOf(samples []time.Duration) int {
	const n = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		var h histogram.Histogram
		for _, s := range samples {
			h.Record(s, 1)
		}
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / n
}

// The samples since a clone, and their mean, are those that were recorded since.
func TestTheSamplesSinceACloneAreTheOnesRecordedSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := func(h *histogram.Histogram, samples []int64) {
			for _, s := range samples {
				h.Record(time.Duration(s), 1)
			}
		}
		samples := rapid.SliceOfN(rapid.Int64Range(0, int64(15*time.Minute)), 0, 30)
		var h, want histogram.Histogram
		record(&h, samples.Draw(t, "before"))
		clone := h.Clone()
		after := samples.Draw(t, "after")
		record(&h, after)
		record(&want, after)
		got := h.Since(&clone)
		require.Equal(t, want.Count(), got.Count())
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 1} {
			require.Equal(t, want.Quantile(q), got.Quantile(q))
		}
		require.Equal(t, want.Mean(), got.Mean())
		if sum := int64(0); len(after) > 0 {
			for _, s := range after {
				sum += s
			}
			n := float64(len(after))
			require.InDelta(t, float64(sum), float64(got.Mean())*n, float64(sum)/15+n, "half of a bucket, of at most an eighth, and the rest of a nanosecond of the mean")
			require.GreaterOrEqual(t, got.Quantile(0), time.Duration(slices.Min(after)))
		}
	})
}

func TestAHistogramThatIsNoContinuationIsCountedAsAWhole(t *testing.T) {
	var old, fresh histogram.Histogram
	require.Zero(t, fresh.Mean())
	old.Record(time.Second, 5)
	fresh.Record(time.Second, 2)
	fresh.Record(time.Minute, 1)
	since := fresh.Since(&old)
	require.EqualValues(t, 3, since.Count())
	old = histogram.Histogram{}
	old.Record(time.Hour, 1)
	since = fresh.Since(&old)
	require.EqualValues(t, 3, since.Count())
}
