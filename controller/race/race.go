package race

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/simulator"
)

// Aim is the measure by which policies are ranked, and how it is taken.
type Aim struct {
	// Within is the time in which answers are of use: policies are ranked by
	// how many commands a second are answered within it. 0: by how many are
	// answered at all; with [Live], the time of the pipeline's
	// policy.Objective, if it has one.
	Within time.Duration
	// For is how long [Live] records; default a minute. [Run] ignores it.
	For  time.Duration
	Runs int    // of each policy: the recording itself, and others drawn from it; default 9
	Seed uint64 // of the draws
}

// Figure is the median of a number of runs, with an interval: the second lowest
// and the second highest value, of nine runs an interval of 96 % confidence for
// the median.
type Figure struct{ Median, Low, High float64 }

// Place is how a policy did.
type Place struct {
	Policy  controller.Policy
	Goodput Figure // commands a second that were answered in time
	// Gain is how many commands a second more than under the present policy
	// were answered in time. All policies meet the same load in a run, so this
	// interval is narrower than the intervals of both.
	Gain    Figure
	P99     Figure // seconds
	Workers Figure // on average
	// Fault says why the policy was not run: the simulator cannot, or the policy
	// is wrong. Nil: it was.
	Fault error

	runs []outcome
}

// outcome is how a policy did in one run.
type outcome struct{ goodput, p99, workers float64 }

// Report is the result of a race.
type Report struct {
	Present Place   // the policy of the model
	Places  []Place // all others, the best one first
	Within  time.Duration
	// Model is the model that was run, with the recorded arrivals and times: to
	// find out by package simulator how the load would do with other numbers of
	// workers or processes.
	Model simulator.Model
	// Missing has sentences about properties of the pipeline that the model
	// lacks, and about figures in which the two disagree. A report of [Run] has
	// none.
	Missing []string
}

// Run replays a recording in virtual time under the policy of a model and under
// others, and ranks these. The model says how the stages are connected and how
// many workers they have; its first source gets the recorded arrivals, and each
// stage with recorded times gets these. Its Length is that of the recording,
// after a warm-up: half a minute of the same load, or less if the recording is
// shorter, so that a policy has adapted when the measurement begins.
//
// All policies meet the same arrivals and times in a run, and each run but the
// first draws the recording anew, in blocks of a twelfth of it, so that bursts
// stay bursts. Run takes one CPU and starts no goroutine. It returns an error if
// the model or the recording is of no use, or the error of ctx.
func Run(ctx context.Context, m simulator.Model, rec *Recording, others []controller.Policy, aim Aim) (*Report, error) {
	switch {
	case rec == nil || len(rec.Arrivals) < 2:
		return nil, errors.New("race: the recording has fewer than two arrivals")
	case len(m.Sources) != 1:
		return nil, fmt.Errorf("race: the model has %d sources, and must have one, which gets the arrivals", len(m.Sources))
	}
	r, _, err := run(ctx, m, rec, others, aim)
	return r, err
}

// check returns the aim with its defaults, or its fault.
func (a Aim) check() (Aim, error) {
	a.Runs, a.For = cmp.Or(a.Runs, 9), cmp.Or(a.For, time.Minute)
	switch {
	case a.Runs < 5 || a.Within < 0:
		return a, fmt.Errorf("race: %d Runs within %v; at least 5 runs make an interval", a.Runs, a.Within)
	case a.For < time.Second || a.For > longest:
		return a, fmt.Errorf("race: For is %v, and must be from a second to %v", a.For, longest)
	}
	return a, nil
}

// run races the policies. It also returns the result of the model under the
// present policy with the recording itself; nil if that was not run.
func run(ctx context.Context, m simulator.Model, rec *Recording, others []controller.Policy, aim Aim) (*Report, *simulator.Result, error) {
	aim, err := aim.check()
	if err != nil {
		return nil, nil, err
	}
	models := make([]simulator.Model, aim.Runs)
	for i := range models {
		models[i] = rec.model(m, aim, i)
	}
	bare := models[0]
	bare.Policy = nil
	if err := bare.Check(); err != nil {
		return nil, nil, fmt.Errorf("race: %w", err)
	}
	report := &Report{Within: aim.Within, Model: models[0]}
	report.Model.Policy = m.Policy
	var as *simulator.Result
	if report.Present, as, err = place(ctx, models, m.Policy, aim); err != nil {
		return nil, nil, err
	}
	for _, p := range others {
		x, _, err := place(ctx, models, p, aim)
		if err != nil {
			return nil, nil, err
		}
		x.Gain = x.over(&report.Present, func(is, than outcome) float64 { return is.goodput - than.goodput })
		report.Places = append(report.Places, x)
	}
	report.rank()
	return report, as, nil
}

// place runs all models under a policy, and returns the result of the first one.
func place(ctx context.Context, models []simulator.Model, p controller.Policy, aim Aim) (x Place, first *simulator.Result, err error) {
	x.Policy = p
	for _, m := range models {
		m.Policy = p
		r, err := simulator.Run(ctx, m)
		if ctx.Err() != nil {
			return x, nil, fmt.Errorf("race: %w", context.Cause(ctx))
		}
		if err != nil {
			return Place{Policy: p, Fault: err}, nil, nil
		}
		if first == nil {
			first = r
		}
		x.runs = append(x.runs, outcomeOf(&m, r, aim))
	}
	x.Goodput = x.figure(func(o outcome) float64 { return o.goodput })
	x.P99 = x.figure(func(o outcome) float64 { return o.p99 })
	x.Workers = x.figure(func(o outcome) float64 { return o.workers })
	return x, first, nil
}

