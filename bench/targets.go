package main

import "fmt"

// target is what Golda means to reach, and how it is seen in the figures of one run.
type target struct {
	what    string
	measure func(*suite) (found string, met, known bool)
}

// targets are all of them.
func targets() []target {
	return []target{
		atMost("W1: a hop costs at most 0.30 of channels", ratioOf("W1", "golda", "W1", "chan"), 0.30),
		atMost("W1: a hop costs at most 3 plain calls", ratioOf("W1", "golda", "W1", "direct"), 3),
		atMost("W2: a hop costs at most 0.30 of channels", ratioOf("W2", "golda", "W2", "chan"), 0.30),
		atMost("W2: a hop costs at most 3 plain calls", ratioOf("W2", "golda", "W2", "direct"), 3),
		atLeast("W3: at least 0.95 of the ideal, plain calls on all processors", ratioOf("W3", "direct-all", "W3", "golda"), 0.95),
		atLeast("W4: at least the throughput of channels", ratioOf("W4", "chan", "W4", "golda"), 1),
		atMost("W5: the median at most 1.1 of channels'", ratioOf("W5", "golda", "W5", "chan"), 1.1),
		atMost("W5: the 99th percentile at most 1.2 of channels'", quantileRatio, 1.2),
		{"W6: every command is answered", allAnswered},
		atMost("W7: at most 5 KB for a stage that is idle", median("W7", "golda", freshBytes), 5000),
		atMost("W7: and for one that is idle again, after a command", figureOf("W7", "golda"), 5000),
		atMost("W7: no goroutine for an idle stage", median("W7", "golda", goroutinesPerStage), 0.01),
		atMost("W1: metrics cost at most 3 %", ratioOf("W1", "golda+metrics", "W1", "golda"), 1.03),
		atMost("W11: a call costs at most 1.5 of a reply by channel", ratioOf("W11", "golda", "W11", "chan"), 1.5),
		atMost("W12: a hop of 500 stages costs at most 1.2 of one of five", ratioOf("W12", "golda", "W1", "golda"), 1.2),
	}
}

// finding reads one number from the results of a run.
type finding func(*suite) (x float64, known bool)

func atMost(what string, find finding, most float64) target {
	return target{what, func(s *suite) (string, bool, bool) {
		x, known := find(s)
		return number(x), x <= most, known
	}}
}

func atLeast(what string, find finding, least float64) target {
	return target{what, func(s *suite) (string, bool, bool) {
		x, known := find(s)
		return number(x), x >= least, known
	}}
}

// ratioOf is the ratio of the medians of two results.
func ratioOf(work, impl, toWork, to string) finding {
	return func(s *suite) (float64, bool) {
		a, b := s.find(work, impl), s.find(toWork, to)
		if a == nil || b == nil || b.figure() == 0 {
			return 0, false
		}
		return a.figure() / b.figure(), true
	}
}

func figureOf(work, impl string) finding {
	return func(s *suite) (float64, bool) {
		r := s.find(work, impl)
		if r == nil {
			return 0, false
		}
		return r.figure(), true
	}
}

func quantileRatio(s *suite) (float64, bool) {
	a, b := s.find("W5", "golda"), s.find("W5", "chan")
	if a == nil || b == nil {
		return 0, false
	}
	return a.median(p99) / b.median(p99), true
}

// median is the median of one of the numbers of a result.
func median(work, impl string, of func(sample) float64) finding {
	return func(s *suite) (float64, bool) {
		r := s.find(work, impl)
		if r == nil {
			return 0, false
		}
		return r.median(of), true
	}
}

func allAnswered(s *suite) (found string, met, known bool) {
	r := s.find("W6", "golda")
	if r == nil {
		return "", false, false
	}
	return fmt.Sprintf("%s of %s", grouped(int64(r.answered())), grouped(int64(r.commands()))), r.answered() == r.commands(), true
}

// targetTable is the table of those targets that the run says anything of.
func (s *suite) targetTable() table {
	t := table{title: "Targets", head: []string{"target", "measured", "met"}}
	for _, one := range targets() {
		if found, met, known := one.measure(s); known {
			t.rows = append(t.rows, []string{one.what, found, map[bool]string{true: "yes", false: "no"}[met]})
		}
	}
	return t
}
