// Package histogram counts durations in buckets that grow with the value, so
// that a quantile over any number of samples costs two kilobytes at most and a
// known error.
//
// There are eight buckets for each doubling: a quantile is at most 12.5 % above the true value and never below it. From
// 0 to 7 ns buckets are exact; all durations longer than 18 minutes are in the last one. A Histogram is not safe for
// concurrent use; an inbox guards its histograms with its own lock.
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

// Histogram holds the counts. The zero Histogram is empty and ready. A histogram with few buckets in use is a list,
// with one word for each such bucket: this is enough for a stage that has seen few commands. A histogram with more is
// an array of all buckets of the doublings between the shortest and the longest sample, since most stages see few
// doublings.
type Histogram struct {
	counts []uint64
	first  int // the bucket of counts[0], or listed
}

const (
	listed   = buckets // value of first if counts is a list, sorted by bucket; never the number of a bucket
	mostList = 8
	mark     = 55 // in a list element, the bucket number is above this bit and the count below
)

// Record counts a duration n times. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration, n uint64) {
	i := bucket(d)
	if uint(i-h.first) >= uint(len(h.counts)) {
		if h.list(i, n) {
			return
		}
		h.widen(i)
	}
	h.counts[i-h.first] += n
}

// list counts in the list. It returns false if counts is not a list, or no longer one.
func (h *Histogram) list(i int, n uint64) bool {
	if h.counts == nil {
		h.first = listed
	}
	if h.first != listed {
		return false
	}
	at := 0
	for at < len(h.counts) && int(h.counts[at]>>mark) < i {
		at++
	}
	switch {
	case at < len(h.counts) && int(h.counts[at]>>mark) == i:
		h.counts[at] += n
	case len(h.counts) < mostList:
		h.counts = slices.Insert(h.counts, at, uint64(i)<<mark|n)
	default:
		h.unlist()
		return false
	}
	return true
}

// unlist turns the list into an array.
func (h *Histogram) unlist() {
	list := h.counts
	h.counts = nil
	h.widen(int(list[0] >> mark))
	h.widen(int(list[len(list)-1] >> mark))
	for _, c := range list {
		h.counts[int(c>>mark)-h.first] = c & (1<<mark - 1)
	}
}

// all iterates over the buckets, from the shortest duration, with the number of samples in each.
func (h *Histogram) all(yield func(i int, n uint64) bool) {
	for i, n := range h.counts {
		i += h.first
		if h.first == listed {
			i, n = int(n>>mark), n&(1<<mark-1)
		}
		if !yield(i, n) {
			return
		}
	}
}

// widen extends the array by a bucket and all buckets of its doubling.
func (h *Histogram) widen(i int) {
	const doubling = 1 << sub
	from := i &^ (doubling - 1)
	to := from + doubling
	if h.counts != nil {
		from, to = min(from, h.first), max(to, h.first+len(h.counts))
	}
	if to-from == len(h.counts) {
		return // the bucket is in the array already
	}
	counts := make([]uint64, to-from)
	if h.counts != nil {
		copy(counts[h.first-from:], h.counts)
	}
	h.counts, h.first = counts, from
}

// Count returns how many samples were recorded.
func (h *Histogram) Count() (total uint64) {
	for _, n := range h.all {
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

// Quantile returns the upper bound of the bucket that contains the sample at quantile q, 0 < q <= 1. For an empty
// histogram it returns 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(total)+0.5))
	var seen uint64
	for i, n := range h.all {
		seen += n
		if seen >= rank {
			return edge(i)
		}
	}
	return edge(buckets - 1)
}

// bucket returns the bucket of a duration: the position of its highest bit, and the three bits below that.
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
