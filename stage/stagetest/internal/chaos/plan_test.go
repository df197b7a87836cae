package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest/internal/chaos"
)

// line is a plan of three stages, each with one worker.
func line(change func(p *chaos.Plan)) chaos.Plan {
	one := chaos.Node{Workers: chaos.Span{Fewest: 1, Most: 1}}
	first, second := one, one
	first.Next, second.Next = []int{1}, []int{2}
	p := chaos.Plan{
		Seed: 1, Policy: "fixed", Commands: 100, Submitters: 1,
		Graph: chaos.Graph{Nodes: []chaos.Node{first, second, one}, Entries: []int{0}, Hops: 3},
	}
	change(&p)
	return p
}

// visits has all handlers visit a monitor.
func visits(p *chaos.Plan) {
	p.Submitters = 4
	for i := range p.Graph.Nodes {
		n := &p.Graph.Nodes[i]
		n.Suspends, n.Visits, n.Workers = true, true, chaos.Span{Fewest: 4, Most: 4}
	}
}

// tickets has the commands that one makes meet again, while another one is on its way elsewhere.
func tickets(p *chaos.Plan) {
	p.Graph.Nodes = []chaos.Node{
		{Flow: "map", Next: []int{1, 2}},
		{Next: []int{3}},
		{Next: []int{4}, Work: 5 * time.Millisecond},
		{Window: chaos.Window{Kind: "ticket", Time: time.Minute}},
		{},
	}
	p.Graph.Entries, p.Graph.Hops, p.Fans, p.Commands = []int{0}, 4, true, 50
}

// spoiled has a feed break a promise.
func spoiled(how string) func(*chaos.Plan) {
	return func(p *chaos.Plan) {
		f := chaos.Feed{Commands: 10, Checkpoint: true}
		f.Spoil(how)
		p.Feeds, p.Graph.Nodes[0].Work = []chaos.Feed{f}, 5*time.Millisecond
		p.Commands, p.End = 0, chaos.Exhausted
	}
}

