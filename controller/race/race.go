package race

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/simulator"
)

// Aim is what policies are ranked by.
type Aim struct {
	// Within is the time in which answers are of use: policies are ranked by
	// how many commands a second are answered within it. 0: by how many are
	// answered at all.
	Within time.Duration
	Runs   int    // of each policy: the recording itself, and others drawn from it; default 9
	Seed   uint64 // of the draws
}

// Figure is the median of a number of runs, with an interval: the second lowest
// and the second highest value, of nine runs an interval of 96 % confidence for
// the median.
type Figure struct{ Median, Low, High float64 }

// Place is how a policy did.
type Place struct {
	Policy  controller.Policy
	Goodput Figure // commands a second that were answered in time
	P99     Figure // seconds
	Workers Figure // on average
	// Fault says why the policy was not run: the simulator cannot, or the policy
	// is wrong. Nil: it was.
	Fault error
}

// Report is the result of a race.
type Report struct {
	Present Place   // the policy of the model
	Places  []Place // all others, the best one first
	Within  time.Duration
}

// Run replays a recording in virtual time under the policy of a model and under
// others, and ranks these. The model says how the stages are connected and how
// many workers they have; its first source gets the recorded arrivals, and each
// stage with recorded times gets these. Its Length is that of the recording.
//
// All policies meet the same arrivals and times in a run, and each run but the
// first draws the recording anew, in blocks of neighbours, so that bursts stay
// bursts. Run returns an error if the model or the recording is of no use, or
// the error of ctx.
func Run(ctx context.Context, m simulator.Model, rec *Recording, others []controller.Policy, aim Aim) (*Report, error) {
	aim.Runs = cmp.Or(aim.Runs, 9)
	switch {
	case rec == nil || len(rec.Arrivals) < 2:
		return nil, errors.New("race: the recording has fewer than two arrivals")
	case len(m.Sources) != 1:
		return nil, fmt.Errorf("race: the model has %d sources, and must have one, which gets the arrivals", len(m.Sources))
	case aim.Runs < 5 || aim.Within < 0:
		return nil, fmt.Errorf("race: %d Runs within %v; at least 5 runs make an interval", aim.Runs, aim.Within)
	}
	models := make([]simulator.Model, aim.Runs)
	for i := range models {
		models[i] = rec.model(m, aim, i)
	}
	present := m.Policy
	bare := models[0]
	bare.Policy = nil
	if err := bare.Check(); err != nil {
		return nil, fmt.Errorf("race: %w", err)
	}
	report := &Report{Within: aim.Within}
	var err error
	if report.Present, err = place(ctx, models, present); err != nil {
		return nil, err
	}
	for _, p := range others {
		x, err := place(ctx, models, p)
		if err != nil {
			return nil, err
		}
		report.Places = append(report.Places, x)
	}
	slices.SortStableFunc(report.Places, func(a, b Place) int {
		if (a.Fault == nil) != (b.Fault == nil) {
			if a.Fault == nil {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(a.Goodput.Median, b.Goodput.Median), cmp.Compare(a.P99.Median, b.P99.Median))
	})
	return report, nil
}

// model returns the model of a run.
func (r *Recording) model(m simulator.Model, aim Aim, i int) simulator.Model {
	random := rand.New(rand.NewPCG(aim.Seed, uint64(i)))
	gaps := make([]time.Duration, len(r.Arrivals))
	for i, at := range r.Arrivals {
		if gaps[i] = at; i > 0 {
			gaps[i] -= r.Arrivals[i-1]
		}
	}
	draw := func(all []time.Duration) []time.Duration {
		if i == 0 {
			return all
		}
		return blocks(all, random)
	}
	src := m.Sources[0]
	src.Load, src.Arrivals = nil, make([]time.Duration, 0, len(gaps))
	at := time.Duration(0)
	for _, gap := range draw(gaps) {
		at += gap
		src.Arrivals = append(src.Arrivals, at)
	}
	src.Timeout = aim.Within
	m.Sources = []simulator.Source{src}
	m.Stages = slices.Clone(m.Stages)
	for i := range m.Stages {
		if times := r.Services[m.Stages[i].Name]; len(times) > 0 {
			m.Stages[i].Service = simulator.Trace(draw(times))
		}
	}
	m.Seed, m.Length, m.Warmup, m.Every = aim.Seed+uint64(i), max(at+1, r.length()), 0, 0
	return m
}

// blocks draws as many values as there are, in blocks of neighbours: with the
// cube root of their number as the length, as is usual for a bootstrap of a
// time series, and at least ten.
func blocks(all []time.Duration, random *rand.Rand) []time.Duration {
	size := 10
	for size*size*size < len(all) {
		size++
	}
	size = min(size, len(all))
	drawn := make([]time.Duration, 0, len(all)+size)
	for len(drawn) < len(all) {
		from := random.IntN(len(all) - size + 1)
		drawn = append(drawn, all[from:from+size]...)
	}
	return drawn[:len(all)]
}

// place runs all models under a policy.
func place(ctx context.Context, models []simulator.Model, p controller.Policy) (Place, error) {
	x := Place{Policy: p}
	var goodput, p99, workers []float64
	for _, m := range models {
		m.Policy = p
		r, err := simulator.Run(ctx, m)
		if ctx.Err() != nil {
			return x, fmt.Errorf("race: %w", context.Cause(ctx))
		}
		if err != nil {
			x.Fault = err
			return x, nil
		}
		goodput = append(goodput, float64(r.Sources[0].InTime)/m.Length.Seconds())
		p99 = append(p99, r.Latency.Quantile(0.99).Seconds())
		sum := 0.0
		for _, pt := range r.Series {
			sum += float64(pt.Workers)
		}
		workers = append(workers, sum/float64(max(len(r.Series), 1)))
	}
	x.Goodput, x.P99, x.Workers = figure(goodput), figure(p99), figure(workers)
	return x, nil
}

func figure(xs []float64) Figure {
	slices.Sort(xs)
	return Figure{xs[len(xs)/2], xs[1], xs[len(xs)-2]}
}

// differs is by which share figures must differ for it to matter.
const differs = 0.05

// better reports whether figures differ, beyond their intervals and by more
// than a twentieth, and the first one is lower.
func (f Figure) better(g Figure) bool { return f.High < g.Low && f.Median < g.Median*(1-differs) }

// Advice says in a sentence which policy to switch to, and the gain; or that no
// policy does more than the present one, beyond the intervals.
func (r *Report) Advice() string {
	if len(r.Places) == 0 || r.Places[0].Fault != nil {
		return "no other policy could be simulated"
	}
	best, is := r.Places[0], r.Present
	switch {
	case is.Fault != nil:
		return fmt.Sprintf("switch to %s: %s; the present policy could not be simulated", name(best.Policy), best.figures())
	case is.Goodput.better(best.Goodput), best.P99.better(is.P99) && !best.Goodput.better(is.Goodput):
		return fmt.Sprintf("switch from %s to %s: %s, instead of %s", name(is.Policy), name(best.Policy), best.figures(), is.figures())
	default:
		return fmt.Sprintf("stay with %s: no other policy differs from it beyond the intervals", name(is.Policy))
	}
}

// figures returns the figures in words.
func (p *Place) figures() string {
	return fmt.Sprintf("%.1f a second in time (%.1f to %.1f), 99 of 100 within %.3g s (%.3g to %.3g)",
		p.Goodput.Median, p.Goodput.Low, p.Goodput.High, p.P99.Median, p.P99.Low, p.P99.High)
}

func name(p controller.Policy) string {
	if p == nil {
		return "no policy"
	}
	return p.Name()
}

// String returns the report as lines: the advice, and the policies by rank.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Advice())
	for i, p := range r.Places {
		if p.Fault != nil {
			fmt.Fprintf(&b, "-  %s: not simulated: %v\n", name(p.Policy), p.Fault)
			continue
		}
		fmt.Fprintf(&b, "%d. %s: %s, %.1f workers\n", i+1, name(p.Policy), p.figures(), p.Workers.Median)
	}
	return b.String()
}
