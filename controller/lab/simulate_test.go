package lab_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/simulator"
)

// modelled is an experiment with a model of an M/M/1 queue at a load of 0.5: its response time is exponential with a mean of 10 ms.
func modelled() lab.Experiment {
	e := brief()
	e.Workload = lab.Poisson(100)
	e.Length = 500 * time.Millisecond
	e.Model = &simulator.Model{Stages: []simulator.Stage{{Name: "work", Service: simulator.Exponential(5 * time.Millisecond)}}}
	return e
}

func TestAModelIsSimulatedUnderThePoliciesThatTheSimulatorKnows(t *testing.T) {
	e := modelled()
	e.Policies = []string{"fixed", "srpt", "backlog+batching"}
	r := compared(t, e)
	o := r.Outcomes[0]
	assert.Empty(t, o.NotSimulated)
	var names []string
	for _, f := range o.Simulated {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"throughput", "p50", "p99", "p99.9", "max", "worker-seconds"}, names)
	assert.InDelta(t, 0.45, o.Simulated[5].Median, 1e-9, "one worker for 450 ms")
	assert.Empty(t, r.Outcomes[1].NotSimulated)
	assert.Equal(t, "several policies together are not simulated", r.Outcomes[2].NotSimulated)

	table := r.String()
	assert.Regexp(t, `(?m)^p99 ms, simulated +[\d.]+ .* +[\d.]+ .* +–$`, table)
	assert.Contains(t, table, "\nbacklog+batching was not simulated: several policies together are not simulated.\n")
	var page strings.Builder
	require.NoError(t, r.WriteHTML(&page))
	assert.Contains(t, page.String(), "p99 ms, simulated")
	assert.Contains(t, page.String(), "backlog&#43;batching was not simulated: several policies together are not simulated.")
}

func TestASimulationIsTheSameEachTimeAndHasTheLoadOfTheWorkload(t *testing.T) {
	e := modelled()
	e.Policies, e.Runs = []string{"fixed"}, 1
	first, second := compared(t, e), compared(t, e)
	one, err := json.Marshal(first.Outcomes[0].Simulated)
	require.NoError(t, err)
	two, err := json.Marshal(second.Outcomes[0].Simulated)
	require.NoError(t, err)
	assert.JSONEq(t, string(one), string(two))

	e.Workload = lab.Burst(10, 2000, 200*time.Millisecond, 300*time.Millisecond) // 200 requests, each of which takes 5 ms
	o := compared(t, e).Outcomes[0]
	assert.Greater(t, o.Simulated[2].Median, 100.0, "p99, of requests that have waited since the burst")
}

func TestAWrongModelIsAnErrorAndATraceIsNotSimulated(t *testing.T) {
	e := modelled()
	e.Model = &simulator.Model{}
	_, err := lab.Compare(t.Context(), e)
	require.ErrorContains(t, err, "simulator: there are 0 stages and 0 sources")
	e = modelled()
	e.Workload = lab.Trace(10*time.Millisecond, 90*time.Millisecond)
	_, err = lab.Compare(t.Context(), e)
	require.EqualError(t, err, "lab: Model cannot be simulated under the Trace(2 requests): the simulator draws the times of requests from a rate")
}
