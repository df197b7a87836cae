package simulator_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A worker of a stage that leads to a quick stage and to a slow one goes on when the slow one is full, as in a pipeline: the quick one has what it
// gets, and does not wait for the slow one.
func TestAFullStageDoesNotHoldUpTheOneBesideIt(t *testing.T) {
	if raced {
		t.Skip("the pipeline would see that it uses much CPU time in little virtual time")
	}
	m := network(1, simulator.Stage{Name: "first", Service: simulator.Constant(milli), Capacity: 400, Forward: []simulator.Edge{{"quick", 0.5}, {"slow", 0.5}}},
		simulator.Stage{Name: "quick", Service: simulator.Constant(milli), Capacity: 4},
		simulator.Stage{Name: "slow", Service: simulator.Constant(100 * milli), Capacity: 4})
	m.Length, m.Warmup, m.Sources[0].Load = second, 0, simulator.Step(3000, 0, 100*milli)
	r := run(t, m)
	synctest.Test(t, func(t *testing.T) {
		sleep := func(d time.Duration) func(context.Context, int) error {
			return func(context.Context, int) error { time.Sleep(d); return nil }
		}
		one := []stage.Option{stage.Workers(1, 1), stage.Capacity(4)}
		quick, slow := stage.Sink("quick", sleep(milli), one...), stage.Sink("slow", sleep(100*milli), one...)
		evens, odds := behaviour.NewPort[int]("evens"), behaviour.NewPort[int]("odds")
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(milli)
			if n%2 == 0 {
				return behaviour.Forward(evens, n)
			}
			return behaviour.Forward(odds, n)
		}, stage.Workers(1, 1), stage.Capacity(400), stage.Out(evens, odds))
		p, err := pipeline.New("real", first, quick, slow, pipeline.Wire(evens, quick), pipeline.Wire(odds, slow), pipeline.Control(policy.Fixed{}), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for n := range int(r.Arrived) {
			require.NoError(t, first.Submit(t.Context(), n))
		}
		time.Sleep(second)
		s := p.Snapshot()
		done := map[string]uint64{}
		for i := range s.Stages {
			done[s.Stages[i].Name] = s.Stages[i].Counts.OK
		}
		t.Logf("the pipeline %v, the model %d and %d, of %d", done, r.Stages[1].Handled, r.Stages[2].Handled, r.Arrived)
		require.InEpsilon(t, done["quick"], r.Stages[1].Handled, 0.15)
		require.InDelta(t, done["slow"], r.Stages[2].Handled, 2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Stop(ctx) // with commands in flight, which become dead letters
	})
	require.InDelta(t, float64(r.Arrived)/2, float64(r.Stages[1].Handled), 30)
	require.Less(t, r.Stages[2].Handled, uint64(12))
}

// A command that is kept for a full stage keeps its slot: the stage takes no more than its capacity.
func TestCommandsThatWaitForAFullStageKeepTheirSlots(t *testing.T) {
	m := network(1, simulator.Stage{Name: "first", Service: simulator.Constant(milli), Capacity: 10, Reject: true, Forward: []simulator.Edge{{"slow", 1}}, Emit: []simulator.Edge{{"quick", 0}}},
		simulator.Stage{Name: "quick", Service: simulator.Constant(milli)},
		simulator.Stage{Name: "slow", Service: simulator.Constant(time.Hour), Capacity: 4})
	m.Length, m.Warmup, m.Sources[0].Load = second, 0, simulator.Steady(1000)
	r := run(t, m)
	require.EqualValues(t, 10+1+4+1, r.InFlight, "ten are kept, one waits with the worker, four are queued, and one is in hand")
}

// What a source submits waits behind workers that wait, though there is a free slot: all get slots when half of the queue is free.
func TestASourceWaitsBehindWorkersThatWait(t *testing.T) {
	m := network(1, simulator.Stage{Name: "a", Service: simulator.Constant(0), Forward: []simulator.Edge{{"b", 1}}},
		simulator.Stage{Name: "b", Service: simulator.Constant(10 * milli), Capacity: 100})
	m.Length, m.Warmup = 450*milli, 0 // until then 45 or so were handled: half of the queue is not free
	m.Sources = []simulator.Source{
		{To: "a", Load: simulator.Step(4000, 0, 100*milli)}, // 400 or so, of which many wait in front of b
		{To: "b", Load: simulator.Step(0, 100, 200*milli)},
	}
	r := run(t, m)
	require.Greater(t, r.Stages[1].Handled, uint64(30))
	require.InDelta(t, 102, r.Stages[1].Accepted, 2, "its queue was filled once")
	m.Length = 700 * milli
	require.Greater(t, run(t, m).Stages[1].Accepted, uint64(140))
}

// counter counts the events that a queue is full.
type counter struct {
	policy.Fixed

	full *int
}

func (c counter) New() controller.Controller { return c }
func (c counter) Control(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
	if ev.Kind == controller.EventQueueFull {
		*c.full++
	}
}

