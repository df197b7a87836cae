package simulator_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// anyModel is a pipeline of some stages with edges from any to any, and a load that ends.
func anyModel(t *rapid.T) simulator.Model {
	names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "stages")]
	edges := func(what string, most float64) (edges []simulator.Edge) {
		for range rapid.IntRange(0, 2).Draw(t, what) {
			edges = append(edges, simulator.Edge{To: rapid.SampledFrom(names).Draw(t, "to"), Share: rapid.Float64Range(0, most).Draw(t, "share")})
		}
		return edges
	}
	m := simulator.Model{
		Seed: rapid.Uint64().Draw(t, "seed"), Length: 2000 * second, CPUs: rapid.IntRange(0, 2).Draw(t, "CPUs"),
		Policy:  rapid.SampledFrom([]controller.Policy{nil, policy.Backlog{}, policy.ERLDA{}, policy.SEDA{}, policy.Stealing{}}).Draw(t, "policy"),
		Sources: []simulator.Source{{To: "a", Load: simulator.Step(rapid.Float64Range(0, 50).Draw(t, "rate"), 0, 10*second)}},
	}
	for _, name := range names {
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		m.Stages = append(m.Stages, simulator.Stage{
			Name: name, Workers: workers, Most: workers + rapid.IntRange(0, 5).Draw(t, "more"), Capacity: rapid.IntRange(1, 9).Draw(t, "capacity"),
			Service: rapid.SampledFrom([]simulator.Distribution{
				simulator.Constant(0), simulator.Constant(10 * milli), simulator.Exponential(20 * milli), simulator.LogNormal{10 * milli, 3},
			}).Draw(t, "service"),
			Computes: rapid.Bool().Draw(t, "computes"), Reject: rapid.Bool().Draw(t, "reject"), Lanes: rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "lanes"),
			Forward: edges("forward", 0.4), Emit: edges("emit", 0.1),
		})
	}
	if rapid.Bool().Draw(t, "fleet") {
		m.Fleet = &simulator.Fleet{
			Processes: rapid.IntRange(1, 4).Draw(t, "processes"), Hop: time.Duration(rapid.IntRange(0, 20).Draw(t, "hop")) * milli,
			Delay: time.Duration(rapid.IntRange(0, 20).Draw(t, "delay")) * milli, InFlight: rapid.IntRange(1, 20).Draw(t, "in flight"),
			Partitions: rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "partitions"), Limit: rapid.SampledFrom([]int{0, 0, 9}).Draw(t, "limit"),
			Startup: second, AckWait: second,
		}
		for range rapid.IntRange(0, 2).Draw(t, "losses") {
			m.Fleet.Losses = append(m.Fleet.Losses, simulator.Loss{
				At: time.Duration(rapid.IntRange(0, 20).Draw(t, "at")) * second, Share: rapid.Float64Range(0, 1).Draw(t, "lost"),
			})
		}
		if rapid.Bool().Draw(t, "scale") {
			m.Fleet.Scale = &simulator.Autoscaler{Poll: 5 * second, Down: 20 * second, Most: 9}
		}
	}
	return m
}

// Whatever the model, each message ends, and a second run gives the same result.
func TestEachMessageEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyModel(t)
		r, err := simulator.Run(context.Background(), m)
		require.NoError(t, err)
		require.Equal(t, r.Arrived, r.Done+r.Shed+r.Refused)
		require.Zero(t, r.InFlight)
		require.Zero(t, r.Series[len(r.Series)-1].InFlight)
		require.Equal(t, r.Done, r.Latency.Count())
		if r.Redelivered == 0 {
			for _, st := range r.Stages {
				require.Equal(t, st.Accepted, st.Handled)
				require.Equal(t, st.Handled, st.Latency.Count())
			}
		}
		if r.Shed == 0 {
			require.InEpsilon(t, 1+r.Latency.Mean().Seconds()*float64(r.Done), 1+r.InSystem*m.Length.Seconds(), 1e-6, "Little's law")
		}
		again, err := simulator.Run(context.Background(), m)
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func TestAnotherSeedGivesAnotherRun(t *testing.T) {
	m := one(0.8, simulator.Stage{})
	a := run(t, m)
	m.Seed = 2
	require.NotEqual(t, a.Latency.Mean(), run(t, m).Latency.Mean())
}

