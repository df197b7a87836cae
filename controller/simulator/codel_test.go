package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// overload is a stage with commands of 4 ms, which gets a multiple of the commands that it can handle.
func overload(workers int, load simulator.Load, law controller.Policy) simulator.Model {
	m := one(1, simulator.Stage{Service: simulator.Exponential(4 * milli), Workers: workers, Capacity: 1024, Reject: true})
	m.Seed, m.Policy = 1, law
	m.Length, m.Warmup = 40*second, 5*second
	m.Sources[0].Load = load
	return m
}

func handles(workers int) float64 { return 250 * float64(workers) }

// Without a policy the commands that are handled have waited behind 1,024 others. With CoDel the stage handles as many, and none of
// them has waited for long.
func TestCoDelKeepsTheGoodputOfAnOverloadedStage(t *testing.T) {
	for _, workers := range []int{4} {
		for _, times := range []float64{2, 10} {
			for _, law := range []policy.CoDel{{}, {FIFO: true}} {
				t.Run(fmt.Sprintf("%d workers, %v times, FIFO %v", workers, times, law.FIFO), func(t *testing.T) {
					load := simulator.Steady(times * handles(workers))
					none := run(t, overload(workers, load, policy.Fixed{}))
					require.Greater(t, none.Latency.Quantile(0.5), 100*milli)
					r := run(t, overload(workers, load, law))
					require.Greater(t, r.Throughput, 0.95*handles(workers))
					require.Less(t, r.Latency.Quantile(0.99), 80*milli)
					require.Less(t, float64(r.Refused), 0.05*float64(r.Arrived), "the queue is full once, in the first intervals")
					if !law.FIFO {
						require.Less(t, r.Latency.Mean(), 6*milli, "hardly more than the handler takes")
					}
				})
			}
		}
	}
}

// What a stage can bear is not dropped, bursts included.
func TestCoDelDropsLittleBelowTheCapacity(t *testing.T) {
	r := run(t, overload(32, simulator.Steady(0.95*handles(32)), policy.CoDel{}))
	require.Less(t, float64(r.Shed), 0.01*float64(r.Arrived))
	bursts := func(at time.Duration) float64 { // a tenth of a second beyond the capacity, in each second
		if at%second < 100*milli {
			return 1.3 * handles(32)
		}
		return 0.5 * handles(32)
	}
	r = run(t, overload(32, bursts, policy.CoDel{}))
	require.Less(t, float64(r.Shed), 0.01*float64(r.Arrived))
}

// An overload of ten seconds is over when it ends: nothing is dropped, and the oldest command goes first again.
func TestCoDelHasRecoveredTwoSecondsAfterAnOverload(t *testing.T) {
	const begin, end = 20 * second, 30 * second
	load := func(at time.Duration) float64 {
		if at >= begin && at < end {
			return 4 * handles(8)
		}
		return 0.5 * handles(8)
	}
	r := run(t, overload(8, load, policy.CoDel{}))
	require.Positive(t, r.Shed)
	last := r.Journal[len(r.Journal)-1]
	require.Equal(t, "fifo", last.After)
	require.Less(t, last.At, end+2*second)
	for _, p := range r.Series { // one for each 600 ms
		if p.At > end+2*second {
			require.Less(t, p.P99, 50*milli, p.At)
		}
	}
}
