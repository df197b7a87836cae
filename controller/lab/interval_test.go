package lab

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnIntervalIsOfOrderStatistics(t *testing.T) {
	for name, c := range map[string]struct {
		values                    []float64
		median, low, high, covers float64
	}{
		"one":    {[]float64{4}, 4, 4, 4, 0},
		"two":    {[]float64{4, 2}, 3, 2, 4, 0.5},
		"three":  {[]float64{9, 1, 2}, 2, 1, 9, 0.75},
		"five":   {[]float64{5, 1, 4, 2, 3}, 3, 1, 5, 0.9375},
		"six":    {[]float64{6, 5, 1, 4, 2, 3}, 3.5, 1, 6, 0.96875},
		"nine":   {[]float64{9, 8, 7, 6, 5, 1, 4, 2, 3}, 5, 2, 8, 0.9609375},
		"twenty": {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 10.5, 6, 15, 0.9586105},
		"never":  {[]float64{1, math.Inf(1), math.Inf(1)}, math.Inf(1), 1, math.Inf(1), 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			median, low, high, covers := interval(c.values)
			assert.Equal(t, []float64{c.median, c.low, c.high}, []float64{median, low, high})
			assert.InDelta(t, c.covers, covers, 1e-7)
		})
	}
}

func TestAnIntervalHoldsTheMedianAsOftenAsItSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const times = 20_000
	for _, n := range []int{3, 5, 9} {
		held, apart, said := 0, 0, 0.0
		draw := func() []float64 {
			values := make([]float64, n)
			for i := range values {
				values[i] = r.ExpFloat64()
			}
			return values
		}
		for range times {
			_, low, high, covers := interval(draw())
			said = covers
			if low <= math.Ln2 && math.Ln2 <= high {
				held++
			}
			if _, from, to, _ := interval(draw()); to < low || high < from {
				apart++
			}
		}
		assert.InDelta(t, said, float64(held)/times, 0.015, "%d runs", n)
		assert.LessOrEqual(t, float64(apart)/times, byChance(n)+0.01, "%d runs", n)
	}
}

func TestJainsIndexIsOneForEqualSharesAndOneOfNForOneThatHasAll(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{1, 1, 1}, 1}, {[]float64{0.2, 0.2}, 1}, {[]float64{1, 0, 0, 0}, 0.25}, {[]float64{3, 1}, 0.8}, {[]float64{0, 0}, 1}, {[]float64{7}, 1},
	} {
		assert.InDelta(t, c.want, jain(c.shares), 1e-12, "%v", c.shares)
	}
	assert.True(t, math.IsNaN(jain(nil)))
}

// made returns a trial with a request each millisecond, whose latencies a function says; a negative one is a refusal.
func made(length time.Duration, bursts []span, latency func(at time.Duration) time.Duration) *trial {
	g := &generator{}
	for at := time.Duration(0); at < length; at += time.Millisecond {
		a := answer{ended: true, latent: latency(at)}
		if a.latent < 0 {
			a.kind = refused
		}
		g.requests = append(g.requests, Request{At: at})
		g.answers = append(g.answers, a)
	}
	return &trial{experiment: &Experiment{Length: length, Deadline: time.Second}, generator: g, bursts: bursts}
}

func TestRecoveryIsTheTimeUntilThePercentileIsLowAgainAndStaysLow(t *testing.T) {
	const length = 10 * time.Second
	burst := []span{{2 * time.Second, 4 * time.Second}}
	slowUntil := func(end time.Duration) func(time.Duration) time.Duration {
		return func(at time.Duration) time.Duration {
			if at >= 2*time.Second && at < end {
				return 100 * time.Millisecond
			}
			return 20 * time.Millisecond
		}
	}
	for name, c := range map[string]struct {
		bursts  []span
		latency func(time.Duration) time.Duration
		want    float64
	}{
		"at once":          {burst, slowUntil(4 * time.Second), 0},
		"after 1.2 s":      {burst, slowUntil(5200 * time.Millisecond), 1.2},
		"never":            {burst, slowUntil(length), math.Inf(1)},
		"refusals":         {burst, func(at time.Duration) time.Duration { return 2*time.Second - 1 - at }, math.Inf(1)},
		"no burst":         {nil, slowUntil(0), math.NaN()},
		"too late a burst": {[]span{{2 * time.Second, length - 300*time.Millisecond}}, slowUntil(0), math.NaN()},
		"the longest":      {[]span{{1 * time.Second, 2 * time.Second}, {3 * time.Second, 4 * time.Second}}, slowUntil(4600 * time.Millisecond), math.Inf(1)},
		"the deadline":     {[]span{{0, 4 * time.Second}}, slowUntil(length), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := made(length, c.bursts, c.latency).recovery()
			if math.IsNaN(c.want) {
				assert.True(t, math.IsNaN(got), got)
			} else {
				assert.InDelta(t, c.want, got, 0.001)
			}
		})
	}
	dip := made(length, burst, func(at time.Duration) time.Duration {
		if at >= 4*time.Second && at < 4600*time.Millisecond || at < 2*time.Second || at >= 7*time.Second {
			return 20 * time.Millisecond // for three windows, which is not enough, and from 7 s on
		}
		return 100 * time.Millisecond
	})
	assert.InDelta(t, 3, dip.recovery(), 0.001)
}

