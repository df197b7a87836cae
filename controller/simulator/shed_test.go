package simulator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// overloaded is a stage of 100 commands a second, to which commands of two priorities come: a share of them is important.
func overloaded(rate, important float64, law policy.Shed) simulator.Model {
	m := one(1, simulator.Stage{Service: simulator.Exponential(100 * milli), Workers: 10, Capacity: 1024, Reject: true})
	m.Length, m.Warmup, m.Every, m.Policy = 2*time.Minute, time.Minute, second, law
	m.Sources = []simulator.Source{
		{To: "a", Priority: 1, Load: simulator.Steady(rate * (1 - important))},
		{To: "a", Priority: 2, Load: simulator.Steady(rate * important)},
	}
	return m
}

func TestShedLetsAllImportantCommandsPassUnderOverload(t *testing.T) {
	for name, row := range map[string]struct {
		rate, important float64
		refused         float64 // share of the unimportant commands
	}{
		"twice the capacity, a quarter is important":          {200, 0.25, 100.0 / 150},
		"twice the capacity, little is important":             {200, 0.01, 100.0 / 198},
		"ten times the capacity, a twentieth is important":    {1000, 0.05, 900.0 / 950},
		"a third more than the capacity":                      {133, 0.25, 33.0 / 100},
		"a hundred times the capacity, a thousandth of it is": {10_000, 0.001, 9900.0 / 9990},
	} {
		t.Run(name, func(t *testing.T) {
			m := overloaded(row.rate, row.important, policy.Shed{After: second})
			r := run(t, m)
			important := row.rate * row.important * m.Length.Seconds()
			require.Less(t, float64(r.Sources[1].Refused), 0.01*important+4*row.rate*row.important, "none but the first ones")
			require.InDelta(t, row.refused, float64(r.Sources[0].Refused)/(row.rate*(1-row.important)*m.Length.Seconds()), 0.05)
			require.GreaterOrEqual(t, r.Throughput, 95.0, "the capacity is used")
			require.Less(t, r.Latency.Quantile(0.99), 2*second, "and nothing waits for long")
		})
	}
}

// Without it the queue is full for as long as the overload lasts, and refuses regardless of priorities.
func TestWithoutShedImportantCommandsAreRefusedAndAllOthersWait(t *testing.T) {
	m := overloaded(200, 0.25, policy.Shed{})
	m.Policy = policy.Fixed{}
	r := run(t, m)
	require.InEpsilon(t, 0.5, float64(r.Sources[1].Refused)/(50*110), 0.1)
	require.Greater(t, r.Latency.Quantile(0.5), 9*second)
}

// The overload ends after a minute: two seconds later nothing is refused.
func TestShedEndsWithTheOverload(t *testing.T) {
	m := overloaded(1, 0, policy.Shed{After: second})
	m.Sources = m.Sources[:1]
	m.Sources[0].Load = simulator.Step(300, 70, time.Minute)
	m.Length = 62 * second
	m.Warmup = second
	before := refusedOf(run(t, m))[0]
	m.Length = 2 * time.Minute
	r := run(t, m)
	require.Equal(t, before, r.Sources[0].Refused)
	require.NotZero(t, before)
}

// A stage that is busy for 90 % of its time often has a queue, but is not overloaded.
func TestShedRefusesNothingBelowTheCapacity(t *testing.T) {
	for name, rate := range map[string]float64{"at 50 %": 50, "at 80 %": 80, "at 90 %": 90} {
		t.Run(name, func(t *testing.T) {
			m := overloaded(rate, 0.5, policy.Shed{})
			m.Length = 20 * time.Minute
			r := run(t, m)
			require.LessOrEqual(t, float64(r.Refused), 0.002*float64(r.Arrived), "%v", r.Journal)
		})
	}
}

// The bottleneck is the last of three stages: the commands are refused before the first one, and none that is admitted
// waits for long in between.
func TestShedRefusesAtTheEntryWhatALaterStageCannotHandle(t *testing.T) {
	m := overloaded(200, 0.25, policy.Shed{After: second})
	m.Stages = []simulator.Stage{
		{Name: "a", Service: simulator.Constant(milli), Workers: 4, Capacity: 256, Reject: true, Forward: []simulator.Edge{{To: "b", Share: 1}}},
		{Name: "b", Service: simulator.Constant(milli), Workers: 4, Capacity: 256, Forward: []simulator.Edge{{To: "c", Share: 1}}},
		{Name: "c", Service: simulator.Exponential(100 * milli), Workers: 10, Capacity: 256},
	}
	r := run(t, m)
	require.Less(t, r.Sources[1].Refused, uint64(100))
	require.GreaterOrEqual(t, r.Throughput, 95.0)
	require.Less(t, r.Latency.Quantile(0.99), 2*second)
}

// refusedOf returns how many messages of each source were refused.
func refusedOf(r *simulator.Result) (all []uint64) {
	for i := range r.Sources {
		all = append(all, r.Sources[i].Refused)
	}
	return all
}
