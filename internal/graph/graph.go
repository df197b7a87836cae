// Package graph knows which stage of a pipeline leads to which, and which of
// these edges are back edges.
//
// A back edge closes a loop. Which edge of a loop that is depends on the order
// in which the edges become known: first the declared ports, stage by stage;
// then, as commands take them, the edges along which handlers forward directly.
// The other edges, the forward edges, form a graph without loops. Workers wait
// for a free slot along forward edges only, so they cannot wait for one another
// in a circle.
package graph

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/inbox"
)

// Graph is the graph of a pipeline that runs. Stages are known by their place,
// which does not change when other stages come and go. Any goroutine may use
// it.
type Graph struct {
	host *inbox.Pipeline

	mu      sync.Mutex     // guards all below, and the places of the host's inboxes
	inboxes []*inbox.Inbox // by place; nil for a stage that was removed
	edges   []edges        // by the place that they lead from
	entered []bool         // by place: a forward edge leads there
	loops   bool           // there has been a back edge
	shape   *Shape         // nil if an edge has come or gone since it was computed
}

// edge is an edge from one stage to another.
type edge struct {
	to       int
	back     bool
	declared bool   // else a handler took it
	taken    bool   // a handler took it, declared or not, since it was not declared any more
	port     string // the name of the port that leads there, if it is declared
	moved    *atomic.Uint64
}

// edges are the edges from one stage, sorted by the place that they lead to.
// There are few, for which a map would be ten times as large.
type edges []edge

// find returns the index of the edge to a place, or where it would be.
func (es edges) find(to int) (int, bool) {
	return slices.BinarySearchFunc(es, to, func(e edge, to int) int { return cmp.Compare(e.to, to) })
}

// without returns the edges except the one to a place.
func (es edges) without(to int) edges {
	if i, ok := es.find(to); ok {
		return slices.Delete(es, i, i+1)
	}
	return es
}

// New returns an empty graph. The inboxes that are added must be attached to
// the host.
func New(host *inbox.Pipeline) *Graph { return &Graph{host: host} }

// Add adds a stage and gives its inbox its place.
func (g *Graph) Add(in *inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in.Place = len(g.inboxes)
	g.inboxes = append(g.inboxes, in)
	g.edges = append(g.edges, nil)
	g.entered = append(g.entered, false)
	g.changedLocked()
	g.boundEntriesLocked()
}

// boundEntriesLocked has the host bound the commands from outside, if there are
// loops, by the capacities that the stages were made with.
func (g *Graph) boundEntriesLocked() {
	if !g.loops {
		return
	}
	capacity := 0
	for _, in := range g.inboxes {
		if in != nil {
			capacity += in.Config().Capacity
		}
	}
	g.host.BoundEntries(capacity)
}

// placeLocked returns the place of an inbox, and whether it is in this graph.
// An inbox of another host is not asked for its place, which may be set at this
// moment.
func (g *Graph) placeLocked(in *inbox.Inbox) (int, bool) {
	if in.Pipeline() != g.host {
		return 0, false
	}
	return in.Place, in.Place < len(g.inboxes) && g.inboxes[in.Place] == in
}

// Remove removes a stage with all edges from and to it.
func (g *Graph) Remove(in *inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, ok := g.placeLocked(in)
	if !ok {
		return
	}
	g.inboxes[i] = nil
	g.edges[i] = nil
	for from := range g.edges {
		g.edges[from] = g.edges[from].without(i)
	}
	g.rebuildLocked()
}

// rebuildLocked decides anew which edges are back edges, since a loop may be
// gone. Forward edges are added first and stay forward edges: workers wait for
// free slots along them already, and two edges of a loop along which workers
// wait would be a deadlock.
func (g *Graph) rebuildLocked() {
	old := g.edges
	clear(g.entered)
	g.edges = make([]edges, len(old))
	for _, back := range []bool{false, true} {
		for from, es := range old {
			for _, e := range es {
				if e.back == back {
					at := g.edgeLocked(from, e.to)
					at.declared, at.taken, at.port, at.moved = e.declared, e.taken, e.port, e.moved
				}
			}
		}
	}
	g.changedLocked()
}

// Declare adds the edges of a stage's ports. Ports that lead out of the graph
// are ignored.
func (g *Graph) Declare(from *inbox.Inbox, ports []behaviour.Outlet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.declareLocked(from, ports)
}

func (g *Graph) declareLocked(from *inbox.Inbox, ports []behaviour.Outlet) {
	for _, port := range ports {
		to, ok := port.Inlet().Inbox().(*inbox.Inbox)
		if !ok {
			continue
		}
		if j, ok := g.placeLocked(to); ok {
			e := g.edgeLocked(from.Place, j)
			e.declared, e.port = true, port.Name()
		}
	}
}

