package stagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// Command is what travels through a [Graph].
type Command struct {
	ID   uint64 // of the command that was submitted
	Part uint32 // 0 for that one; others were emitted on its way, and this is where: see site.part
	Hops uint8  // how many stages it still passes after this one
}

// Priority is a number of small range, for queues that ask.
func (c Command) Priority() int { return int(mix(c.ID) % 5) }

// Deadline is some moment, for queues that ask.
func (c Command) Deadline() time.Time { return time.Unix(int64(1+mix(c.ID)%1000), 0) }

// key is a number of its own for each command.
func (c Command) key() uint64 { return mix(c.ID<<16 ^ uint64(c.Part)<<8 ^ uint64(c.Hops)) }

// Graph is stages and the ways between them, as a value: it can be drawn by chance, shrunk
// and printed.
type Graph struct {
	Nodes   []Node
	Entries []int // where commands are submitted
	Hops    int   // how many stages a command passes after its first
	Groups  []Span
}

// Span is from how many workers to how many.
type Span struct{ Fewest, Most int }

// Node is one stage of a graph. A zero field leaves the stage's default as it is.
type Node struct {
	Next    []int // where it forwards to; a number not above its own leads back
	Spread  bool  // it emits to all of Next but the one that it forwards to
	Ports   bool  // its ways are declared, and known before the start
	Each    bool  // it has an instance for each worker
	Batcher bool
	// Suspends has its handlers wait without their worker, here and there; it is neither Each nor Batcher then.
	Suspends bool
	Calls    bool // they wait for answers of nodes with higher numbers, too, if no way leads back from there
	Group    int  // in Graph.Groups, counted from one; 0: it has workers of its own

	Workers    Span
	Instances  int
	Capacity   int
	Batch      int
	Overflow   stage.OverflowRule
	Discipline string // by its name; empty: first in, first out
	Linger     time.Duration
	TTL        time.Duration // above Linger
	Timeout    time.Duration
	Grace      time.Duration
	Retry      stage.RetryPolicy
	Work       time.Duration // how long a handler takes
	Faults     Faults
}

// callable are the nodes whose answers a handler of node i may wait for: those with higher numbers from which no way
// leads back to it, be it by commands or by calls. Of a way by calls the pipeline knows nothing, so it would not let in what comes
// back: the node called would wait for room where all handlers wait for it.
func (g Graph) callable(i int) (to []int) {
	for j := i + 1; j < len(g.Nodes); j++ {
		if !g.leads(j, i, map[int]bool{}) {
			to = append(to, j)
		}
	}
	return to
}

// leads reports whether a way leads from one node to another that does not pass those that were seen.
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

// name is a node's stage's.
func name(i int) string { return fmt.Sprintf("s%d", i) }

// options are the stage's options.
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
	if d, err := queue.ByName(n.Discipline); err == nil {
		opts = append(opts, stage.Discipline(d))
	}
	return opts
}

// String writes the node out, what is set of it.
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
	for f, p := range n.Faults.odds() {
		say(p > 0, "%s=%v", Fault(f), p)
	}
	return strings.TrimSpace(b.String())
}

// String writes the graph out, a line for each stage.
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

// groupName is the name of a group, counted from one.
func groupName(group int) string { return fmt.Sprintf("g%d", group) }

// inhabited reports whether a group, counted from one, has stages: one without any is left out of the pipeline.
func (g Graph) inhabited(group int) bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Group == group })
}

// build makes stages of the nodes, and the parts of a pipeline.
func (r *run) build() (parts []pipeline.Part) {
	g := r.plan.Graph
	r.sites = make([]*site, len(g.Nodes))
	for i := range g.Nodes {
		r.sites[i] = newSite(r, i, g.Nodes[i])
	}
	for _, s := range r.sites {
		s.make()
	}
	groups := make([][]pipeline.Part, len(g.Groups))
	for _, s := range r.sites {
		if s.Group > 0 {
			groups[s.Group-1] = append(groups[s.Group-1], s.stage)
			continue
		}
		parts = append(parts, s.stage)
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
	return parts
}

// make makes the site's stage and its ports.
func (s *site) make() {
	opts := append(s.options(), stage.Restart(s.run.plan.restart()))
	for range s.Next {
		if s.Ports {
			s.ports = append(s.ports, behaviour.NewPort[Command](fmt.Sprintf("p%d.%d", s.index, len(s.ports))))
		}
	}
	for _, p := range s.ports {
		opts = append(opts, stage.Out(p))
	}
	s.stage = s.shape(opts)
}

// shape makes a stage of one of the five kinds.
func (s *site) shape(opts []stage.Option) *stage.Stage[Command] {
	if s.Each {
		return stage.Each(name(s.index), s.fresh, opts...)
	}
	return stage.New(name(s.index), s.fresh(), opts...)
}

// target is where the site's n-th way leads.
func (s *site) target(n int) behaviour.Target[Command] {
	if s.Ports {
		return s.ports[n]
	}
	return s.run.sites[s.Next[n]].stage
}
