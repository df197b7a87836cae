package simulator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Distribution is how long a handler takes. Draw is called by the goroutine of
// [Run], and must use no other randomness than r. A negative duration counts as
// zero, and one of more than a year as a year. Check returns an error if a
// parameter is wrong.
type Distribution interface {
	Draw(r *rand.Rand) time.Duration
	Check() error
}

// Constant is the same time for each command.
type Constant time.Duration

// Draw returns the time.
func (c Constant) Draw(*rand.Rand) time.Duration { return time.Duration(c) }

// Check refuses a negative time.
func (c Constant) Check() error { return fault(c < 0, "Constant %v is negative", time.Duration(c)) }

// Exponential is an exponential distribution with that mean.
type Exponential time.Duration

// Draw returns a random time.
func (e Exponential) Draw(r *rand.Rand) time.Duration { return limited(r.ExpFloat64() * float64(e)) }

// Check refuses a negative mean.
func (e Exponential) Check() error {
	return fault(e < 0, "Exponential %v is negative", time.Duration(e))
}

// LogNormal is a log-normal distribution: many short times and a few long ones,
// as calls of other services have.
type LogNormal struct {
	Mean time.Duration
	CV   float64 // coefficient of variation: the standard deviation divided by the mean
}

// Draw returns a random time.
func (l LogNormal) Draw(r *rand.Rand) time.Duration {
	variance := math.Log1p(l.CV * l.CV)
	return limited(float64(l.Mean) * math.Exp(math.Sqrt(variance)*r.NormFloat64()-variance/2))
}

// Check refuses negative parameters.
func (l LogNormal) Check() error {
	return fault(l.Mean < 0 || !(l.CV >= 0 && l.CV < 1e6), "LogNormal with mean %v and coefficient %v", l.Mean, l.CV)
}

// Pareto is a bounded Pareto distribution: a few commands have most of the
// work. The smaller Alpha, the fewer.
type Pareto struct {
	Least, Most time.Duration
	Alpha       float64
}

// Draw returns a random time.
func (p Pareto) Draw(r *rand.Rand) time.Duration {
	rest := 1 - math.Pow(float64(p.Least)/float64(p.Most), p.Alpha)
	return limited(float64(p.Least) * math.Pow(1-r.Float64()*rest, -1/p.Alpha))
}

// Check refuses bounds that are not above zero and in order, and an Alpha that
// is not above zero.
func (p Pareto) Check() error {
	ok := p.Least > 0 && p.Most >= p.Least && p.Alpha > 0 && p.Alpha < 1e3
	return fault(!ok, "Pareto from %v to %v with Alpha %v", p.Least, p.Most, p.Alpha)
}

// Sample is times that were measured: each command has one of them, at random.
type Sample []time.Duration

// Draw returns one of the times.
func (s Sample) Draw(r *rand.Rand) time.Duration { return s[r.IntN(len(s))] }

// Check refuses an empty sample and negative times.
func (s Sample) Check() error {
	if len(s) == 0 {
		return fault(true, "the Sample is empty")
	}
	return fault(slices.Min(s) < 0, "the Sample has a negative time, %v", slices.Min(s))
}

// HyperExponential is exponential with one of two means, at random: many short
// times and some long ones, the more so the larger CV is. The two share the
// work evenly.
type HyperExponential struct {
	Mean time.Duration
	CV   float64 // coefficient of variation, at least 1
}

// Draw returns a random time.
func (h HyperExponential) Draw(r *rand.Rand) time.Duration {
	square := h.CV * h.CV
	p := (1 + math.Sqrt((square-1)/(square+1))) / 2
	if r.Float64() >= p {
		p = 1 - p
	}
	return limited(r.ExpFloat64() * float64(h.Mean) / (2 * p))
}

// Check refuses a negative mean and a CV below 1.
func (h HyperExponential) Check() error {
	return fault(h.Mean < 0 || !(h.CV >= 1 && h.CV < 1e6), "HyperExponential with mean %v and coefficient %v", h.Mean, h.CV)
}

// Trace is times that were measured, in their order: the first command of the
// stage has the first one, and so on. When all have been used it begins again.
// Elsewhere than as the Service of a stage it is a [Sample].
type Trace []time.Duration

// Draw returns one of the times at random.
func (t Trace) Draw(r *rand.Rand) time.Duration { return Sample(t).Draw(r) }

// Check refuses an empty trace and negative times.
func (t Trace) Check() error { return Sample(t).Check() }

// longest bounds the time of a command, so that no sum overflows.
const longest = 365 * 24 * time.Hour

func limited(ns float64) time.Duration { return time.Duration(min(max(ns, 0), float64(longest))) }

// Load is how many commands a second arrive at a time since the start: a
// Poisson process with that rate. It is called for each tenth of a second of
// virtual time, in order. A rate below zero counts as zero.
type Load func(at time.Duration) float64

// Steady is the same rate all the time.
func Steady(rate float64) Load { return func(time.Duration) float64 { return rate } }

// Step is one rate before a time, and another one from then on.
func Step(before, after float64, at time.Duration) Load {
	return func(now time.Duration) float64 {
		if now < at {
			return before
		}
		return after
	}
}

// Bursts is a rate with a higher one for some time, again and again: each
// period ends with a burst.
func Bursts(rate, peak float64, period, burst time.Duration) Load {
	return func(now time.Duration) float64 {
		if period > 0 && now%period >= period-burst {
			return peak
		}
		return rate
	}
}

// Day is the curve of a day: a sine with the lowest rate at the start and the
// highest one after twelve hours.
func Day(lowest, highest float64) Load {
	return func(now time.Duration) float64 {
		return lowest + (highest-lowest)*(1-math.Cos(2*math.Pi*now.Hours()/24))/2
	}
}

// fault returns an error if something is wrong.
func fault(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf("simulator: "+format, args...)
}
