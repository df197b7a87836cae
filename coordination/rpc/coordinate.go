package rpc

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/transaction"
)

// party is a side of the protocol of package transaction: a process with rules, or a synchronizer.
type party interface {
	Receive(m transaction.Message)
	Down(name string, incarnation uint64)
	Repeat()
	Awaits() []string
	Outbox() []transaction.Message
}

// coordination passes messages and death notices between a party and the others. It belongs to the goroutine that runs the process.
type coordination struct {
	process *Process
	party   party
	others  map[string]*lifeline // by name
	timer   *time.Timer          // of the next Repeat; nil if there is nothing to repeat
	pause   time.Duration        // before it
	closed  bool
	inRules bool // the party is called, or has not returned
}

// lifeline is the watch of an incarnation of another party.
type lifeline struct {
	incarnation uint64 // 0 if it has sent nothing yet
	stop        func()
}

// The pauses before a party repeats what it has sent to a node that was dead.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

func newCoordination(p *Process, with party) *coordination {
	return &coordination{process: p, party: with, others: map[string]*lifeline{}}
}

// receive handles a message of an incarnation of another party.
func (c *coordination) receive(m transaction.Message, incarnation uint64) {
	c.watch(m.From, incarnation)
	c.call(func() { c.party.Receive(m) })
}

// call calls the party. If a rule ends the goroutine, the party is not called again, and the process crashes.
func (c *coordination) call(f func()) {
	if c.inRules {
		panic(coroutine.ErrGoexit)
	}
	c.inRules = true
	defer func() {
		if c.inRules {
			c.process.post(entry{do: func() { c.call(nil) }})
		}
	}()
	f()
	c.inRules = false
}

// flush sends what the party wants sent.
func (c *coordination) flush() {
	var out []transaction.Message
	c.call(func() { out = c.party.Outbox() })
	for _, m := range out {
		if c.closed || c.process.isOver() {
			continue // a supervisor has given this incarnation up
		}
		c.process.node.coordinate(envelope{Incarnation: c.process.incarnation, Message: m})
		// A party that is not watched yet was sent what is repeated until it answers. When it is known not to exist, its node has the
		// message.
		c.watch(m.To, 0)
	}
	c.schedule()
}

// watch has the end of another party noticed: of the incarnation, or of the present one if that is 0.
func (c *coordination) watch(name string, incarnation uint64) {
	l := c.others[name]
	if l != nil && incarnation <= l.incarnation {
		return
	}
	if l != nil {
		l.stop()
	}
	l = &lifeline{incarnation: incarnation}
	c.others[name] = l
	l.stop = c.process.node.addressOf(name).watch(incarnation, func(error) {
		c.process.post(entry{do: func() { c.lost(name, l) }})
	})
}

// lost handles that an incarnation of another party has ended, or seems to have ended.
func (c *coordination) lost(name string, l *lifeline) {
	if c.closed {
		return
	}
	switch {
	case c.others[name] == l:
		delete(c.others, name)
	case l.incarnation == 0:
		return // it has sent something since
	}
	c.call(func() { c.party.Down(name, l.incarnation) })
	c.flush()
}

// schedule has the party repeat what may not have arrived, as long as there is any. What a dead process of the same node is to have, it
// gets when it starts.
func (c *coordination) schedule() {
	waits := !c.closed && slices.ContainsFunc(c.party.Awaits(), func(name string) bool {
		a := c.process.node.addressOf(name)
		_, dead := c.process.node.lookup(a.process)
		return !a.isHere() || dead == nil
	})
	switch {
	case !waits:
		c.pause = 0
		if c.timer != nil {
			c.timer.Stop()
			c.timer = nil
		}
	case c.timer == nil:
		c.pause = min(max(2*c.pause, firstPause), maxPause)
		c.timer = time.AfterFunc(c.pause, func() { c.process.post(entry{do: c.repeat}) })
	}
}