// Commands of 100 ms, on processes of 16 workers: the autoscaler keeps them busy for 70 % of their time, and does not swing.
func TestTheAutoscalerGivesEachLoadTheProcessesThatItNeeds(t *testing.T) {
	for _, rate := range []float64{10, 100, 1000} {
		m := behind(one(rate, simulator.Stage{Service: simulator.Exponential(100 * milli), Workers: 16}), simulator.Fleet{Scale: &simulator.Autoscaler{}})
		m.Length, m.Warmup = 30*time.Minute, 15*time.Minute
		r := run(t, m)
		need := max(rate*0.1/16/0.7, 1)
		require.InDelta(t, need, r.Processes, 1+need/20)
		for _, p := range r.Series {
			if p.At > m.Warmup {
				require.InDelta(t, need, p.Processes, 1+need/20)
			}
		}
		require.Zero(t, r.Redelivered, "processes that leave end what they have")
		require.Less(t, r.Latency.Quantile(0.99), second)
	}
}

// Handlers that compute, in stages that may have more workers than their process has CPUs: the CPUs should be busy for 70 % of their time. The
// processes neither swing nor are too few after a calm, and when the load doubles or halves they follow.
func TestTheAutoscalerDoesNotSwingWhenHandlersCompute(t *testing.T) {
	const settled, changes, again, length = 15 * time.Minute, 30 * time.Minute, 45 * time.Minute, time.Hour
	compute := simulator.Stage{Name: "compute", Service: simulator.Exponential(50 * milli), Computes: true}
	call := simulator.Stage{Name: "call", Service: simulator.LogNormal{200 * milli, 1}, Workers: 8, Most: 64, Forward: []simulator.Edge{{"compute", 1}}}
	for name, c := range map[string]struct {
		before, after float64
		cpus, most    int
		first         []simulator.Stage
	}{
		"two CPUs and as many workers":     {100, 200, 2, 2, nil},
		"four workers for each CPU":        {100, 200, 2, 8, nil},
		"sixteen workers for each CPU":     {200, 100, 2, 32, nil},
		"one CPU":                          {20, 10, 1, 64, nil},
		"eight CPUs":                       {500, 1000, 8, 32, nil},
		"a stage before it waits":          {100, 200, 2, 32, []simulator.Stage{call}},
		"less than a process has to do":    {1, 2, 2, 32, nil},
		"the load does not change":         {200, 200, 2, 32, nil},
		"it becomes four times as large":   {50, 200, 2, 32, nil},
		"it becomes a fourth of what was":  {200, 50, 2, 32, nil},
		"more workers than are ever there": {100, 200, 2, 4096, nil},
	} {
		t.Run(name, func(t *testing.T) {
			compute.Most = c.most
			m := behind(network(c.before, append(c.first, compute)...), simulator.Fleet{
				Hop: hop, Delay: milli / 2, InFlight: 64, Scale: &simulator.Autoscaler{},
			})
			m.Length, m.Warmup, m.Every, m.CPUs, m.Policy = length, settled, 10*second, c.cpus, policy.Backlog{}
			m.Sources[0].Load = simulator.Step(c.before, c.after, changes)
			for _, p := range run(t, m).Series {
				rate := c.before
				switch {
				case p.At > again:
					rate = c.after
				case p.At <= settled || p.At > changes:
					continue
				}
				need := max(rate*0.05/float64(c.cpus)/0.7, 1)
				require.InDelta(t, need, p.Processes, 1.2+need/20, "at %v", p.At)
				require.Less(t, p.P99, 2*second, "at %v", p.At)
			}
		})
	}
}

func TestTheMessagesOfProcessesThatAreKilledAreDoneByOthers(t *testing.T) {
	m := behind(one(1, simulator.Stage{Service: simulator.Exponential(100 * milli), Workers: 16}),
		simulator.Fleet{Processes: 9, Losses: []simulator.Loss{{At: 60 * second, Share: 1.0 / 3}}})
	m.Length, m.Warmup, m.Every, m.Sources[0].Load = 180*second, 0, second, simulator.Step(800, 0, 120*second)
	r := run(t, m)
	require.Zero(t, r.InFlight)
	require.InDelta(t, 800*0.1/3, r.Redelivered, 15, "what three of nine had in hand")
	at := func(second int) int { return r.Series[second-1].Processes }
	require.Equal(t, []int{9, 6, 6, 9}, []int{at(59), at(61), at(79), at(81)}, "20 s until others have started")
	require.Greater(t, r.Latency.Longest(), 30*second, "the time to wait for an acknowledgement")
	require.Less(t, r.Latency.Quantile(0.99), second)
}

