package simulator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// together is policies with ticks of the same length and knobs of their own, as a pipeline may have them.
type together []controller.Policy

func (p together) Name() string { return "together" }
func (p together) Check() error { return nil }
func (p together) New() controller.Controller {
	var all controllers
	for _, law := range p {
		all = append(all, law.New())
	}
	return all
}

type controllers []controller.Controller

func (c controllers) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	for _, one := range c {
		one.Control(ev, s, d)
	}
}

// At twice and ten times the capacity the pipeline does what it can, and answers 99 of 100 in time, under laws that learn at their ticks,
// too: the commands in flight are bounded between two ticks. Two seconds after the burst all is as before.
func TestInFlightBoundsABurstBetweenTwoTicks(t *testing.T) {
	const within = 500 * milli
	bound := policy.InFlight{Within: 300 * milli, Interval: 25 * milli}
	laws := map[string]controller.Policy{
		"alone": bound,
		"rt90":  together{policy.RT90{Target: 350 * milli, Interval: 25 * milli}, bound},
		"shed":  together{policy.Shed{Target: 100 * milli, Interval: 25 * milli, After: 25 * milli}, bound},
	}
	for name, law := range laws {
		for _, times := range []float64{2, 10} {
			t.Run(fmt.Sprintf("%s, %v times", name, times), func(t *testing.T) {
				m := four(8, surge(400, times, 10*second), simulator.Constant(20*milli))
				m.Length, m.Warmup, m.Every, m.Policy = 30*second, 5*second, second, law
				r := run(t, m)
				require.Less(t, r.Latency.Quantile(0.99), within)
				require.Zero(t, r.Shed, "none is dropped that was admitted")
				for _, p := range r.Series {
					switch {
					case p.At > 10*second && p.At <= 20*second:
						require.GreaterOrEqual(t, p.Done, uint64(380), p.At)
					case p.At > 22*second:
						require.Less(t, p.P99, 150*milli, p.At)
					}
				}
			})
		}
	}
}

// A load below the capacity is not refused.
func TestInFlightRefusesNothingBelowTheCapacity(t *testing.T) {
	m := four(8, simulator.Steady(0.9*400), simulator.Exponential(20*milli))
	m.Policy = policy.InFlight{Within: 500 * milli}
	r := run(t, m)
	require.Less(t, float64(r.Refused), 0.001*float64(r.Arrived))
}

// Callers that wait at the entry are not simulated, and the error says so.
func TestALimitOfTheEntryIsNotSimulatedWhereCallersWait(t *testing.T) {
	m := four(8, simulator.Steady(400), simulator.Constant(20*milli))
	m.Stages[0].Reject = false
	m.Policy = policy.InFlight{}
	_, err := simulator.Run(t.Context(), m)
	require.ErrorContains(t, err, `policy "inflight" changes limit, which is not simulated: of `)
}
