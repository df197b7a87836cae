package simulator_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/stage/queue"
)

// everything is a model with all that has chance in it: gates, retries with jitter, clients that give up, and a shared pool
// under a policy.
func everything() simulator.Model {
	return simulator.Model{
		Seed: 7, Length: 60 * second, CPUs: 2, Policy: policy.LRB{Workers: 3},
		Sources: []simulator.Source{
			{To: "a", Load: simulator.Bursts(50, 400, 10*second, 2*second), Priority: 1, Timeout: second, Retries: 2, Pause: 100 * milli, Expires: true},
			{To: "a", Load: simulator.Steady(30), Weight: 3, Timeout: 2 * second},
		},
		Stages: []simulator.Stage{
			{
				Name: "a", Service: simulator.HyperExponential{Mean: 5 * milli, CV: 2}, Computes: true, Fair: &simulator.Fair{AtOnce: 2},
				Admission: controller.Admission{Shed: controller.Shed{Probability: 0.1}, Rate: controller.Rate{PerSecond: 200, Burst: 20}},
				Emit:      []simulator.Edge{{"c", 0.5}}, Forward: []simulator.Edge{{"b", 0.9}},
			},
			{
				Name: "b", Service: simulator.Exponential(5 * milli), Computes: true, Waits: simulator.Exponential(milli), Discipline: queue.Priority{},
				Fails: 0.2, Retry: simulator.Retry{Attempts: 3, Pause: 20 * milli, Longest: second, Jitter: 0.5, Budget: 0.3},
				Forward: []simulator.Edge{{"a", 0.1}},
			},
			{Name: "c", Service: simulator.Exponential(10 * milli), Capacity: 16, Reject: true, TTL: 500 * milli, Discipline: queue.Deadline{}},
		},
	}
}

// A run gives the same result byte for byte, and another seed gives another one.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	bytes := func(m simulator.Model) string { return fmt.Sprintf("%+v", *run(t, m)) }
	for name, p := range map[string]controller.Policy{
		"none": nil, "lrb": policy.LRB{Workers: 3}, "shed": policy.Shed{}, "codel": policy.CoDel{}, "rate": policy.Limit{}, "backlog": policy.Backlog{},
	} {
		t.Run(name, func(t *testing.T) {
			m := everything()
			m.Policy = p
			first := bytes(m)
			require.Equal(t, first, bytes(m))
			m.Seed++
			require.NotEqual(t, first, bytes(m))
		})
	}
	r := run(t, everything())
	require.NotZero(t, r.Shed)
	require.NotZero(t, r.Failed)
	require.NotZero(t, r.Refused)
	require.NotZero(t, r.Sources[0].TimedOut)
	require.NotZero(t, r.Stages[1].Retries)
}

// Two sources that each send twice what a stage can do share it by their weights, and a third one that sends less than its
// share gets all that it asks for, without a wait.
func TestSourcesShareAFairStageByTheirWeights(t *testing.T) {
	m := one(0, simulator.Stage{Service: simulator.Constant(10 * milli), Capacity: 100, Fair: &simulator.Fair{}})
	m.Length, m.Warmup = 100*second, 10*second
	for _, s := range []simulator.Source{{Load: simulator.Steady(200), Weight: 3}, {Load: simulator.Steady(200)}, {Load: simulator.Steady(10)}} {
		s.To = "a"
		m.Sources = append(m.Sources, s)
	}
	m.Sources = m.Sources[1:]
	m.Stages[0].Reject = true
	r := run(t, m)
	require.InEpsilon(t, 67.5, float64(r.Sources[0].Done)/100, 0.02)
	require.InEpsilon(t, 22.5, float64(r.Sources[1].Done)/100, 0.02)
	require.Zero(t, r.Sources[2].Refused)
	require.Less(t, r.Sources[2].Latency.Quantile(0.99), 300*milli, "a turn of the others is 40 ms")
	m.Stages[0].Fair = nil
	r = run(t, m)
	require.Greater(t, r.Sources[2].Refused, r.Sources[2].Arrived/2, "without shares it suffers with the others")
}

