package chaos

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage/queue"
)

// faulty collects the faults of a plan.
type faulty []error

func (f *faulty) unlessf(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Check returns all faults of a plan that was written by hand; [Plan.Run] calls
// it first. Faults that pipeline.New reports are not checked here.
func (p Plan) Check() error {
	var f faulty
	nodes := len(p.Graph.Nodes)
	_, err := p.policyNamed(p.Policy)
	f.unlessf(err == nil || p.Control != nil, "%v", err)
	f.unlessf(p.Commands >= 0, "Commands is negative: %d", p.Commands)
	f.unlessf(p.Submitters > 0 || p.Commands == 0, "%d submitters, for %d commands", p.Submitters, p.Commands)
	f.unlessf(p.End < endings, "no such ending: %d", p.End)
	f.unlessf(p.Graph.Hops >= 0 && p.Graph.Hops <= math.MaxUint8, "%d hops; there may be from 0 to %d", p.Graph.Hops, math.MaxUint8)
	f.unlessf(len(p.Graph.Entries) > 0, "the graph has no entry")
	for _, e := range p.Graph.Entries {
		f.unlessf(e >= 0 && e < nodes, "entry %d: there are %d nodes", e, nodes)
	}
	for i, n := range p.Graph.Nodes {
		p.checkNode(&f, i, n)
	}
	f.unlessf(len(p.GroupPolicies) <= len(p.Graph.Groups), "%d policies for %d groups", len(p.GroupPolicies), len(p.Graph.Groups))
	for i, name := range p.GroupPolicies {
		_, err := p.policyNamed(name)
		f.unlessf(err == nil || name == "", "group %d: %v", i+1, err)
	}
	for i, feed := range p.Feeds {
		p.checkFeed(&f, feedName(i), feed)
	}
	f.unlessf(!p.Resumes || slices.ContainsFunc(p.Feeds, Feed.resumes),
		"it resumes, and no feed has a Checkpoint or Redelivers")
	f.unlessf(p.End != Exhausted || len(p.Feeds) > 0, "it ends %s and has none", Exhausted)
	err = p.Middleware.Check()
	f.unlessf(err == nil, "%v", err)
	for i, d := range p.Disturbances {
		f.unlessf(d.Action < actions, "disturbance %d: there is no action %d", i+1, d.Action)
		switch d.Action {
		case Pause, Upgrade, DrainStage, Rewire:
			f.unlessf(d.Stage >= 0 && d.Stage < nodes,
				"disturbance %d: %s: stage %d: there are %d nodes", i+1, d.Action, d.Stage, nodes)
		case Swap:
			_, err := p.policyNamed(d.Policy)
			f.unlessf(err == nil, "disturbance %d: %v", i+1, err)
			f.unlessf(d.Group >= 0 && d.Group <= len(p.Graph.Groups),
				"disturbance %d: %s: group %d: there are %d", i+1, d.Action, d.Group, len(p.Graph.Groups))
		default:
		}
	}
	return errors.Join(f...)
}

func (p Plan) checkNode(f *faulty, i int, n Node) {
	name := name(i)
	for _, to := range n.Next {
		f.unlessf(to > i || n.Flow != flowMap && n.Flow != flowFilter, "node %s: a %s has a back edge", name, n.Flow)
		f.unlessf(to >= 0 && to < len(p.Graph.Nodes), "node %s: forwards to %d: there are %d nodes", name, to, len(p.Graph.Nodes))
	}
	f.unlessf(n.Group >= 0 && n.Group <= len(p.Graph.Groups), "node %s: group %d: there are %d", name, n.Group, len(p.Graph.Groups))
	if n.Discipline != "" {
		_, err := queue.ByName(n.Discipline)
		f.unlessf(err == nil, "node %s: %v", name, err)
	}
	f.unlessf(!n.Keyed || !n.Each && !n.Batcher && n.Discipline == "",
		"node %s: it is keyed, and Each, a Batcher or has a Discipline", name)
	f.unlessf(!n.Ordered || !n.Keyed && n.Discipline == "", "node %s: it is ordered, and keyed or has a Discipline", name)
	f.unlessf(n.Keyed || !n.Passivates, "node %s: it passivates, and is not keyed", name)
	f.unlessf(!n.Fair || !n.Keyed && !n.Ordered && n.Discipline == "" && n.Guard == 0 && n.Window == (Window{}),
		"node %s: it is fair, and Keyed or Ordered, or has a Discipline, a guard or windows", name)
	f.unlessf(n.Fair || n.AtOnce == 0, "node %s: AtOnce is for a fair node", name)
	n.checkFlow(f, name)
	n.checkWindow(f, name)
	n.checkStates(f, name)
	f.unlessf(n.Suspends || !n.Visits, "node %s: it visits, and does not suspend", name)
	f.unlessf(n.Rate == 0 || n.Rate > 0 && n.Burst > 0, "node %s: a rate of %d needs a burst, not %d", name, n.Rate, n.Burst)
	f.unlessf(n.Guard == 0 || n.Flow == "" && n.Window == (Window{}) && !n.Keyed && !n.Ordered && n.Discipline == "" && n.Linger == 0,
		"node %s: it has a guard, and is a flow, Keyed or Ordered, or has windows, a Discipline or a Linger", name)
	err := errors.Join(n.Faults.Check(), n.Middleware.Check())
	f.unlessf(err == nil, "node %s: %v", name, err)
}

func (n Node) checkStates(f *faulty, name string) {
	f.unlessf(!n.States || (n.Each || n.Keyed) && !n.Batcher && n.Timeout == 0,
		"node %s: it has states, and is neither Each nor Keyed, or is a Batcher or has a Timeout", name)
	f.unlessf(n.States || n.SnapshotEvery == 0 && n.KeepStates == 0, "node %s: SnapshotEvery and KeepStates need States", name)
	f.unlessf(n.Passivates || n.KeepStates == 0, "node %s: KeepStates needs Passivates", name)
}

func (n Node) checkFlow(f *faulty, name string) {
	if n.Flow == "" {
		f.unlessf(n.Route == "" || n.Window.Kind != "", "node %s: it has a route, and is not a flow", name)
		return
	}
	f.unlessf(slices.Contains(flowKinds, n.Flow), "node %s: there is no flow %q", name, n.Flow)
	f.unlessf(slices.Contains(routes, n.Route), "node %s: there is no route %q", name, n.Route)
	f.unlessf(!n.Keyed && !n.Each && !n.Batcher && !n.Suspends && !n.Spread,
		"node %s: it is a flow, and Keyed, Each, a Batcher, Suspends or Spread", name)
	f.unlessf(n.Flow != flowFlatMap || len(n.Next) > 0, "node %s: a flatmap must lead somewhere", name)
	f.unlessf(n.Flow != flowSink || len(n.Next) == 0, "node %s: a sink leads nowhere", name)
	f.unlessf(n.Route == "" || len(n.Next) > 0, "node %s: its route has no targets", name)
}

func (n Node) checkWindow(f *faulty, name string) {
	if n.Window == (Window{}) {
		return
	}
	f.unlessf(slices.Contains(windowKinds, n.Window.Kind), "node %s: there is no window %q", name, n.Window.Kind)
	f.unlessf(n.Flow == "" && !n.Keyed && !n.Each && !n.Batcher && !n.Suspends && !n.Spread && !n.Ordered &&
		n.Group == 0 && n.Discipline == "",
		"node %s: it has windows, and is a flow, Keyed, Each, a Batcher, Suspends, Spread, Ordered, or has a Group or a Discipline", name)
	f.unlessf(n.Middleware == Middleware{}, "node %s: it has windows and middleware", name)
	f.unlessf(n.Route == "" || len(n.Next) > 0, "node %s: its route has no targets", name)
}

func (p Plan) checkFeed(f *faulty, name string, feed Feed) {
	nodes := len(p.Graph.Nodes)
	f.unlessf(feed.To >= 0 && feed.To < nodes, "feed %s: feeds %d: there are %d nodes", name, feed.To, nodes)
	f.unlessf(feed.Commands >= 0 && feed.From >= 0, "feed %s: a number is negative", name)
	f.unlessf(feed.Checkpoint || (feed.From == 0 || feed.Redelivers) && feed.Unsaved == 0, "feed %s: From and Unsaved need a Checkpoint", name)
	f.unlessf(!feed.Redelivers || !feed.Checkpoint && !feed.Offsets, "feed %s: it Redelivers, and has a Checkpoint or Offsets", name)
	f.unlessf(!feed.Fatal || p.Fragile, "feed %s: Fatal is for Fragile plans", name)
	f.unlessf(p.End != Exhausted || feed.Commands > 0, "feed %s: it never ends, and the plan ends %s", name, Exhausted)
}

// policyNamed returns the policy of that name.
func (p Plan) policyNamed(name string) (controller.Policy, error) {
	if p.Control != nil && name == p.Control.Name() {
		return p.Control, nil
	}
	return policy.ByName(name)
}

// firstPolicy returns the policy that the plan starts with.
func (p Plan) firstPolicy() (controller.Policy, error) {
	if p.Control != nil {
		return p.Control, nil
	}
	return policy.ByName(p.Policy)
}
