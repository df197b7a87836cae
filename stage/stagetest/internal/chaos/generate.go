package chaos

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/supervisor"
)

// Plans draws plans: random graphs, options, faults and disturbances. Rapid
// shrinks the values that are drawn first, so a plan that fails shrinks to few commands,
// few actions and few stages without options.
func Plans() *rapid.Generator[Plan] { return rapid.Custom(drawPlan) }

// Graphs draws graphs of at most that many stages: chains, fans, diamonds,
// loops; stages with workers of their own and groups.
func Graphs(most int) *rapid.Generator[Graph] {
	return rapid.Custom(func(t *rapid.T) Graph { return drawGraph(t, most) })
}

// mostStages is how many stages a plan's graph may have.
const mostStages = 7

var (
	strategies = []supervisor.Strategy{supervisor.RestForOne, supervisor.OneForOne, supervisor.OneForAll}
	overflows  = []overflow.Rule{overflow.Wait, overflow.Wait, overflow.Wait, overflow.Reject, overflow.DropNewest, overflow.DropOldest}
)

func drawPlan(t *rapid.T) Plan {
	p := Plan{
		Seed:       rapid.Uint64().Draw(t, "seed"),
		Commands:   rapid.SampledFrom([]int{1, 3, 10, 30, 100, 200, 300, 400}).Draw(t, "commands"),
		Submitters: rapid.IntRange(1, 4).Draw(t, "submitters"),
		Policy:     rapid.SampledFrom(policy.Names()).Draw(t, "policy"),
		Strategy:   rapid.SampledFrom(strategies).Draw(t, "strategy"),
		End:        Ending(rapid.IntRange(0, int(endings)-1).Draw(t, "end")),
		Hasty:      seldom(t, 4, "hasty"),
		Quiet:      seldom(t, 4, "quiet"),
		Fragile:    seldom(t, 12, "fragile"),
		Ordered:    seldom(t, 6, "ordered"),
	}
	if p.Ordered {
		p.Submitters, p.Graph, p.Policy = 1, drawLine(t), inOrder(p.Policy)
	} else {
		p.Graph = drawGraph(t, mostStages)
	}
	for range p.Graph.Groups { // the pipeline's controller controls some of them
		p.GroupPolicies = append(p.GroupPolicies, rapid.SampledFrom(append([]string{"", "", ""}, policy.Names()...)).Draw(t, "groupPolicy"))
	}
	p.Disturbances = drawDisturbances(t, p)
	if p.Fans = seldom(t, 3, "fans"); p.Fans {
		p.Commands = min(p.Commands, 100) // each may become hundreds
		p.MaxInFlight = rapid.SampledFrom([]int{0, 0, 0, 50, 500}).Draw(t, "inFlight")
	}
	if p.copies() { // each may wait for its TTL
		p.Commands = min(p.Commands, 100)
	}
	drawFeeds(t, &p)
	windows := func(n Node) bool { return n.Window.Kind != "" }
	if seldom(t, 6, "middleware") && !slices.ContainsFunc(p.Graph.Nodes, windows) {
		p.Middleware = drawMiddleware(t)
	}
	return p
}

// drawFeeds draws the feeds of some plans, and changes the options that do not
// go with feeds.
func drawFeeds(t *rapid.T, p *Plan) {
	if seldom(t, 3, "feeds") {
		feeds := 1
		if !p.Ordered {
			feeds = rapid.IntRange(1, 2).Draw(t, "feeds")
			p.Commands = rapid.SampledFrom([]int{0, p.Commands}).Draw(t, "submitted")
		} else {
			p.Commands = 0
		}
		for range feeds {
			p.Feeds = append(p.Feeds, drawFeed(t, *p))
		}
	}
	p.Resumes = slices.ContainsFunc(p.Feeds, Feed.resumes) && rapid.Bool().Draw(t, "resumes")
	endless := func(f Feed) bool { return f.Commands == 0 }
	if p.End == Exhausted && (len(p.Feeds) == 0 || slices.ContainsFunc(p.Feeds, endless)) {
		p.End = Softly
	}
	kills := 0
	p.Disturbances = slices.DeleteFunc(p.Disturbances, func(d Disturbance) bool {
		switch d.Action {
		case KillFeed: // a feed that is restarted too often gives up
			kills++
			return kills > mostKills
		case Drain, DrainStage, Reopen: // a reopened pipeline does not end by itself
			return p.End == Exhausted
		default:
			return false
		}
	})
}

