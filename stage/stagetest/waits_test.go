package stagetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func TestAWrappedBehaviourThatSuspendsIsDelayedWithoutItsWorker(t *testing.T) {
	for name, row := range map[string]struct {
		faults stagetest.Faults
		takes  time.Duration
	}{
		"delayed": {stagetest.Faults{Delay: 1, Longest: time.Second}, time.Second},
		"hanging": {stagetest.Faults{Hang: 1}, time.Minute},
		"neither": {stagetest.Faults{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Second) }) // protoactor's throttle of dead letters has to wake up and end
				in := stagetest.Inject(t, 1, row.faults)
				b := stagetest.Wrap[int](in, behaviour.Coroutine[int](func(_ coroutine.Context, n int) behaviour.Outcome { return behaviour.OK(n) }))
				s := stage.New("s", b, stage.Workers(1, 1), stage.Batch(1), stage.Timeout(time.Minute), stage.Grace(time.Second))
				p, err := pipeline.New("p", s, pipeline.Control(policy.Fixed{}))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				begin := time.Now()
				var tickets []*stage.Ticket
				for n := range 10 {
					ticket, err := s.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				for n, ticket := range tickets {
					got, err := ticket.Wait(t.Context())
					if name == "hanging" {
						require.ErrorIs(t, err, stage.ErrTimeout)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, n, got)
				}
				require.LessOrEqual(t, time.Since(begin), row.takes, "they wait concurrently")
				if row.takes > 0 {
					require.Greater(t, time.Since(begin), row.takes/2)
				}
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// The handlers of the only worker wait without that worker.
func TestAPlansHandlersSuspendAndCallOneAnother(t *testing.T) {
	p := line(func(p *stagetest.Plan) {
		for i := range p.Graph.Nodes {
			n := &p.Graph.Nodes[i]
			n.Suspends, n.Calls, n.Work = true, true, time.Millisecond
			n.Faults = stagetest.Faults{Panic: 0.05, Goexit: 0.05, Error: 0.05, Delay: 0.1}
		}
	})
	begin := time.Now()
	report, err := p.Run()
	require.NoError(t, err)
	require.Greater(t, report.Asked, uint64(p.Commands), "handlers submitted commands, too")
	require.Positive(t, report.Crashes)
	t.Logf("%v\n%v", time.Since(begin), report)

	require.Contains(t, p.String(), "suspends calls")
}

func TestCommandsStayInOrderInALineWhoseHandlersSuspendOneAtATime(t *testing.T) {
	p := line(func(p *stagetest.Plan) {
		p.Ordered = true
		for i := range p.Graph.Nodes {
			n := &p.Graph.Nodes[i]
			n.Suspends, n.Instances = true, 1
		}
	})
	_, err := p.Run()
	require.NoError(t, err)

	p.Graph.Nodes[1].Instances = 8
	_, err = p.Run()
	var v stagetest.VerdictError
	require.ErrorAs(t, err, &v, "with several instances they overtake one another")
	require.Equal(t, "order", v.Promises())
}

// If the called node led back to its caller, it would wait for a free slot in a stage all of whose handlers wait for
// that node: a deadlock.
func TestNoNodeCallsANodeThatLeadsBackToIt(t *testing.T) {
	plan := stagetest.Plan{
		Seed: 2877944, Policy: "batching", Commands: 100, Submitters: 2, Quiet: true, Patience: 2 * time.Second,
		Graph: stagetest.Graph{Entries: []int{0, 1}, Hops: 5, Nodes: []stagetest.Node{
			{Spread: true, Ports: true, Suspends: true, Calls: true, Instances: 3, Capacity: 2, Batch: 5},
			{Next: []int{0}, Ports: true, Workers: stagetest.Span{Fewest: 1, Most: 2}},
		}},
	}
	_, err := plan.Run()
	require.NoError(t, err)
}