// The oracle must report broken promises.
func TestAPlanReportsTheBrokenPromise(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(p *chaos.Plan)
		says  string
	}{
		"nothing broken": {func(*chaos.Plan) {}, ""},
		"out of order": {func(p *chaos.Plan) {
			p.Ordered = true
			p.Graph.Nodes[1].Discipline, p.Graph.Nodes[1].Batch = "lifo", 1
			p.Graph.Nodes[1].Work = time.Millisecond
		}, "order"},
		"a keyed stage in a line": {func(p *chaos.Plan) {
			p.Ordered = true
			p.Graph.Nodes[1].Keyed, p.Graph.Nodes[1].Workers = true, chaos.Span{Fewest: 4, Most: 4}
		}, ""},
		"a key that two have": {func(p *chaos.Plan) {
			p.Ordered = true
			n := &p.Graph.Nodes[1]
			n.Keyed, n.Workers, n.Work, n.Batch = true, chaos.Span{Fewest: 8, Most: 8}, 100*time.Microsecond, 1
			n.Stray()
		}, "order"},
		"nothing happens": {func(p *chaos.Plan) {
			p.Patience = 10 * time.Millisecond
			p.Graph.Nodes[2].Work = 300 * time.Millisecond
			p.Commands = 1
		}, "progress"},
		"no such policy": {func(p *chaos.Plan) { p.Policy = "luck" }, "checks"},
		"invalid faults": {func(p *chaos.Plan) {
			p.Graph.Nodes[0].Faults.Panic = 7
		}, "checks"},
		"a feed":                         {func(p *chaos.Plan) { p.Feeds, p.End = []chaos.Feed{{Commands: 100, Checkpoint: true}}, chaos.Exhausted }, ""},
		"a fed command that comes twice": {spoiled("twice"), "one end"},
		"a feed that leaves one out":     {spoiled("gap"), "one end"},
		"a command that is lost":         {spoiled("lost"), "one end"},
		"a checkpoint that is ahead":     {spoiled("early"), "one end"},
		"a rate":                         {func(p *chaos.Plan) { p.Graph.Nodes[1].Rate, p.Graph.Nodes[1].Burst = 20, 2 }, ""},
		"a rate that is not kept": {func(p *chaos.Plan) {
			p.Graph.Nodes[1].Rate, p.Graph.Nodes[1].Burst = 1, 1
			p.Graph.Nodes[1].Unrate()
		}, "one end"},
		"a guard": {func(p *chaos.Plan) {
			n := &p.Graph.Nodes[1]
			n.Guard, n.Workers, n.Discipline, n.Linger = 2, chaos.Span{Fewest: 8, Most: 8}, "", 0
		}, ""},
		"a guard that is not kept": {func(p *chaos.Plan) {
			n := &p.Graph.Nodes[1]
			n.Guard, n.Workers, n.Work, n.Batch = 1, chaos.Span{Fewest: 8, Most: 8}, 100*time.Microsecond, 1
			n.Unguard()
		}, "one end"},
		"a fair stage": {func(p *chaos.Plan) {
			n := &p.Graph.Nodes[1]
			n.Fair, n.AtOnce, n.Workers, n.Discipline = true, 1, chaos.Span{Fewest: 8, Most: 8}, ""
		}, ""},
		"a fair stage with too many handlers of one key": {func(p *chaos.Plan) {
			n := &p.Graph.Nodes[1]
			n.Fair, n.AtOnce, n.Workers, n.Work, n.Batch = true, 1, chaos.Span{Fewest: 8, Most: 8}, 100*time.Microsecond, 1
			n.Unbound()
		}, "one end"},
		"visits of a monitor": {func(p *chaos.Plan) {
			visits(p)
			for at := range 20 {
				p.Disturbances = append(p.Disturbances, chaos.Disturbance{At: 5 * at, Action: chaos.KillProcess})
			}
		}, ""},
		"visits of a monitor without its lock": {func(p *chaos.Plan) {
			visits(p)
			p.Graph.Nodes[1].Spoil("unlocked")
		}, "one end"},
		"visits of a monitor without the synchronizer of its visitors": {func(p *chaos.Plan) {
			visits(p)
			p.Graph.Nodes[1].Spoil("unruled")
		}, "one end"},
		"an ordered stage in a line": {func(p *chaos.Plan) {
			p.Ordered = true
			n := &p.Graph.Nodes[1]
			n.Ordered, n.Workers, n.Faults.Panic = true, chaos.Span{Fewest: 4, Most: 4}, .1
			n.Retry = stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, Jitter: 1}
		}, ""},
		"results out of order": {func(p *chaos.Plan) {
			p.Ordered = true
			n := &p.Graph.Nodes[1]
			n.Ordered, n.Workers, n.Work, n.Batch = true, chaos.Span{Fewest: 8, Most: 8}, 100*time.Microsecond, 1
			n.Disorder()
		}, "order"},
		"middleware": {func(p *chaos.Plan) {
			p.Middleware = chaos.Middleware{Panic: .1, Answer: .1, Again: .1, Derive: .1, Pass: .6}
			p.Graph.Nodes[1].Middleware = p.Middleware
		}, ""},
		"middleware that panics after a batch, and then answers": {func(p *chaos.Plan) {
			p.Graph.Nodes[0].Batcher, p.Graph.Nodes[0].Batch = true, 8
			p.Graph.Nodes[0].Middleware = chaos.Middleware{Panic: .5, Answer: .5}
			p.Graph.Nodes[0].Retry = stage.RetryPolicy{Attempts: 4}
		}, ""},
		"a call in a context that middleware ends": {func(p *chaos.Plan) {
			first, last := &p.Graph.Nodes[0], &p.Graph.Nodes[2]
			first.Suspends, first.Calls, first.Middleware.Derive = true, true, 1
			last.Capacity, last.Batch, last.Work = 1, 1, time.Millisecond
		}, ""},
		"a source that crashes, with positions of its own": {func(p *chaos.Plan) {
			p.Feeds, p.End = []chaos.Feed{{Commands: 50, Crashes: 1, Unsaved: 1, Checkpoint: true, From: 10, Offsets: true}}, chaos.Exhausted
		}, ""},
		"a slow source that never ends": {func(p *chaos.Plan) { p.Feeds = []chaos.Feed{{Pause: time.Millisecond}} }, ""},
		"flows": {func(p *chaos.Plan) {
			p.Graph.Nodes = append(p.Graph.Nodes, chaos.Node{}, chaos.Node{Flow: "sink"})
			for i, flow := range []string{"map", "filter", "flatmap"} {
				p.Graph.Nodes[i].Flow, p.Graph.Nodes[i].Next = flow, []int{3, 4}
			}
			p.Graph.Entries, p.Graph.Nodes[1].Route, p.Fans = []int{0, 1, 2}, "robin", true
		}, ""},
		"each kind of window": {func(p *chaos.Plan) {
			p.Commands, p.Graph.Hops = 600, 4
			for i, w := range []chaos.Window{
				{Kind: "by", Count: 4, Time: time.Millisecond},
				{Kind: "all", Bytes: 9, Idle: time.Millisecond},
				{Kind: "aggregate", Every: time.Millisecond, Held: 2},
				{Kind: "join", Count: 2, Time: time.Millisecond, Fail: true},
				{Kind: "ticket", Time: time.Millisecond},
				{Kind: "debounce", Idle: 100 * time.Microsecond},
				{Kind: "throttle", Time: 100 * time.Microsecond},
			} {
				p.Graph.Nodes = append(p.Graph.Nodes, chaos.Node{Window: w, Next: []int{0}})
				p.Graph.Entries = append(p.Graph.Entries, 3+i)
			}
		}, ""},
		"a group of a ticket": {tickets, ""},
		"a group of a ticket that is not whole": {func(p *chaos.Plan) {
			tickets(p)
			p.Graph.Nodes[3].Window.Time = time.Millisecond
			p.Graph.Nodes[3].Spoil("whole")
		}, "one end"},
		"windows in a line": {func(p *chaos.Plan) {
			p.Ordered = true
			p.Graph.Nodes[1].Window = chaos.Window{Kind: "by", Count: 3, Time: time.Millisecond}
			p.Graph.Nodes[1].Workers = chaos.Span{}
		}, ""},
		"a command that a window loses": {func(p *chaos.Plan) {
			p.Graph.Nodes[1].Window = chaos.Window{Kind: "by", Count: 3, Time: time.Millisecond}
			p.Graph.Nodes[1].Workers = chaos.Span{}
			p.Graph.Nodes[1].Spoil("lost")
		}, "one end"},
		"a command of which another one has changed a part": {func(p *chaos.Plan) { p.Graph.Nodes[0].Spoil("torn") }, "one end"},
		"states of workers and keys that crash": {func(p *chaos.Plan) {
			for i, n := range []chaos.Node{{Each: true, Workers: chaos.Span{Fewest: 3, Most: 3}}, {Keyed: true}, {Keyed: true, SnapshotEvery: 3, Suspends: true}} {
				n.Next, n.States, n.Faults.Panic, n.Retry.Attempts = p.Graph.Nodes[i].Next, true, .2, 5
				p.Graph.Nodes[i] = n
			}
		}, ""},
		"a state without a command that has ended": {func(p *chaos.Plan) {
			n := &p.Graph.Nodes[1]
			n.Keyed, n.States, n.Faults.Panic = true, true, .3
			n.Spoil("stale")
		}, "states"},
		"a pipeline that is made again after a hard stop": {func(p *chaos.Plan) {
			p.Feeds, p.Resumes, p.End = []chaos.Feed{{Commands: 300, Checkpoint: true}}, true, chaos.Hard
			p.Graph.Nodes[1].Work = 100 * time.Microsecond
			p.Commands = 100
		}, ""},
		"a source that redelivers, in front of windows": {func(p *chaos.Plan) {
			p.Feeds, p.Resumes, p.End, p.Commands = []chaos.Feed{{Commands: 300, Redelivers: true}}, true, chaos.Hard, 0
			n := &p.Graph.Nodes[0]
			n.Window = chaos.Window{Kind: "by", Count: 8, Time: 5 * time.Millisecond}
			p.Graph.Nodes[1].Faults.Error, p.Graph.Nodes[1].Work = .2, 100*time.Microsecond
		}, ""},
		"a source that acknowledges what has failed": {func(p *chaos.Plan) {
			f := chaos.Feed{Commands: 100, Redelivers: true}
			f.Spoil("unheard")
			p.Feeds, p.End, p.Commands = []chaos.Feed{f}, chaos.Exhausted, 0
			p.Graph.Nodes[0].Faults.Panic = .3
		}, "one end"},
		"a checkpoint that is past what the stop has ended": {func(p *chaos.Plan) {
			f := chaos.Feed{Commands: 300, Checkpoint: true}
			f.Spoil("ahead")
			p.Feeds, p.End, p.Commands = []chaos.Feed{f}, chaos.Hard, 40
			for i := range p.Graph.Nodes {
				n := &p.Graph.Nodes[i]
				n.Capacity, n.Batch, n.Work = 2, 1, time.Millisecond
			}
		}, "one end"},
		"new versions of flows": {func(p *chaos.Plan) {
			for i, flow := range []string{"map", "flatmap", "sink"} {
				p.Graph.Nodes[i].Flow = flow
				p.Disturbances = append(p.Disturbances, chaos.Disturbance{At: 10 + 30*i, Action: chaos.Upgrade, Stage: i})
			}
		}, ""},
		"a stage that gives up": {func(p *chaos.Plan) {
			p.Graph.Nodes[0].Faults.Poison = 1
			p.Fragile = true
			p.Commands = 50
		}, ""}, // it may give up
	} {
		t.Run(name, func(t *testing.T) {
			report, err := line(row.spoil).Run()
			if row.says == "" {
				require.NoError(t, err)
				require.Equal(t, report.Accepted, report.Replied+report.Failed+report.Shed+report.DeadLettered)
				return
			}
			var v chaos.VerdictError
			require.ErrorAs(t, err, &v)
			require.Equal(t, row.says, v.Promises())
		})
	}
}

