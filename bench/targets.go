package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// target is a goal of Golda, and how it is measured by the figures of one run.
type target struct {
	what    string
	duel    duel // the zero duel: no comparison
	measure func(*suite) (v verdict, known bool)
}

// duel is two implementations that are compared at a work.
type duel struct{ work, impl, to string }

// verdict is the result of a run for a target.
type verdict struct {
	found   string
	between string // the range of the true value
	met     bool
}

// none is the largest value that is written as 0: one goroutine of the suite
// itself for ten thousand stages, or one allocation for a growing queue in a
// hundred thousand hops, must not count.
const none = 0.005

// targets returns all targets.
func targets() []target {
	return []target{
		atMost("W1: a hop costs at most 0.30 of channels", beside("W1", "golda", "chan"), 0.30),
		atMost("W1: a hop costs at most 4 plain calls", beside("W1", "golda", "direct"), 4),
		atMost("W2: a hop costs at most 0.30 of channels", beside("W2", "golda", "chan"), 0.30),
		atMost("W2: a hop costs at most 4 plain calls", beside("W2", "golda", "direct"), 4),
		atMost("W1: no allocation for a hop", median("W1", "golda", allocsPerHop), none),
		atMost("W2: no allocation for a hop", median("W2", "golda", allocsPerHop), none),
		atLeast("W3: at least 0.95 of the ideal, plain calls on all processors", beside("W3", "direct-all", "golda"), 0.95),
		atLeast("W4: at least the throughput of channels", beside("W4", "chan", "golda"), 1),
		atMost("W5: the median at most 1.1 of channels'", beside("W5", "golda", "chan"), 1.1),
		atMost("W5: the 99th percentile at most 1.2 of channels'", beside("W5", "golda", "chan").by(p99), 1.2),
		{what: "W6: every command is answered", measure: allAnswered},
		atMost("W7: at most 10 KB for a stage that is idle", median("W7", "golda", freshBytes), 10_000),
		atMost("W7: and for one that is idle again, after a command", figureOf("W7", "golda"), 10_000),
		atMost("W7: no goroutine for an idle stage", median("W7", "golda", goroutinesPerStage), none),
		atMost("W1: metrics that are not read cost no measurable CPU, with 3 % as the limit",
			beside("W1", "golda+registered", "golda").by(cpuPerCommand), 1.03),
		atMost("W1: metrics, read once a second, cost at most 3 % of time", beside("W1", "golda+metrics", "golda"), 1.03),
		atMost("W1: and at most 3 % of CPU", beside("W1", "golda+metrics", "golda").by(cpuPerCommand), 1.03),
		atMost("W1: a fiftieth of their cost in time, read fifty times a second",
			beside("W1", "golda+metrics50", "golda").share(often), 1.03),
		atMost("W9v: a kilobyte by value, as flows, costs at most what channels cost", beside("W9v", "golda+flows", "chan"), 1),
		atMost("W9v: no allocation for a hop of flows", median("W9v", "golda+flows", allocsPerHop), none),
		atMost("W11: a call costs at most 1.5 of a reply by channel", beside("W11", "golda", "chan"), 1.5),
		atMost("W12: a hop of 500 stages costs at most 1.2 of one of five", ratioOf("W12", "golda", "W1", "golda"), 1.2),
		atMost("W13: a log takes at most as long as channels by hand", beside("W13", "golda", "chan"), 1),
		w14(processor()),
		atMost("W15: the 99th percentile of a service at most 1.05 of plain calls'", beside("W15", "golda", "direct").by(p99), 1.05),
	}
}

// w14 returns the target of W14 for a processor. On an EPYC of AMD a channel is
// cheap, because the operations that it waits for are; see docs/speed.md.
func w14(processor string) target {
	most := 0.8
	if strings.Contains(processor, "EPYC") {
		most = 1.2
	}
	return atMost(fmt.Sprintf("W14: many submitters cost at most %.1f of a channel on this processor", most), beside("W14", "golda", "chan"), most)
}

// finding reads one number from the results of a run.
type finding struct {
	duel duel
	find func(*suite) (e estimate, known bool)
}

// estimate is a measured number with its range and its format.
type estimate struct {
	x, least, most float64
	written        func(float64) string
}

// exactly returns an estimate without a range.
func exactly(x float64) estimate { return estimate{x, x, x, number} }

func (e estimate) between() string {
	if e.least == e.most {
		return "-"
	}
	return e.written(e.least) + "-" + e.written(e.most)
}

