package lab

import (
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/golda-dev/golda/controller/simulator"
)

// model returns the model of the experiment under its load, for one run.
func (e *Experiment) model(seed uint64) simulator.Model {
	m := *e.Model
	m.Seed, m.Length, m.Warmup = seed, e.Length, e.Warmup
	m.Sources = slices.Clone(m.Sources)
	if len(m.Sources) == 0 && len(m.Stages) > 0 {
		m.Sources = []simulator.Source{{To: m.Stages[0].Name}}
	}
	if len(m.Sources) > 0 {
		m.Sources[0].Load = e.Workload.rate(seed, e.Length)
	}
	return m
}

// rate returns the rate of a run as a load of the simulator.
func (w Workload) rate(seed uint64, length time.Duration) simulator.Load {
	var all []phase
	for p := range w.spans(seed, length) {
		all = append(all, p)
	}
	return func(at time.Duration) float64 {
		i := sort.Search(len(all), func(i int) bool { return all[i].until > at })
		if i == len(all) {
			return 0
		}
		return all[i].rate
	}
}

// checkModel returns the faults of the model, whatever the policy. The other
// parts of the experiment are right.
func (e *Experiment) checkModel() error {
	if e.Model == nil {
		return nil
	}
	if e.Workload.times != nil {
		return fault(true, "Model cannot be simulated under the %s: the simulator draws the times of requests from a rate", e.Workload)
	}
	m := e.model(e.Seed)
	m.Policy = nil
	return m.Check()
}

// simulate runs the model under the policy of a candidate, as often as the
// pipeline is run. A policy that the simulator cannot run is no error, but a
// sentence in the outcome.
func (e *Experiment) simulate(ctx context.Context, c Candidate, o *Outcome) error {
	if e.Model == nil {
		return nil
	}
	if len(c.Policies) > 1 {
		o.NotSimulated = "several policies together are not simulated"
		return nil
	}
	values := map[string][]float64{}
	for round := range e.Runs {
		m := e.model(e.Seed + uint64(round)) //nolint:gosec // a round is not negative
		m.Policy = c.Policies[0]
		r, err := simulator.Run(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			o.NotSimulated = err.Error()
			return nil
		}
		for name, v := range simulated(r, e.Length-e.Warmup) {
			values[name] = append(values[name], v)
		}
	}
	for _, d := range definitions() {
		if f, ok := newFigure(d, values[d.name]); ok {
			o.Simulated = append(o.Simulated, f)
		}
	}
	return nil
}

// simulated returns the figures of a simulated run.
func simulated(r *simulator.Result, measured time.Duration) map[string]float64 {
	workers := 0.0
	for _, st := range r.Stages {
		workers += st.Workers
	}
	quantile := func(q float64) float64 {
		if r.Latency.Count() == 0 {
			return math.Inf(1)
		}
		return r.Latency.Quantile(q).Seconds() * 1e3
	}
	return map[string]float64{
		throughput: r.Throughput, workerSeconds: workers * measured.Seconds(),
		p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999), longest: r.Latency.Longest().Seconds() * 1e3,
	}
}