func TestAnInvalidPlanIsRefusedWithReasonsAndDoesNotRun(t *testing.T) {
	for want, spoil := range map[string]func(p *chaos.Plan){
		"unknown policy":                                         func(p *chaos.Plan) { p.Policy = "luck" },
		"Commands is negative: -1":                               func(p *chaos.Plan) { p.Commands = -1 },
		"0 submitters, for 100 commands":                         func(p *chaos.Plan) { p.Submitters = 0 },
		"no such ending: 77":                                     func(p *chaos.Plan) { p.End = 77 },
		"256 hops":                                               func(p *chaos.Plan) { p.Graph.Hops = 256 },
		"the graph has no entry":                                 func(p *chaos.Plan) { p.Graph.Entries = nil },
		"entry 9: there are 3 nodes":                             func(p *chaos.Plan) { p.Graph.Entries = []int{9} },
		"node s1: forwards to -1":                                func(p *chaos.Plan) { p.Graph.Nodes[1].Next = []int{-1} },
		"node s1: group 1: there are 0":                          func(p *chaos.Plan) { p.Graph.Nodes[1].Group = 1 },
		"node s1: it is ordered, and keyed":                      func(p *chaos.Plan) { p.Graph.Nodes[1].Keyed, p.Graph.Nodes[1].Ordered = true, true },
		"node s1: it is fair, and Keyed":                         func(p *chaos.Plan) { p.Graph.Nodes[1].Fair, p.Graph.Nodes[1].Ordered = true, true },
		"node s1: AtOnce is for a fair node":                     func(p *chaos.Plan) { p.Graph.Nodes[1].AtOnce = 1 },
		"node s1: it is keyed, and Each":                         func(p *chaos.Plan) { p.Graph.Nodes[1].Keyed, p.Graph.Nodes[1].Each = true, true },
		"node s1: it visits, and does not suspend":               func(p *chaos.Plan) { p.Graph.Nodes[1].Visits = true },
		"node s1: it passivates, and is not":                     func(p *chaos.Plan) { p.Graph.Nodes[1].Passivates = true },
		"node s1: queue":                                         func(p *chaos.Plan) { p.Graph.Nodes[1].Discipline = "odd" },
		"node s1: stagetest: Faults: panic: 2":                   func(p *chaos.Plan) { p.Graph.Nodes[1].Faults.Panic = 2 },
		"node s1: there is no flow":                              func(p *chaos.Plan) { p.Graph.Nodes[1].Flow = "stream" },
		"node s1: a map has a back edge":                         func(p *chaos.Plan) { p.Graph.Nodes[1].Flow, p.Graph.Nodes[1].Next = "map", []int{0} },
		"node s1: there is no window":                            func(p *chaos.Plan) { p.Graph.Nodes[1].Window.Kind = "sliding" },
		"node s1: it has windows, and is a flow":                 func(p *chaos.Plan) { n := &p.Graph.Nodes[1]; n.Window.Kind, n.Flow = "by", "map" },
		"node s1: it has states, and is neither":                 func(p *chaos.Plan) { p.Graph.Nodes[1].States = true },
		"node s1: SnapshotEvery and KeepStates":                  func(p *chaos.Plan) { p.Graph.Nodes[1].SnapshotEvery = 2 },
		"it resumes, and no feed has a Checkpoint or Redelivers": func(p *chaos.Plan) { p.Resumes, p.Feeds = true, []chaos.Feed{{}} },
		"node s1: a rate of 3 needs a burst":                     func(p *chaos.Plan) { p.Graph.Nodes[1].Rate = 3 },
		"node s1: middleware: panic: 2":                          func(p *chaos.Plan) { p.Graph.Nodes[1].Middleware.Panic = 2 },
		"feed f0: feeds 9: there are 3 nodes":                    func(p *chaos.Plan) { p.Feeds = []chaos.Feed{{To: 9}} },
		"feed f0: it never ends":                                 func(p *chaos.Plan) { p.Feeds, p.End = []chaos.Feed{{}}, chaos.Exhausted },
		"when the feeds are exhausted and has none":              func(p *chaos.Plan) { p.End = chaos.Exhausted },
		"disturbance 1: there is no action":                      func(p *chaos.Plan) { p.Disturbances = []chaos.Disturbance{{Action: 99}} },
		"disturbance 1: pause: stage 9":                          func(p *chaos.Plan) { p.Disturbances = []chaos.Disturbance{{Action: chaos.Pause, Stage: 9}} },
		"disturbance 1: policy: unknown p":                       func(p *chaos.Plan) { p.Disturbances = []chaos.Disturbance{{Action: chaos.Swap}} },
	} {
		t.Run(want, func(t *testing.T) {
			plan := line(spoil)
			require.ErrorContains(t, plan.Check(), want)
			report, err := plan.Run()
			var v chaos.VerdictError
			require.ErrorAs(t, err, &v)
			require.Equal(t, "checks", v.Promises())
			require.Zero(t, report.Accepted)
			_ = plan.String()
		})
	}
}

