package histogram

import "time"

// Durations are the samples of a histogram at one instant, as a value. P50 and
// P99 are at most an eighth above the true value and never below it.
type Durations struct {
	Count    uint64 // measured durations
	P50, P99 time.Duration
	// Buckets are the buckets that have samples, shortest first. Their bounds
	// are the same in all histograms, so that the counts of several stages or
	// processes may be added up.
	Buckets []Bucket
}

// Bucket counts the durations that are longer than the bound of the bucket
// below it and at most UpTo. There are eight for each doubling; below 8 ns each
// has one value.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Durations copies the samples.
func (h *Histogram) Durations() Durations {
	filled := 0
	for _, n := range h.counts {
		if n > 0 {
			filled++
		}
	}
	if filled == 0 {
		return Durations{}
	}
	all := make([]Bucket, 0, filled)
	for i, n := range h.counts {
		if n > 0 {
			all = append(all, Bucket{edge(h.first + i), n})
		}
	}
	return summarized(all)
}

func summarized(all []Bucket) Durations {
	d := Durations{Buckets: all}
	for _, b := range all {
		d.Count += b.Count
	}
	d.P50, d.P99 = d.Quantile(0.5), d.Quantile(0.99)
	return d
}

// Quantile returns the bound of the bucket that has the sample at quantile q,
// from 0, the shortest sample, to 1, the longest. Without samples it returns 0.
func (d Durations) Quantile(q float64) (bound time.Duration) {
	rank := max(1, uint64(q*float64(d.Count)+0.5))
	for _, b := range d.Buckets {
		bound = b.UpTo
		if b.Count >= rank {
			return bound
		}
		rank -= b.Count
	}
	return bound
}

// Sum estimates the sum of the samples, in seconds: each sample counts as the
// middle of its bucket, so that the estimate is at most a sixteenth off. It is a
// float, because the samples of a busy stage add up to more than a
// time.Duration can hold.
func (d Durations) Sum() (seconds float64) {
	for _, b := range d.Buckets {
		i := bucket(b.UpTo)
		least := time.Duration(0)
		if i > 0 {
			least = edge(i-1) + 1
		}
		seconds += float64(b.Count) * (least.Seconds() + b.UpTo.Seconds()) / 2
	}
	return seconds
}

// Since returns the samples that were added after earlier, an earlier copy of
// the same histogram. If earlier has samples that d has not, Since returns d.
func (d Durations) Since(earlier Durations) Durations {
	rest := make([]Bucket, 0, len(d.Buckets))
	old := earlier.Buckets
	for _, b := range d.Buckets {
		if len(old) > 0 && old[0].UpTo == b.UpTo {
			if old[0].Count > b.Count {
				return d
			}
			b.Count -= old[0].Count
			old = old[1:]
		}
		if b.Count > 0 {
			rest = append(rest, b)
		}
	}
	if len(old) > 0 {
		return d
	}
	return summarized(rest)
}