// Clients that try again keep a server busy with requests for whose answers none of them waits, for ever after a short overload: a
// metastable failure. Requests that expire with their clients' patience end it.
func TestRetriesOfClientsMayKeepAnOverloadGoing(t *testing.T) {
	m := one(80, simulator.Stage{Service: simulator.Exponential(10 * milli)})
	m.Length, m.Warmup = 200*second, 0
	m.Sources[0].Load = func(at time.Duration) float64 {
		if at > 20*second && at < 30*second {
			return 200
		}
		return 80
	}
	m.Sources[0].Timeout, m.Sources[0].Retries = second, 2
	inTime := func() float64 { s := run(t, m).Sources[0]; return float64(s.InTime) / float64(s.Arrived) }
	require.Less(t, inTime(), 0.2)
	m.Sources[0].Expires = true
	require.Greater(t, inTime(), 0.6)
	m.Sources[0].Expires, m.Sources[0].Retries = false, 0
	require.Greater(t, inTime(), 0.6)
}

// In whatever order workers visit the stages, they do the same work.
func TestAllVisitsDoTheSameWork(t *testing.T) {
	var busy []float64
	for _, visit := range []simulator.Pool{
		{Dispatch: controller.SharedFIFO},
		{Dispatch: controller.SharedPriority},
		{Dispatch: controller.Polled},
		{Dispatch: controller.Polled, Order: []string{"c", "b", "a"}, Visit: controller.VisitPlan{Restart: true}},
		{Dispatch: controller.Polled, Order: []string{"a", "b", "c", "b"}, Visit: controller.VisitPlan{Gating: controller.Bounded, Bound: 3}},
		{Dispatch: controller.Polled, Visit: controller.VisitPlan{Gating: controller.TimeBounded, Quantum: 10 * second}},
	} {
		m := pooled(visit)
		m.Length, m.Warmup, m.Pools[0].Workers = 20_000*second, 0, 2
		m.Stages[0].Forward, m.Stages[1].Forward = []simulator.Edge{{"b", 1}}, []simulator.Edge{{"c", 0.5}}
		for i := range m.Sources {
			m.Sources[i].Load = simulator.Step(0.3, 0, 19_000*second)
		}
		r := run(t, m)
		require.Zero(t, r.InFlight)
		require.InEpsilon(t, latency(r)*float64(r.Done), r.InSystem*m.Length.Seconds(), 1e-9, "Little's law")
		sum := 0.0
		for _, st := range r.Stages {
			sum += math.Round(st.Busy * m.Length.Seconds() * 1e6)
		}
		busy = append(busy, sum)
	}
	for _, b := range busy {
		require.InDelta(t, busy[0], b, 10, "microseconds")
	}
}

// A trace of arrivals and a trace of services are used in their order.
func TestATraceIsReplayed(t *testing.T) {
	m := one(0, simulator.Stage{Service: simulator.Trace{second, 3 * second, milli}})
	m.Sources[0] = simulator.Source{To: "a", Arrivals: []time.Duration{second, second, 7 * second}}
	m.Length, m.Warmup, m.Every = 10*second, 0, milli
	r := run(t, m)
	require.EqualValues(t, 3, r.Done)
	require.Equal(t, 4*second, r.Latency.Longest())
	require.Equal(t, 7*second+milli, ended(r))
}

// A source that breaks sends nothing any more, also when its messages have ended.
func TestASourceThatBreaksEnds(t *testing.T) {
	m := one(10, simulator.Stage{})
	m.Sources[0].Breaks = 50
	r := run(t, m)
	require.Less(t, r.Arrived, uint64(70))
	require.Equal(t, r.Arrived, r.Done)
}

// A policy of shared workers does in a model what its documentation says of a pipeline: under overload SRPT has few commands in
// the middle, and a single queue has many.
func TestPoliciesOfVisitsAreSimulated(t *testing.T) {
	peak := func(p controller.Policy) int {
		m := network(150, simulator.Stage{Name: "a", Service: simulator.Constant(5 * milli), Computes: true, Workers: 2, Forward: []simulator.Edge{{"b", 1}}},
			simulator.Stage{Name: "b", Service: simulator.Constant(5 * milli), Computes: true, Workers: 2, Forward: []simulator.Edge{{"c", 1}}},
			simulator.Stage{Name: "c", Service: simulator.Constant(5 * milli), Computes: true, Workers: 2})
		m.Length, m.Warmup, m.CPUs, m.Policy = 60*second, 10*second, 2, p
		r := run(t, m)
		return int(r.Stages[1].Queue + r.Stages[2].Queue)
	}
	require.LessOrEqual(t, peak(policy.SRPT{Workers: 2}), 2)
	require.Greater(t, peak(policy.Cohort{Workers: 2, Gating: policy.Exhaustive}), 100)
}