// Reach returns the edge between two inboxes, and adds it unless it is known. A
// worker calls it before it forwards to an inbox for the first time. It reports
// ok false if one of the inboxes is not in the graph.
func (g *Graph) Reach(from, to *inbox.Inbox) (as inbox.Edge, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, known := g.placeLocked(from)
	j, ours := g.placeLocked(to)
	if !known || !ours {
		return inbox.Edge{}, false
	}
	e := g.edgeLocked(i, j)
	e.taken = true
	return inbox.Edge{Back: e.back, Moved: e.moved}, true
}

// Redeclare declares the edges of a stage's ports, which lead elsewhere now,
// and returns where those lead that are not declared any more. These stay, as
// edges that handlers take, until they are forgotten.
func (g *Graph) Redeclare(from *inbox.Inbox, ports []behaviour.Outlet) (gone []*inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	were := slices.Clone(g.edges[from.Place])
	for i := range g.edges[from.Place] {
		g.edges[from.Place][i].declared, g.edges[from.Place][i].port = false, ""
	}
	g.declareLocked(from, ports)
	for _, e := range were {
		if e.declared && g.undeclaredLocked(from, g.inboxes[e.to]) != nil {
			gone = append(gone, g.inboxes[e.to])
		}
	}
	return gone
}

// Untake has workers say anew that they take an edge which is not declared.
func (g *Graph) Untake(from, to *inbox.Inbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.undeclaredLocked(from, to); e != nil {
		e.taken = false
		g.host.EdgesChanged()
	}
}

// Forget removes an edge that is not declared, unless a worker has taken it
// since Untake. No worker has been at work since before that, so none takes the
// edge without asking.
func (g *Graph) Forget(from, to *inbox.Inbox) {
	g.mu.Lock()
	e := g.undeclaredLocked(from, to)
	gone := e != nil && !e.taken
	if gone {
		g.edges[from.Place] = g.edges[from.Place].without(e.to)
		g.rebuildLocked()
	}
	g.mu.Unlock()
	if gone {
		from.Settings().NotAhead(to)
	}
}

// undeclaredLocked returns an edge that is known and not declared; nil if there
// is none.
func (g *Graph) undeclaredLocked(from, to *inbox.Inbox) *edge {
	i, known := g.placeLocked(from)
	j, ours := g.placeLocked(to)
	if !known || !ours {
		return nil
	}
	at, found := g.edges[i].find(j)
	if !found || g.edges[i][at].declared {
		return nil
	}
	return &g.edges[i][at]
}

// InLoop reports whether two inboxes are in one loop, or in loops that share
// stages, so that commands can get from either to the other.
func (g *Graph) InLoop(one, other *inbox.Inbox) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, known := g.placeLocked(one)
	j, ours := g.placeLocked(other)
	return known && ours && g.shapeLocked().inLoop(i, j)
}

// changedLocked notes that a stage or an edge has come or gone.
func (g *Graph) changedLocked() {
	g.shape = nil
	g.host.EdgesChanged()
}

// edgeLocked returns the edge between two places, and adds it if it is not
// known. The inbox that a new forward edge starts from is notified of it.
func (g *Graph) edgeLocked(from, to int) *edge {
	i, known := g.edges[from].find(to)
	if known {
		return &g.edges[from][i]
	}
	// If no forward edge enters from, then none leads there from to, so a line
	// is built in linear time from either end.
	back := from == to || g.entered[from] && g.leadsLocked(to, from, map[int]bool{})
	g.edges[from] = slices.Insert(g.edges[from], i, edge{to: to, back: back, moved: new(atomic.Uint64)})
	g.changedLocked()
	if back {
		g.loops = true
		g.boundEntriesLocked()
	} else {
		g.entered[to] = true
		g.inboxes[from].Settings().Ahead(g.inboxes[to])
	}
	return &g.edges[from][i]
}

// leadsLocked reports whether a path of forward edges leads from one stage to
// another.
func (g *Graph) leadsLocked(from, to int, seen map[int]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for _, e := range g.edges[from] {
		if !e.back && !seen[e.to] && g.leadsLocked(e.to, to, seen) {
			return true
		}
	}
	return false
}

// Edge is an edge as a drawing shows it.
type Edge struct {
	From, To int
	Port     string // empty if a handler took the edge without declaring it
	Back     bool
	Moved    uint64 // commands that were handed over along it
}

// Edges returns all edges that are known by now.
func (g *Graph) Edges() (all []Edge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for from, es := range g.edges {
		for _, e := range es {
			all = append(all, Edge{from, e.to, e.port, e.back, e.moved.Load()})
		}
	}
	return all
}
