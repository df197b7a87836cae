package simulator_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/stage/queue"
)

const (
	second = time.Second
	many   = 4096 // workers: as many as there are commands
)

// run runs a model and checks the law.
func run(t *testing.T, m simulator.Model) *simulator.Result {
	t.Helper()
	r, err := simulator.Run(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, r.Arrived, r.Done+r.Shed+r.Failed+r.Refused+r.InFlight, "the law")
	return r
}

// one is a model with one stage, whose commands take a second on average, with long queues if the stage does not say otherwise.
func one(rate float64, st simulator.Stage) simulator.Model {
	st.Name = "a"
	if st.Service == nil {
		st.Service = simulator.Exponential(second)
	}
	return network(rate, st)
}

// network is a model whose commands come to the first stage.
func network(rate float64, stages ...simulator.Stage) simulator.Model {
	for i := range stages {
		if stages[i].Capacity == 0 {
			stages[i].Capacity = 1 << 20
		}
	}
	return simulator.Model{
		Length: time.Duration(60_000/max(rate, 1)) * second, Warmup: 1000 * second, Stages: stages,
		Sources: sourceOf(rate, stages),
	}
}

func sourceOf(rate float64, stages []simulator.Stage) []simulator.Source {
	if len(stages) == 0 {
		return nil
	}
	return []simulator.Source{{To: stages[0].Name, Load: simulator.Steady(rate)}}
}

func behind(m simulator.Model, f simulator.Fleet) simulator.Model {
	m.Fleet = &f
	return m
}

func computing(m simulator.Model, cpus int) simulator.Model {
	m.CPUs = cpus
	return m
}

func latency(r *simulator.Result) float64 { return r.Latency.Mean().Seconds() }
func wait(r *simulator.Result) float64    { return r.Stages[0].Wait.Mean().Seconds() }
func lost(r *simulator.Result) float64    { return float64(r.Refused) / float64(r.Arrived) }

func quantile(q float64) func(*simulator.Result) float64 {
	return func(r *simulator.Result) float64 { return r.Latency.Quantile(q).Seconds() }
}

// erlangC is the mean wait of M/M/c, with a service time of one.
func erlangC(c int, rate float64) float64 {
	b := 1.0 // Erlang's B, by its recursion
	for n := 1; n <= c; n++ {
		b = rate * b / (float64(n) + rate*b)
	}
	rho := rate / float64(c)
	return b / (1 - rho*(1-b)) / (float64(c) - rate)
}

// loss is the share of commands that M/M/c/K loses.
func loss(c, k int, rate float64) float64 {
	p, sum := 1.0, 1.0
	for n := 1; n <= k; n++ {
		p *= rate / float64(min(n, c))
		sum += p
	}
	return p / sum
}

// pk is the mean latency of M/G/1, with a service time of one: the formula of Pollaczek and Khinchine.
func pk(rho, scv float64) float64 { return 1 + rho*(1+scv)/2/(1-rho) }