// mostKills is how many feeds a plan kills: the pauses before the restarts of a
// source double, from 100 ms.
const mostKills = 2

func drawFeed(t *rapid.T, p Plan) Feed {
	lengths := []int{1, 3, 30, 100, 300, 0}
	if p.Fans || p.copies() {
		lengths = []int{1, 3, 30, 50, 0}
	}
	f := Feed{
		Commands: rapid.SampledFrom(lengths).Draw(t, "length"),
		Offsets:  rapid.Bool().Draw(t, "offsets"),
	}
	if !p.Ordered {
		f.To = rapid.IntRange(0, len(p.Graph.Nodes)-1).Draw(t, "to")
	}
	if f.Commands == 0 || seldom(t, 3, "slow") {
		f.Pause = time.Duration(rapid.IntRange(100, 500).Draw(t, "pause")) * time.Microsecond
	}
	if seldom(t, 3, "crashes") {
		f.Crashes = rapid.IntRange(1, 2).Draw(t, "crashes")
		f.Fatal = p.Fragile
	}
	if f.Redelivers = !p.Ordered && rapid.Bool().Draw(t, "redelivers"); f.Redelivers {
		f.Offsets = false
		return f
	}
	if f.Checkpoint = rapid.Bool().Draw(t, "checkpoint"); f.Checkpoint {
		f.From = rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(t, "from")
		if seldom(t, 6, "unsaved") {
			f.Unsaved = 1
		}
	}
	return f
}

func drawMiddleware(t *rapid.T) Middleware {
	m := Middleware{
		Panic: odds(t, "panic"), Answer: odds(t, "answer"), Again: odds(t, "again"), Derive: 2 * odds(t, "derive"),
	}
	m.Pass = 1 - (m.Panic + m.Answer + m.Again + m.Derive)
	return m
}

// seldom is true once in that many times.
func seldom(t *rapid.T, in int, label string) bool {
	return rapid.IntRange(0, in-1).Draw(t, label) == in-1
}

func drawGraph(t *rapid.T, most int) Graph {
	g := Graph{Hops: rapid.IntRange(0, 6).Draw(t, "hops")}
	stages := rapid.IntRange(1, most).Draw(t, "stages")
	for range rapid.IntRange(0, 2).Draw(t, "groups") {
		fewest := rapid.IntRange(1, 3).Draw(t, "fewest")
		g.Groups = append(g.Groups, Span{fewest, fewest + rapid.IntRange(0, 3).Draw(t, "more")})
	}
	shape := rapid.SampledFrom([]string{"chain", "fan", "any"}).Draw(t, "shape")
	for i := range stages {
		g.Nodes = append(g.Nodes, drawNode(t, i, stages, len(g.Groups), shape))
	}
	g.Entries = rapid.SliceOfNDistinct(rapid.IntRange(0, stages-1), 1, min(2, stages), rapid.ID[int]).Draw(t, "entries")
	return g
}

