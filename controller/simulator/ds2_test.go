package simulator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// last returns the number of workers of each stage after the last change, and the time of that change.
func last(m simulator.Model, journal []controller.Change) (workers []int, at time.Duration) {
	for _, st := range m.Stages {
		n := max(st.Workers, 1)
		for _, c := range journal {
			if c.StageName == st.Name && c.What == controller.KnobWorkers {
				n, at = c.After.(int), max(at, c.At)
			}
		}
		workers = append(workers, n)
	}
	return workers, at
}

// DS2 measures for two intervals, and then takes at most three steps. All loads below are half of a worker below the
// next number, so that the randomness of the arrivals is not seen.
func TestDS2NeedsThreeStepsAtMost(t *testing.T) {
	to := func(name string, share float64) []simulator.Edge { return []simulator.Edge{{To: name, Share: share}} }
	for name, row := range map[string]struct {
		model simulator.Model
		want  []int
	}{
		"a line of three, the second of which gets two commands for each": { // 1000/s, 2000/s, 2000/s
			network(1000,
				simulator.Stage{Name: "a", Service: simulator.Constant(1750 * time.Microsecond), Most: 99, Emit: to("b", 2)},
				simulator.Stage{Name: "b", Service: simulator.Constant(1925 * time.Microsecond), Most: 99, Forward: to("c", 1)},
				simulator.Stage{Name: "c", Service: simulator.Constant(175 * time.Microsecond), Most: 99}),
			[]int{3, 6, 1},
		},
		"a line of three": {
			network(1000,
				simulator.Stage{Name: "a", Service: simulator.Constant(3150 * time.Microsecond), Most: 99, Forward: to("b", 1)},
				simulator.Stage{Name: "b", Service: simulator.Constant(3850 * time.Microsecond), Most: 99, Forward: to("c", 1)},
				simulator.Stage{Name: "c", Service: simulator.Constant(4550 * time.Microsecond), Most: 99}),
			[]int{5, 6, 7},
		},
		"a loop, of which half comes back": { // 2000/s each
			network(1000,
				simulator.Stage{Name: "a", Service: simulator.Constant(875 * time.Microsecond), Most: 99, Forward: to("b", 1)},
				simulator.Stage{Name: "b", Service: simulator.Constant(1925 * time.Microsecond), Most: 99, Forward: to("a", 0.5)}),
			[]int{3, 6},
		},
		"most of the commands take one of two ways": { // 900/s and 100/s
			network(1000,
				simulator.Stage{Name: "a", Service: simulator.Constant(350 * time.Microsecond), Most: 99, Forward: []simulator.Edge{{To: "hot", Share: 0.9}, {To: "cold", Share: 0.1}}},
				simulator.Stage{Name: "hot", Service: simulator.Constant(4277 * time.Microsecond), Most: 99},
				simulator.Stage{Name: "cold", Service: simulator.Constant(3500 * time.Microsecond), Most: 99}),
			[]int{1, 6, 1},
		},
		"random service times": {
			network(1000, simulator.Stage{Name: "a", Service: simulator.Exponential(3850 * time.Microsecond), Most: 99}),
			[]int{6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := row.model
			m.Seed, m.Length, m.Warmup, m.Policy = 1, 8*time.Minute, 4*time.Minute, policy.DS2{}
			r := run(t, m)
			workers, at := last(m, r.Journal)
			require.Equal(t, row.want, workers, steps(r.Journal))
			require.LessOrEqual(t, at, 50*second, steps(r.Journal))
			for _, st := range r.Stages {
				require.LessOrEqual(t, st.Utilization, 0.75, st.Name)
			}
			require.InEpsilon(t, m.Sources[0].Load(0), r.Throughput, 0.05)
		})
	}
}

// The load becomes four times as large, and then small.
func TestDS2FollowsTheLoad(t *testing.T) {
	m := one(1, simulator.Stage{Service: simulator.Constant(9500 * time.Microsecond), Most: 99})
	m.Length, m.Warmup, m.Policy = 5*time.Minute, 4*time.Minute, policy.DS2{}
	m.Sources[0].Load = func(at time.Duration) float64 {
		switch {
		case at < 100*second:
			return 250
		case at < 200*second:
			return 1000
		default:
			return 10
		}
	}
	r := run(t, m)
	require.Equal(t, "30s:2 40s:4 1m50s:8 2m0s:14 3m30s:1", steps(r.Journal))
}

// Callers that wait for a full queue hide the load, so the stages grow from the first one on, and all get there.
func TestDS2FindsALoadThatAFullQueueHides(t *testing.T) {
	m := network(100,
		simulator.Stage{Name: "a", Service: simulator.Constant(17500 * time.Microsecond), Most: 99, Capacity: 16, Forward: []simulator.Edge{{To: "b", Share: 1}}},
		simulator.Stage{Name: "b", Service: simulator.Constant(38500 * time.Microsecond), Most: 99, Capacity: 16})
	m.Length, m.Warmup, m.Policy = 30*time.Minute, 20*time.Minute, policy.DS2{}
	r := run(t, m)
	workers, at := last(m, r.Journal)
	require.GreaterOrEqual(t, workers[0], 3, steps(r.Journal))
	require.GreaterOrEqual(t, workers[1], 6, steps(r.Journal))
	require.LessOrEqual(t, at, 10*time.Minute, steps(r.Journal))
	require.InEpsilon(t, 100, r.Throughput, 0.05)
}

// More workers do not help a stage whose commands all have one key: it gets what the load would need, and no more.
func TestDS2GivesAHotKeyNoMoreThanTheLoadNeeds(t *testing.T) {
	m := one(200, simulator.Stage{Service: simulator.Constant(14 * milli), Most: 99, Lanes: 1}) // 71/s are possible
	m.Length, m.Warmup, m.Policy = 10*time.Minute, time.Minute, policy.DS2{}
	r := run(t, m)
	workers, _ := last(m, r.Journal)
	require.LessOrEqual(t, workers[0], 5, steps(r.Journal)) // 200 · 14 ms · 1.1 / 0.7
	require.InEpsilon(t, 71, r.Throughput, 0.02)
}

// With too few workers for all, no stage holds up the others.
func TestDS2SharesABudgetSoThatTheWholeIsFastest(t *testing.T) {
	m := network(300,
		simulator.Stage{Name: "a", Service: simulator.Constant(10 * milli), Most: 99, Forward: []simulator.Edge{{To: "b", Share: 1}}},
		simulator.Stage{Name: "b", Service: simulator.Constant(20 * milli), Most: 99, Forward: []simulator.Edge{{To: "c", Share: 1}}},
		simulator.Stage{Name: "c", Service: simulator.Constant(30 * milli), Most: 99})
	for i := range m.Stages {
		m.Stages[i].Capacity = 64
	}
	m.Length, m.Warmup, m.Policy = 10*time.Minute, 5*time.Minute, policy.DS2{Workers: 12}
	r := run(t, m)
	workers, _ := last(m, r.Journal)
	require.Equal(t, []int{2, 4, 6}, workers, steps(r.Journal))
	require.InEpsilon(t, 200, r.Throughput, 0.02)
}
