package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// command is a command of a [Graph].
type command struct {
	ID   uint64 // of the command that was submitted
	Part uint32 // 0 for that one; for an emitted command where it was emitted: see site.part
	Hops uint8  // how many stages it still passes after this one
	Sum  uint64 // of the other fields: a value of which another command has changed a part is not intact
}

// newCommand makes a command that passes so many stages after its first.
func (r *run) newCommand(hops int) command {
	return command{ID: r.ids.Add(1), Hops: uint8(hops)}.sealed()
}

// sealed returns the command with its sum.
func (c command) sealed() command {
	c.Sum = c.key()
	return c
}

// onward returns the command as it is at its next stage.
func (c command) onward() command {
	c.Hops = max(c.Hops, 1) - 1
	c.Part <<= 4
	return c.sealed()
}

// intact checks that a command that has come somewhere is one that was sent.
func (r *run) intact(where string, c command) {
	if c.ID == 0 || c.Sum != c.key() {
		r.breachf(OneEnd, "%s: a command is not what was sent: %+v", where, c)
	}
}

// Priority returns a number of a small range, for queues by priority.
func (c command) Priority() int { return int(oracle.Mix(c.ID) % 5) }

// Deadline returns an arbitrary time, for queues by deadline.
func (c command) Deadline() time.Time { return time.Unix(int64(1+oracle.Mix(c.ID)%1000), 0) }

// key returns a number that is different for each command.
func (c command) key() uint64 { return oracle.Mix(c.ID<<16 ^ uint64(c.Part)<<8 ^ uint64(c.Hops)) }

// Graph is stages and the connections between them, as a value: it can be drawn
// at random, shrunk and printed.
type Graph struct {
	Nodes   []Node
	Entries []int // where commands are submitted
	Hops    int   // how many stages a command passes after its first
	Groups  []Span
}

// Span is a range of numbers of workers.
type Span struct{ Fewest, Most int }

// Node is one stage of a graph. A zero field leaves the stage's default.
type Node struct {
	Next    []int // the nodes that it forwards to; a number not above its own is a back edge
	Spread  bool  // it emits to all of Next except the node that it forwards to
	Ports   bool  // its connections are declared as ports, and known before the start
	Each    bool  // it has an instance for each worker
	Batcher bool
	// Suspends makes its handlers suspend here and there, without their worker.
	// Such a node is neither Each nor Batcher.
	Suspends bool
	Calls    bool // they also wait for answers of later nodes from which no path leads back
	// Visits has the handlers of a node that Suspends call processes of package
	// rpc, too: these visit a monitor, one at a time, at most two of three at
	// once by a synchronizer. Some panic inside, and KillProcess kills them,
	// their lock and the synchronizer.
	Visits bool
	// Keyed makes it a keyed stage, with few keys. Such a node is neither Each
	// nor Batcher, and has no Discipline.
	Keyed      bool
	Passivates bool // a Keyed node keeps few instances
	// Ordered has its results leave in the order of arrival. Such a node is not
	// Keyed and has no Discipline.
	Ordered bool
	// Flow makes it a flow: "map", "filter", "flatmap" or "sink". Such a node
	// is none of the above but Ports. A map or filter has no back edge.
	Flow string
	// Route chooses one of Next for each result of a Flow: "robin", "key" or
	// "pick". Without it the result goes to all.
	Route     string
	unrated   bool   // it has no Rate, whatever it says, which breaks the promise of a rate
	unfair    bool   // it has no bound for handlers of a key, whatever it says, which breaks the promise of a fair stage
	unguarded bool   // it has no Guard, whatever it says, which breaks the promise of a guard
	unordered bool   // an Ordered node is not ordered, which breaks its promise
	spoil     string // breaks a promise, for tests of the checks: "torn", "lost", "stale", "whole", "unlocked" or "unruled"
	stray     bool   // a Keyed node has the wrong keys, which breaks the promise of a keyed stage

	Group int // index in Graph.Groups, counted from one; 0: it has workers of its own

	Workers    Span
	Instances  int
	Capacity   int
	Batch      int
	Overflow   overflow.Rule
	Discipline string // by name; empty: first in, first out
	Linger     time.Duration
	TTL        time.Duration // above Linger
	Timeout    time.Duration
	Grace      time.Duration
	Retry      stage.RetryPolicy
	// States makes instances whose state survives them: of an Each or Keyed
	// node without Timeout and Batcher.
	States        bool
	SnapshotEvery int    // with States
	KeepStates    int    // with States, of a node that Passivates
	Window        Window // makes it a stage of package window. Such a node has none of the above but Ports, Route and limits
	Rate          int    // how many commands it starts in a millisecond, and Burst at once; 0: no bound
	Burst         int
	Fair          bool          // its keys share it by their weights. Such a node is not Keyed or Ordered, and has no Discipline or Guard
	AtOnce        int           // how many handlers of one key may run at once, of a Fair node; 0: any number
	Guard         int           // how many of its handlers may run at once, by a guard; 0: any number
	Work          time.Duration // how long a handler takes
	Middleware    Middleware
	Faults        stagetest.Faults
}

