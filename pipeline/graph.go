package pipeline

import (
	"maps"
	"slices"
	"sync"

	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage"
)

// graph knows which stage leads to which, and which ways lead back.
//
// A way back is one that closes a loop. Which of a loop's ways that is depends on
// the order in which they become known: declared ports first, stage by stage;
// then, as commands take them, those that handlers forward to directly. All other
// ways form a graph without loops. Workers wait for room along those only, so
// they cannot wait for one another in a circle.
type graph struct {
	index map[*room.Room]int

	declared []map[int]string // declared[a][b]: the name of a's port that leads to b

	mu   sync.Mutex     // guards ways
	ways []map[int]bool // ways[a][b]: there is a way from a to b, true if it leads back
}

func newGraph(stages []*stage.Core) *graph {
	g := &graph{index: make(map[*room.Room]int, len(stages))}
	for i, c := range stages {
		g.index[c.Room()] = i
		g.ways = append(g.ways, map[int]bool{})
		g.declared = append(g.declared, map[int]string{})
	}
	for i, c := range stages {
		for _, port := range c.Outs() {
			if r, ok := port.Inlet().Room().(*room.Room); ok {
				if j, ok := g.index[r]; ok {
					g.way(i, j)
					g.declared[i][j] = port.Name()
				}
			}
		}
	}
	return g
}

// reach is asked by a worker that is about to forward to a room for the first
// time.
func (g *graph) reach(from, to *room.Room) (back, ok bool) {
	i, known := g.index[from]
	j, ours := g.index[to]
	if !known || !ours {
		return false, false
	}
	return g.way(i, j), true
}

// way notes a way and reports whether it leads back.
func (g *graph) way(from, to int) (back bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	back, known := g.ways[from][to]
	if !known {
		back = g.leads(to, from, map[int]bool{})
		g.ways[from][to] = back
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
