package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/chaos"
)

// The handlers of the only worker wait without that worker.
func TestAPlansHandlersSuspendAndCallOneAnother(t *testing.T) {
	p := line(func(p *chaos.Plan) {
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
	p := line(func(p *chaos.Plan) {
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
	var v chaos.VerdictError
	require.ErrorAs(t, err, &v, "with several instances they overtake one another")
	require.Equal(t, "order", v.Promises())
}

// If the called node led back to its caller, it would wait for a free slot in a stage all of whose handlers wait for
// that node: a deadlock.
func TestNoNodeCallsANodeThatLeadsBackToIt(t *testing.T) {
	plan := chaos.Plan{
		Seed: 2877944, Policy: "batching", Commands: 100, Submitters: 2, Quiet: true, Patience: 2 * time.Second,
		Graph: chaos.Graph{Entries: []int{0, 1}, Hops: 5, Nodes: []chaos.Node{
			{Spread: true, Ports: true, Suspends: true, Calls: true, Instances: 3, Capacity: 2, Batch: 5},
			{Next: []int{0}, Ports: true, Workers: chaos.Span{Fewest: 1, Most: 2}},
		}},
	}
	_, err := plan.Run()
	require.NoError(t, err)
}