// outcomeOf returns the figures of a run, from its warm-up on.
func outcomeOf(m *simulator.Model, r *simulator.Result, aim Aim) outcome {
	o := outcome{p99: r.Latency.Quantile(0.99).Seconds()}
	for i := range r.Sources {
		n := r.Sources[i].Latency.Count()
		if aim.Within > 0 {
			n = r.Sources[i].Latency.Within(aim.Within)
		}
		o.goodput += float64(n) / (m.Length - m.Warmup).Seconds()
	}
	points := 0
	for _, pt := range r.Series {
		if pt.At > m.Warmup {
			o.workers += float64(pt.Workers)
			points++
		}
	}
	o.workers /= float64(max(points, 1))
	return o
}

// figure returns a value of all runs.
func (x *Place) figure(of func(outcome) float64) Figure {
	values := make([]float64, len(x.runs))
	for i, o := range x.runs {
		values[i] = of(o)
	}
	return figure(values)
}

// over compares the runs of a policy with the runs of another one, pair by
// pair.
func (x *Place) over(other *Place, by func(is, than outcome) float64) Figure {
	if x.Fault != nil || other.Fault != nil {
		return Figure{}
	}
	values := make([]float64, len(x.runs))
	for i := range x.runs {
		values[i] = by(x.runs[i], other.runs[i])
	}
	return figure(values)
}

func figure(xs []float64) Figure {
	slices.Sort(xs)
	return Figure{xs[len(xs)/2], xs[1], xs[len(xs)-2]}
}

// alike is by which share of the best one the goodput of policies may differ for
// their 99th percentiles to decide.
const alike = 0.01

// rank sorts the places: by goodput, where that is as good as the best one by
// the 99th percentile, and the faults last.
func (r *Report) rank() {
	best := 0.0
	for i := range r.Places {
		best = max(best, r.Places[i].Goodput.Median)
	}
	slices.SortStableFunc(r.Places, func(a, b Place) int {
		first := func(x *Place) int {
			switch {
			case x.Fault != nil:
				return 2
			case x.Goodput.Median < best*(1-alike):
				return 1
			}
			return 0
		}
		if c := cmp.Compare(first(&a), first(&b)); c != 0 || a.Fault != nil {
			return c
		}
		byGoodput, byP99 := -cmp.Compare(a.Goodput.Median, b.Goodput.Median), cmp.Compare(a.P99.Median, b.P99.Median)
		if first(&a) == 0 {
			return cmp.Or(byP99, byGoodput)
		}
		return cmp.Or(byGoodput, byP99)
	})
}

// differs is by which share figures must differ for it to matter.
const differs = 0.05

// Better returns the place of the policy to switch to, nil if none does more
// than the present one: the best place, if it answers more commands in time, or
// as many and 99 of 100 of them earlier, by more than a twentieth in the median
// and in all runs but one.
func (r *Report) Better() *Place {
	if len(r.Places) == 0 || r.Places[0].Fault != nil {
		return nil
	}
	best, is := &r.Places[0], &r.Present
	if is.Fault != nil {
		return best
	}
	earlier := best.over(is, func(is, than outcome) float64 { return than.p99 - is.p99 })
	matters := func(f Figure, of float64) bool { return f.Low > 0 && f.Median > differs*of }
	fewer := best.over(is, func(is, than outcome) float64 { return than.goodput - is.goodput })
	if matters(best.Gain, is.Goodput.Median) || matters(earlier, is.P99.Median) && !matters(fewer, is.Goodput.Median) {
		return best
	}
	return nil
}

// Advice says in a sentence which policy to switch to, and the gain; or that no
// policy does more than the present one, beyond noise.
func (r *Report) Advice() string {
	best, is := r.Better(), &r.Present
	switch {
	case len(r.Places) == 0 || r.Places[0].Fault != nil:
		return "no other policy could be simulated"
	case best == nil:
		return fmt.Sprintf("stay with %s: no other policy differs from it beyond noise", name(is.Policy))
	case is.Fault != nil:
		return fmt.Sprintf("switch to %s: %s; the present policy could not be simulated", name(best.Policy), r.figures(best))
	default:
		return fmt.Sprintf("switch from %s to %s: %s, instead of %s; a gain of %s a second", name(is.Policy), name(best.Policy),
			r.figures(best), r.figures(is), best.Gain.text(1))
	}
}

// figures returns the figures of a place in words.
func (r *Report) figures(x *Place) string {
	answered := "answered"
	if r.Within > 0 {
		answered = fmt.Sprintf("answered within %v", r.Within)
	}
	return fmt.Sprintf("%s a second %s, 99 of 100 after %s s", x.Goodput.text(1), answered, x.P99.text(3))
}

// text returns the figure as "median (low to high)".
func (f Figure) text(digits int) string {
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, f.Median, digits, f.Low, digits, f.High)
}

func name(p controller.Policy) string {
	if p == nil {
		return "no policy"
	}
	return p.Name()
}

// String returns the report as lines: the advice, the policies by rank, and the
// missing properties.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Advice())
	for i := range r.Places {
		p := &r.Places[i]
		if p.Fault != nil {
			fmt.Fprintf(&b, "-  %s: not simulated: %v\n", name(p.Policy), p.Fault)
			continue
		}
		fmt.Fprintf(&b, "%d. %s: %s, %.1f workers\n", i+1, name(p.Policy), r.figures(p), p.Workers.Median)
	}
	for _, text := range r.Missing {
		fmt.Fprintf(&b, "not in the model: %s\n", text)
	}
	return b.String()
}