// The simulator agrees with what queueing theory knows exactly: the known value is in the interval of 99.9 % confidence of
// ten independent runs (Student's t, 9 degrees of freedom), and the interval is narrow, so that a wrong simulator would
// fail.
func TestT22_ItAgreesWithClosedForms(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("it takes some seconds for runs that are long enough")
	}
	const runs, quantileOfT = 10, 4.781
	pareto := simulator.Pareto{Least: 100 * time.Millisecond, Most: 20 * second, Alpha: 1.5}
	m1, m2 := paretoMoment(pareto, 1), paretoMoment(pareto, 2)
	for name, c := range map[string]struct {
		model   simulator.Model
		measure func(*simulator.Result) float64
		want    float64
		within  float64 // share of what is wanted that half the interval is at most
	}{
		"M/M/1 at a half of its capacity": {one(0.5, simulator.Stage{}), latency, 2, 0.03},
		"M/M/1 at four fifths":            {one(0.8, simulator.Stage{}), latency, 5, 0.08},
		"M/M/1 at nine tenths":            {one(0.9, simulator.Stage{}), latency, 10, 0.16},
		"M/M/1, the median":               {one(0.8, simulator.Stage{}), quantile(0.5), 5 * math.Ln2, 0.07},
		"M/M/1, 90 of 100":                {one(0.8, simulator.Stage{}), quantile(0.9), 5 * math.Log(10), 0.09},
		"M/M/1, 99 of 100":                {one(0.8, simulator.Stage{}), quantile(0.99), 5 * math.Log(100), 0.16},
		"M/M/2":                           {one(1.6, simulator.Stage{Workers: 2}), wait, erlangC(2, 1.6), 0.12},
		"M/M/4":                           {one(3.2, simulator.Stage{Workers: 4}), wait, erlangC(4, 3.2), 0.13},
		"M/M/16":                          {one(14.4, simulator.Stage{Workers: 16}), wait, erlangC(16, 14.4), 0.2},
		"M/D/1":                           {one(0.8, simulator.Stage{Service: simulator.Constant(second)}), latency, pk(0.8, 0), 0.05},
		"M/G/1, log-normal":               {one(0.8, simulator.Stage{Service: simulator.LogNormal{Mean: second, CV: 2}}), latency, pk(0.8, 4), 0.2},
		"M/G/1, bounded Pareto":           {one(0.8/m1, simulator.Stage{Service: pareto}), latency, m1 * pk(0.8, m2/m1/m1-1), 0.2},
		"M/G/1, a sample": {
			one(0.8, simulator.Stage{Service: simulator.Sample{second / 2, second / 2, 2 * second}}), latency, pk(0.8, 0.5), 0.06,
		},
		"M/M/1/10, overloaded": {one(2, simulator.Stage{Capacity: 9, Reject: true}), lost, loss(1, 10, 2), 0.03},
		"M/M/1/10":             {one(0.8, simulator.Stage{Capacity: 9, Reject: true}), lost, loss(1, 10, 0.8), 0.14},
		"M/M/10/11":            {one(8, simulator.Stage{Workers: 10, Capacity: 1, Reject: true}), lost, loss(10, 11, 8), 0.06},
		"M/M/1/10 behind a stage without a queue": { // whose output is a Poisson process, too
			network(2, simulator.Stage{Name: "a", Service: simulator.Exponential(second), Workers: many, Forward: []simulator.Edge{{"b", 1}}},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second), Capacity: 9, Reject: true}),
			func(r *simulator.Result) float64 { return float64(r.Shed) / float64(r.Arrived) }, loss(1, 10, 2), 0.03,
		},
		"M/M/1 with processor sharing": {
			computing(one(0.8, simulator.Stage{Workers: many, Computes: true}), 1), latency, 5, 0.08,
		},
		"M/G/1 with processor sharing": {
			computing(one(0.8, simulator.Stage{Workers: many, Computes: true, Service: simulator.LogNormal{Mean: second, CV: 2}}), 1), latency, 5, 0.08,
		},
		"M/M/4 with processor sharing": {
			computing(one(3.2, simulator.Stage{Workers: many, Computes: true}), 4), latency, 1 + erlangC(4, 3.2), 0.06,
		},
		"M/M/1 with feedback": {
			one(0.6, simulator.Stage{Forward: []simulator.Edge{{To: "a", Share: 0.25}}}), latency, 4 / 0.6, 0.09,
		},
		"a Jackson network": { // arrivals of 0.8, 0.8, 0.6 with the loop: a sum of M/M/1
			network(0.6, simulator.Stage{Name: "a", Service: simulator.Exponential(second), Forward: []simulator.Edge{{"b", 0.75}, {"c", 0.25}}},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second)},
				simulator.Stage{Name: "c", Service: simulator.Exponential(2 * second), Forward: []simulator.Edge{{"a", 1}}}),
			latency, (0.8/0.2 + 0.6/0.4 + 0.4/0.6) / 0.6, 0.06,
		},
		"the longest of three": { // a message ends with the last of its commands
			network(1, simulator.Stage{Name: "a", Service: simulator.Constant(0), Emit: []simulator.Edge{{"b", 3}}},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second), Workers: many}),
			latency, 1 + 1.0/2 + 1.0/3, 0.01,
		},
		"emitted on average": {
			network(1, simulator.Stage{Name: "a", Service: simulator.Constant(0), Emit: []simulator.Edge{{"b", 2.5}}},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second), Workers: many}),
			func(r *simulator.Result) float64 { return r.Stages[1].Busy }, 2.5, 0.02,
		},
		"keys": {one(4, simulator.Stage{Workers: many, Lanes: 8}), latency, 2, 0.02},
		"a stage that blocks the one before it": { // two stages with a place between them, the first always busy
			network(2, simulator.Stage{Name: "a", Service: simulator.Exponential(second), Forward: []simulator.Edge{{"b", 1}}, Capacity: 1, Reject: true},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second), Capacity: 1}),
			blockedTandem, 1, 0.02,
		},
		"processes with one place each are M/M/4": {
			behind(one(3.2, simulator.Stage{Capacity: 1}), simulator.Fleet{Processes: 4, InFlight: 1}), latency, 1 + erlangC(4, 3.2), 0.06,
		},
		"a server is M/D/1": {
			behind(one(0.8, simulator.Stage{Service: simulator.Constant(0), Workers: many}), simulator.Fleet{Hop: second, Delay: 2 * second}),
			latency, pk(0.8, 0) + 2, 0.03,
		},
		"M/M/1 at 95 of 100":           {one(0.95, simulator.Stage{}), latency, 20, 0.4},
		"M/H2/1, a squared CV of four": {one(0.8, simulator.Stage{Service: simulator.HyperExponential{Mean: second, CV: 2}}), latency, 11, 0.2},
		"M/H2/1, a squared CV of ten":  {one(0.8, simulator.Stage{Service: simulator.HyperExponential{Mean: second, CV: math.Sqrt(10)}}), latency, 23, 0.3},
		"Erlang's B": { // a limit of as many commands as there are workers leaves no place to wait
			one(8, simulator.Stage{Workers: 10, Reject: true, Admission: controller.Admission{Limit: 10}}), lost, 0.121661, 0.04,
		},
		"Cobham, the first of two classes":  {classes(), of(0), 1 + 1.3333, 0.05},
		"Cobham, the second of two classes": {classes(), of(1), 1 + 6.6667, 0.15},
		"a Jackson tandem": {
			network(0.8, simulator.Stage{Name: "a", Service: simulator.Exponential(second), Forward: []simulator.Edge{{"b", 1}}},
				simulator.Stage{Name: "b", Service: simulator.Exponential(second * 4 / 5), Forward: []simulator.Edge{{"c", 1}}},
				simulator.Stage{Name: "c", Service: simulator.Exponential(second / 2)}),
			latency, 8.0556, 0.06,
		},
		"the newest first is M/M/1, too": {one(0.8, simulator.Stage{Discipline: queue.LIFO{}}), latency, 5, 0.08},
		"bounded Pareto with processor sharing": {
			computing(one(0.8/m1, simulator.Stage{Workers: many, Computes: true, Service: pareto}), 1), latency, m1 * 5, 0.1,
		},
		"a handler that waits when it has computed": {
			computing(one(0.8, simulator.Stage{Workers: many, Computes: true, Waits: simulator.Exponential(2 * second)}), 1), latency, 5 + 2, 0.06,
		},
		"a rate is M/D/1": {
			one(0.8, simulator.Stage{Workers: many, Service: simulator.Constant(0), Rate: controller.Rate{PerSecond: 1, Burst: 1}}), latency, pk(0.8, 0) - 1, 0.08,
		},
		"retries are feedback": {
			one(0.6, simulator.Stage{Fails: 0.25, Retry: simulator.Retry{Attempts: 100}}), latency, 4 / 0.6, 0.09,
		},
		"exhaustive visits of one worker are M/M/1": {polled(controller.VisitPlan{}), latency, 5, 0.09},
		"gated visits of one worker are M/M/1":      {polled(controller.VisitPlan{Gating: controller.Gated}), latency, 5, 0.09},
		"one queue of three stages is M/M/1":        {pooled(simulator.Pool{Dispatch: controller.SharedFIFO}), latency, 5, 0.09},
		"partitions": {
			behind(one(4, simulator.Stage{Workers: many}), simulator.Fleet{Processes: 3, Partitions: 8}), latency, 2, 0.02,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sum, squares float64
			for seed := range runs {
				m := c.model
				m.Seed = uint64(seed)
				x := c.measure(run(t, m))
				sum, squares = sum+x, squares+x*x
			}
			mean := sum / runs
			half := quantileOfT * math.Sqrt((squares/runs-mean*mean)/(runs-1))
			t.Logf("%.4f ± %.4f, exactly %.4f", mean, half, c.want)
			require.InDelta(t, c.want, mean, max(half, 0.004*c.want), "histograms have steps of 1 %")
			require.LessOrEqual(t, half, c.within*c.want, "the interval is too wide to find a fault")
		})
	}
}

