package lab

import (
	"math"
	"slices"
	"time"
)

// A pipeline has recovered from a burst when for some windows in a row its p99
// is below a limit.
const (
	calmWindows = 5
	leastWindow = 100 * time.Millisecond
	leastLimit  = 10 * time.Millisecond // below that is the noise of a machine
)

// recovery returns how many seconds the pipeline took to recover from a burst,
// the longest of the bursts of the run. It is infinite if the pipeline did not
// recover before the next burst or the end, and NaN if no burst is followed by
// enough time.
//
// The limit is twice the p99 of the requests before the first burst, or the
// deadline if none were measured. A request that was refused or has failed
// counts as one that is never answered.
func (t *trial) recovery() float64 {
	worst := math.NaN()
	limit := t.calm()
	window := max(t.experiment.Length/points, leastWindow)
	for i, burst := range t.bursts {
		until := t.experiment.Length
		if i+1 < len(t.bursts) {
			until = t.bursts[i+1].from
		}
		if until-burst.until < calmWindows*window {
			continue
		}
		if seconds := t.recoveredFrom(burst.until, until, window, limit); !(seconds <= worst) {
			worst = seconds
		}
	}
	return worst
}

// recoveredFrom returns the time from the end of a burst to the first of
// enough windows with a p99 below the limit.
func (t *trial) recoveredFrom(end, until, window, limit time.Duration) float64 {
	calm := 0
	for from := end; from+window <= until; from += window {
		calm++
		if t.p99(span{from, from + window}) > limit {
			calm = 0
		}
		if calm == calmWindows {
			return (from - (calmWindows-1)*window - end).Seconds()
		}
	}
	return math.Inf(1)
}

// calm returns the limit of the p99.
func (t *trial) calm() time.Duration {
	const enough = 50 // requests
	if len(t.bursts) == 0 {
		return t.experiment.Deadline
	}
	before := span{t.experiment.Warmup, t.bursts[0].from}
	n := 0
	t.each(func(r Request, _ answer) bool { return before.holds(r.At) }, func(Request, answer) { n++ })
	p99 := t.p99(before)
	if n < enough || p99 > t.experiment.Deadline {
		return t.experiment.Deadline
	}
	return max(2*p99, leastLimit)
}

// p99 returns the latency that 99 of 100 requests of a span do not exceed,
// whether or not they were answered.
func (t *trial) p99(over span) time.Duration {
	var all []time.Duration
	t.each(func(r Request, _ answer) bool { return over.holds(r.At) }, func(_ Request, a answer) {
		if a.kind != answered {
			a.latent = math.MaxInt64
		}
		all = append(all, a.latent)
	})
	slices.Sort(all)
	return quantile(all, 0.99)
}
