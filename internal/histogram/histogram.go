// Package histogram counts durations in buckets that grow with the value, so
// that a quantile over any number of samples costs two kilobytes at most and a
// known error.
//
// Eight buckets to each doubling: a quantile is at most 12.5 % above the true
// value and never below it. From 0 to 7 ns buckets are exact; all that is
// longer than 18 minutes falls into the last one. It is not safe for
// concurrent use; a room guards its histograms with its own lock.
package histogram

import (
	"math/bits"
	"slices"
	"time"
)

const (
	sub     = 3 // log2 of the buckets to a doubling
	top     = 40
	buckets = (top - sub + 1) << sub
)

// Histogram holds the counts. The zero Histogram is empty and ready. A few buckets are a list, with
// one word for each that was hit: that is all of a stage that has seen few commands. More have their places:
// all those of the doublings between the shortest and the longest sample, for most stages know few.
type Histogram struct {
	counts []uint64
	first  int // the bucket of counts[0], or listed
}

const (
	listed   = buckets // as first: counts is a list, by bucket; a bucket's place is never in it
	mostList = 8
	mark     = 55 // in a list, the bucket stands above the count
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

// list counts in the list. It reports false if there is none, or no longer.
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

// unlist gives the buckets of the list their places.
func (h *Histogram) unlist() {
	list := h.counts
	h.counts = nil
	h.widen(int(list[0] >> mark))
	h.widen(int(list[len(list)-1] >> mark))
	for _, c := range list {
		h.counts[int(c>>mark)-h.first] = c & (1<<mark - 1)
	}
}

// all goes through the buckets, from the shortest duration, and how many samples are in each.
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

// widen makes room for a bucket, and all of its doubling.
func (h *Histogram) widen(i int) {
	const doubling = 1 << sub
	from := i &^ (doubling - 1)
	to := from + doubling
	if h.counts != nil {
		from, to = min(from, h.first), max(to, h.first+len(h.counts))
	}
	if to-from == len(h.counts) {
		return // it is there
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

// Clone returns a copy that no longer changes.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return c
}

// Quantile returns the upper edge of the bucket that holds the sample at q of
// the way, 0 < q <= 1. An empty histogram answers 0.
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

// bucket finds the place of a duration: the position of its highest bit, and
// the three bits below that.
func bucket(d time.Duration) int {
	if d < 1<<sub {
		return int(max(d, 0))
	}
	high := bits.Len64(uint64(d)) - 1
	low := int(d>>(high-sub)) & (1<<sub - 1)
	return min((high-sub+1)<<sub+low, buckets-1)
}

// edge is the largest duration of a bucket.
func edge(i int) time.Duration {
	if i < 1<<sub {
		return time.Duration(i)
	}
	high := i>>sub + sub - 1
	low := i & (1<<sub - 1)
	return time.Duration(1<<sub+low+1)<<(high-sub) - 1
}