// classes is M/M/1 with two classes of as many commands each, of which the first one goes first.
func classes() simulator.Model {
	m := one(0.4, simulator.Stage{Discipline: queue.Priority{}})
	m.Length = 75_000 * second
	m.Sources = append(m.Sources, m.Sources[0])
	m.Sources[0].Priority = 1
	return m
}

func of(source int) func(*simulator.Result) float64 {
	return func(r *simulator.Result) float64 { return r.Sources[source].Latency.Mean().Seconds() }
}

// polled is one worker that visits three stages.
func polled(visit controller.VisitPlan) simulator.Model {
	return pooled(simulator.Pool{Dispatch: controller.Polled, Visit: visit})
}

// pooled is three stages with one worker and a load each.
func pooled(x simulator.Pool) simulator.Model {
	m := network(0.8 / 3)
	m.Length = 75_000 * second
	x.Name = "shared"
	m.Pools = []simulator.Pool{x}
	for _, name := range []string{"a", "b", "c"} {
		m.Stages = append(m.Stages, simulator.Stage{Name: name, Service: simulator.Exponential(second), Capacity: 1 << 20, Pool: "shared"})
		m.Sources = append(m.Sources, simulator.Source{To: name, Load: simulator.Steady(0.8 / 3)})
	}
	return m
}

