package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rules"
	"github.com/golda-dev/golda/internal/transaction"
	"github.com/golda-dev/golda/supervisor"
)

// Synchronize starts a synchronizer of processes: their addresses are the members that init names. They may be of any node, and need
// not exist yet. Synchronize returns when all of them follow the rules, except those that do not exist or cannot be reached, which follow
// them before they serve their first request, or as soon as they are reached. If ctx ends first the synchronizer is stopped again. The
// error says all that is wrong with the rules; a method of a process may have constraints or be in atomic rules, not both. A function of a
// member must not call Synchronize: it would hold up its own process.
//
// If a rule panics the synchronizer is restarted, after a pause that grows to ten seconds: init runs again. While it is down, and until it
// has the counters of all members, requests of the methods wait that have constraints, triggers for [synchronizer.Accepted] or atomic
// rules.
//
// A request whose caller gives up while it is decided may count as accepted and completed without having run.
//
// [Node.Stop] stops it and takes its rules back; members of nodes that cannot be reached keep them. When the node ends otherwise, members
// of other nodes wait for a synchronizer of that name to be started again.
//
// init must not block, since [Node.Spawn] and [Node.Stop] wait for it, and must name the same members whenever it runs: members that only
// an earlier run has named keep its rules. Do not stop a synchronizer before Synchronize has returned: its rules may stay, and Synchronize
// may not return before ctx ends.
func (n *Node) Synchronize(ctx context.Context, name string, init func(s *synchronizer.Synchronizer)) (Address, error) {
	link.CheckContext(ctx, "rpc: Synchronize")
	tree, err := n.root(ctx)
	if err != nil {
		return Address{}, err
	}
	r := newRulebook(name, init)
	if _, err := tree.Add(ctx, n.Child(name, r.start)); err != nil {
		r.retire(n)
		return Address{}, fmt.Errorf("rpc: synchronizer %q: %w", name, err)
	}
	n.mu.Lock()
	n.rulebooks[name] = r
	n.mu.Unlock()
	select {
	case <-r.installed:
		return n.Address(name), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-tree.Done():
		err = n.errClosed()
	}
	_ = n.Stop(name)
	return Address{}, fmt.Errorf("rpc: synchronizer %q: not all of its processes have its rules: %w", name, err)
}

// SynchronizerChild returns a synchronizer as a child of a supervisor, as [Node.Child] does for a process. See [Node.Synchronize] for the
// rest; the child is ready when init has returned, and its rules are not taken back.
func (n *Node) SynchronizerChild(name string, init func(s *synchronizer.Synchronizer)) supervisor.Child {
	return n.Child(name, newRulebook(name, init).start)
}

// rulebook is a synchronizer through all its incarnations.
type rulebook struct {
	name string
	init func(s *synchronizer.Synchronizer)

	installed     chan struct{} // is closed when all members have the rules
	installedOnce sync.Once

	mu      sync.Mutex                // guards the fields below
	counted map[rules.Method]struct{} // the methods that only rules have asked for
	members []string
	process *Process // the present incarnation
	retired bool     // there will be no further one
}

func newRulebook(name string, init func(s *synchronizer.Synchronizer)) *rulebook {
	return &rulebook{name: name, init: init, installed: make(chan struct{}), counted: map[rules.Method]struct{}{}}
}

// start is the init of the synchronizer's process.
func (r *rulebook) start(p *Process) error {
	r.mu.Lock()
	retired := r.retired
	r.process = p
	r.mu.Unlock()
	if retired {
		return supervisor.ErrStopped
	}
	c := &coordinator{book: r, process: p}
	if err := c.begin(); err != nil {
		return err
	}
	p.coordination = newCoordination(p, c)
	p.coordination.flush()
	return nil
}

// retire takes the rules back, when the synchronizer has ended, or was given up by its supervisor: then it has no more to say.
func (r *rulebook) retire(n *Node) {
	r.mu.Lock()
	members, p := r.members, r.process
	r.retired = true
	r.mu.Unlock()
	if p != nil {
		n.leave(p)
		p.disown(fmt.Errorf("%w: process %s was stopped", ErrUnreachable, p.address))
	}
	epoch := n.nextIncarnation()
	for _, to := range members {
		n.coordinate(envelope{Incarnation: epoch, Message: transaction.Message{
			Kind: transaction.Install, From: n.Address(r.name).String(), To: to, Epoch: epoch, ID: transaction.ID{Process: to},
		}})
	}
}