func outcome(name, figure string, median, low, high float64) Outcome {
	for _, d := range definitions() {
		if d.name == figure {
			return Outcome{Candidate: name, Figures: []Figure{{Name: d.name, Unit: d.unit, Median: median, Low: low, High: high, definition: d}}}
		}
	}
	panic("no figure " + figure)
}

func TestAVerdictNamesTheCandidatesThatDifferBeyondNoise(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		outcomes []Outcome
		want     string
	}{
		"ahead of all":     {[]Outcome{outcome("a", p99, 20, 19, 21), outcome("b", p99, 10, 9, 11), outcome("c", p99, 30, 29, 31)}, "p99: b (10.00 ms) is ahead of a (20.00 ms) and c (30.00 ms) beyond noise."},
		"level with one":   {[]Outcome{outcome("a", p99, 20, 19, 21), outcome("b", p99, 10, 9, 11), outcome("c", p99, 11, 8, 12)}, "p99: b (10.00 ms) is ahead of a (20.00 ms) beyond noise, and does not differ from c (11.00 ms)."},
		"more is better":   {[]Outcome{outcome("a", goodput, 20, 19, 21), outcome("b", goodput, 10, 9, 11)}, "goodput: a (20/s) is ahead of b (10/s) beyond noise."},
		"they overlap":     {[]Outcome{outcome("a", p99, 20, 10, 30), outcome("b", p99, 15, 14, 16)}, "p99: nothing differs beyond noise (medians from 15.00 ms to 20.00 ms)."},
		"nearly the same":  {[]Outcome{outcome("a", goodput, 100, 100, 100), outcome("b", goodput, 101, 101, 101)}, "goodput: nothing differs beyond noise (medians from 101/s to 100/s)."},
		"the same":         {[]Outcome{outcome("a", goodput, 100, 100, 100), outcome("b", goodput, 100, 100, 100)}, "goodput: nothing differs (100/s)."},
		"one is too noisy": {[]Outcome{outcome("a", p99, 10, 1, 100), outcome("b", p99, 20, 19, 21), outcome("c", p99, 30, 29, 31)}, "p99: b (20.00 ms) is ahead of c (30.00 ms) beyond noise, and does not differ from a (10.00 ms)."},
		"never":            {[]Outcome{outcome("a", recovery, never, never, never), outcome("b", recovery, 1, 1, 2)}, "recovery: b (1.00 s) is ahead of a (never) beyond noise."},
		"never, both":      {[]Outcome{outcome("a", recovery, never, 1, never), outcome("b", recovery, never, never, never)}, "recovery: nothing differs (never)."},
	} {
		t.Run(name, func(t *testing.T) {
			all := verdicts(c.outcomes, 5)
			require.Contains(t, all, c.want)
			require.Equal(t, strings.Contains(c.want, "nothing differs"), strings.HasPrefix(all[0], "Null result: "), "%v", all)
			require.Contains(t, all[len(all)-1], "With 5 runs of each, the intervals of two equal candidates do not overlap in 0.8 of 100 comparisons")
		})
	}
}

func TestNoDifferenceIsClaimedFromOneRun(t *testing.T) {
	all := verdicts([]Outcome{outcome("a", p99, 20, 20, 20), outcome("b", p99, 10, 10, 10)}, 1)
	assert.Equal(t, []string{"There is one run of each candidate, so nothing is known about noise, and no difference is claimed."}, all)
	assert.Contains(t, verdicts([]Outcome{outcome("a", p99, 20, 20, 20), outcome("b", p99, 10, 10, 10)}, 9)[1], "in less than 1 of 100 comparisons")
}

func TestEachRoundHasAnotherOrder(t *testing.T) {
	var all [][]int
	first := map[int]int{}
	for round := range 6 {
		all = append(all, order(3, round))
		first[order(3, round)[0]]++
	}
	assert.Equal(t, [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}, all)
	assert.Equal(t, map[int]int{0: 2, 1: 2, 2: 2}, first)
}