// drawLine draws a line of stages, each with one instance, in which commands
// must stay in order.
func drawLine(t *rapid.T) Graph {
	g := Graph{Entries: []int{0}, Hops: 10}
	for i := range rapid.IntRange(1, 5).Draw(t, "stages") {
		n := Node{
			Workers: Span{1, 1}, Instances: 1,
			Ports: rapid.Bool().Draw(t, "ports"), Each: rapid.Bool().Draw(t, "each"),
			Capacity: rapid.SampledFrom([]int{0, 1, 2, 7, 64}).Draw(t, "capacity"),
			Batch:    rapid.SampledFrom([]int{0, 1, 2, 8}).Draw(t, "batch"),
			Faults: stagetest.Faults{
				Panic: odds(t, "panic"), Goexit: odds(t, "goexit"), Error: odds(t, "error"), Delay: odds(t, "delay"),
			},
		}
		if n.Suspends = seldom(t, 3, "suspends"); n.Suspends {
			n.Each = false
		}
		if seldom(t, 3, "keyed") {
			drawKeyed(t, &n)
			n.Workers, n.Instances = Span{1, rapid.IntRange(1, 4).Draw(t, "more")}, 0
			drawRetry(t, &n)
		} else if seldom(t, 3, "ordered") {
			n.Ordered, n.Workers, n.Instances = true, Span{1, rapid.IntRange(1, 4).Draw(t, "more")}, 0
			drawRetry(t, &n)
		}
		drawStates(t, &n)
		drawAround(t, &n)
		n.Visits = n.Suspends && seldom(t, 3, "visits")
		if seldom(t, 5, "window") {
			n.Retry, n.Faults.Delay = stage.RetryPolicy{}, 0 // a command that was delayed is overtaken
			drawWindow(t, i, &n)
			n.Window.Kind = rapid.SampledFrom([]string{windowAll, windowBy, windowAggregate}).Draw(t, "list")
			n.Window.Fail = false
		}
		if i > 0 {
			g.Nodes[i-1].Next = []int{i}
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

func drawNode(t *rapid.T, i, stages, groups int, shape string) Node {
	n := Node{
		Next:       drawNext(t, i, stages, shape),
		Spread:     seldom(t, 4, "spread"),
		Ports:      rapid.Bool().Draw(t, "ports"),
		Each:       rapid.Bool().Draw(t, "each"),
		Batcher:    seldom(t, 4, "batcher"),
		Group:      rapid.IntRange(0, groups).Draw(t, "group"),
		Instances:  rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "instances"),
		Capacity:   rapid.SampledFrom([]int{0, 1, 2, 3, 8, 64}).Draw(t, "capacity"),
		Batch:      rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "batch"),
		Overflow:   rapid.SampledFrom(overflows).Draw(t, "overflow"),
		Discipline: rapid.SampledFrom(append([]string{"", ""}, queue.Names()...)).Draw(t, "discipline"),
	}
	if fewest := rapid.IntRange(0, 3).Draw(t, "fewest"); fewest > 0 {
		n.Workers = Span{fewest, fewest + rapid.IntRange(0, 4).Draw(t, "more")}
	}
	if n.Ports && slices.Contains(n.Next, i) && n.Capacity == 1 {
		n.Capacity = 2 // New refuses a loop without slack
	}
	if seldom(t, 6, "lingers") {
		n.Linger = time.Duration(1+rapid.IntRange(0, 2).Draw(t, "linger")) * time.Millisecond
	}
	if seldom(t, 6, "expires") {
		n.TTL = n.Linger + time.Duration(1+rapid.IntRange(0, 9).Draw(t, "ttl"))*time.Millisecond
	}
	drawRetry(t, &n)
	if seldom(t, 4, "works") {
		n.Work = time.Duration(rapid.IntRange(1, 200).Draw(t, "work")) * time.Microsecond
	}
	n.Faults = stagetest.Faults{
		Panic: odds(t, "panic"), Goexit: odds(t, "goexit"), Error: odds(t, "error"),
		Delay: odds(t, "delay"), Poison: odds(t, "poison"),
	}
	if seldom(t, 5, "limited") {
		n.Timeout = time.Duration(rapid.IntRange(2, 6).Draw(t, "timeout")) * time.Millisecond
		n.Grace = time.Duration(rapid.IntRange(2, 6).Draw(t, "grace")) * time.Millisecond
		n.Faults.Hang, n.Faults.Stuck = odds(t, "hang")/4, odds(t, "stuck")/4
	}
	if seldom(t, 3, "suspends") {
		n.Suspends, n.Each, n.Batcher = true, false, false
		n.Calls = rapid.Bool().Draw(t, "calls")
	}
	if seldom(t, 4, "keyed") {
		drawKeyed(t, &n)
	}
	if seldom(t, 3, "flow") {
		drawFlow(t, i, &n)
	}
	if !n.Keyed && seldom(t, 4, "ordered") {
		n.Ordered, n.Discipline = true, ""
	}
	drawStates(t, &n)
	drawAround(t, &n)
	n.Visits = n.Suspends && seldom(t, 3, "visits")
	if seldom(t, 5, "window") {
		drawWindow(t, i, &n)
	}
	if n.Window == (Window{}) && !n.Keyed && !n.Ordered && seldom(t, 4, "fair") {
		n.Fair, n.AtOnce, n.Discipline = true, rapid.IntRange(0, 3).Draw(t, "at once"), ""
	}
	if n.Flow == "" && n.Window == (Window{}) && !n.Keyed && !n.Ordered && !n.Fair && seldom(t, 3, "guarded") {
		n.Guard, n.Discipline, n.Linger = rapid.IntRange(1, 3).Draw(t, "guard"), "", 0
	}
	return n
}

// drawStates gives the instances of some nodes a state that survives them.
func drawStates(t *rapid.T, n *Node) {
	if n.Flow != "" || !n.Each && !n.Keyed || n.Batcher || n.Timeout > 0 || rapid.Bool().Draw(t, "stateless") {
		return
	}
	n.States, n.SnapshotEvery = true, rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "every")
	if n.Passivates {
		n.KeepStates = rapid.SampledFrom([]int{0, 2, keys, 100}).Draw(t, "keep")
	}
}