func TestFewestIsTheSmallestNumberThatIsGood(t *testing.T) {
	m := behind(one(100, simulator.Stage{Service: simulator.Exponential(100 * milli)}), simulator.Fleet{InFlight: 2})
	m.Length, m.Warmup = 100*second, 10*second
	good := func(r *simulator.Result) bool { return r.Latency.Quantile(0.99) < second }
	n, r, err := simulator.Fewest(t.Context(), m, 100, good)
	require.NoError(t, err)
	require.True(t, good(r))
	require.InDelta(t, n, r.Processes, 0)
	require.InDelta(t, 12, n, 2)
	m.Fleet.Processes = n - 1
	require.False(t, good(run(t, m)))
	n, r, err = simulator.Fewest(t.Context(), m, 5, good)
	require.NoError(t, err)
	require.Zero(t, n)
	require.InDelta(t, 5, r.Processes, 0)
	n, _, err = simulator.Fewest(t.Context(), m, 100, func(*simulator.Result) bool { return true })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, _, err = simulator.Fewest(t.Context(), simulator.Model{}, 100, good)
	require.Error(t, err)
}

func TestLoadsArriveAsOftenAsTheySay(t *testing.T) {
	for name, c := range map[string]struct {
		load simulator.Load
		want float64
	}{
		"steady":                {simulator.Steady(0.5), 0.5 * 86400},
		"a step":                {simulator.Step(1, 0.1, 6*time.Hour), 6*3600 + 0.1*18*3600},
		"bursts":                {simulator.Bursts(0.1, 2, time.Hour, time.Minute), 24 * (59*60*0.1 + 60*2)},
		"no period is no burst": {simulator.Bursts(0.1, 2, 0, time.Minute), 0.1 * 86400},
		"a day":                 {simulator.Day(0.2, 1), 0.6 * 86400},
		"nothing":               {simulator.Steady(-1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := one(1, simulator.Stage{Service: simulator.Constant(0)})
			m.Length, m.Sources[0].Load = 24*time.Hour, c.load
			require.InDelta(t, c.want, float64(run(t, m).Arrived), 4*math.Sqrt(c.want))
		})
	}
}

func TestDistributionsHaveTheMeanThatTheySay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		d    simulator.Distribution
		want time.Duration
	}{
		"constant":    {simulator.Constant(second), second},
		"exponential": {simulator.Exponential(second), second},
		"log-normal":  {simulator.LogNormal{second, 1.5}, second},
		"no variance": {simulator.LogNormal{second, 0}, second},
		"pareto":      {simulator.Pareto{second, 100 * second, 2}, 1_980_198_019 * time.Nanosecond},
		"sample":      {simulator.Sample{second, 3 * second}, 2 * second},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.d.Check())
			var sum time.Duration
			const n = 200_000
			for range n {
				sum += c.d.Draw(random)
			}
			require.InEpsilon(t, c.want.Seconds(), (sum / n).Seconds(), 0.02)
		})
	}
}

type greedy struct{ policy.Fixed }

func (greedy) New() controller.Controller { return greedy{} }
func (greedy) Claims() []controller.Knob  { return []controller.Knob{controller.KnobWorkers} }
func (greedy) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	controller.KnobQuality.Set(d, 0, 0.5, "why not")
}

type closing struct{ policy.Fixed }

func (closing) Claims() []controller.Knob { return []controller.Knob{controller.KnobEnabled} }

type broken struct{ policy.Fixed }

func (broken) New() controller.Controller { return broken{} }
func (broken) Control(controller.Event, *controller.Snapshot, *controller.Decisions) {
	panic("broken")
}

