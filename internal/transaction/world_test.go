package transaction

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

// world delivers the messages of machines in an order that its seed decides. Messages of one incarnation to another arrive
// in the order in which they were sent; those of different pairs of incarnations in any order, so what was
// sent to a node that has died may reach its successor, late. Functions take time. Nodes crash when their plan says.
type world struct {
	rnd      *rand.Rand
	nodes    map[string]*node
	names    []string // in the order of creation
	lines    []*line
	byEnds   map[ends]*line
	possible []event
	sent     map[Kind]int

	trace   []string // if not nil
	more    func() []func()
	after   func() // called after each event
	commits map[string]int
}

// line is a connection from one incarnation of a node to one of another.
type line struct {
	from, to       *node
	fromInc, toInc int
	queue          []Message // a message of kind 0 is a death notice
}

// node is a process or a synchronizer.
type node struct {
	name        string
	incarnation int
	up          bool
	stays       bool // after a crash it does not come back
	plan        int  // it crashes when it has sent so many messages; 0 for never
	crashAfter  int  // so many are left

	// A process.
	process   *Process
	installed map[string]Message               // the last rules of each synchronizer: they survive the process
	local     func(n *node, q *requests.Queue) // its guards
	script    []guard.Request                  // what its client calls, one after the other
	called    int
	call      *requests.Request
	running   []*requests.Request
	on        bool
	start     func(n *node, r *requests.Request)
	end       func(n *node, r *requests.Request)
	died      func(n *node)
	text      text

	// A synchronizer.
	synchronizer *Synchronizer
	rules        func(s *Synchronizer)
}

func newWorld(seed uint64) *world {
	return &world{rnd: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*node{}, sent: map[Kind]int{}, commits: map[string]int{}, byEnds: map[ends]*line{}}
}

func (w *world) add(n *node) *node {
	w.nodes[n.name] = n
	n.installed = map[string]Message{}
	w.names = append(w.names, n.name)
	return n
}

// begin starts all nodes, and has the rules installed before the first call.
func (w *world) begin() {
	for _, name := range w.names {
		w.up(w.nodes[name])
	}
	for !w.quiet() {
		for _, l := range w.lines {
			if len(l.queue) > 0 {
				w.deliver(l)
			}
		}
	}
	for _, name := range w.names {
		n := w.nodes[name]
		n.crashAfter = n.plan
	}
}

// up starts a node, or starts it again.
func (w *world) up(n *node) {
	n.up = true
	n.incarnation++
	if n.rules != nil {
		n.synchronizer = NewSynchronizer(n.name, uint64(n.incarnation))
		n.synchronizer.text = n.text
		n.rules(n.synchronizer)
		n.synchronizer.Start()
		w.flush(n)
		return
	}
	q := requests.New()
	if n.local != nil {
		n.local(n, q)
	}
	n.on, n.running, n.call = false, nil, nil
	n.process = NewProcess(n.name, uint64(n.incarnation), q)
	n.process.text = n.text
	for _, from := range slices.Sorted(maps.Keys(n.installed)) {
		n.process.Receive(n.installed[from])
	}
	w.flush(n)
}

// flush sends what a node's machine wants sent, and crashes the node where its plan says.
func (w *world) flush(n *node) {
	var out []Message
	if n.rules != nil {
		out = n.synchronizer.Outbox()
	} else {
		out = n.process.Outbox()
	}
	for _, m := range out {
		w.send(n, m)
		if n.crashAfter > 0 {
			if n.crashAfter--; n.crashAfter == 0 {
				w.crash(n)
				return
			}
		}
	}
}

func (w *world) send(from *node, m Message) {
	w.sent[m.Kind]++
	if m.Kind == Commit {
		w.commits[m.To]++
	}
	l := w.line(from, w.nodes[m.To])
	l.queue = append(l.queue, m)
}

func (w *world) line(from, to *node) *line {
	l := &line{from: from, to: to, fromInc: from.incarnation, toInc: to.incarnation}
	if known := w.byEnds[l.ends()]; known != nil {
		return known
	}
	w.byEnds[l.ends()] = l
	w.lines = append(w.lines, l)
	return l
}

// ends identifies a line.
type ends struct {
	from, to       *node
	fromInc, toInc int
}

func (l *line) ends() ends { return ends{l.from, l.to, l.fromInc, l.toInc} }

// crash ends a node. The others get a notice behind what it has sent, of which the last part may be lost.
func (w *world) crash(n *node) {
	w.logf("%s crashes", n.name)
	n.up = false
	if n.died != nil {
		n.died(n)
	}
	n.on, n.running, n.call = false, nil, nil
	for _, name := range w.names {
		if other := w.nodes[name]; other != n {
			w.report(n, other)
		}
	}
}

// report sends a death notice of a node to another one. The notice may be wrong.
func (w *world) report(dead, to *node) {
	l := w.line(dead, to)
	if w.rnd.IntN(2) == 0 && len(l.queue) > 0 {
		l.queue = l.queue[:w.rnd.IntN(len(l.queue)+1)]
	}
	l.queue = append(l.queue, Message{From: dead.name, To: to.name, Epoch: uint64(dead.incarnation)})
}