func atMost(what string, f finding, most float64) target {
	return judged(what, f, func(x float64) bool { return x <= most })
}

func atLeast(what string, f finding, least float64) target {
	return judged(what, f, func(x float64) bool { return x >= least })
}

func judged(what string, f finding, met func(x float64) bool) target {
	return target{what, f.duel, func(s *suite) (verdict, bool) {
		e, known := f.find(s)
		if !known {
			return verdict{}, false
		}
		return verdict{e.written(e.x), e.between(), met(e.x)}, true
	}}
}

// beside returns the ratio of two figures of one work: the median of the ratios
// in each turn. Other load of the machine slows both measurements of a turn, so
// this ratio says more than the ratio of two medians.
func beside(work, impl, to string) finding {
	w, _ := workNamed(work)
	return finding{duel: duel{work, impl, to}}.by(w.figure)
}

// by is beside for another figure.
func (f finding) by(of func(sample) float64) finding {
	d := f.duel
	f.find = func(s *suite) (estimate, bool) {
		a, b := s.find(d.work, d.impl), s.find(d.work, d.to)
		if a == nil || b == nil {
			return estimate{}, false
		}
		ratios := ratios(a, b, of)
		if len(ratios) == 0 {
			return estimate{}, false
		}
		least, most := span(ratios)
		return estimate{middle(ratios), least, most, number}, true
	}
	return f
}

// share returns the ratio that would remain if the cause of the difference
// occurred n times less often.
func (f finding) share(n float64) finding {
	find := f.find
	f.find = func(s *suite) (estimate, bool) {
		e, known := find(s)
		share := func(x float64) float64 { return 1 + (x-1)/n }
		return estimate{share(e.x), share(e.least), share(e.most), finely}, known
	}
	return f
}

// finely formats a ratio that is close to one.
func finely(x float64) string { return fmt.Sprintf("%.4f", x) }

// ratios returns the ratios of two results in the same turn, sorted.
func ratios(a, b *result, of func(sample) float64) (all []float64) {
	to := map[int]float64{}
	for _, s := range b.samples {
		to[s.turn] = of(s)
	}
	for _, s := range a.samples {
		if x := to[s.turn]; x != 0 {
			all = append(all, of(s)/x)
		}
	}
	slices.Sort(all)
	return all
}

// span returns a range that contains the true median in 19 of 20 cases, for any
// distribution of the values: the probability that more than n-k of n values
// lie on one side of the median equals the probability that more than n-k of n
// coin tosses agree. With fewer than six values the range is from the least to
// the most, and less certain.
func span(sorted []float64) (least, most float64) {
	n := len(sorted)
	k, tail := 0, 0.0
	for coins := math.Pow(0.5, float64(n)); k < n/2 && tail+coins <= 0.025; k++ {
		tail += coins
		coins *= float64(n-k) / float64(k+1)
	}
	k = max(k, 1)
	return sorted[k-1], sorted[n-k]
}

// ratioOf returns the ratio of the medians of two results, of any works.
func ratioOf(work, impl, toWork, to string) finding {
	return finding{find: func(s *suite) (estimate, bool) {
		a, b := s.find(work, impl), s.find(toWork, to)
		if a == nil || b == nil || b.figure() == 0 {
			return estimate{}, false
		}
		return exactly(a.figure() / b.figure()), true
	}}
}

func figureOf(work, impl string) finding {
	w, _ := workNamed(work)
	return median(work, impl, w.figure)
}

// median returns the median of one of the numbers of a result.
func median(work, impl string, of func(sample) float64) finding {
	return finding{find: func(s *suite) (estimate, bool) {
		r := s.find(work, impl)
		if r == nil {
			return estimate{}, false
		}
		return exactly(r.median(of)), true
	}}
}

func allAnswered(s *suite) (v verdict, known bool) {
	r := s.find("W6", "golda")
	if r == nil {
		return verdict{}, false
	}
	return verdict{
		found:   fmt.Sprintf("%s of %s", grouped(int64(r.answered())), grouped(int64(r.commands()))),
		between: "-", met: r.answered() == r.commands(),
	}, true
}

// targetTable returns the table of the targets that the run can measure.
func (s *suite) targetTable() table {
	t := table{title: "Targets", head: []string{"target", "measured", "between", "met"}}
	for _, one := range targets() {
		if v, known := one.measure(s); known {
			t.rows = append(t.rows, []string{one.what, v.found, v.between, map[bool]string{true: "yes", false: "no"}[v.met]})
		}
	}
	return t
}