func TestFaultsOfAModelAreReportedAllAtOnce(t *testing.T) {
	ok := one(1, simulator.Stage{})
	require.NoError(t, ok.Check())
	with := func(change func(*simulator.Model)) simulator.Model {
		m := ok
		m.Stages, m.Sources = slices.Clone(ok.Stages), slices.Clone(ok.Sources)
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		model simulator.Model
		want  []string
	}{
		"an empty model": {simulator.Model{}, []string{"Length is 0s", "0 stages and 0 sources"}},
		"a stage": {with(func(m *simulator.Model) {
			m.Stages[0] = simulator.Stage{Workers: -1, Capacity: -1, Lanes: -1, Forward: []simulator.Edge{{"x", 2}}, Emit: []simulator.Edge{{"", math.NaN()}}}
		}), []string{
			`stage "": number 0 has no name`, "no Service", "Workers is -1", "Capacity is -1", "Lanes is -1", "it forwards 2", "leads to stage \"x\"", "Share NaN",
			"a source leads to stage \"a\", which is missing",
		}},
		"two of a name":               {with(func(m *simulator.Model) { m.Stages = append(m.Stages, m.Stages[0]) }), []string{"two of that name"}},
		"times":                       {with(func(m *simulator.Model) { m.Warmup, m.Every, m.CPUs = m.Length, 1, -1 }), []string{"Warmup is", "Every is", "CPUs is -1"}},
		"no point of the series":      {with(func(m *simulator.Model) { m.Every = m.Length + 1 }), []string{"Every is"}},
		"a loop that never ends":      {with(func(m *simulator.Model) { m.Stages[0].Forward = []simulator.Edge{{"a", 1}} }), []string{`of a message of stage "a"`}},
		"a loop that grows":           {with(func(m *simulator.Model) { m.Stages[0].Emit = []simulator.Edge{{"a", 1.01}} }), []string{`of a message of stage "a"`}},
		"a sample of a negative time": {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.Sample{1, -1} }), []string{`stage "a": simulator: the Sample has a negative time, -1ns`}},
		"too long":                    {with(func(m *simulator.Model) { m.Length = math.MaxInt64 }), []string{"Length is"}},
		"no load":                     {with(func(m *simulator.Model) { m.Sources[0].Load = nil }), []string{"needs a Load or Arrivals"}},
		"an exponential":              {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.Exponential(-1) }), []string{`stage "a": simulator: Exponential -1ns is negative`}},
		"a constant":                  {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.Constant(-1) }), []string{"Constant -1ns is negative"}},
		"a log-normal":                {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.LogNormal{1, math.NaN()} }), []string{"LogNormal"}},
		"a Pareto":                    {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.Pareto{} }), []string{"Pareto"}},
		"a sample":                    {with(func(m *simulator.Model) { m.Stages[0].Service = simulator.Sample{} }), []string{"the Sample is empty"}},
		"a policy":                    {with(func(m *simulator.Model) { m.Policy = policy.Backlog{Target: -1} }), []string{"Target -1ns is negative"}},
		"a policy that closes stages": {with(func(m *simulator.Model) { m.Policy = closing{} }), []string{
			`policy "fixed" changes enabled, which is not simulated`,
		}},
		"a fleet": {with(func(m *simulator.Model) {
			m.Sources = append(m.Sources, simulator.Source{To: "b", Load: simulator.Steady(1)})
			m.Fleet = &simulator.Fleet{
				Processes: -1, InFlight: -1, Partitions: -1, Hop: -1, Losses: []simulator.Loss{{-1, 2}},
				Scale: &simulator.Autoscaler{Poll: -1, Least: 5, Most: 4, Law: policy.Backlog{Utilization: 2}},
			}
		}), []string{"all sources lead to one stage", "Processes is -1", "InFlight is -1", "Partitions is -1", "Hop -1ns", "a Loss of 2 at -1ns", "Poll is", "Least is 5", "Utilization 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.model.Check()
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			_, run := simulator.Run(t.Context(), c.model)
			require.EqualError(t, run, err.Error())
		})
	}
}

func TestARunThatCannotGoOnReturnsAnError(t *testing.T) {
	m := one(1, simulator.Stage{})
	m.Policy = greedy{}
	_, err := simulator.Run(t.Context(), m)
	require.ErrorContains(t, err, "changes quality, which is not simulated")
	m.Policy = broken{}
	_, err = simulator.Run(t.Context(), m)
	require.ErrorAs(t, err, new(*controller.PanicError))
	m.Policy = nil
	m.Sources[0].Load = func(time.Duration) float64 { return math.NaN() }
	_, err = simulator.Run(t.Context(), m)
	require.ErrorContains(t, err, `the source of stage "a" has a rate of NaN at 0s`)
	ctx, cancel := context.WithCancelCause(t.Context())
	away := errors.New("no time")
	cancel(away)
	_, err = simulator.Run(ctx, one(1, simulator.Stage{}))
	require.ErrorIs(t, err, away)
	_, err = simulator.Run(nil, m) //nolint:staticcheck // a nil context
	require.Error(t, err)
}