// callable returns the nodes whose answers a handler of node i may wait for:
// those with higher numbers, without windows that no time closes, from which no
// path leads back to it, be it by commands or by calls. The pipeline does not
// know calls, so it would not recognize a back edge that includes one: the
// called node would wait for a free slot in a stage all of whose handlers wait
// for that node.
func (g Graph) callable(i int) (to []int) {
	for j := i + 1; j < len(g.Nodes); j++ {
		if !g.leads(j, i, map[int]bool{}) && !g.Nodes[j].Window.isUnlimited() {
			to = append(to, j)
		}
	}
	return to
}

// leads reports whether a path leads from one node to another without passing
// the seen nodes.
func (g Graph) leads(from, to int, seen map[int]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	next := g.Nodes[from].Next
	if g.Nodes[from].Calls {
		for j := from + 1; j < len(g.Nodes); j++ {
			next = append(slices.Clone(next), j)
		}
	}
	return slices.ContainsFunc(next, func(n int) bool { return g.leads(n, to, seen) })
}

// name returns the name of a node's stage.
func name(i int) string { return fmt.Sprintf("s%d", i) }

// options returns the stage's options.
func (n Node) options() (opts []stage.Option) {
	add := func(given bool, o stage.Option) {
		if given {
			opts = append(opts, o)
		}
	}
	add(n.Workers != Span{}, stage.Workers(n.Workers.Fewest, n.Workers.Most))
	add(n.Instances > 0, stage.Instances(n.Instances))
	add(n.Capacity > 0, stage.Capacity(n.Capacity))
	add(n.Batch > 0, stage.Batch(n.Batch))
	add(n.Overflow > 0, stage.Overflow(n.Overflow))
	add(n.Linger > 0, stage.Linger(n.Linger))
	add(n.TTL > 0, stage.TTL(n.TTL))
	add(n.Timeout > 0, stage.Timeout(n.Timeout))
	add(n.Grace > 0, stage.Grace(n.Grace))
	add(n.Retry.Attempts > 1, stage.Retry(n.Retry))
	add(n.Rate > 0 && !n.unrated, stage.Rate(n.Rate, time.Millisecond, n.Burst))
	add(n.Guard > 0 && !n.unguarded, stage.Guard("command", func(count func(string) guard.Counters) bool {
		return count("command").Current < n.Guard
	}))
	atOnce := n.AtOnce
	if n.unfair {
		atOnce = 0
	}
	add(n.Fair, stage.Fair(keyOf, weightOf, atOnce))
	add(n.Passivates, stage.Passivate(time.Millisecond, 3))
	add(n.Ordered && !n.unordered, stage.Ordered())
	add(n.SnapshotEvery > 0, stage.SnapshotEvery(n.SnapshotEvery))
	add(n.KeepStates > 0, stage.KeepStates(n.KeepStates))
	if d, err := queue.ByName(n.Discipline); err == nil {
		opts = append(opts, stage.Discipline(d))
	}
	return opts
}

// String returns the fields that are set, as text.
func (n Node) String() string {
	var b strings.Builder
	say := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	say(len(n.Next) > 0, "→%v", n.Next)
	say(n.Spread, "spread")
	say(n.Ports, "ports")
	say(n.Each, "each")
	say(n.Batcher, "batcher")
	say(n.Suspends, "suspends")
	say(n.Calls, "calls")
	say(n.Visits, "visits")
	say(n.Keyed, "keyed")
	say(n.Passivates, "passivates")
	say(n.Ordered, "ordered")
	say(n.Flow != "", "%s", n.Flow)
	say(n.States, "states")
	say(n.SnapshotEvery > 0, "snapshot-every=%d", n.SnapshotEvery)
	say(n.KeepStates > 0, "keep-states=%d", n.KeepStates)
	say(n.Window.Kind != "", "%s", n.Window)
	say(n.Route != "", "route=%s", n.Route)
	say(n.Group > 0, "group=%d", n.Group)
	say(n.Workers != Span{}, "workers=%d..%d", n.Workers.Fewest, n.Workers.Most)
	say(n.Instances > 0, "instances=%d", n.Instances)
	say(n.Capacity > 0, "capacity=%d", n.Capacity)
	say(n.Batch > 0, "batch=%d", n.Batch)
	say(n.Overflow > 0, "overflow=%s", [...]string{"wait", "reject", "drop-newest", "drop-oldest"}[n.Overflow])
	say(n.Discipline != "", "discipline=%s", n.Discipline)
	say(n.Linger > 0, "linger=%v", n.Linger)
	say(n.TTL > 0, "ttl=%v", n.TTL)
	say(n.Timeout > 0, "timeout=%v+%v", n.Timeout, n.Grace)
	say(n.Retry.Attempts > 1, "retry=%d after %v (jitter %v)", n.Retry.Attempts, n.Retry.Backoff, n.Retry.Jitter)
	say(n.Work > 0, "work=%v", n.Work)
	say(n.Rate > 0, "rate=%d/ms burst=%d", n.Rate, n.Burst)
	say(n.Fair, "fair")
	say(n.AtOnce > 0, "at-once=%d", n.AtOnce)
	say(n.Guard > 0, "guard=%d", n.Guard)
	say(n.Middleware != Middleware{}, "%s", n.Middleware)
	faults := n.Faults.String()
	say(faults != "", "%s", faults)
	return strings.TrimSpace(b.String())
}

