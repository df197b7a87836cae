package main

import (
	"math"
	"runtime"
	"time"

	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/simulator"
)

// workload is a pipeline with the load for it.
type workload struct {
	name, about string
	steps       []step
	load        func(capacity float64, length time.Duration) lab.Workload
	peak        float64            // how many times the capacity a burst is, if -peak may change that; 0: it may not
	length      time.Duration      // of a run, if -length does not say; 0: 1.5 s
	deadline    time.Duration      // 0: a second
	classes     map[string]float64 // by share; the first in the order of names comes first
	again       float64            // share of the jobs that begin again at the first step
	poison      float64            // share of the jobs that panic, and as large a share that hangs
	drift       float64            // how many times as long the steps take at the end of a run; 0: as at the start
}

// step is a stage of a workload.
type step struct {
	name  string
	takes simulator.Distribution
	mean  time.Duration
	waits bool // for something else; else it computes

	workers int // of a step that waits, always; 0: from fewestWaiting to mostWaiting
}

// calling returns a step with a number of workers, that waits for a constant
// time.
func calling(name string, takes time.Duration, workers int) step {
	return step{name: name, takes: simulator.Constant(takes), mean: takes, waits: true, workers: workers}
}

// constant is a step that computes for a constant time.
func constant(name string, takes time.Duration) step {
	return step{name: name, takes: simulator.Constant(takes), mean: takes}
}

// overload is the name of the workload with a peak.
const overload = "overload"

// workloads lists the workloads.
func workloads() []workload {
	const us, ms = time.Microsecond, time.Millisecond
	four := []step{constant("a", 250*us), constant("b", 250*us), constant("c", 250*us), constant("d", 250*us)}
	pareto := simulator.Pareto{Least: 200 * us, Most: 200 * ms, Alpha: 1.5}
	return []workload{
		{
			name: "even", about: "seven equal stages that compute, half of the CPUs' capacity: a tie is expected",
			steps: []step{
				constant("a", 100*us), constant("b", 100*us), constant("c", 100*us), constant("d", 100*us),
				constant("e", 100*us), constant("f", 100*us), constant("g", 100*us),
			},
			load: steady(0.5),
		},
		{
			name: "skew", about: "four stages that compute, one of them twenty times as long",
			steps: []step{constant("a", 100*us), constant("b", 100*us), constant("slow", 2*ms), constant("d", 100*us)},
			load:  steady(0.6),
		},
		{
			name: "blocking", about: "a stage that waits for 5 ms on average, between two that compute; a burst of three times the load",
			steps: []step{
				constant("a", 200*us),
				{name: "wait", takes: simulator.LogNormal{Mean: 5 * ms, CV: 1}, mean: 5 * ms, waits: true},
				constant("c", 200*us),
			},
			load: burst(0.1, 0.3, 0.3, 0.5),
		},
		{
			name: "bursts", about: "four equal stages; bursts of 3.75 times the capacity for a fifth of the time, 0.19 times otherwise, 0.9 on average",
			steps: four,
			load: func(capacity float64, length time.Duration) lab.Workload {
				return lab.OnOff(0.1875*capacity, 3.75*capacity, max(length*2/5, 10*ms), max(length/10, 10*ms))
			},
		},
		{
			name: overload, about: "four equal stages with 16 workers that wait for 40 ms and a queue that refuses when it is full, " +
				"a multiple of the capacity (-peak) for half of a run, and half of it otherwise; deadline 500 ms",
			steps:  []step{calling("a", 40*ms, 16), calling("b", 40*ms, 16), calling("c", 40*ms, 16), calling("d", 40*ms, 16)},
			peak:   2,
			length: 20 * time.Second, deadline: 500 * ms,
		},
		{
			name: "poison", about: "four equal stages; one job of 1000 panics, and one hangs for 200 ms",
			steps: four, load: steady(0.5), poison: 0.001,
		},
		{
			name: "tail", about: "a stage that computes for times of a heavy tail (bounded Pareto, 1.5, from 0.2 to 200 ms), between two short ones",
			steps: []step{constant("a", 50*us), {name: "tail", takes: pareto, mean: meanOf(pareto)}, constant("c", 50*us)},
			load:  steady(0.6),
		},
		{
			name: "loop", about: "four equal stages; a quarter of the jobs return to the first, at most ten times",
			steps: four, load: steady(0.6), again: 0.25,
		},
		{
			name: "classes", about: "four equal stages with priorities, 1.5 times the capacity: a tenth of the requests is first, three tenths second; deadline 500 ms",
			steps: four, load: steady(1.5), deadline: 500 * ms,
			classes: map[string]float64{"first": 1, "second": 3, "third": 6},
		},
		{
			name: "drift", about: "four equal stages that take three times as long at the end of a run as at its start",
			steps: four, load: steady(0.3), drift: 3,
		},
	}
}

