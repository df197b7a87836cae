package simulator

import (
	"math/rand/v2"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// node is the part of a stage of the model that all processes share: its edges,
// its random numbers, and the measurements of all of them.
type node struct {
	Stage

	id            int
	forward, emit []edge
	service       *rand.Rand
	pauses        *rand.Rand
	traced        int // times that were taken of a Trace
	routes        *rand.Rand
	next          []controller.StageID // by forward edges
	rank          int
	cyclic        bool
	wait, latency Latency
	gone          totals // of processes that are gone
}

type edge struct {
	to    int
	share float64
	back  bool // it closes a loop
}

// nodes returns the stages of a model. Each random stream has a number of its
// own, so that a change of one stage does not change the draws of another.
func nodes(m *Model) []*node {
	all := make([]*node, len(m.Stages))
	for i, st := range m.Stages {
		all[i] = &node{Stage: st, id: i, service: stream(m, 2*i), routes: stream(m, 2*i+1), pauses: stream(m, 1<<20+i)}
	}
	for _, n := range all {
		n.emit, n.forward = n.edges(m, all, n.Emit), n.edges(m, all, n.Forward)
	}
	for range all { // a longest path has no more edges than there are stages
		for _, n := range all {
			for _, to := range n.next {
				all[to].rank = max(all[to].rank, n.rank+1)
			}
		}
	}
	for _, n := range all {
		for _, e := range slices.Concat(n.emit, n.forward) {
			if e.back {
				for _, on := range all { // each stage on the way from its target to its source
					on.cyclic = on.cyclic || reaches(all, e.to, on.id) && reaches(all, on.id, n.id)
				}
			}
		}
	}
	return all
}

// stream returns one of the streams of random numbers of a run.
func stream(m *Model, n int) *rand.Rand { return rand.New(rand.NewPCG(m.Seed, uint64(n))) }

// edges returns the edges to other stages. Edges that would close a loop are
// back edges.
func (n *node) edges(m *Model, all []*node, to []Edge) (edges []edge) {
	for _, e := range to {
		id := m.index(e.To)
		back := reaches(all, id, n.id)
		if next := controller.StageID(id); !back && !slices.Contains(n.next, next) {
			n.next = append(n.next, next)
		}
		edges = append(edges, edge{id, e.Share, back})
	}
	return edges
}

// reaches reports whether forward edges lead from one stage to another, or it
// is the same.
func reaches(all []*node, from, to int) bool {
	seen := make([]bool, len(all))
	var visit func(int) bool
	visit = func(at int) bool {
		if at == to || seen[at] {
			return at == to
		}
		seen[at] = true
		return slices.ContainsFunc(all[at].next, func(next controller.StageID) bool { return visit(int(next)) })
	}
	return visit(from)
}