// custom is a custom policy, under a name of its own.
type custom struct{ controller.Policy }

func (custom) Name() string { return "custom" }

func TestAPlanRunsWithACustomPolicy(t *testing.T) {
	plan := line(func(p *chaos.Plan) {
		p.Control = custom{policy.SRPT{}}
		p.Disturbances = []chaos.Disturbance{{At: 20, Action: chaos.Swap, Policy: "cohort"}, {At: 50, Action: chaos.Swap, Policy: "custom"}}
	})
	require.Contains(t, plan.String(), "policy custom,")
	report, err := plan.Run()
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Actions["swap"])
}

func TestAPlanHasAText(t *testing.T) {
	p := line(func(p *chaos.Plan) {
		p.Disturbances = []chaos.Disturbance{{At: 10, Action: chaos.KillControlLoop}, {At: 20, Action: chaos.Swap, Policy: "srpt"}, {At: 30, Action: chaos.Pause, Stage: 2}}
		p.Hasty = true
	})
	require.Equal(t, `seed 1, policy fixed, rest_for_one, 100 commands by 1 submitters, hasty
entries [0], 3 hops
  s0: →[1] workers=1..1
  s1: →[2] workers=1..1
  s2: workers=1..1
disturbances: [10%: kill control loop] [20%: swap to srpt] [30%: pause s2] [end softly]`, p.String())
}

