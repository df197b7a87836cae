package histogram_test

import (
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

func TestAHistogramSurvivesAbsurdDurations(t *testing.T) {
	var h histogram.Histogram
	h.Record(-time.Hour, 1)
	require.Zero(t, h.Quantile(1))
	h.Record(1<<63-1, 1)
	require.Greater(t, h.Quantile(1), 15*time.Minute)
}

func TestACloneNoLongerChanges(t *testing.T) {
	var h histogram.Histogram
	h.Record(time.Second, 3)
	c := h.Clone()
	h.Record(time.Hour, 100)
	require.EqualValues(t, 3, c.Count())
	require.Less(t, c.Quantile(1), 2*time.Second)
}