func (c *coordination) repeat() {
	if c.closed || c.timer == nil {
		return
	}
	c.timer = nil
	c.call(c.party.Repeat)
	c.flush()
}

// close ends the part of a process that ends.
func (c *coordination) close() {
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, l := range c.others {
		l.stop()
	}
}

// coordinate is called with a message of a synchronizer.
func (p *Process) coordinate(e envelope) {
	if p.coordination == nil {
		if len(e.Methods) == 0 {
			return // what is left of a synchronizer that has ended
		}
		p.rules = transaction.NewProcess(p.text, p.incarnation, p.queue)
		p.coordination = newCoordination(p, p.rules)
	}
	p.coordination.receive(e.Message, e.Incarnation)
	if e.Kind == transaction.Install {
		p.checkRules(e.Message)
	}
	p.coordination.flush()
}

// checkRules logs what is wrong with the rules that a synchronizer has installed.
func (p *Process) checkRules(m transaction.Message) {
	if p.rules == nil {
		p.node.cfg.Logger.Error("rpc: a synchronizer has rules for a synchronizer: it waits for an answer that will not come",
			slog.String("synchronizer", m.From), slog.String("process", p.text))
		return
	}
	for _, method := range slices.Sorted(maps.Keys(m.Methods)) {
		if p.functions[method] == nil {
			p.node.cfg.Logger.Warn("rpc: a synchronizer has rules for a function that the process does not have",
				slog.String("synchronizer", m.From), slog.String("process", p.text), slog.String("function", method))
		}
	}
	for _, c := range p.rules.Conflicts() {
		if slices.Contains(c.Constrains, m.From) || slices.Contains(c.Atomic, m.From) {
			p.node.cfg.Logger.Error("rpc: a method has constraints and atomic rules: its requests wait until a synchronizer is stopped",
				slog.String("process", p.text), slog.String("function", c.Method),
				slog.Any("constrained by", c.Constrains), slog.Any("atomic rules of", c.Atomic))
		}
	}
}

// coordinate sends a message between a process and a synchronizer. One that is lost is the matter of the watch.
func (n *Node) coordinate(e envelope) {
	n.coordinated.Add(1)
	to := n.addressOf(e.To)
	if to.isHere() {
		n.receiveCoordination(to.process, e)
		return
	}
	send := func() error {
		return n.transmit(to.node, &transport.Message{Kind: kindCoordinate, Process: to.process, Body: e})
	}
	if err := send(); err != nil && !errors.Is(err, ErrUnreachable) && e.Request.Args != nil {
		e.Request.Args, e.Problem = nil, err.Error() // the request must not wait for ever
		_ = send()
	}
}

// receiveCoordination takes a message to a process of this node. The node keeps the rules for processes that have not started
// yet, and for incarnations to come.
func (n *Node) receiveCoordination(process string, e envelope) {
	n.mu.Lock()
	if e.Kind == transaction.Install {
		n.keepLocked(process, e)
	}
	p := n.processes[process]
	n.mu.Unlock()
	if p != nil {
		p.post(entry{do: func() { p.coordinate(e) }})
	}
}

// keepLocked keeps the rules of a synchronizer for a process.
func (n *Node) keepLocked(process string, e envelope) {
	kept := n.rules[process]
	switch {
	case e.Epoch < kept[e.From].Epoch:
	case len(e.Methods) == 0:
		delete(kept, e.From)
		if len(kept) == 0 {
			delete(n.rules, process)
		}
	case kept == nil:
		n.rules[process] = map[string]envelope{e.From: e}
	default:
		kept[e.From] = e
	}
}

// keptRules returns the rules for a process, in the order of their synchronizers' names.
func (n *Node) keptRules(process string) (all []envelope) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, from := range slices.Sorted(maps.Keys(n.rules[process])) {
		all = append(all, n.rules[process][from])
	}
	return all
}

// addressOf returns the address that is written as a name.
func (n *Node) addressOf(name string) Address {
	node, process, _ := strings.Cut(name, "#")
	return Address{node, process, n}
}
