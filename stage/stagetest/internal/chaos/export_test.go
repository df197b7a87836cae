package chaos

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/golda-dev/golda/pipeline"
)

// After starts the plan's pipeline, does the actions to it one after the other, and stops it. It returns a
// snapshot of what the actions led to when each goroutine that they started had had its turn. There is one processor, on
// which a goroutine that an action starts begins after the next action, if that waits for nothing.
func (p Plan) After(disturbances ...Disturbance) (s pipeline.Snapshot, ok bool) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := &run{plan: p, name: "after", letters: map[command]int{}, fed: map[uint64]*fedCommand{}, excused: map[uint64]bool{}}
	defer func() { r.processes.close() }()
	if !r.start() {
		return s, false
	}
	rnd := rand.New(rand.NewPCG(p.Seed, 0))
	for _, d := range disturbances {
		r.do(d, rnd)
	}
	for range 100 {
		runtime.Gosched()
	}
	s = r.pipe.Snapshot()
	return s, r.pipe.Stop(context.Background()) == nil && len(r.broken) == 0
}

// Spoil makes a feed break a promise.
func (f *Feed) Spoil(how string) { f.spoil = how }

// Unrate leaves a node's rate out.
func (n *Node) Unrate() { n.unrated = true }

// Unbound leaves the bound for handlers of a key out.
func (n *Node) Unbound() { n.unfair = true }

// Unguard leaves a node's guard out.
func (n *Node) Unguard() { n.unguarded = true }

// Spoil makes a node break a promise.
func (n *Node) Spoil(how string) { n.spoil = how }

// Stray gives a keyed node the wrong keys.
func (n *Node) Stray() { n.stray = true }

// Disorder leaves the order of a node's results out.
func (n *Node) Disorder() { n.unordered = true }
