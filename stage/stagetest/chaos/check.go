package chaos

import (
	"errors"
	"fmt"
	"math"

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

// Check returns all faults of a plan that was written by hand; [Plan.Run] calls it first. Faults that pipeline.New
// reports are not checked here.
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
		p.checkNode(&f, name(i), n)
	}
	f.unlessf(len(p.GroupPolicies) <= len(p.Graph.Groups), "%d policies for %d groups", len(p.GroupPolicies), len(p.Graph.Groups))
	for i, name := range p.GroupPolicies {
		_, err := p.policyNamed(name)
		f.unlessf(err == nil || name == "", "group %d: %v", i+1, err)
	}
	for i, d := range p.Disturbances {
		f.unlessf(d.Action < actions, "disturbance %d: there is no action %d", i+1, d.Action)
		switch d.Action {
		case Pause, Upgrade, Canary, DrainStage:
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

func (p Plan) checkNode(f *faulty, name string, n Node) {
	for _, to := range n.Next {
		f.unlessf(to >= 0 && to < len(p.Graph.Nodes), "node %s: forwards to %d: there are %d nodes", name, to, len(p.Graph.Nodes))
	}
	f.unlessf(n.Group >= 0 && n.Group <= len(p.Graph.Groups), "node %s: group %d: there are %d", name, n.Group, len(p.Graph.Groups))
	if n.Discipline != "" {
		_, err := queue.ByName(n.Discipline)
		f.unlessf(err == nil, "node %s: %v", name, err)
	}
	f.unlessf(!n.Keyed || !n.Each && !n.Batcher && !n.Suspends && n.Discipline == "",
		"node %s: it is keyed, and Each, a Batcher, Suspends or has a Discipline", name)
	f.unlessf(n.Keyed || !n.Passivates, "node %s: it passivates, and is not keyed", name)
	err := n.Faults.Check()
	f.unlessf(err == nil, "node %s: %v", name, err)
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