func TestTheSameSeedDrawsTheSamePlan(t *testing.T) {
	plans := chaos.Plans()
	first, again := plans.Example(7).String(), plans.Example(7).String()
	require.Equal(t, first, again)
	require.NotEqual(t, plans.Example(7).String(), plans.Example(8).String())
}

func TestReportsAddUp(t *testing.T) {
	var sum chaos.Report
	for range 3 {
		sum.Add(chaos.Report{Plans: 1, Stages: 2, Accepted: 10, Replied: 9, Failed: 1, Actions: map[string]uint64{"swap": 2}})
	}
	require.Equal(t, 3, sum.Plans)
	require.Equal(t, map[string]uint64{"swap": 6}, sum.Actions)
	require.Contains(t, sum.String(), "accepted and emitted 30 = replied 27 + failed 3 + shed 0 + dead-lettered 0")
	require.Contains(t, sum.String(), "actions: swap 6")
}

func TestGraphsAreWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := chaos.Graphs(5).Draw(t, "graph")
		if n := len(g.Nodes); n < 1 || n > 5 {
			t.Fatalf("%d stages", n)
		}
		for _, n := range g.Nodes {
			for _, to := range n.Next {
				if to < 0 || to >= len(g.Nodes) {
					t.Fatalf("a connection to %d of %d", to, len(g.Nodes))
				}
			}
			if err := n.Faults.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// narrow is a policy that admits a few commands at a time.
type narrow struct{ custom }

func (n narrow) New() controller.Controller { return n }

func (narrow) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	controller.KnobLimit.Set(d, controller.Entry, 4, "narrow")
}

