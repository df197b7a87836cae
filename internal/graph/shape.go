package graph

import "slices"

// Shape is what policies see of the graph, by place. It does not change.
type Shape struct {
	Rank   []int  // the length of the longest path of forward edges that leads to the stage
	Cyclic []bool // the stage is in a loop

	part    []int // stages of one part can reach each other
	targets []int // the ends of the forward edges, sorted by the place where they start
	upTo    []int // how many of the targets belong to a place and all before it
}

// Next returns the places that the forward edges of a place lead to.
func (s *Shape) Next(place int) []int {
	if place == 0 {
		return s.targets[:s.upTo[0]]
	}
	return s.targets[s.upTo[place-1]:s.upTo[place]]
}

// Shape returns the shape of the graph as it is now.
func (g *Graph) Shape() *Shape {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shapeLocked()
}

func (g *Graph) shapeLocked() *Shape {
	if g.shape == nil {
		g.shape = newShape(g.edges)
	}
	return g.shape
}

// inLoop reports whether commands can get from either of two places to the
// other.
func (s *Shape) inLoop(i, j int) bool { return s.part[i] == s.part[j] && s.Cyclic[i] }

func newShape(all []edges) *Shape {
	n := len(all)
	s := &Shape{Rank: make([]int, n), targets: make([]int, 0, n), upTo: make([]int, n), part: make([]int, n)}
	for from, es := range all {
		for _, e := range es {
			if !e.back {
				s.targets = append(s.targets, e.to)
			}
		}
		s.upTo[from] = len(s.targets)
	}
	s.findRanks()
	parts, cyclic := components(all)
	s.Cyclic = cyclic
	for i, places := range parts {
		for _, at := range places {
			s.part[at] = i
		}
	}
	return s
}

// Order returns the places of all stages in the order in which commands pass
// them. The stages of a loop, or of loops that share stages, are one element.
// It is for drains and not cached.
func (g *Graph) Order() [][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	parts, _ := components(g.edges)
	slices.Reverse(parts)
	return parts
}

// findRanks gives each stage one more than the highest rank of the stages
// before it, starting at the sources.
func (s *Shape) findRanks() {
	pending := make([]int, len(s.Rank)) // edges into each stage that were not followed yet
	for _, to := range s.targets {
		pending[to]++
	}
	var ready []int
	for i, n := range pending {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		from := ready[0]
		ready = ready[1:]
		for _, to := range s.Next(from) {
			s.Rank[to] = max(s.Rank[to], s.Rank[from]+1)
			if pending[to]--; pending[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
}

// components returns the strongly connected components of the graph, back edges
// included, each before all that lead to it, and which stages are in loops. It
// is Tarjan's algorithm (SIAM J. Computing 1:2, 1972).
func components(all []edges) (parts [][]int, cyclic []bool) {
	n := len(all)
	t := tarjan{edges: all, seen: make([]int, n), low: make([]int, n), on: make([]bool, n), cyclic: make([]bool, n)}
	for i := range slices.Backward(all) { // so that among components that may stand in any order the first stage comes first in Order
		if t.seen[i] == 0 {
			t.visit(i)
		}
	}
	return t.parts, t.cyclic
}

type tarjan struct {
	edges  []edges
	cyclic []bool
	parts  [][]int
	count  int
	seen   []int // when a stage was first seen, counted from one; 0 if it was not
	low    []int
	on     []bool // the stack
	stack  []int
}

func (t *tarjan) visit(at int) {
	t.count++
	t.seen[at], t.low[at], t.on[at] = t.count, t.count, true
	t.stack = append(t.stack, at)
	for _, e := range t.edges[at] {
		switch {
		case t.seen[e.to] == 0:
			t.visit(e.to)
			t.low[at] = min(t.low[at], t.low[e.to])
		case t.on[e.to]:
			t.low[at] = min(t.low[at], t.seen[e.to])
		}
	}
	if t.low[at] == t.seen[at] {
		t.close(at)
	}
}

// close takes a component off the stack.
func (t *tarjan) close(first int) {
	i := slices.Index(t.stack, first)
	part := t.stack[i:]
	_, itself := t.edges[first].find(first)
	for _, at := range part {
		t.on[at] = false
		t.cyclic[at] = len(part) > 1 || itself
	}
	t.parts = append(t.parts, slices.Clone(part))
	t.stack = t.stack[:i]
}
