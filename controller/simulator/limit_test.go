package simulator_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// dependency is a stage that calls a server with a number of CPUs, of which each call needs one for 10 ms. It gets
// a multiple of the calls that it can bear.
func dependency(cpus int, load float64, law controller.Policy) simulator.Model {
	m := one(1, simulator.Stage{
		Service: simulator.Exponential(10 * milli), Computes: true, Blocking: true, Workers: 200, Capacity: 1024, Reject: true,
	})
	m.Seed, m.CPUs, m.Policy = 1, cpus, law
	m.Length, m.Warmup = 4*time.Minute, time.Minute
	m.Sources[0].Load = simulator.Steady(load * capacityOf(cpus))
	return m
}

func capacityOf(cpus int) float64 { return 100 * float64(cpus) }

// gradient2 is the limiter of Netflix as it is: 20 at the start, and no check against drift.
type gradient2 struct{}

func (gradient2) Name() string               { return "gradient2" }
func (gradient2) Check() error               { return nil }
func (gradient2) Claims() []controller.Knob  { return []controller.Knob{controller.KnobLimit} }
func (gradient2) New() controller.Controller { return &netflix{limit: 20} }

type netflix struct {
	limit, long float64
	n           int
}

func (c *netflix) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(second)
	d.WatchTimes(true)
	st := &s.Stages[0]
	if short := (st.Wait.Mean + st.Work.Mean).Seconds(); short > 0 {
		weight := 2.0 / 601
		if c.n++; c.n <= 10 {
			weight = 1 / float64(c.n)
		}
		c.long += (short - c.long) * weight
		if c.long/short > 2 {
			c.long *= 0.95
		}
		if float64(st.QueueLen+st.InHand) >= c.limit/2 {
			gradient := min(max(1.5*c.long/short, 0.5), 1)
			c.limit = min(max(0.8*c.limit+0.2*(gradient*c.limit+4), 20), 200)
		}
	}
	controller.KnobLimit.Set(d, 0, int(c.limit), "the gradient")
}

// limitsOf returns the lowest and the highest limit among the last changes, beyond the first minute.
func limitsOf(r *simulator.Result) (least, most int) {
	least = math.MaxInt
	for _, c := range r.Journal {
		if c.What == controller.KnobLimit && c.At > time.Minute {
			least, most = min(least, c.After.(int)), max(most, c.After.(int))
		}
	}
	return least, most
}

func TestASlowDependencyIsLimitedAndKeepsItsThroughput(t *testing.T) {
	for _, cpus := range []int{1, 2, 10} {
		for _, load := range []float64{2, 10} {
			t.Run(fmt.Sprintf("%d CPUs at %v times their capacity", cpus, load), func(t *testing.T) {
				none := run(t, dependency(cpus, load, policy.Fixed{}))
				r := run(t, dependency(cpus, load, policy.Limit{}))
				least, most := limitsOf(r)
				t.Logf("limits from %d to %d\n%s%s", least, most, r, none)
				require.Greater(t, r.Throughput, 0.9*capacityOf(cpus))
				require.LessOrEqual(t, most, 3*cpus+10)
				require.Less(t, r.Latency.Mean(), none.Latency.Mean()/5, "nothing waits behind 1,024 others")
			})
		}
	}
}

// A load below the capacity is not refused, once the limit has grown to it.
func TestALimitLetsALoadInThatADependencyCanBear(t *testing.T) {
	for _, cpus := range []int{4, 40} {
		r := run(t, dependency(cpus, 0.8, policy.Limit{}))
		require.Less(t, float64(r.Refused), 0.03*float64(r.Arrived), cpus)
		require.Less(t, r.Latency.Mean(), 20*milli, cpus)
	}
}

// Gradient2 takes for usual what an overload makes of the response time, and its limit rises to the maximum. The correlations see
// that more commands in flight take longer, and no more are done.
func TestALimitDoesNotDriftUpwardsInAnHour(t *testing.T) {
	hour := func(law controller.Policy) *simulator.Result {
		m := dependency(2, 2, law)
		m.Length, m.Warmup = time.Hour, 50*time.Minute
		return run(t, m)
	}
	drifted := hour(gradient2{})
	require.Equal(t, 200, drifted.Journal[len(drifted.Journal)-1].After)
	require.Greater(t, drifted.Latency.Mean(), 900*milli)
	r := hour(policy.Limit{})
	least, most := limitsOf(r)
	require.GreaterOrEqual(t, least, 1)
	require.LessOrEqual(t, most, 16)
	require.Greater(t, r.Throughput, 0.93*capacityOf(2))
	require.Less(t, r.Latency.Mean(), 60*milli)
}

// The time of a call becomes three times as long within ten minutes, for reasons of its own: the limit must not fall so far that
// calls are refused which the dependency bears.
func TestALimitFollowsADependencyThatSlowlyBecomesSlower(t *testing.T) {
	m := one(1, simulator.Stage{Service: &ageing{}, Workers: 200, Capacity: 1024, Reject: true})
	m.Seed, m.Policy, m.Length, m.Warmup = 1, policy.Limit{}, 20*time.Minute, time.Minute
	m.Sources[0].Load = simulator.Steady(1500)
	r := run(t, m)
	require.Less(t, float64(r.Refused), 0.02*float64(r.Arrived))
}

// ageing is a service time that becomes three times as long over 900,000 commands.
type ageing struct{ n float64 }

func (a *ageing) Check() error { return nil }

func (a *ageing) Draw(r *rand.Rand) time.Duration {
	a.n++
	return time.Duration(r.ExpFloat64() * (1 + 2*min(a.n/900_000, 1)) * float64(10*milli))
}