// drawWindow makes a node one with windows.
func drawWindow(t *rapid.T, i int, n *Node) {
	n.Each, n.Batcher, n.Suspends, n.Calls, n.Visits = false, false, false, false, false
	n.Spread, n.Keyed, n.Passivates, n.Ordered = false, false, false, false
	n.States, n.SnapshotEvery, n.KeepStates, n.Flow, n.Route, n.Discipline, n.Group = false, 0, 0, "", "", "", 0
	n.Workers, n.Instances, n.Linger, n.Work, n.Middleware, n.Ports = Span{}, 0, 0, 0, Middleware{}, true
	n.Faults.Stuck = 0
	if len(n.Next) > 0 {
		n.Route = rapid.SampledFrom(routes).Draw(t, "route")
	}
	if slices.Contains(n.Next, i) && n.Capacity == 1 {
		n.Capacity = 2 // New refuses a loop without slack
	}
	some := func(label string, of ...int) int { return rapid.SampledFrom(of).Draw(t, label) }
	millis := func(label string) time.Duration { return time.Duration(1+some(label, 0, 1, 4)) * time.Millisecond }
	w := Window{Kind: rapid.SampledFrom(windowKinds).Draw(t, "kind")}
	switch w.Kind {
	case windowJoin, windowTicket:
		w.Count, w.Time, w.Held, w.Fail = some("count", 2, 3), millis("time"), some("held", 0, 3, 20), rapid.Bool().Draw(t, "fail")
		if w.Kind == windowTicket {
			w.Count, w.Time = some("parts", 0, 0, 2), time.Duration(some("limit", 1, 20))*time.Millisecond
		}
	case windowDebounce:
		w.Idle, w.Time = millis("idle"), time.Duration(some("limit", 0, 5, 10))*time.Millisecond
	case windowThrottle:
		w.Time = millis("time")
	default:
		w.Count, w.Bytes, w.Held = some("count", 0, 1, 2, 5, 20), some("bytes", 0, 0, 4, 20), some("held", 0, 0, 3, 20)
		if w.Held > 0 {
			w.Count = min(w.Count, w.Held) // New refuses a window that can never be as large
		}
		w.Every = time.Duration(some("every", 0, 0, 2)) * time.Millisecond
		w.Idle = time.Duration(some("idle", 0, 0, 1, 3)) * time.Millisecond
		if w.Time = time.Duration(some("time", 0, 1, 2, 5)) * time.Millisecond; w.isUnlimited() {
			w.Time = time.Millisecond // a policy may wait for the held commands
		}
	}
	n.Window = w
}

// drawAround draws a rate and middleware for some nodes.
func drawAround(t *rapid.T, n *Node) {
	if seldom(t, 5, "rated") {
		n.Rate, n.Burst = rapid.SampledFrom([]int{3, 10, 50}).Draw(t, "rate"), rapid.SampledFrom([]int{1, 2, 30}).Draw(t, "burst")
	}
	if seldom(t, 5, "surrounded") {
		n.Middleware = drawMiddleware(t)
	}
}