// coordinator is an incarnation of a synchronizer.
type coordinator struct {
	*transaction.Synchronizer

	book    *rulebook
	process *Process
	missing []rules.Method // what rules have asked for and was not counted
}

// Outbox returns the messages to send. If rules have asked for methods that are not counted, all that they have decided is dropped,
// and the synchronizer begins anew.
func (c *coordinator) Outbox() []transaction.Message {
	if len(c.missing) > 0 {
		c.again()
	}
	if c.Fetched() {
		c.book.installedOnce.Do(func() { close(c.book.installed) })
	}
	return c.Synchronizer.Outbox()
}

// again begins anew, in a new epoch, with what was missing.
func (c *coordinator) again() {
	c.book.mu.Lock()
	for _, m := range c.missing {
		c.book.counted[m] = struct{}{}
	}
	c.book.mu.Unlock()
	c.missing = nil
	c.process.renew()
	if err := c.begin(); err != nil {
		panic(err)
	}
}

// begin runs init and installs the rules.
func (c *coordinator) begin() error {
	r, err := synchronizer.Rules(c.book.name, c.book.init)
	if err = errors.Join(err, check(r)); err != nil {
		return err
	}
	c.Synchronizer = transaction.NewSynchronizer(c.process.text, c.process.incarnation)
	for m, rule := range r.Methods {
		c.add(m, rule)
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	for m := range c.book.counted {
		c.Watch(m.Of, m.Name)
		if r.Members[m.Of] == nil {
			r.Members[m.Of] = c.process.node.addressOf(m.Of)
		}
	}
	for _, events := range r.Atomic {
		if err := c.Together(patterns(events)...); err != nil {
			return err
		}
	}
	c.WhenTerminated(r.Terminate)
	r.Count = c.counters()
	if c.book.retired {
		return supervisor.ErrStopped
	}
	c.book.members = slices.Sorted(maps.Keys(r.Members))
	c.Start()
	return nil
}

// add adds the rule of a method.
func (c *coordinator) add(m rules.Method, rule *rules.Rule) {
	c.Watch(m.Of, m.Name)
	for _, check := range rule.Checks {
		c.Constrain(m.Of, m.Name, check.Holds)
	}
	for _, trigger := range rule.Accepted {
		c.WhenAccepted(m.Of, m.Name, trigger)
	}
	for _, trigger := range rule.Completed {
		c.WhenCompleted(m.Of, m.Name, trigger)
	}
}

func patterns(events []rules.Event) (all []transaction.Event) {
	for _, e := range events {
		all = append(all, transaction.Event{Process: e.Of, Method: e.Name, If: e.If})
	}
	return all
}

// counters returns what answers Count in rules. A method that is not counted is noted.
func (c *coordinator) counters() func(rules.Method) guard.Counters {
	machine := c.Synchronizer
	return func(m rules.Method) guard.Counters {
		if !machine.Watches(m.Of, m.Name) {
			if c.process.node.addressOf(m.Of).process == "" {
				panic(fmt.Sprintf("synchronizer %q: Count of %q of %q: it is no process", c.book.name, m.Name, m.Of))
			}
			c.missing = append(c.missing, m)
		}
		return machine.Count(m.Of, m.Name)
	}
}

// check returns what is wrong with rules for processes.
func check(r *rules.Rules) (err error) {
	if r == nil {
		return nil
	}
	fault := func(format string, args ...any) {
		err = errors.Join(err, fmt.Errorf("synchronizer %q: "+format, append([]any{r.Name}, args...)...))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Members)) {
		switch a, ok := r.Members[name].(Address); {
		case !ok:
			fault("%q is a %T: package rpc coordinates processes, by their Address", name, r.Members[name])
		case a.process == "":
			fault("%q is the address of no process", name)
		}
	}
	for _, m := range r.Mixed() {
		fault("%q of %q has constraints and atomic rules: a method of a process has one kind", m.Name, m.Of)
	}
	return err
}