// paretoMoment is a moment of a bounded Pareto distribution, in seconds.
func paretoMoment(p simulator.Pareto, n float64) float64 {
	l, h, a := p.Least.Seconds(), p.Most.Seconds(), p.Alpha
	return a * math.Pow(l, a) / (1 - math.Pow(l/h, a)) * (math.Pow(h, n-a) - math.Pow(l, n-a)) / (n - a)
}

// blockedTandem relates the throughput to that of the Markov chain of the two stages: the state is how many commands are
// in the first one, and in or before the second one.
var blockedTandem = func() func(*simulator.Result) float64 {
	exactly := tandem()
	return func(r *simulator.Result) float64 { return r.Throughput / exactly }
}()

// tandem solves the chain: a in stage a (of 2: one waits, one is in hand), b at stage b (of 2), with blocked set if a's
// worker holds a done command.
func tandem() float64 {
	type state struct {
		a, b    int
		blocked bool
	}
	p := map[state]float64{{0, 0, false}: 1}
	const step = 0.05
	var done float64
	for range 2_000 {
		next := map[state]float64{}
		done = 0
		for s, q := range p {
			stay := q
			to := func(rate float64, n state) {
				next[n] += q * rate * step
				stay -= q * rate * step
			}
			if s.a < 2 {
				to(2, state{s.a + 1, s.b, s.blocked})
			}
			if s.a > 0 && !s.blocked {
				if s.b < 2 {
					to(1, state{s.a - 1, s.b + 1, false})
				} else {
					to(1, state{s.a, s.b, true})
				}
			}
			if s.b > 0 {
				done += q
				if s.blocked {
					to(1, state{s.a - 1, s.b, false})
				} else {
					to(1, state{s.a, s.b - 1, false})
				}
			}
			next[s] += stay
		}
		p = next
	}
	return done
}

// Little's law holds exactly when all that arrived has been done.
func TestLittlesLawHoldsExactly(t *testing.T) {
	m := network(0, simulator.Stage{Name: "a", Service: simulator.Exponential(second), Workers: 3, Forward: []simulator.Edge{{"b", 0.9}}},
		simulator.Stage{Name: "b", Service: simulator.LogNormal{Mean: second, CV: 3}, Workers: 2, Capacity: 2})
	m.Length, m.Warmup = 4000*second, 0
	m.Sources[0].Load = simulator.Step(2, 0, 3000*second)
	for _, f := range []*simulator.Fleet{nil, {Processes: 2, Hop: second / 10, Delay: second / 100}} {
		m.Fleet = f
		r := run(t, m)
		require.Zero(t, r.InFlight)
		require.InEpsilon(t, latency(r)*float64(r.Done), r.InSystem*m.Length.Seconds(), 1e-9)
		a, b := &r.Stages[0], &r.Stages[1]
		require.NotZero(t, a.Blocked)
		for st, waiting := range map[*simulator.StageResult]float64{a: a.Queue, b: b.Queue + a.Blocked} {
			require.Equal(t, st.Accepted, st.Handled)
			require.InEpsilon(t, st.Wait.Mean().Seconds()*float64(st.Handled), waiting*m.Length.Seconds(), 1e-6)
			require.InEpsilon(t, st.Latency.Mean().Seconds()*float64(st.Handled), (waiting+st.Busy)*m.Length.Seconds(), 1e-6)
		}
	}
}
