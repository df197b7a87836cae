package prometheus

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

// histograms are the times of a stage's commands.
var histograms = []struct {
	name string
	help string
	read func(*stage.Snapshot) *stats.Durations
}{
	{
		"golda_stage_wait_seconds", "Time of a command in the queue, sampled.",
		func(s *stage.Snapshot) *stats.Durations { return &s.Latency.Wait },
	},
	{
		"golda_stage_service_seconds", "Time of a command in its handler.",
		func(s *stage.Snapshot) *stats.Durations { return &s.Latency.Service },
	},
}

// bounds are the upper bounds of the classic buckets: numbers that people write
// in objectives. The stage's own buckets have others, so a duration that is at
// most an eighth below a bound may be counted above it, and none is counted
// below a bound that it exceeds.
var bounds = []time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// upper has the bounds in seconds. Samples share them.
var upper = func() []float64 {
	all := make([]float64, len(bounds))
	for i, b := range bounds {
		all[i] = b.Seconds()
	}
	return all
}()

const (
	// schema 3 has eight native buckets for each doubling, as many as a stage.
	schema = 3
	// zeroThreshold is client_golang's DefNativeHistogramZeroThreshold.
	zeroThreshold = prometheus.DefNativeHistogramZeroThreshold
)

// durations is one histogram of a snapshot, with classic buckets and native
// ones: each scraper takes the kind that it knows.
type durations struct {
	desc   *prometheus.Desc
	of     *stats.Durations
	labels []*dto.LabelPair // in order; shared with other samples
}

// Desc describes the metric.
func (d *durations) Desc() *prometheus.Desc { return d.desc }

// Write writes the metric for a registry.
func (d *durations) Write(m *dto.Metric) error {
	m.Label = d.labels
	h := &dto.Histogram{
		SampleCount: new(d.of.Count), SampleSum: new(d.of.Sum()), Bucket: classic(d.of),
		Schema: new(int32(schema)), ZeroThreshold: new(zeroThreshold), ZeroCount: new(uint64(0)),
	}
	native(h, d.of)
	m.Histogram = h
	return nil
}

// classic counts the durations up to each bound.
func classic(of *stats.Durations) []*dto.Bucket {
	all, buckets := make([]*dto.Bucket, len(bounds)), make([]dto.Bucket, len(bounds)) // two allocations for all of them
	totals := make([]uint64, len(bounds))
	total, next := uint64(0), 0
	for i, bound := range bounds {
		for ; next < len(of.Buckets) && of.Buckets[next].UpTo <= bound; next++ {
			total += of.Buckets[next].Count
		}
		totals[i] = total
		all[i] = &buckets[i]
		all[i].UpperBound, all[i].CumulativeCount = &upper[i], &totals[i]
	}
	return all
}

// native fills the native buckets: spans of neighbours that have samples, and
// the difference of each count to the one before. A stage divides a doubling
// evenly and Prometheus by a factor, so each bucket is counted where its bound
// is.
func native(h *dto.Histogram, of *stats.Durations) {
	from := of.Buckets
	next, before := int32(0), int64(0) // the index behind the last bucket, and its count
	for i := 0; i < len(from); {
		if from[i].UpTo == 0 {
			h.ZeroCount = new(from[i].Count)
			i++
			continue
		}
		index, count := place(from[i].UpTo), int64(0)
		for ; i < len(from) && place(from[i].UpTo) == index; i++ {
			count += int64(from[i].Count)
		}
		if gap := index - next; len(h.PositiveSpan) == 0 || gap > 0 {
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(gap), Length: new(uint32(0))})
		}
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		h.PositiveDelta = append(h.PositiveDelta, count-before)
		next, before = index+1, count
	}
	if len(h.PositiveSpan) == 0 { // it says that the histogram is a native one
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
}

// place returns the index of a native bucket: the smallest i with d <= 2^(i/8)
// seconds.
func place(d time.Duration) int32 {
	return int32(math.Ceil(math.Log2(d.Seconds()) * (1 << schema)))
}
