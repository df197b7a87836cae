package pipeline

import (
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/graph"
)

// Successors returns, by name, the stages to which each stage sends commands:
// the targets of its ports and flows, and the stages to which its handlers have
// forwarded or emitted by now. For a stage that runs in another process it has
// the ports and flows only. A stage without successors is left out.
func (p *Pipeline) Successors() map[string][]string {
	name := map[int]string{}
	for _, c := range p.stages().stages {
		name[c.Inbox().Place] = c.Name()
	}
	to := map[string][]string{}
	for _, e := range p.edges() {
		if from, next := name[e.From], name[e.To]; from != "" && next != "" && !slices.Contains(to[from], next) {
			to[from] = append(to[from], next)
		}
	}
	return to
}

// edges returns the edges that are known, and the declared ones of stages that
// run in other processes.
func (p *Pipeline) edges() []graph.Edge {
	edges := p.graph.Edges()
	places := map[*behaviour.Inlet]int{}
	for _, c := range p.stages().stages {
		places[c.Inbox().Inlet()] = c.Inbox().Place
	}
	for _, c := range p.stages().stages {
		if c.Process() == "" {
			continue
		}
		for _, port := range c.Spec().Outs() {
			if to, ours := places[port.Inlet()]; ours {
				edges = append(edges, graph.Edge{From: c.Inbox().Place, To: to, Port: port.Name()})
			}
		}
	}
	return edges
}
