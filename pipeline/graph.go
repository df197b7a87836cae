package pipeline

import (
	"cmp"
	"slices"
	"sync"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// graph knows which stage leads to which, and which ways lead back. Stages are known
// by their place, which stays theirs when others come and go.
//
// A back edge is one that closes a loop. Which of a loop's ways that is depends on
// the order in which they become known: declared ports first, stage by stage;
// then, as commands take them, those that handlers forward to directly. All other
// ways form a graph without loops. Workers wait for room along those only, so
// they cannot wait for one another in a circle.
type graph struct {
	host  *inbox.Pipeline
	mu    sync.Mutex     // guards all below, and the places of the host's inboxes
	rooms []*inbox.Inbox // by place; nil for a stage that is gone
	ways  []ways         // by the place that they lead from
	led   []bool         // a way ahead leads there
	loops bool           // there has been a back edge
	shape *shape         // nil if a way has come or gone since it was found
}

// way is a way from one stage to another.
type way struct {
	to       int
	back     bool
	declared bool   // else a handler took it
	port     string // the name of the port that leads there, if it is declared
}

// ways are those from one stage, by the place that they lead to: a few, for which a map would be
// ten times as large.
type ways []way

// find is the way to a place, or where it would be.
func (ws ways) find(to int) (int, bool) {
	return slices.BinarySearchFunc(ws, to, func(w way, to int) int { return cmp.Compare(w.to, to) })
}

// without is the ways but that to a place.
func (ws ways) without(to int) ways {
	if i, ok := ws.find(to); ok {
		return slices.Delete(ws, i, i+1)
	}
	return ws
}

func newGraph(pl *inbox.Pipeline, stages []*engine.Core) *graph {
	g := &graph{host: pl}
	for _, c := range stages {
		g.add(c.Inbox())
	}
	for _, c := range stages {
		g.declare(c)
	}
	return g
}

// add takes a stage in and gives it its place.
func (g *graph) add(in *inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in.Place = len(g.rooms)
	g.rooms = append(g.rooms, in)
	g.ways = append(g.ways, nil)
	g.led = append(g.led, false)
	g.shape = nil
	g.boundEntries()
}

// boundEntries has the host bound what comes from outside, if there are loops. It goes by the
// capacities that stages were made with.
func (g *graph) boundEntries() {
	if !g.loops {
		return
	}
	capacity := 0
	for _, in := range g.rooms {
		if in != nil {
			capacity += in.Config().Capacity
		}
	}
	g.host.BoundEntries(capacity)
}

// place is where an inbox is, if it is here. Those of other hosts have places too, and may be given
// them just now.
func (g *graph) place(in *inbox.Inbox) (int, bool) {
	if in.Pipeline() != g.host {
		return 0, false
	}
	return in.Place, in.Place < len(g.rooms) && g.rooms[in.Place] == in
}

// remove lets a stage go, with all ways from and to it.
func (g *graph) remove(in *inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, ok := g.place(in)
	if !ok {
		return
	}
	g.rooms[i] = nil
	g.ways[i] = nil
	for from := range g.ways {
		g.ways[from] = g.ways[from].without(i)
	}
	g.again()
}

// again finds out anew which ways lead back: a loop may be gone. Ways ahead come first and stay
// so: workers wait for room along them already, and two ways of a loop along which workers wait
// would be a deadlock.
func (g *graph) again() {
	old := g.ways
	clear(g.led)
	g.ways = make([]ways, len(old))
	for _, back := range []bool{false, true} {
		for from, ws := range old {
			for _, w := range ws {
				if w.back == back {
					at := g.way(from, w.to)
					at.declared, at.port = w.declared, w.port
				}
			}
		}
	}
	g.shape = nil
}

// declare notes the ways of a stage's ports.
func (g *graph) declare(c *engine.Core) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Inbox().Place
	for _, port := range c.Outs() {
		in, ok := port.Inlet().Inbox().(*inbox.Inbox)
		if !ok {
			continue
		}
		if j, ok := g.place(in); ok {
			w := g.way(i, j)
			w.declared, w.port = true, port.Name()
		}
	}
}

// reach is asked by a worker that is about to forward to an inbox for the first
// time.
func (g *graph) reach(from, to *inbox.Inbox) (back, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, known := g.place(from)
	j, ours := g.place(to)
	if !known || !ours {
		return false, false
	}
	return g.way(i, j).back, true
}

// way notes a way, and returns it. One ahead is told to the inbox it starts from.
func (g *graph) way(from, to int) *way {
	i, known := g.ways[from].find(to)
	if known {
		return &g.ways[from][i]
	}
	// To where no way ahead leads none can lead back; so a line is made in one go from either end.
	back := from == to || g.led[from] && g.leads(to, from, map[int]bool{})
	g.ways[from] = slices.Insert(g.ways[from], i, way{to: to, back: back})
	g.shape = nil
	if back {
		g.loops = true
		g.boundEntries()
	} else {
		g.led[to] = true
		g.rooms[from].Ahead(g.rooms[to])
	}
	return &g.ways[from][i]
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
	for from, ws := range g.ways {
		for _, w := range ws {
			all = append(all, edge{from, w.to, w.port, w.back})
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
	for _, w := range g.ways[from] {
		if !w.back && !seen[w.to] && g.leads(w.to, to, seen) {
			return true
		}
	}
	return false
}

// shape is what policies are told of the graph, by place.
type shape struct {
	rank   []int  // the most ways ahead that lead to the stage
	cyclic []bool // it is in a loop
	leads  []int  // where ways ahead lead, those from the first place first
	upTo   []int  // how many of those are from a place and all before it
}

// next is where a stage's ways ahead lead.
func (s *shape) next(place int) []int {
	if place == 0 {
		return s.leads[:s.upTo[0]]
	}
	return s.leads[s.upTo[place-1]:s.upTo[place]]
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
	s := &shape{rank: make([]int, n), cyclic: make([]bool, n), leads: make([]int, 0, n), upTo: make([]int, n)}
	for from, ws := range g.ways {
		for _, w := range ws {
			if !w.back {
				s.leads = append(s.leads, w.to)
			}
		}
		s.upTo[from] = len(s.leads)
	}
	s.findRanks()
	g.findLoops(s)
	return s
}

// flow is all stages as commands pass them; those of a loop of loops are together. It is asked for by a
// drain, so it is not kept.
func (g *graph) flow() [][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	parts := g.findLoops(&shape{cyclic: make([]bool, len(g.ways))})
	slices.Reverse(parts)
	return parts
}

// findRanks gives each stage one more than the highest rank before it, sources first.
func (s *shape) findRanks() {
	before := make([]int, len(s.rank)) // ways that were not gone yet
	for _, to := range s.leads {
		before[to]++
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
		for _, to := range s.next(from) {
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
	ways  []ways
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
	for _, w := range t.ways[at] {
		switch {
		case t.seen[w.to] == 0:
			t.visit(w.to)
			t.low[at] = min(t.low[at], t.low[w.to])
		case t.on[w.to]:
			t.low[at] = min(t.low[at], t.seen[w.to])
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
	_, itself := t.ways[first].find(first)
	for _, at := range part {
		t.on[at] = false
		t.shape.cyclic[at] = len(part) > 1 || itself
	}
	t.parts = append(t.parts, slices.Clone(part))
	t.stack = t.stack[:i]
}
