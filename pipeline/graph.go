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
	mu       sync.Mutex // guards all
	index    map[*room.Room]int
	rooms    []*room.Room     // by place; nil for a stage that is gone
	declared []map[int]string // declared[a][b]: the name of a's port that leads to b
	ways     []map[int]bool   // ways[a][b]: there is a way from a to b, true if it leads back
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

// add takes a stage in and returns its place.
func (g *graph) add(r *room.Room) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := len(g.rooms)
	g.index[r] = i
	g.rooms = append(g.rooms, r)
	g.ways = append(g.ways, map[int]bool{})
	g.declared = append(g.declared, map[int]string{})
	g.shape = nil
	return i
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
	back = g.leads(to, from, map[int]bool{})
	g.ways[from][to] = back
	g.shape = nil
	if !back {
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
	g.findLoops(s)
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

// findLoops marks the stages on any way from the end of a way back to its beginning:
// those, and only those, are in loops.
func (g *graph) findLoops(s *shape) {
	for from, ways := range g.ways {
		for to, back := range ways {
			if !back {
				continue
			}
			ahead := s.flood(to, func(i int) []int { return s.next[i] })
			behind := s.flood(from, g.previous(s))
			for i := range s.cyclic {
				s.cyclic[i] = s.cyclic[i] || ahead[i] && behind[i]
			}
		}
	}
}

// previous returns where the ways ahead to a stage come from.
func (g *graph) previous(s *shape) func(int) []int {
	prev := make([][]int, len(s.next))
	for from, next := range s.next {
		for _, to := range next {
			prev[to] = append(prev[to], from)
		}
	}
	return func(i int) []int { return prev[i] }
}

func (s *shape) flood(from int, next func(int) []int) []bool {
	wet := make([]bool, len(s.next))
	wet[from] = true
	for todo := []int{from}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range next(at) {
			if !wet[to] {
				wet[to] = true
				todo = append(todo, to)
			}
		}
	}
	return wet
}
