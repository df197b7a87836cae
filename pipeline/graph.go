package pipeline

import (
	"maps"
	"slices"
	"sync"

	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage"
)

// graph knows which stage leads to which, and which ways lead back. Stages are known
// by their place, which stays theirs when others come and go.
//
// A way back is one that closes a loop. Which of a loop's ways that is depends on
// the order in which they become known: declared ports first, stage by stage;
// then, as commands take them, those that handlers forward to directly. All other
// ways form a graph without loops. Workers wait for room along those only, so
// they cannot wait for one another in a circle.
type graph struct {
	mu    sync.Mutex // guards all
	index map[*room.Room]int
	rooms []*room.Room // by place; nil for a stage that is gone
	// A stage's maps are nil as long as it leads nowhere.
	declared []map[int]string // declared[a][b]: the name of a's port that leads to b
	ways     []map[int]bool   // ways[a][b]: there is a way from a to b, true if it leads back
	led      []bool           // a way ahead leads there
	shape    *shape           // nil if a way has come or gone since it was found
}

func newGraph(stages []*stage.Core) *graph {
	g := &graph{index: make(map[*room.Room]int, len(stages))}
	for _, c := range stages {
		g.add(c.Room())
	}
	for _, c := range stages {
		g.declare(c)
	}
	return g
}

// add takes a stage in and gives it its place.
func (g *graph) add(r *room.Room) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Place = len(g.rooms)
	g.index[r] = r.Place
	g.rooms = append(g.rooms, r)
	g.ways = append(g.ways, nil)
	g.declared = append(g.declared, nil)
	g.led = append(g.led, false)
	g.shape = nil
}

// remove lets a stage go, with all ways from and to it.
func (g *graph) remove(r *room.Room) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, ok := g.index[r]
	if !ok {
		return
	}
	delete(g.index, r)
	g.rooms[i] = nil
	g.ways[i], g.declared[i] = nil, nil
	for from := range g.ways {
		delete(g.ways[from], i)
		delete(g.declared[from], i)
	}
	g.again()
}

// again finds out anew which ways lead back: a loop may be gone. Declared ways come
// first, as at the start.
func (g *graph) again() {
	old := g.ways
	clear(g.led)
	g.ways = make([]map[int]bool, len(old))
	for _, declared := range []bool{true, false} {
		for from, ways := range old {
			for _, to := range slices.Sorted(maps.Keys(ways)) {
				if _, is := g.declared[from][to]; is == declared {
					g.way(from, to)
				}
			}
		}
	}
	g.shape = nil
}

// declare notes the ways of a stage's ports.
func (g *graph) declare(c *stage.Core) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.index[c.Room()]
	for _, port := range c.Outs() {
		r, ok := port.Inlet().Room().(*room.Room)
		if !ok {
			continue
		}
		if j, ok := g.index[r]; ok {
			g.way(i, j)
			if g.declared[i] == nil {
				g.declared[i] = map[int]string{}
			}
			g.declared[i][j] = port.Name()
		}
	}
}

// reach is asked by a worker that is about to forward to a room for the first
// time.
func (g *graph) reach(from, to *room.Room) (back, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, known := g.index[from]
	j, ours := g.index[to]
	if !known || !ours {
		return false, false
	}
	return g.way(i, j), true
}

// way notes a way and reports whether it leads back. One ahead is told to the room it
// starts from.
func (g *graph) way(from, to int) (back bool) {
	back, known := g.ways[from][to]
	if known {
		return back
	}
	// To where no way ahead leads none can lead back; so a line is made in one go from either end.
	back = from == to || g.led[from] && g.leads(to, from, map[int]bool{})
	if g.ways[from] == nil {
		g.ways[from] = map[int]bool{}
	}
	g.ways[from][to] = back
	g.shape = nil
	if !back {
		g.led[to] = true
		g.rooms[from].Ahead(g.rooms[to])
	}
	return back
}

// edge is a way as a drawing shows it.
type edge struct {
	from, to int
	port     string // empty if a handler took the way without declaring it
	back     bool
}

// edges returns all ways that are known by now.
func (g *graph) edges() (all []edge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for from, ways := range g.ways {
		for _, to := range slices.Sorted(maps.Keys(ways)) {
			all = append(all, edge{from, to, g.declared[from][to], ways[to]})
		}
	}
	return all
}

// leads reports whether there is a way ahead from one stage to another, however
// long.
func (g *graph) leads(from, to int, seen map[int]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next, back := range g.ways[from] {
		if !back && !seen[next] && g.leads(next, to, seen) {
			return true
		}
	}
	return false
}

// shape is what policies are told of the graph, by place.
type shape struct {
	rank   []int   // the most ways ahead that lead to the stage
	cyclic []bool  // it is in a loop
	next   [][]int // where its ways ahead lead
	flow   [][]int // all stages as commands pass them; those of a loop of loops are together
}

// form returns the shape of the graph as it is now; it is not changed any more.
func (g *graph) form() *shape {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shape == nil {
		g.shape = g.measure()
	}
	return g.shape
}

func (g *graph) measure() *shape {
	n := len(g.ways)
	s := &shape{rank: make([]int, n), cyclic: make([]bool, n), next: make([][]int, n)}
	for from, ways := range g.ways {
		for _, to := range slices.Sorted(maps.Keys(ways)) {
			if !ways[to] {
				s.next[from] = append(s.next[from], to)
			}
		}
	}
	s.findRanks()
	s.flow = g.findLoops(s)
	slices.Reverse(s.flow)
	return s
}

// findRanks gives each stage one more than the highest rank before it, sources first.
func (s *shape) findRanks() {
	before := make([]int, len(s.next)) // ways that were not gone yet
	for _, next := range s.next {
		for _, to := range next {
			before[to]++
		}
	}
	var ready []int
	for i, n := range before {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		from := ready[0]
		ready = ready[1:]
		for _, to := range s.next[from] {
			s.rank[to] = max(s.rank[to], s.rank[from]+1)
			if before[to]--; before[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
}

// findLoops marks the stages that are in loops: those from which all ways, those back
// included, lead to them again. It is Tarjan's algorithm for strongly connected
// components (SIAM J. Computing 1:2, 1972).
func (g *graph) findLoops(s *shape) [][]int {
	t := tarjan{ways: g.ways, seen: make([]int, len(g.ways)), low: make([]int, len(g.ways)), on: make([]bool, len(g.ways)), shape: s}
	for i := range slices.Backward(g.ways) { // so that of equals the first comes first in the end
		if t.seen[i] == 0 {
			t.visit(i)
		}
	}
	return t.parts
}

type tarjan struct {
	ways  []map[int]bool
	shape *shape
	parts [][]int // the components, each before all that lead to it
	count int
	seen  []int // when a stage was first seen, from one
	low   []int
	on    []bool
	stack []int
}

func (t *tarjan) visit(at int) {
	t.count++
	t.seen[at], t.low[at], t.on[at] = t.count, t.count, true
	t.stack = append(t.stack, at)
	for to := range t.ways[at] {
		switch {
		case t.seen[to] == 0:
			t.visit(to)
			t.low[at] = min(t.low[at], t.low[to])
		case t.on[to]:
			t.low[at] = min(t.low[at], t.seen[to])
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
	_, itself := t.ways[first][first]
	for _, at := range part {
		t.on[at] = false
		t.shape.cyclic[at] = len(part) > 1 || itself
	}
	t.parts = append(t.parts, slices.Clone(part))
	t.stack = t.stack[:i]
}
