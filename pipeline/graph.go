package pipeline

import (
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

	declared [][]string // declared[a][b]: the name of a's port that leads to b

	mu    sync.Mutex // guards all below
	ahead [][]bool   // ahead[a][b]: there is a way from a to b, not back
	back  [][]bool
}

func newGraph(stages []*stage.Core) *graph {
	g := &graph{index: make(map[*room.Room]int, len(stages))}
	for i, c := range stages {
		g.index[c.Room()] = i
		g.ahead = append(g.ahead, make([]bool, len(stages)))
		g.back = append(g.back, make([]bool, len(stages)))
		g.declared = append(g.declared, make([]string, len(stages)))
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
	if g.ahead[from][to] || g.back[from][to] {
		return g.back[from][to]
	}
	if g.leads(to, from, make([]bool, len(g.ahead))) {
		g.back[from][to] = true
		return true
	}
	g.ahead[from][to] = true
	return false
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
	for i := range g.ahead {
		for j := range g.ahead {
			if g.ahead[i][j] || g.back[i][j] {
				all = append(all, edge{i, j, g.declared[i][j], g.back[i][j]})
			}
		}
	}
	return all
}

// leads reports whether there is a way ahead from one stage to another, however
// long.
func (g *graph) leads(from, to int, seen []bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next, is := range g.ahead[from] {
		if is && !seen[next] && g.leads(next, to, seen) {
			return true
		}
	}
	return false
}
