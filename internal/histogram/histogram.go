// Package histogram counts durations in buckets that grow with the value, so
// that a quantile over any number of samples costs two kilobytes at most and a
// known error.
//
// There are eight buckets for each doubling: a quantile is at most 12.5 % above
// the true value and never below it. From 0 to 7 ns buckets are exact; all
// durations longer than 18 minutes are in the last one. A Histogram is not safe
// for concurrent use; an inbox guards its histograms with its own lock.
package histogram

import (
	"math/bits"
	"slices"
	"time"
)

const (
	sub     = 3 // log2 of the buckets for each doubling
	top     = 40
	buckets = (top - sub + 1) << sub
)

// Histogram holds the counts. The zero Histogram is empty and ready. It has the
// buckets of the doublings between the shortest and the longest sample, since
// most stages see few doublings.
type Histogram struct {
	counts []uint64
	first  int // the bucket of counts[0]
}

// Record counts a duration n times. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration, n uint64) {
	i := bucket(d)
	if uint(i-h.first) >= uint(len(h.counts)) {
		h.widen(i)
	}
	h.counts[i-h.first] += n
}

// widen extends the array by a bucket and all buckets of its doubling.
func (h *Histogram) widen(i int) {
	const doubling = 1 << sub
	from := i &^ (doubling - 1)
	to := from + doubling
	if h.counts != nil {
		from, to = min(from, h.first), max(to, h.first+len(h.counts))
	}
	counts := make([]uint64, to-from)
	copy(counts[max(h.first-from, 0):], h.counts)
	h.counts, h.first = counts, from
}

// Count returns how many samples were recorded.
func (h *Histogram) Count() (total uint64) {
	for _, n := range h.counts {
		total += n
	}
	return total
}

// Clone returns an independent copy.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return c
}

// Since returns the samples that were recorded after an earlier clone. If h is
// not a continuation of it, Since returns all samples of h.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	d := h.Clone()
	for i, n := range earlier.counts {
		at := earlier.first + i - h.first
		switch {
		case n == 0:
		case at < 0 || at >= len(d.counts) || d.counts[at] < n:
			return h.Clone()
		default:
			d.counts[at] -= n
		}
	}
	return d
}

// Mean returns the mean, as if all samples of a bucket were in its middle. For
// an empty histogram it returns 0.
func (h *Histogram) Mean() time.Duration {
	total, sum := uint64(0), 0.0
	for i, n := range h.counts {
		least := time.Duration(0)
		if h.first+i > 0 {
			least = edge(h.first+i-1) + 1
		}
		total += n
		sum += float64(n) * (float64(least) + float64(edge(h.first+i))) / 2
	}
	if total == 0 {
		return 0
	}
	return time.Duration(sum / float64(total))
}

// Quantile returns the upper bound of the bucket that contains the sample at
// quantile q, from 0, the shortest sample, to 1, the longest. For an empty
// histogram it returns 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(total)+0.5))
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen >= rank {
			return edge(h.first + i)
		}
	}
	return edge(buckets - 1)
}

// bucket returns the bucket of a duration: the position of its highest bit, and
// the three bits below that.
func bucket(d time.Duration) int {
	if d < 1<<sub {
		return int(max(d, 0))
	}
	high := bits.Len64(uint64(d)) - 1
	low := int(d>>(high-sub)) & (1<<sub - 1)
	return min((high-sub+1)<<sub+low, buckets-1)
}

// edge returns the largest duration of a bucket.
func edge(i int) time.Duration {
	if i < 1<<sub {
		return time.Duration(i)
	}
	high := i>>sub + sub - 1
	low := i & (1<<sub - 1)
	return time.Duration(1<<sub+low+1)<<(high-sub) - 1
}
