package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// four is a line of four equal stages that wait for 20 ms, of which each has as many workers.
func four(workers int, load simulator.Load, takes simulator.Distribution) simulator.Model {
	m := overload(workers, load, nil)
	m.Stages = nil
	for i := range 4 {
		st := simulator.Stage{Name: fmt.Sprint("s", i), Service: takes, Workers: workers, Capacity: 1024, Reject: i == 0}
		if i < 3 {
			st.Forward = []simulator.Edge{{To: fmt.Sprint("s", i+1), Share: 1}}
		}
		m.Stages = append(m.Stages, st)
	}
	m.Sources[0].To = "s0"
	return m
}

// surge is a load of a share of the capacity, and from 10 s on for some time of a multiple of it.
func surge(capacity, times float64, length time.Duration) simulator.Load {
	return func(at time.Duration) float64 {
		if at >= 10*second && at < 10*second+length {
			return times * capacity
		}
		return 0.5 * capacity
	}
}

// Under twice and ten times the capacity the pipeline does what it can do, and 99 of 100 answers are in time.
func TestAnObjectiveIsHeldUnderOverload(t *testing.T) {
	for name, takes := range map[string]simulator.Distribution{"constant": simulator.Constant(20 * milli), "exponential": simulator.Exponential(20 * milli)} {
		for _, times := range []float64{1.2, 2, 10} {
			for _, within := range []time.Duration{300 * milli, 500 * milli, time.Second} {
				t.Run(fmt.Sprintf("%s, %v times, within %v", name, times, within), func(t *testing.T) {
					m := four(8, simulator.Steady(times*400), takes)
					m.Policy = policy.Objective{Within: within}
					r := run(t, m)
					least := 0.95
					if within < 500*milli && name == "exponential" { // too few commands may wait for all workers to be busy
						least = 0.9
					}
					require.Greater(t, r.Throughput, least*400)
					require.Less(t, r.Latency.Quantile(0.99), within)
					require.Less(t, float64(r.Shed), max(1024, times*400), "these came in the first second, before the capacity was known")
					m.Policy = policy.Fixed{}
					require.Greater(t, run(t, m).Latency.Quantile(0.5), 2*within)
				})
			}
		}
	}
}

// A burst is cut at the first command that would be late, between two ticks.
func TestAnObjectiveIsHeldInBursts(t *testing.T) {
	for _, times := range []float64{2, 10} {
		for _, length := range []time.Duration{second, 2 * second} {
			t.Run(fmt.Sprintf("%v times for %v", times, length), func(t *testing.T) {
				m := four(8, surge(400, times, length), simulator.Exponential(20*milli))
				m.Policy, m.Every = policy.Objective{Within: 500 * milli}, 100*milli
				r := run(t, m)
				require.Less(t, r.Latency.Quantile(0.99), 500*milli)
				for _, p := range r.Series {
					if p.At > 10*second+length+second {
						require.Less(t, p.P99, 400*milli, p.At)
					}
				}
				require.Zero(t, r.Shed, "the door refuses, and nothing that it admits is dropped")
			})
		}
	}
}

// Of commands of three priorities, which are more than the stage can do, the least important ones are refused.
func TestAnObjectiveRefusesTheLeastImportantCommandsFirst(t *testing.T) {
	for _, times := range []float64{2, 5} {
		m := four(8, simulator.Steady(0), simulator.Exponential(20*milli))
		m.Policy = policy.Objective{Within: 500 * milli}
		m.Sources = nil
		for priority, share := range []float64{0.5, 0.4, 0.1} {
			m.Sources = append(m.Sources, simulator.Source{To: "s0", Load: simulator.Steady(times * 400 * share), Priority: priority})
		}
		r := run(t, m)
		require.Greater(t, r.Throughput, 0.92*400)
		require.Less(t, r.Latency.Quantile(0.99), 500*milli)
		require.Less(t, float64(refusedOf(r)[2]), 0.02*times*40*m.Length.Seconds(), "the most important ones, once their priorities are known")
		require.Greater(t, float64(refusedOf(r)[0]), 0.9*times*200*m.Length.Seconds(), "the least important ones")
	}
}

// A pipeline may have more workers: they are added, and nothing is refused once they are there.
func TestAnObjectiveAddsWorkersBeforeItRefuses(t *testing.T) {
	m := four(2, surge(100, 4, 20*second), simulator.Exponential(20*milli))
	for i := range m.Stages {
		m.Stages[i].Most = 16
	}
	m.Policy = policy.Objective{Within: 500 * milli}
	r := run(t, m)
	require.Less(t, r.Latency.Quantile(0.99), 500*milli)
	require.Less(t, float64(r.Refused+r.Shed), 0.01*float64(r.Arrived))
	for _, c := range r.Journal {
		require.Contains(t, c.Why, "99% within 500ms: ", "each decision names the aim")
	}
}

// A load that the pipeline bears is not refused, nor dropped.
func TestAnObjectiveRefusesNothingBelowTheCapacity(t *testing.T) {
	m := four(8, simulator.Steady(0.9*400), simulator.Exponential(20*milli))
	m.Policy = policy.Objective{Within: 500 * milli}
	r := run(t, m)
	require.Less(t, float64(r.Refused), 0.001*float64(r.Arrived))
	require.Zero(t, r.Shed)
}

// The aim may be about one stage; the door is the entry all the same.
func TestAnObjectiveMayBeAboutOneStage(t *testing.T) {
	m := four(8, simulator.Steady(800), simulator.Exponential(20*milli))
	m.Stages[2].Workers, m.Stages[2].Most = 4, 4
	m.Policy = policy.Objective{Within: 200 * milli, Stage: "s2"}
	r := run(t, m)
	require.Greater(t, r.Throughput, 0.95*200)
	require.Less(t, r.Stages[2].Latency.Quantile(0.99), 200*milli)
}
