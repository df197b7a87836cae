package prometheus_test

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

// collectedTimes is the histogram of the times in handlers, as a scraper gets it.
func collectedTimes(t require.TestingT, of stats.Durations) *dto.Histogram {
	c := goldaprom.NewCollector(still{Pipeline: "p", Stages: []stage.Snapshot{{Name: "s", Latency: stats.Latency{Service: of}}}})
	for _, family := range gather(t, c) {
		if family.GetName() == "golda_stage_service_seconds" {
			return family.GetMetric()[0].GetHistogram()
		}
	}
	require.Fail(t, "no histogram")
	return nil
}

func TestAHistogramHasEachSampleInBothKindsOfBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOf(rapid.Int64Range(0, int64(15*time.Minute))).Draw(t, "samples")
		var h histogram.Histogram
		for _, s := range samples {
			h.Record(time.Duration(s), 1)
		}
		m := collectedTimes(t, h.Durations())
		require.EqualValues(t, len(samples), m.GetSampleCount())

		// upTo counts the samples that are in any case, and may be, at most a bound.
		upTo := func(bound float64) (least, most int) {
			for _, s := range samples {
				seconds := time.Duration(s).Seconds()
				if seconds*9/8 <= bound {
					least++
				}
				if seconds <= bound*(1+1e-9) {
					most++
				}
			}
			return least, most
		}
		for _, b := range m.GetBucket() {
			least, most := upTo(b.GetUpperBound())
			require.GreaterOrEqual(t, int(b.GetCumulativeCount()), least, "up to %v s", b.GetUpperBound())
			require.LessOrEqual(t, int(b.GetCumulativeCount()), most, "up to %v s", b.GetUpperBound())
		}

		total, count, index := int(m.GetZeroCount()), int64(0), int32(0)
		deltas := m.GetPositiveDelta()
		for _, span := range m.GetPositiveSpan() {
			index += span.GetOffset()
			for range span.GetLength() {
				count += deltas[0]
				deltas = deltas[1:]
				require.Positive(t, count)
				total += int(count)
				least, most := upTo(math.Exp2(float64(index) / 8))
				require.GreaterOrEqual(t, total, least)
				require.LessOrEqual(t, total, most)
				index++
			}
		}
		require.Empty(t, deltas)
		require.Equal(t, len(samples), total)
	})
}

func TestAHistogramWithoutSamplesIsThereFromTheStart(t *testing.T) {
	m := collectedTimes(t, stats.Durations{})
	require.Zero(t, m.GetSampleCount())
	require.NotEmpty(t, m.GetBucket())
	require.NotEmpty(t, m.GetPositiveSpan(), "else scrapers take it for a classic histogram only")
}