// deliver delivers the first message of a line.
func (w *world) deliver(l *line) {
	m := l.queue[0]
	l.queue = l.queue[1:]
	if w.trace != nil {
		w.logf("%s/%d -> %s/%d %s", m.From, l.fromInc, m.To, l.toInc, describe(m))
	}
	n := l.to
	switch {
	case !n.up:
		if l.from.up && m.Kind != 0 && n.stays {
			w.report(n, l.from) // as a connection that is refused
		}
		return
	case m.Kind == 0 && n.rules != nil:
		n.synchronizer.Down(m.From, m.Epoch)
	case m.Kind == 0:
		n.process.Down(m.From, m.Epoch)
	case n.rules != nil:
		n.synchronizer.Receive(m)
	default:
		if m.Kind == Install && m.Epoch >= n.installed[m.From].Epoch {
			n.installed[m.From] = m
		}
		n.process.Receive(m)
	}
	w.serve(n)
}

// serve runs what may run.
func (w *world) serve(n *node) {
	if n.rules == nil {
		for r := n.process.Next(); r != nil; r = n.process.Next() {
			w.logf("%s starts %s", n.name, r.Method)
			if w.flush(n); !n.up {
				return
			}
			n.running = append(n.running, r)
			if n.start != nil {
				n.start(n, r)
			}
		}
	}
	w.flush(n)
}

// finish ends a function.
func (w *world) finish(n *node, i int) {
	r := n.running[i]
	n.running = slices.Delete(n.running, i, i+1)
	w.logf("%s ends %s", n.name, r.Method)
	if n.end != nil {
		n.end(n, r)
	}
	n.process.Complete(r)
	if n.call == r {
		n.call = nil
		n.called++
	}
	w.serve(n)
}

// next has a client call.
func (w *world) next(n *node) {
	r := &requests.Request{Request: n.script[n.called]}
	r.Process = n.name
	n.call = r
	w.logf("%s arrives %s", n.name, r.Method)
	n.process.Arrive(r)
	w.serve(n)
}

// event is something that can happen: a delivery, the end of a function, a call, a start, or what a test adds.
type event struct {
	line     *line
	node     *node
	function int // of those that run; -1 for a call or a start
	other    func()
}

// events finds all that can happen now.
func (w *world) events() []event {
	all := w.possible[:0]
	live := w.lines[:0]
	for _, l := range w.lines {
		if len(l.queue) > 0 {
			all = append(all, event{line: l})
		} else if l.fromInc != l.from.incarnation || l.toInc != l.to.incarnation {
			delete(w.byEnds, l.ends())
			continue
		}
		live = append(live, l)
	}
	w.lines = live
	for _, name := range w.names {
		n := w.nodes[name]
		if !n.up {
			if !n.stays {
				all = append(all, event{node: n, function: -1})
			}
			continue
		}
		for i := range n.running {
			all = append(all, event{node: n, function: i})
		}
		if n.call == nil && n.called < len(n.script) {
			all = append(all, event{node: n, function: -1})
		}
	}
	if w.more != nil {
		for _, f := range w.more() {
			all = append(all, event{other: f})
		}
	}
	w.possible = all
	return all
}

// happen has one event happen.
func (w *world) happen(e event) {
	switch {
	case e.line != nil:
		w.deliver(e.line)
	case e.other != nil:
		e.other()
	case !e.node.up:
		w.logf("%s starts again", e.node.name)
		w.up(e.node)
	case e.function >= 0:
		w.finish(e.node, e.function)
	default:
		w.next(e.node)
	}
}

// run runs until nothing more happens, and reports whether that was within the limit of events.
func (w *world) run(limit int) bool {
	idle := 0
	for range limit {
		events := w.events()
		if len(events) > 0 {
			w.happen(events[w.rnd.IntN(len(events))])
			if w.after != nil {
				w.after()
			}
			if w.rnd.IntN(200) == 0 {
				w.tick()
			}
			continue
		}
		if idle++; idle > 3 {
			return true
		}
		w.tick()
	}
	return false
}

// tick is what owners do from time to time.
func (w *world) tick() {
	for _, name := range w.names {
		switch n := w.nodes[name]; {
		case !n.up:
		case n.rules != nil:
			n.synchronizer.Repeat()
			w.flush(n)
		default:
			n.process.Repeat()
			w.serve(n)
		}
	}
}

// unfinished returns the processes that live and whose clients wait.
func (w *world) unfinished() (names []string) {
	for _, name := range w.names {
		if n := w.nodes[name]; n.rules == nil && n.up && n.called < len(n.script) {
			names = append(names, name)
		}
	}
	return names
}

func (w *world) messages() (n int) {
	for kind, count := range w.sent {
		if kind != Completed && kind != Install && kind != Installed {
			n += count
		}
	}
	return n
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

var kinds = [...]string{
	"down", "install", "installed", "join", "verify", "ok", "failed", "aborted", "commit", "release", "notify", "retry", "completed",
	"withdraw", "ask", "committed", "not committed", "offer", "not mine", "lock", "granted", "refused", "ready", "do", "unlock",
}

func describe(m Message) string {
	return fmt.Sprintf("%s (%d,%s,%d)#%d e%d %s", kinds[m.Kind], m.ID.Counter, m.ID.Process, m.ID.Incarnation, m.Attempt, m.Epoch, m.Request.Method)
}
