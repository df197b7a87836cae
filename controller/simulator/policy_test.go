package simulator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

const milli = time.Millisecond

// steps returns what the policy did with the workers, as "at:workers".
func steps(journal []controller.Change) string {
	var all []string
	for _, c := range journal {
		if c.What == controller.KnobWorkers && c.Before != c.After {
			all = append(all, fmt.Sprintf("%v:%v", c.At, c.After))
		}
	}
	return strings.Join(all, " ")
}

// The controllers are those of package policy, so the sequences are those of their documentation.
func TestAPolicyActsAsInAPipeline(t *testing.T) {
	slow := simulator.Constant(10 * time.Minute)
	for name, c := range map[string]struct {
		policy controller.Policy
		stage  simulator.Stage
		load   simulator.Load
		length time.Duration
		want   string
	}{
		"erlda adds a worker, and waits for its cooldown": {
			policy.ERLDA{Up: 50, Down: 5},
			simulator.Stage{Service: slow, Most: 4},
			simulator.Step(1000, 0, second), 8 * second,
			"1s:2 3s:3 5s:4",
		},
		"seda wants two samples above its threshold": {
			policy.SEDA{},
			simulator.Stage{Service: slow, Most: 4},
			simulator.Step(1000, 0, second), 8 * second,
			"2s:2 4s:3 6s:4",
		},
		"backlog doubles with a queue that is never empty": {
			policy.Backlog{},
			simulator.Stage{Service: simulator.Constant(10 * milli), Most: 32},
			simulator.Steady(100_000), second,
			"100ms:2 200ms:4 300ms:8 400ms:16 500ms:32",
		},
		"backlog keeps what a steady load needs": { // 400 a second of 10 ms are four workers, at 70 %
			policy.Backlog{}, simulator.Stage{Service: simulator.Constant(10 * milli), Workers: 6, Most: 32}, simulator.Steady(400), 5 * time.Minute, "",
		},
		"fixed does nothing": {
			policy.Fixed{}, simulator.Stage{Service: slow, Most: 4}, simulator.Steady(1000), 8 * second, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := one(1, c.stage)
			m.Length, m.Warmup, m.Policy, m.Sources[0].Load = c.length, 0, c.policy, c.load
			m.Stages[0].Capacity = 1024
			require.Equal(t, c.want, steps(run(t, m).Journal))
		})
	}
}

// Growth that does not pay is undone: two CPUs do not do more with more workers.
func TestBacklogFindsThatAStageComputes(t *testing.T) {
	m := one(1, simulator.Stage{Service: simulator.Constant(10 * milli), Most: 32, Computes: true, Capacity: 1024})
	m.Length, m.Warmup, m.Policy, m.CPUs = 9*second, second, policy.Backlog{}, 2
	m.Sources[0].Load = simulator.Steady(1000)
	r := run(t, m)
	require.InEpsilon(t, 200, r.Throughput, 0.01)
	last := r.Series[len(r.Series)-1]
	require.Equal(t, 2, last.Workers, steps(r.Journal))
	m.Stages[0].Computes = false
	r = run(t, m)
	require.InEpsilon(t, 1000, r.Throughput, 0.05)
	require.Greater(t, r.Series[len(r.Series)-1].Workers, 10)
}

// A pipeline in the virtual time of synctest and its model do the same: 1,000 commands or so arrive within a tenth of a second.
func TestAModelAgreesWithTheRealPipeline(t *testing.T) {
	if raced {
		t.Skip("the pipeline would see that it uses much CPU time in little virtual time")
	}
	for name, c := range map[string]struct {
		first, second time.Duration
		most          [2]int
		capacity      [2]int
		policy        controller.Policy
	}{
		"one stage scales":                  {10 * milli, 0, [2]int{32, 1}, [2]int{1024, 1024}, policy.Backlog{}},
		"the second one is the bottleneck":  {1 * milli, 10 * milli, [2]int{4, 4}, [2]int{1024, 1024}, policy.Fixed{}},
		"the second one blocks the first":   {1 * milli, 10 * milli, [2]int{4, 4}, [2]int{1024, 8}, policy.Fixed{}},
		"both scale":                        {10 * milli, 20 * milli, [2]int{8, 16}, [2]int{1024, 1024}, policy.Backlog{}},
		"seda scales the first only by one": {10 * milli, 0, [2]int{2, 1}, [2]int{1024, 1024}, policy.SEDA{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := network(1, simulator.Stage{Name: "first", Service: simulator.Constant(c.first), Most: c.most[0], Capacity: c.capacity[0], Forward: []simulator.Edge{{"second", 1}}},
				simulator.Stage{Name: "second", Service: simulator.Constant(c.second), Most: c.most[1], Capacity: c.capacity[1]})
			m.Length, m.Warmup, m.Every, m.Policy = 30*second, 0, milli, c.policy
			m.Sources[0].Load = simulator.Step(10_000, 0, 100*milli)
			r := run(t, m)
			require.Zero(t, r.InFlight)
			synctest.Test(t, func(t *testing.T) {
				took, journal := inPipeline(t, int(r.Arrived), c.first, c.second, c.most, c.capacity, c.policy)
				t.Logf("%v in the pipeline, %v in the model\n%s\n%s", took, ended(r), steps(journal), steps(r.Journal))
				// What happens at the same instant, as a tick and the end of a command, has no order in the pipeline.
				require.InEpsilon(t, took.Seconds(), ended(r).Seconds(), 0.1)
			})
		})
	}
}

// ended returns when the last message was done.
func ended(r *simulator.Result) (at time.Duration) {
	for _, p := range r.Series {
		if p.Done > 0 {
			at = p.At
		}
	}
	return at
}

// inPipeline runs the pipeline of a model with that many commands, and returns when the last one has ended.
func inPipeline(t *testing.T, n int, first, second time.Duration, most, capacity [2]int, law controller.Policy) (time.Duration, []controller.Change) {
	t.Helper()
	sleep := func(d time.Duration) func(context.Context, int) (int, error) {
		return func(_ context.Context, n int) (int, error) {
			time.Sleep(d)
			return n, nil
		}
	}
	a := stage.Map("first", sleep(first), stage.Workers(1, most[0]), stage.Capacity(capacity[0]))
	b := stage.Sink("second", func(ctx context.Context, n int) error {
		_, err := sleep(second)(ctx, n)
		return err
	}, stage.Workers(1, most[1]), stage.Capacity(capacity[1]))
	p, err := pipeline.New("real", a.To(b), pipeline.Control(law))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	began := time.Now()
	for range n {
		require.NoError(t, a.Submit(t.Context(), 1))
		time.Sleep(100 * milli / time.Duration(n))
	}
	for p.Snapshot().Replied < uint64(n) {
		time.Sleep(milli)
	}
	took := time.Since(began)
	require.NoError(t, p.Stop(t.Context()))
	return took, p.Journal()
}