// What a plan submits by AddStage must not wait for a stage that the same plan has paused.
func TestAnAddedStageDoesNotWaitForAStageThatThePlanPaused(t *testing.T) {
	plan := line(func(p *chaos.Plan) {
		p.Control, p.Commands = narrow{custom{policy.SRPT{}}}, 3000
		p.Disturbances = []chaos.Disturbance{{At: 10, Action: chaos.Pause}, {At: 100, Action: chaos.AddStage}}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := plan.Run()
		ended <- err
	}()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the plan waits for itself")
	}
}

// A stage that stays drained holds back for good what others have for it, and nothing is broken then but the plan.
func TestAReopenComesAfterAllEarlierDrains(t *testing.T) {
	whole, reopen := chaos.Disturbance{Action: chaos.Drain}, chaos.Disturbance{Action: chaos.Reopen}
	drain := func(i int) chaos.Disturbance { return chaos.Disturbance{Action: chaos.DrainStage, Stage: i} }
	for name, disturbances := range map[string][]chaos.Disturbance{
		"of one stage":                   {drain(1), reopen},
		"of two stages":                  {drain(0), drain(2), reopen},
		"of the same stage":              {drain(1), drain(1), reopen},
		"of all and then of one":         {whole, drain(0), reopen},
		"of one and then of all":         {drain(0), whole, reopen},
		"again, after it was reopened":   {drain(1), reopen, drain(1), reopen},
		"of all and, reopened, of one":   {whole, drain(0), reopen, drain(1), reopen},
		"with time for them in between":  {whole, {Action: chaos.Rescale}, drain(0), {Action: chaos.Rescale}, reopen},
		"of one, and a stage came later": {whole, drain(0), reopen, {Action: chaos.AddStage}},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := line(func(*chaos.Plan) {}).After(disturbances...)
			require.True(t, ok)
			for _, st := range s.Stages {
				require.False(t, st.Draining, st.Name)
			}
		})
	}
}

