package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// The 90th percentile of what is admitted is near the target, and the stage does most of what it can: the rate swings, as that of the
// paper does. Without a policy the median is a second.
func TestRT90KeepsItsTargetAndMostOfTheThroughput(t *testing.T) {
	for _, times := range []float64{1.2, 2, 10} {
		for _, target := range []time.Duration{100 * milli, 500 * milli} {
			t.Run(fmt.Sprintf("%v times, target %v", times, target), func(t *testing.T) {
				m := overload(4, simulator.Steady(times*handles(4)), policy.RT90{Target: target})
				m.Length, m.Warmup = 3*time.Minute, 30*second
				r := run(t, m)
				require.Greater(t, r.Throughput, 0.78*handles(4))
				require.Less(t, r.Latency.Quantile(0.9), target*3/2)
				m.Policy = policy.Fixed{}
				require.Greater(t, run(t, m).Latency.Quantile(0.5), 900*milli)
			})
		}
	}
}

// The response time is that of the whole pipeline, and so is the rate.
func TestRT90HoldsTheTimeThroughTwoStages(t *testing.T) {
	m := overload(8, simulator.Steady(2*handles(4)), policy.RT90{Target: 200 * milli})
	m.Stages[0].Forward = []simulator.Edge{{To: "b", Share: 1}}
	m.Stages = append(m.Stages, simulator.Stage{Name: "b", Service: simulator.Exponential(4 * milli), Workers: 4, Capacity: 1024})
	m.Length, m.Warmup = 3*time.Minute, 30*second
	r := run(t, m)
	require.Greater(t, r.Throughput, 0.78*handles(4))
	require.Less(t, r.Latency.Quantile(0.9), 300*milli)
}

// A load that the stage bears is not limited, and after an overload the limit is lifted.
func TestRT90RefusesNothingWithoutAnOverload(t *testing.T) {
	m := overload(4, simulator.Steady(0.9*handles(4)), policy.RT90{Target: 200 * milli})
	require.Empty(t, run(t, m).Journal)
	m.Sources[0].Load = func(at time.Duration) float64 {
		if at > 20*second && at < 30*second {
			return 3 * handles(4)
		}
		return 0.4 * handles(4)
	}
	m.Length, m.Every = 3*time.Minute, second
	r := run(t, m)
	require.Positive(t, r.Refused)
	last := r.Journal[len(r.Journal)-1]
	require.Contains(t, last.String(), "to no limit")
	for _, p := range r.Series {
		if p.At > 40*second {
			require.Less(t, p.P99, 200*milli, p.At)
		}
	}
}
