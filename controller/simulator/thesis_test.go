package simulator_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// webServer is the server of chapter 5 of the dissertation on its machine, which did four requests a second with four threads
// and more, and 3.6 with two: a request takes 1.25 s of each of five threads. It accepts 30 connections a second until it has a
// thousand open ones, and then none any more.
func webServer(takes time.Duration) simulator.Model {
	m := simulator.Model{
		Length: 350 * second, Every: second,
		Sources: []simulator.Source{{To: "parse", Load: simulator.Steady(30), Breaks: 1000}},
		Stages: []simulator.Stage{
			{Name: "parse", Forward: []simulator.Edge{{"run", 1}}}, {Name: "run", Forward: []simulator.Edge{{"page", 1}}},
			{Name: "page", Forward: []simulator.Edge{{"send", 1}}}, {Name: "send"},
		},
	}
	for i := range m.Stages {
		st := &m.Stages[i]
		st.Service, st.Computes, st.Capacity, st.Batch = simulator.Constant(100*time.Microsecond), true, 1<<20, 1
	}
	m.Stages[1].Service = simulator.Constant(takes)
	return m
}

// inPool has five threads serve all stages, at most so many of them one stage.
func inPool(atOnce int, dispatch controller.Dispatch) simulator.Model {
	m := webServer(1250 * milli)
	m.Pools = []simulator.Pool{{Name: "threads", Workers: 5, Dispatch: dispatch}}
	for i := range m.Stages {
		m.Stages[i].Pool, m.Stages[i].Instances = "threads", atOnce
	}
	return m
}

// under has a policy share five threads.
func under(p controller.Policy) simulator.Model {
	m := webServer(1250 * milli)
	m.Policy = p
	for i := range m.Stages {
		m.Stages[i].Instances = 5
	}
	return m
}

func seda(threads int, takes time.Duration) simulator.Model {
	m := webServer(takes)
	for i := range m.Stages {
		m.Stages[i].Workers = threads
	}
	return m
}

// T21: tables 5.2 and 5.3 of the dissertation, as the small model of its machine has them, which agrees with what was reported
// but for the single queue. Seconds: the longest, the mean and the deviation of the response times, 0 where the row says less.
//
// The two rows of exhaustive visits are left out. A visit to the stage that runs scripts never ends there, so the times depend
// on which thread came first where: the mean is 186 to 243 s for steps beside it of 0 to 20 ms.
func TestT21_TheTablesOfTheDissertationAreThoseOfItsMachine(t *testing.T) {
	for name, c := range map[string]struct {
		model                   simulator.Model
		longest, mean, deviates float64
	}{
		"SRPT, global":                       {under(policy.SRPT{Preset: policy.Cruz, Workers: 5}), 250.7, 126.0, 72.3},
		"SEDA, four threads a stage":         {seda(4, second), 249.7, 125.4, 72.1},
		"SEDA, two threads a stage":          {seda(2, second*5/9), 277.4, 139.0, 80.1},
		"LRB, at most six a visit":           {under(policy.LRB{Preset: policy.Measured, Workers: 5}), 0, 123.0, 0},
		"DBR, as its program has it":         {under(policy.DBR{Preset: policy.Measured, Workers: 5, Interval: 100 * milli}), 246.4, 126.3, 70.9},
		"DBR, as its text has it":            {under(policy.DBR{Preset: policy.Cruz, Workers: 5, Interval: 100 * milli}), 250.8, 234.4, 0},
		"a single queue":                     {inPool(1<<20, controller.SharedFIFO), 249.8, 221.6, 45.0},
		"a single queue, ten of each stage":  {inPool(10, controller.SharedFIFO), 250.3, 126.7, 72.0},
		"a single queue, as the policy does": {under(policy.Color{Workers: 5}), 250.3, 126.7, 72.0},
	} {
		t.Run(name, func(t *testing.T) {
			var longest, mean, deviates []float64
			for seed := range 3 {
				c.model.Seed = uint64(seed)
				r := run(t, c.model)
				require.InDelta(t, 1000, float64(r.Done), 170, "the ones that were open, and the ones before")
				longest = append(longest, r.Latency.Longest().Seconds())
				mean = append(mean, latency(r))
				deviates = append(deviates, deviation(&r.Latency))
			}
			t.Logf("longest %.1f, mean %.1f, deviation %.1f; seeds %.1f to %.1f", median(longest), median(mean), median(deviates), slices.Min(mean), slices.Max(mean))
			for _, x := range [][2]float64{{c.longest, median(longest)}, {c.mean, median(mean)}, {c.deviates, median(deviates)}} {
				if x[0] > 0 {
					require.InEpsilon(t, x[0], x[1], 0.03)
				}
			}
		})
	}
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// deviation is the standard deviation, from the quantiles.
func deviation(l *simulator.Latency) float64 {
	const n = 1000
	sum, squares := 0.0, 0.0
	for i := range n {
		x := l.Quantile((float64(i) + 0.5) / n).Seconds()
		sum, squares = sum+x, squares+x*x
	}
	return math.Sqrt(squares/n - sum*sum/n/n)
}

// Table 5.1 on eight CPUs: 5,000 images of 0.7 s, a quarter of a second of them in one of seven stages. Two threads for each
// stage leave CPUs idle, and four do not.
func TestT21_TwoThreadsForEachStageAreTooFewForImagesOnEightCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		threads int // of each stage; 0: 14 for all
		want    float64
	}{"a single queue": {0, 437.5}, "SEDA, two threads a stage": {2, 625}, "SEDA, four threads a stage": {4, 437.5}} {
		t.Run(name, func(t *testing.T) {
			m := simulator.Model{Length: 1000 * second, Every: second, CPUs: 8, Sources: []simulator.Source{{To: "a", Arrivals: make([]time.Duration, 5000)}}}
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				st := simulator.Stage{Name: name, Service: simulator.Constant(75 * milli), Computes: true, Capacity: 100, Workers: c.threads}
				if name == "d" {
					st.Service = simulator.Constant(250 * milli)
				}
				if c.threads == 0 {
					st.Workers, st.Pool = 1, "threads"
				}
				if n := len(m.Stages); n > 0 {
					m.Stages[n-1].Forward = []simulator.Edge{{name, 1}}
				}
				m.Stages = append(m.Stages, st)
			}
			if c.threads == 0 {
				m.Pools = []simulator.Pool{{Name: "threads", Workers: 14}}
			}
			r := run(t, m)
			require.EqualValues(t, 5000, r.Done)
			require.InEpsilon(t, c.want, ended(r).Seconds(), 0.03)
		})
	}
}
