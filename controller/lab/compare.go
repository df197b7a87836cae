package lab

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of an experiment. It is marshalled to JSON as it is,
// [Report.String] is a table, and [Report.WriteHTML] writes a page with plots.
type Report struct {
	Title    string        `json:"title"`
	Workload string        `json:"workload"`
	Machine  string        `json:"machine"` // and the process, in words
	Started  time.Time     `json:"started"`
	Length   time.Duration `json:"length_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	Deadline time.Duration `json:"deadline_ns"`
	Runs     int           `json:"runs"` // of each candidate
	Seed     uint64        `json:"seed"` // of the first run
	Repeated int           `json:"repeated"`
	// Coverage is how often an interval holds the median, at least, if one
	// compared again and again: 0.9375 for five runs, above 0.95 from six on.
	Coverage float64 `json:"coverage"`

	Outcomes []Outcome `json:"outcomes"`
	// Verdicts are sentences that say for each important figure which
	// candidates differ beyond noise, or that none do.
	Verdicts []string `json:"verdicts"`
}

// Outcome is the measurements of one candidate.
type Outcome struct {
	Candidate string   `json:"candidate"`
	Figures   []Figure `json:"figures"`
	// Simulated has the figures that the simulator computes, if the experiment
	// has a Model. NotSimulated says why there are none.
	Simulated    []Figure `json:"simulated,omitempty"`
	NotSimulated string   `json:"not_simulated,omitempty"`
	Runs         []*Run   `json:"runs"`

	latency *hdrhistogram.Histogram // of all runs
}

// Compare measures each policy of an experiment on pipelines of their own, and
// returns the figures of all. The runs are interleaved: in each round all
// candidates get the same requests, one after the other and in an order that
// changes from round to round, so that a slow change of the machine affects all
// of them.
//
// Compare fails, and says why, if something is wrong with the experiment; if a
// run cannot be trusted, because the generator was late ([ErrLate]) or file
// descriptors ran out; and if a pipeline does not keep a promise: its accounts
// do not add up, it leaves requests without an answer, or does not stop.
func Compare(ctx context.Context, e Experiment) (*Report, error) {
	if ctx == nil {
		return nil, fault(true, "the context is nil")
	}
	e = e.withDefaults()
	candidates, err := e.candidates()
	if err != nil {
		return nil, err
	}
	report := &Report{
		Title: e.Title, Workload: e.Workload.String(), Machine: machine(), Started: time.Now(),
		Length: e.Length, Warmup: e.Warmup, Deadline: e.Deadline, Runs: e.Runs, Seed: e.Seed,
		Coverage: covered(e.Runs, rankOf(e.Runs)),
	}
	for _, c := range candidates {
		o := Outcome{Candidate: c.Name, latency: newHistogram()}
		if err := e.simulate(ctx, c, &o); err != nil {
			return nil, fmt.Errorf("lab: candidate %q, simulated: %w", c.Name, err)
		}
		report.Outcomes = append(report.Outcomes, o)
	}
	show := newProgress(e.Progress, e.Runs*len(candidates))
	defer show.end()
	for round := range e.Runs {
		for _, i := range order(len(candidates), round) {
			show.begin(candidates[i].Name, round)
			run, err := report.run(ctx, &e, candidates[i], round)
			if err != nil {
				return nil, fmt.Errorf("lab: candidate %q, run %d: %w", candidates[i].Name, round+1, err)
			}
			report.Outcomes[i].add(run)
			show.ended(run)
		}
	}
	report.conclude()
	return report, nil
}

// add adds a run. Only the histogram of all runs is kept.
func (o *Outcome) add(run *Run) {
	o.latency.Merge(run.latency)
	run.latency = nil
	o.Runs = append(o.Runs, run)
}

// run measures one run. It is repeated if the generator was late.
func (r *Report) run(ctx context.Context, e *Experiment, c Candidate, round int) (run *Run, err error) {
	for try := range tries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t := &trial{experiment: e, candidate: c, seed: e.Seed + uint64(round)} //nolint:gosec // a round is not negative
		if run, err = t.measure(ctx); !errors.Is(err, ErrLate) {
			return run, err
		}
		if try+1 < tries {
			r.Repeated++
		}
	}
	return nil, err
}

// order returns the numbers from 0 to n-1 in another order for each round, so
// that none always comes after the same one: a rotation, and then the same from
// back to front.
func order(n, round int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = (i + round/2) % n
	}
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// conclude computes the figures of all runs.
func (r *Report) conclude() {
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		for _, d := range definitions() {
			var values []float64
			for _, run := range o.Runs {
				values = append(values, run.figures[d.name])
			}
			if f, ok := newFigure(d, values); ok {
				o.Figures = append(o.Figures, f)
			}
		}
	}
	r.Verdicts = verdicts(r.Outcomes, r.Runs)
}

// figure returns the figure of a name.
func (o *Outcome) figure(name string) (Figure, bool) { return find(o.Figures, name) }

func find(all []Figure, name string) (Figure, bool) {
	i := slices.IndexFunc(all, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return all[i], true
}

// machine describes the machine and the process.
func machine() string {
	gc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(gc)
	gogc := "off"
	if gc[0].Value.Kind() == metrics.KindUint64 && bits.Len64(gc[0].Value.Uint64()) < 64 {
		gogc = fmt.Sprint(gc[0].Value.Uint64())
	}
	text := fmt.Sprintf("%s/%s, %s, %d CPUs, GOMAXPROCS %d, GOGC %s", runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), gogc)
	if limit := descriptors(); limit != "" {
		text += ", at most " + limit + " file descriptors"
	}
	return text + "; the generator is in the same process"
}