// capacity returns how many requests a second the CPUs, and the workers that
// wait, can do.
func (w workload) capacity() float64 {
	var sum time.Duration
	least := math.Inf(1)
	for _, s := range w.steps {
		switch {
		case !s.waits:
			sum += s.mean
		case s.workers > 0:
			least = min(least, float64(s.workers)/s.mean.Seconds())
		}
	}
	return min(least, float64(runtime.GOMAXPROCS(0))/sum.Seconds()) * (1 - w.again)
}

// model returns a model of the pipeline, or nil if the simulator has no
// priorities, panics, or drift.
func (w workload) model() *simulator.Model {
	if w.classes != nil || w.poison > 0 || w.drift > 0 {
		return nil
	}
	cpus := runtime.GOMAXPROCS(0)
	m := &simulator.Model{CPUs: cpus}
	for i, s := range w.steps {
		st := simulator.Stage{Name: s.name, Service: s.takes, Computes: !s.waits, Workers: cpus, Most: 4 * cpus} // as package stage has it
		if s.waits {
			st.Workers, st.Most = s.bounds()
		}
		st.Reject = w.peak > 0 && i == 0
		switch {
		case i+1 < len(w.steps):
			st.Forward = []simulator.Edge{{To: w.steps[i+1].name, Share: 1}}
		case w.again > 0:
			st.Forward = []simulator.Edge{{To: w.steps[0].name, Share: w.again}}
		}
		m.Stages = append(m.Stages, st)
	}
	return m
}

// bounds returns the numbers of workers of a step that waits.
func (s step) bounds() (fewest, most int) {
	if s.workers > 0 {
		return s.workers, s.workers
	}
	return fewestWaiting, mostWaiting
}

// The numbers of workers of a stage that waits.
const (
	fewestWaiting = 4
	mostWaiting   = 64
)

// steady is a load of a share of the capacity.
func steady(share float64) func(float64, time.Duration) lab.Workload {
	return func(capacity float64, _ time.Duration) lab.Workload { return lab.Poisson(math.Round(share * capacity)) }
}

// burst is a load of a share of the capacity, and another share between two
// times, which are parts of a run.
func burst(share, peak, from, until float64) func(float64, time.Duration) lab.Workload {
	return func(capacity float64, length time.Duration) lab.Workload {
		at := func(part float64) time.Duration { return time.Duration(part * float64(length)) }
		return lab.Burst(math.Round(share*capacity), math.Round(peak*capacity), at(from), max(at(until), at(from)+1))
	}
}

// meanOf returns the mean of a bounded Pareto distribution.
func meanOf(p simulator.Pareto) time.Duration {
	l, h, a := float64(p.Least), float64(p.Most), p.Alpha
	return time.Duration(math.Pow(l, a) / (1 - math.Pow(l/h, a)) * a / (a - 1) * (math.Pow(l, 1-a) - math.Pow(h, 1-a)))
}
