package rpc

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/transaction"
)

// party is a side of the protocol of package transaction: a process with rules,
// or a synchronizer.
type party interface {
	Receive(m transaction.Message)
	Down(name string, incarnation uint64)
	Repeat()
	Awaits() []string
	Outbox() []transaction.Message
}

// coordination passes messages and death notices between a party and the
// others. It belongs to the goroutine that runs the process.
type coordination struct {
	process *Process
	party   party
	// sends the party's messages
	say     func(p *Process, out []transaction.Message)
	others  map[string]*lifeline // by name
	closed  bool
	inRules bool // the party is called, or has not returned

	repeating alarm // while something may not have arrived
	warning   alarm // while a synchronizer cannot be reached
}

// lifeline is the watch of an incarnation of another party.
type lifeline struct {
	incarnation uint64 // 0 if it has sent nothing yet
	stop        func()
}

// alarm is something that a process does again and again while there is reason
// to, after pauses that double.
type alarm struct {
	first, longest time.Duration
	do             func()

	pause time.Duration
	timer *time.Timer // nil if there is no reason
}

func newCoordination(p *Process, with party, say func(p *Process, out []transaction.Message)) *coordination {
	c := &coordination{process: p, party: with, say: say, others: map[string]*lifeline{}}
	c.repeating = alarm{first: 50 * time.Millisecond, longest: 2 * time.Second, do: c.repeat}
	c.warning = alarm{first: time.Second, longest: 10 * time.Minute, do: c.warn}
	return c
}

// receive handles a message of an incarnation of another party.
func (c *coordination) receive(m transaction.Message, incarnation uint64) {
	if !c.isLate(m) {
		c.watch(m.From, incarnation)
	}
	c.call(func() { c.party.Receive(m) })
}

// isLate reports whether a message was sent to an earlier synchronizer of the
// name. Its sender may have been replaced by a successor, which is the process
// that is watched.
func (c *coordination) isLate(m transaction.Message) bool {
	return c.process.rules == nil && m.Kind != transaction.Ask && m.Epoch != c.process.incarnation
}

// call calls the party. If a rule ends the goroutine, the party is not called
// again, and the process crashes.
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

// flush sends the messages in the party's outbox.
func (c *coordination) flush() {
	var out []transaction.Message
	c.call(func() { out = c.party.Outbox() })
	if c.closed || c.process.isOver() {
		return // a supervisor has given this incarnation up
	}
	c.say(c.process, out)
	for _, m := range out {
		// A party that is not watched yet was sent a message that is repeated
		// until it answers. When the party is known not to exist, its node has
		// the message.
		c.watch(m.To, 0)
	}
	c.schedule()
}

// say sends messages of a process with rules.
func say(p *Process, out []transaction.Message) {
	for _, m := range out {
		p.node.coordinate(envelope{Incarnation: p.incarnation, Message: m})
	}
}

// watch has the end of another party noticed: of the incarnation, or of the
// present one if that is 0.
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
	l.stop = c.process.node.addressOf(name).watch(watched{incarnation, true}, func(error) {
		c.process.post(entry{do: func() { c.lost(name, l) }})
	})
}

// lost handles that an incarnation of another party has ended, or seems to have
// ended.
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

// schedule sets the alarms. A process of the same node that does not serve gets
// its rules when it starts, so nothing is repeated for it.
func (c *coordination) schedule() {
	awaits := c.party.Awaits()
	c.set(&c.repeating, slices.ContainsFunc(awaits, func(name string) bool {
		a := c.process.node.addressOf(name)
		p, err := c.process.node.lookup(a.process)
		return !a.isHere() || err == nil && p.isServing()
	}))
	c.set(&c.warning, c.process.rules != nil && len(awaits) > 0)
}

