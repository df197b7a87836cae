package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// A stage whose handlers wait: more workers get more done until they handle all that comes. Hill stops there.
func TestHillFindsTheWorkersThatALoadNeeds(t *testing.T) {
	for name, row := range map[string]struct {
		rate        float64
		service     simulator.Distribution
		least, most float64
	}{
		"eight are busy":         {800, simulator.Constant(10 * milli), 8, 16},
		"thirty are busy":        {300, simulator.Exponential(100 * milli), 30, 64},
		"one is busy half of it": {50, simulator.Constant(10 * milli), 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := one(row.rate, simulator.Stage{Service: row.service, Most: 200})
			m.Seed, m.Length, m.Warmup, m.Policy = 1, 20*time.Minute, 10*time.Minute, policy.Hill{}
			r := run(t, m)
			require.InEpsilon(t, row.rate, r.Throughput, 0.02)
			require.GreaterOrEqual(t, r.Stages[0].Workers, row.least, steps(r.Journal))
			require.LessOrEqual(t, r.Stages[0].Workers, row.most, steps(r.Journal))
			require.Less(t, r.Stages[0].Queue, row.rate, "and the queue is short")
		})
	}
}

// A stage that calls something of eight CPUs gets twice what that can do: eight workers do as much as any number, and
// with more of them each call takes longer.
func TestHillFindsHowManyCallsADependencyIsWorth(t *testing.T) {
	for _, cpus := range []int{2, 8, 24} {
		t.Run(fmt.Sprint(cpus), func(t *testing.T) {
			m := dependency(cpus, 2, policy.Hill{})
			m.Stages[0].Workers, m.Stages[0].Most = 1, 200
			m.Length, m.Warmup = 20*time.Minute, 10*time.Minute
			r := run(t, m)
			require.GreaterOrEqual(t, r.Throughput, 0.93*capacityOf(cpus), steps(r.Journal))
			require.LessOrEqual(t, r.Stages[0].Workers, 1.5*float64(cpus)+3, steps(r.Journal))
		})
	}
}