func TestAQueueIsFullOnceUntilHalfOfItIsFree(t *testing.T) {
	full := 0
	m := one(1, simulator.Stage{Service: simulator.Constant(10 * milli), Capacity: 10})
	m.Length, m.Warmup, m.Policy = 10*second, 0, counter{full: &full}
	m.Sources[0].Load = simulator.Step(500, 0, second)
	run(t, m)
	require.Equal(t, 1, full)
	m.Sources[0].Load = func(at time.Duration) float64 {
		if at < second || at >= 6*second && at < 7*second {
			return 500
		}
		return 0
	}
	full = 0
	run(t, m)
	require.Equal(t, 2, full)
}

// A key's next command waits until what came of the one before has been handed over.
func TestAKeyIsTakenUntilItsCommandWasHandedOver(t *testing.T) {
	m := network(1, simulator.Stage{Name: "keyed", Service: simulator.Constant(milli), Workers: 8, Lanes: 1, Forward: []simulator.Edge{{"slow", 1}}},
		simulator.Stage{Name: "slow", Service: simulator.Constant(time.Hour), Capacity: 1})
	m.Length, m.Warmup, m.Sources[0].Load = second, 0, simulator.Steady(100)
	r := run(t, m)
	require.EqualValues(t, 3, r.Stages[0].Handled, "one is in hand, one is queued, and one worker waits")
	m.Stages[0].Forward = []simulator.Edge{{"slow", 0.999999}, {"other", 1e-6}}
	m.Stages = append(m.Stages, simulator.Stage{Name: "other", Service: simulator.Constant(0)})
	r = run(t, m)
	require.EqualValues(t, 3, r.Stages[0].Handled, "and one command is kept")
}

func TestTheServerIsBusyForNoMoreThanAllOfItsTime(t *testing.T) {
	for rate, want := range map[float64]float64{0: 0, 0.25: 0.5, 10: 1} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			m := behind(one(rate, simulator.Stage{Workers: many}), simulator.Fleet{Hop: 2 * second})
			m.Length, m.Warmup = 10_000*second, 1000*second
			require.InDelta(t, want, run(t, m).Server, 0.03)
		})
	}
}

// The server gives out the next message of a partition when it has heard of the end of the one before.
func TestAnAcknowledgementTakesItsWayToTheServer(t *testing.T) {
	m := behind(one(1000, simulator.Stage{Service: simulator.Constant(milli), Workers: 16}), simulator.Fleet{Partitions: 1, Delay: 2 * milli})
	m.Length, m.Warmup = 10*second, second
	require.InEpsilon(t, 1000.0/(1+2*2), run(t, m).Throughput, 0.01)
}

func TestProcessesAreRemovedAfterFewerWereEnoughForAsLongAsDown(t *testing.T) {
	m := slow(simulator.Steady(1), 20)
	m.Length, m.Every = 6*time.Minute, second
	for _, p := range run(t, m).Series {
		switch {
		case p.At < 5*time.Minute:
			require.Equal(t, 20, p.Processes, p.At)
		case p.At > 5*time.Minute+30*second:
			require.Less(t, p.Processes, 4, p.At)
		}
	}
}

func TestANumberOfProcessesThatIsWrongByATenthStays(t *testing.T) {
	m := slow(simulator.Steady(100), 10) // 100 of a second, on 16 workers that are busy for 70 %: 8.9
	m.Length, m.Every = 20*time.Minute, 10*second
	for _, p := range run(t, m).Series {
		require.Equal(t, 10, p.Processes, p.At)
	}
}

// A process that has as many messages as it may gets no more than its share, though it asks for each place that comes free: the others have
// places, too. Otherwise it would have as many for ever.
func TestProcessesThatHaveMuchToDoGetNoMoreThanTheOthers(t *testing.T) {
	m := behind(one(1, simulator.Stage{Service: simulator.Exponential(50 * milli), Workers: 2}), simulator.Fleet{
		Processes: 8, InFlight: 64, Delay: milli / 2, AckWait: second, Startup: second, Losses: []simulator.Loss{{At: 20 * second, Share: 0.9}},
	})
	m.Length, m.Warmup, m.Every = 3*time.Minute, 2*time.Minute, second
	m.Sources[0].Load = simulator.Steady(200) // 62 % of what they can do
	r := run(t, m)
	require.NotZero(t, r.Redelivered)
	require.Less(t, r.Latency.Quantile(0.99), 500*milli)
}

func TestManyArrivalsInANanosecondAreNotMore(t *testing.T) {
	for _, rate := range []float64{1e7, 1e8, 1e9} {
		m := one(1, simulator.Stage{Service: simulator.Constant(0)})
		m.Length, m.Warmup, m.Sources[0].Load = time.Duration(1e15/rate), 0, simulator.Steady(rate)
		require.InDelta(t, 1e6, float64(run(t, m).Arrived), 4000)
	}
}