func (c *coordination) set(a *alarm, reason bool) {
	switch {
	case !reason:
		a.stop()
		a.pause = 0
	case a.timer == nil:
		a.pause = min(max(2*a.pause, a.first), a.longest)
		a.timer = time.AfterFunc(a.pause, func() {
			c.process.post(entry{do: func() {
				if c.closed || a.timer == nil {
					return
				}
				a.timer = nil
				a.do()
				c.flush()
			}})
		})
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

func (c *coordination) repeat() { c.call(c.party.Repeat) }

// warn logs which requests wait for a synchronizer that cannot be reached. If
// none does the next look is soon.
func (c *coordination) warn() {
	held := c.process.rules.Held()
	for _, s := range slices.Sorted(maps.Keys(held)) {
		c.process.node.cfg.Logger.Warn("rpc: requests wait for a synchronizer that cannot be reached",
			slog.String("process", c.process.text), slog.String("synchronizer", s), slog.Any("functions", held[s]))
	}
	if len(held) == 0 {
		c.warning.pause = 0
	}
}

// close ends the part of a process that ends.
func (c *coordination) close() {
	c.closed = true
	c.repeating.stop()
	c.warning.stop()
	for _, l := range c.others {
		l.stop()
	}
}

// coordinate is called with a message of a synchronizer.
func (p *Process) coordinate(e envelope) {
	switch {
	case p.coordination == nil && len(e.Methods) == 0:
		return // a late message of a synchronizer that has ended
	case p.coordination == nil:
		p.rules = transaction.NewProcess(p.text, p.incarnation, p.queue)
		p.coordination = newCoordination(p, p.rules, say)
	case p.rules == nil && e.Kind == transaction.Install:
		p.declineRules(e.Message)
		return
	}
	p.coordination.receive(e.Message, e.Incarnation)
	if e.Kind == transaction.Install {
		p.checkRules(e.Message)
	}
	p.coordination.flush()
}

// declineRules answers an Install that was sent to a synchronizer.
func (p *Process) declineRules(m transaction.Message) {
	if len(m.Methods) > 0 {
		say(p, []transaction.Message{{
			Kind: transaction.NoFunctions, From: p.text, To: m.From, Epoch: m.Epoch,
			ID: transaction.ID{Process: p.text, Incarnation: p.incarnation},
		}})
	}
}

// checkRules logs the functions that the process does not have and a
// synchronizer has rules for.
func (p *Process) checkRules(m transaction.Message) {
	var unknown []string
	for _, method := range slices.Sorted(maps.Keys(m.Methods)) {
		if p.functions[method] == nil {
			unknown = append(unknown, short(method))
		}
	}
	if len(unknown) > 0 && p.warns(m.From) {
		p.node.cfg.Logger.Warn("rpc: a synchronizer has rules for a function that the process does not have",
			slog.String("synchronizer", short(m.From)), slog.String("process", p.text), slog.String("function", listed(unknown)))
	}
	for _, c := range p.rules.Conflicts() {
		if slices.Contains(c.Constrains, m.From) || slices.Contains(c.Atomic, m.From) {
			p.node.cfg.Logger.Error("rpc: a method has constraints and atomic rules: its requests wait until a synchronizer is stopped",
				slog.String("process", p.text), slog.String("function", c.Method),
				slog.Any("constrained by", c.Constrains), slog.Any("atomic rules of", c.Atomic))
		}
	}
}

// coordinate sends a message between a process and a synchronizer. One that is
// lost is the matter of the watch.
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

// receiveCoordination takes a message to a process of this node. The node keeps
// the rules for processes that have not started yet, and for incarnations to
// come. It answers for synchronizers that have ended.
func (n *Node) receiveCoordination(process string, e envelope) {
	if e.Kind == transaction.Join && n.tookBack(process, e.Epoch) {
		n.release(process, e.From, e.Epoch)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock() // the process has rules in the order in which the node has them
	if e.Kind == transaction.Install {
		n.keepLocked(process, e)
	}
	if p := n.processes[process]; p != nil && (e.Kind != transaction.Install || p.isServing()) {
		p.post(entry{do: func() { p.coordinate(e) }})
	}
}

// tookBack reports whether the rules of an epoch of a synchronizer have been
// taken back: they are of this node, not of one that had its name before, and
// none of that synchronizer's name are in force. The process may have been out
// of reach then.
func (n *Node) tookBack(name string, epoch uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.first < epoch && epoch <= n.incarnation && n.rulebooks[name] == nil && n.ruled[name] == nil
}

// release has a process follow the rules of a synchronizer of this node no
// more, if they are of that epoch or an earlier one.
func (n *Node) release(synchronizer, process string, epoch uint64) {
	n.coordinate(envelope{Incarnation: epoch, Message: transaction.Message{
		Kind: transaction.Install, From: n.Address(synchronizer).String(), To: process, Epoch: epoch,
		ID: transaction.ID{Process: process},
	}})
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

// begin makes a process serve, and returns the rules that it must follow first,
// in the order of their synchronizers' names. Later rules are sent to it.
func (n *Node) begin(p *Process) (all []envelope) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.mu.Lock()
	p.serves = true
	p.mu.Unlock()
	kept := n.rules[p.slot.name]
	for _, from := range slices.Sorted(maps.Keys(kept)) {
		all = append(all, kept[from])
	}
	return all
}

// addressOf returns the address that is written as a name.
func (n *Node) addressOf(name string) Address {
	node, process, _ := strings.Cut(name, "#")
	return Address{node, process, n}
}

// warns reports whether unknown functions in rules are logged: those of another
// node are not if such rules were logged a short while ago.
func (p *Process) warns(synchronizer string) bool {
	if from := p.node.addressOf(synchronizer).node; from == "" || from == p.node.name {
		return true
	}
	now := time.Now()
	if now.Sub(p.warned) < complaintPause {
		return false
	}
	p.warned = now
	return true
}

// listed returns the first of several names, and how many more there are.
func listed(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