// So plans also stop pipelines that are drained.
func TestAPipelineThatWasDrainedAsAWholeStaysSo(t *testing.T) {
	s, ok := line(func(*chaos.Plan) {}).After(chaos.Disturbance{Action: chaos.Drain}, chaos.Disturbance{Action: chaos.Rescale}, chaos.Disturbance{Action: chaos.Reopen})
	require.True(t, ok)
	for _, st := range s.Stages {
		require.True(t, st.Draining, st.Name)
	}
}

// A worker that rests while it carries commands has the keys of what it carries. It gives them up when it hands these over.
func TestAKeyedStageInFrontOfFullStagesGoesOn(t *testing.T) {
	for seed := range uint64(5) {
		plan := chaos.Plan{
			Seed: seed, Policy: "fixed", Commands: 200, Submitters: 2, Hasty: true, Patience: 5 * time.Second, End: chaos.Hard,
			Graph: chaos.Graph{Entries: []int{2, 1}, Hops: 5, Nodes: []chaos.Node{
				{Ports: true, Batch: 1},
				{Ports: true, Next: []int{0, 2}, Keyed: true, Workers: chaos.Span{Fewest: 3, Most: 5}, Instances: 1, Capacity: 3, Batch: 2},
				{Ports: true, Suspends: true, Workers: chaos.Span{Fewest: 3, Most: 4}, Capacity: 1, Batch: 1},
			}},
		}
		_, err := plan.Run()
		require.NoError(t, err)
	}
}

// Each try of a command that MaxInFlight refuses what it emits is a call of the handler, and not another command.
func TestAFlowThatEmitsInVainIsCalledAgainForEachTry(t *testing.T) {
	again := stage.RetryPolicy{Attempts: 3, Backoff: time.Microsecond, Jitter: 1}
	for name, nodes := range map[string][]chaos.Node{
		"a flatmap":                 {{Flow: "flatmap", Next: []int{0}, Retry: again}},
		"a flatmap with a route":    {{Flow: "flatmap", Route: "robin", Next: []int{0, 1}, Retry: again}, {}},
		"a map with two targets":    {{Flow: "map", Next: []int{2, 1}, Retry: again}, {Flow: "flatmap", Next: []int{0}}, {}},
		"a filter with two targets": {{Flow: "filter", Next: []int{2, 1}, Retry: again}, {Flow: "flatmap", Next: []int{0}}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := chaos.Plan{
				Seed: 1, Policy: "fixed", Commands: 100, Submitters: 2, Fans: true, MaxInFlight: 20,
				Graph: chaos.Graph{Entries: []int{0}, Hops: 6, Nodes: nodes},
			}
			report, err := plan.Run()
			require.NoError(t, err)
			require.NotZero(t, report.Retries, "nothing was refused")
		})
	}
}

// Run may have returned before a plan learns that the pipeline was started.
func TestAPlanWhoseFeedsEndAtOnceIsOver(t *testing.T) {
	for seed := range uint64(100) {
		for crashes := range 2 {
			_, err := line(func(p *chaos.Plan) {
				p.Seed, p.Commands, p.End, p.Fragile = seed, 0, chaos.Exhausted, true
				p.Feeds = []chaos.Feed{{Commands: 3, Crashes: crashes, Fatal: crashes > 0}}
			}).Run()
			require.NoError(t, err)
		}
	}
}

// free gives nodes what rules can be over, with handlers that take a moment.
func free(p *chaos.Plan, nodes ...int) {
	for _, i := range nodes {
		n := &p.Graph.Nodes[i]
		n.Workers, n.Discipline, n.Linger, n.Batch = chaos.Span{Fewest: 4, Most: 4}, "", 0, 1
		n.Work, n.Timeout, n.Spread, n.TTL = 50*time.Microsecond, 0, false, 500*time.Millisecond
	}
}