// String returns the graph as text, with a line for each stage.
func (g Graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "entries %v, %d hops", g.Entries, g.Hops)
	for i, s := range g.Groups {
		fmt.Fprintf(&b, ", group %d of %d..%d workers", i+1, s.Fewest, s.Most)
	}
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "\n  %s: %s", name(i), n)
	}
	return b.String()
}

// groupName returns the name of a group, counted from one.
func groupName(group int) string { return fmt.Sprintf("g%d", group) }

// hasStages reports whether a group, counted from one, has stages; a group
// without any is left out of the pipeline.
func (g Graph) hasStages(group int) bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Group == group })
}

// build makes stages of the nodes, and returns the parts of a pipeline.
func (r *run) build() (parts []pipeline.Part) {
	g := r.plan.Graph
	r.sites = make([]*site, len(g.Nodes))
	for i := range g.Nodes {
		r.sites[i] = newSite(r, i, g.Nodes[i])
	}
	r.findOrders()
	for _, s := range r.sites {
		s.makeStage()
	}
	for _, s := range r.sites {
		s.connect()
	}
	groups := make([][]pipeline.Part, len(g.Groups))
	for _, s := range r.sites {
		if s.Group > 0 {
			groups[s.Group-1] = append(groups[s.Group-1], s.stage)
			continue
		}
		parts = append(parts, s.stage)
	}
	for _, s := range r.sites {
		if s.tail != nil {
			parts = append(parts, s.tail)
		}
	}
	for i, members := range groups {
		if len(members) > 0 {
			parts = append(parts, pipeline.Group(groupName(i+1), g.Groups[i].Fewest, g.Groups[i].Most, members...))
		}
	}
	for _, s := range r.sites {
		for n, port := range s.ports {
			parts = append(parts, pipeline.Wire(port, r.sites[s.Next[n]].stage))
		}
	}
	for i, f := range r.plan.Feeds {
		r.feeders = append(r.feeders, newFeeder(r, i, f))
		parts = append(parts, r.feeders[i].part())
	}
	return parts
}

// makeStage makes the site's stage and its ports.
func (s *site) makeStage() {
	opts := append(s.options(), stage.Restart(s.run.plan.restart()))
	for range s.Next {
		if s.Ports && s.Flow == "" && s.Window.Kind == "" {
			s.ports = append(s.ports, behaviour.NewPort[command](fmt.Sprintf("p%d.%d", s.index, len(s.ports))))
		}
	}
	for _, p := range s.ports {
		opts = append(opts, stage.Out(p))
	}
	if s.Middleware != (Middleware{}) {
		opts = append(opts, stage.Middleware(s.run.around(s.Middleware, s)))
	}
	s.stage = s.shape(opts)
}

// shape makes a stage with one instance for each worker, for each key, or for
// all.
func (s *site) shape(opts []stage.Option) *stage.Stage[command] {
	if s.Window.Kind != "" {
		return s.window(opts)
	}
	if s.Flow != "" {
		return s.flow(opts)
	}
	if s.Keyed && s.Suspends {
		if s.States {
			return stage.Keyed(name(s.index), s.laneOf, s.statefulSuspenderForKey, opts...)
		}
		return stage.Keyed(name(s.index), s.laneOf, s.suspenderForKey, opts...)
	}
	if s.Keyed {
		return stage.Keyed(name(s.index), s.laneOf, s.forKey, opts...)
	}
	if s.Each {
		return stage.Each(name(s.index), s.fresh, opts...)
	}
	return stage.New(name(s.index), s.fresh(), opts...)
}

// target returns the target of the site's n-th connection.
func (s *site) target(n int) behaviour.Target[command] {
	if s.Ports {
		return s.ports[n]
	}
	return s.run.sites[s.Next[n]].stage
}