// drawFlow makes a node a flow.
func drawFlow(t *rapid.T, i int, n *Node) {
	n.Each, n.Batcher, n.Suspends, n.Calls, n.Spread, n.Keyed, n.Passivates = false, false, false, false, false, false, false
	n.Ports, n.Linger = true, 0
	back := slices.ContainsFunc(n.Next, func(to int) bool { return to <= i })
	switch {
	case len(n.Next) == 0:
		n.Flow = rapid.SampledFrom([]string{flowMap, flowFilter, flowSink}).Draw(t, "flow")
		return
	case back:
		n.Flow = flowFlatMap
	default:
		n.Flow = rapid.SampledFrom([]string{flowMap, flowFilter, flowFlatMap}).Draw(t, "flow")
	}
	n.Route = rapid.SampledFrom(routes).Draw(t, "route")
	if slices.Contains(n.Next, i) && n.Capacity == 1 {
		n.Capacity = 2 // New refuses a loop without slack
	}
}

// drawRetry draws a retry policy for some nodes.
func drawRetry(t *rapid.T, n *Node) {
	if !seldom(t, 3, "retries") {
		return
	}
	n.Retry = stage.RetryPolicy{
		Attempts: rapid.IntRange(2, 4).Draw(t, "attempts"),
		Backoff:  time.Duration(rapid.IntRange(0, 3).Draw(t, "backoff")) * 300 * time.Microsecond,
		Jitter:   rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "jitter"),
	}
}

// drawKeyed makes a node a keyed one.
func drawKeyed(t *rapid.T, n *Node) {
	n.Keyed, n.Passivates = true, seldom(t, 3, "passivates")
	n.Each, n.Batcher, n.Discipline = false, false, ""
}

// odds draws a probability, mostly zero.
func odds(t *rapid.T, label string) float64 {
	return rapid.SampledFrom([]float64{0, 0, 0, 0.01, 0.05, 0.15}).Draw(t, label)
}

// drawNext draws where a node forwards to: the next node, several later ones,
// or any.
func drawNext(t *rapid.T, i, stages int, shape string) []int {
	switch {
	case shape == "chain" && i+1 < stages:
		return []int{i + 1}
	case shape == "fan" && i+1 < stages:
		return rapid.SliceOfNDistinct(rapid.IntRange(i+1, stages-1), 1, min(3, stages-1-i), rapid.ID[int]).Draw(t, "next")
	case shape == "any":
		return rapid.SliceOfNDistinct(rapid.IntRange(0, stages-1), 0, min(3, stages), rapid.ID[int]).Draw(t, "next")
	default:
		return nil
	}
}

// inOrder returns a policy that keeps the order of queues.
func inOrder(name string) string {
	if name == "codel" {
		return "fixed"
	}
	return name
}

func drawDisturbances(t *rapid.T, p Plan) []Disturbance {
	all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Disturbance {
		return Disturbance{
			At:     rapid.IntRange(0, 100).Draw(t, "at"),
			Action: Action(rapid.IntRange(0, int(actions)-1).Draw(t, "action")),
			Stage:  rapid.IntRange(0, len(p.Graph.Nodes)-1).Draw(t, "stage"),
			Policy: rapid.SampledFrom(policy.Names()).Draw(t, "policy"),
			Group:  rapid.IntRange(0, len(p.Graph.Groups)).Draw(t, "group"),
		}
	}), 0, 8).Draw(t, "disturbances")
	var kept []Disturbance
	for _, d := range all {
		if p.Ordered {
			d.Policy = inOrder(d.Policy)
		}
		switch {
		case p.Ordered && (d.Action == AddStage || d.Action == RetryLetters): // they submit, too
		case d.Action == Drain && d.At < 50 && p.Commands > 1: // otherwise most plans would do nothing
			d.At += 50
			kept = append(kept, d)
		default:
			kept = append(kept, d)
		}
	}
	slices.SortStableFunc(kept, func(a, b Disturbance) int { return a.At - b.At })
	return kept
}
