package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rules"
	"github.com/golda-dev/golda/internal/transaction"
	"github.com/golda-dev/golda/supervisor"
)

// Synchronize starts a synchronizer of processes: their addresses are the
// members that init names. They may be of any node, and need not exist yet.
// Synchronize returns when all of them follow the rules, except processes that
// do not exist or cannot be reached, which follow them before they serve their
// first request, or as soon as they are reached. If ctx ends first, or
// [Node.Stop] stops the synchronizer, Synchronize fails, and the rules have
// been removed when it returns.
//
// A member exists from when its init has returned until its functions have:
// functions that still clean up are in the counters. So init of a member may
// call Synchronize. If it runs again, because the member is restarted, the
// synchronizer is there already, and has its name. A function of a member has
// to use coroutine.Await: otherwise it waits for its own process until ctx
// ends.
//
// The error says all that is wrong with the rules; a method of a process may
// have constraints or be in atomic rules, not both. A member that is a
// synchronizer is an error too. If there is a process or a synchronizer of that
// name, also one that is being started, restarted or stopped, the error is
// supervisor.ErrAlreadyStarted.
//
// If a rule panics the synchronizer is restarted, after a pause that grows to
// ten seconds: init runs again. While it is down, and until it has the counters
// of all members, requests of the methods wait that have constraints, triggers
// for [synchronizer.Accepted] or atomic rules. A process whose requests wait
// for a synchronizer that cannot be reached logs it. A member that init does
// not name any more is free of the rules. init runs on the goroutine of the
// synchronizer; while it blocks, nothing else of the node waits.
//
// A request whose caller gives up while it is decided may count as accepted and
// completed without having run.
//
// [Node.Stop] stops it and takes its rules back; members of nodes that cannot
// be reached keep them until they reach this one. Stop waits for five seconds
// at most for init or a rule that does not return, and so does a Synchronize
// that fails; so init and rules must call neither Stop of their own
// synchronizer nor [Node.Close]. When the node ends otherwise, requests that
// have its rules wait at the members of other nodes until a synchronizer of
// that name is started: they then follow its rules, or none if it does not name
// them.
func (n *Node) Synchronize(ctx context.Context, name string, init func(s *synchronizer.Synchronizer)) (Address, error) {
	link.CheckContext(ctx, "rpc: Synchronize")
	b := newRulebook(n, name, init)
	if ctx.Err() != nil {
		return Address{}, b.wrap(context.Cause(ctx))
	}
	if err := n.list(b); err != nil {
		return Address{}, b.wrap(err)
	}
	go b.run()
	select {
	case <-b.settled:
	case <-ctx.Done():
		b.settle(fmt.Errorf("%s: %w", b.lacks(), context.Cause(ctx)))
	}
	if b.outcome != nil {
		<-b.done
		return Address{}, b.wrap(b.outcome)
	}
	return n.Address(name), nil
}

// SynchronizerChild returns a synchronizer as a child of a supervisor, as
// [Node.Child] does for a process. See [Node.Synchronize] for the rest. The
// child is ready when init has returned. Its rules are not taken back when it
// ends: another synchronizer of its name replaces them, and takes them back if
// it is one of Synchronize. Another may also take the name of one that its
// supervisor has given up because init or a rule hangs: nothing that it does
// later counts.
func (n *Node) SynchronizerChild(name string, init func(s *synchronizer.Synchronizer)) supervisor.Child {
	b := newRulebook(n, name, init)
	b.settle(nil) // nothing waits for it
	return n.child(b.slot)
}

// rulebook is a synchronizer through all its incarnations. The rulebooks of one
// name follow each other: a rulebook of Synchronize has its name in the node's
// list from before its start until its rules have been removed. So a later
// rulebook has higher epochs.
type rulebook struct {
	node *Node
	slot *slot

	// Of Synchronize.
	changing chan struct{}   // holds an element while Resynchronize changes the rules
	ctx      context.Context // ends when the synchronizer must stop
	cancel   context.CancelCauseFunc
	done     chan struct{} // is closed when it has ended
	hung     bool          // init or a rule has not returned, and was abandoned
	settled  chan struct{} // is closed when all members have the rules, or never will
	settler  sync.Once
	outcome  error // the reason why not

	mu      sync.Mutex // guards the fields below, and is held while an incarnation sends
	init    func(s *synchronizer.Synchronizer)
	speaker *Process                  // the incarnation that may send; nil if there is none
	retired bool                      // there will be none
	ruled   bool                      // init has returned
	counted map[rules.Method]struct{} // the methods that only rules have asked for

	amendment *amendment // of Resynchronize; nil if the rules are not to change
}

func newRulebook(n *Node, name string, init func(s *synchronizer.Synchronizer)) *rulebook {
	b := &rulebook{
		node: n, init: init, changing: make(chan struct{}, 1), done: make(chan struct{}), settled: make(chan struct{}), counted: map[rules.Method]struct{}{},
	}
	b.slot = &slot{name, b.start, b}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	return b
}

// list has the name stand for the synchronizer, if it is free.
func (n *Node) list(b *rulebook) error {
	if b.slot.name == "" {
		return errors.New("it has no name")
	}
	n.mu.Lock()
	before, err := n.claimLocked(b.slot)
	if err == nil {
		n.rulebooks[b.slot.name] = b
	}
	n.mu.Unlock()
	before.replaced()
	return err
}

// run is the life of a synchronizer of Synchronize.
func (b *rulebook) run() {
	defer close(b.done)
	reason := b.supervise()
	b.cancel(reason)
	b.retire()
	b.settle(reason)
}

// supervise runs the synchronizer until it must end, and returns the reason. It
// has a supervisor of its own, so that nothing else waits for its init, in the
// actor system that the node has for all.
func (b *rulebook) supervise() error {
	n, system := b.node, b.node.actors()
	tree, err := supervisor.Start(context.Background(), system, supervisor.Spec{
		Name: actor.Unique(system, "rpc"), Log: n.cfg.Logger,
		Intensity: supervisor.Intensity{Restarts: math.MaxInt32, Within: time.Second},
		Backoff:   supervisor.Backoff{First: 10 * time.Millisecond, Max: 10 * time.Second},
	})
	if err != nil {
		return err
	}
	if _, err = tree.Add(b.ctx, n.child(b.slot)); err == nil {
		<-b.ctx.Done()
	}
	b.hung = len(tree.Stop()) > 0
	if failed, ok := errors.AsType[*supervisor.StartError](err); ok {
		err = failed.Reason
	}
	return cmp.Or(err, context.Cause(b.ctx))
}

// settle makes Synchronize return: with nil if all members have the rules, and
// otherwise with the reason why they never will. In that case the synchronizer
// must end, and the outcome is the first reason for its end. Only the first
// call counts, and settle reports whether this is it.
func (b *rulebook) settle(reason error) (first bool) {
	b.settler.Do(func() {
		if reason != nil {
			b.cancel(reason)
			reason = context.Cause(b.ctx)
		}
		b.outcome, first = reason, true
		close(b.settled)
	})
	return first
}

// end has a synchronizer of Synchronize end.
func (b *rulebook) end(reason error) {
	b.cancel(reason)
	b.settle(reason)
}

// closing is the reason when a synchronizer ends because its node is closed.
type closing struct{ error }

// Unwrap returns the error of all that ends with the node.
func (c closing) Unwrap() error { return c.error }

// keeps reports whether the rules stay: the first reason for the end of the
// synchronizer was that its node was closed.
func (b *rulebook) keeps() bool {
	_, closed := context.Cause(b.ctx).(closing) //nolint:errorlint // a caller's error may wrap one
	return closed
}

// stop has it end, and waits for it. Any number of goroutines may call it.
func (b *rulebook) stop() error {
	b.end(supervisor.ErrStopped)
	<-b.done
	if b.keeps() {
		return b.wrap(context.Cause(b.ctx))
	}
	if b.hung {
		return b.wrap(&supervisor.LeftError{Supervisor: "rpc", Left: []string{b.slot.name}})
	}
	return nil
}

// wrap says which synchronizer an error is about. Faults of rules say it
// themselves.
func (b *rulebook) wrap(err error) error {
	if _, ok := errors.AsType[faults](err); ok {
		return fmt.Errorf("rpc: %w", err)
	}
	return fmt.Errorf("rpc: synchronizer %q: %w", b.slot.name, err)
}

// start is the init of the synchronizer's process.
func (b *rulebook) start(p *Process) error {
	b.mu.Lock()
	retired := b.retired
	if !retired {
		b.speaker = p
	}
	b.mu.Unlock()
	if retired {
		return supervisor.ErrStopped
	}
	c := &coordinator{book: b, process: p, unfit: map[string]struct{}{}}
	if err := c.begin(); err != nil {
		return err
	}
	p.coordination = newCoordination(p, c, b.say)
	p.coordination.amend()
	p.coordination.flush()
	return nil
}

// say sends messages of an incarnation, unless it has no more to say: it was
// replaced or retired, and may still be running because a rule of it has hung.
func (b *rulebook) say(p *Process, out []transaction.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.speaker != p {
		return
	}
	for _, m := range out {
		b.node.coordinate(envelope{Incarnation: p.incarnation, Message: m})
	}
}

// silence has an incarnation that another has replaced say nothing any more.
func (b *rulebook) silence(p *Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.speaker == p {
		b.speaker = nil
	}
}

// lacks returns the reason why a start still waits.
func (b *rulebook) lacks() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ruled {
		return "init has not returned"
	}
	return "not all of its processes have its rules"
}

// rule notes at which processes an incarnation is about to install its rules,
// and removes rules of earlier synchronizers of the name from other processes.
func (b *rulebook) rule(p *Process, members map[string]rules.Member) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.speaker != p {
		return supervisor.ErrStopped
	}
	b.ruled = true
	n := b.node
	n.mu.Lock()
	ruled := n.ruled[b.slot.name]
	if ruled == nil {
		ruled = map[string]struct{}{}
		n.ruled[b.slot.name] = ruled
	}
	var former []string
	for to := range ruled {
		if members[to] == nil {
			former = append(former, to)
		}
	}
	for to := range members {
		ruled[to] = struct{}{}
	}
	n.mu.Unlock()
	for _, to := range slices.Sorted(slices.Values(former)) {
		n.release(b.slot.name, to, p.incarnation)
	}
	return nil
}

// count adds methods to the methods that only rules have asked for, and returns
// all of them.
func (b *rulebook) count(missing []rules.Method) map[rules.Method]struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range missing {
		b.counted[m] = struct{}{}
	}
	return maps.Clone(b.counted)
}

// retire takes the rules back, and then the name is free. If the end of the
// node has ended the synchronizer the rules stay.
func (b *rulebook) retire() {
	b.mu.Lock()
	last := b.speaker
	b.speaker, b.retired = nil, true
	b.mu.Unlock()
	n, name := b.node, b.slot.name
	if last != nil { // it may have hung
		n.leave(last, fmt.Errorf("%w: process %s was stopped", ErrUnreachable, last.address))
	}
	n.mu.Lock()
	epoch, members := n.nextIncarnationLocked(), n.ruled[name]
	n.mu.Unlock()
	if !b.keeps() {
		for _, to := range slices.Sorted(maps.Keys(members)) {
			n.release(name, to, epoch)
		}
	}
	n.mu.Lock()
	if !b.keeps() {
		delete(n.ruled, name)
	}
	delete(n.rulebooks, name)
	n.mu.Unlock()
}

// faults are the faults of rules. The text names the synchronizer.
type faults struct{ error }

// Unwrap returns the faults.
func (f faults) Unwrap() error { return f.error }

// coordinator is an incarnation of a synchronizer.
type coordinator struct {
	*transaction.Synchronizer

	book    *rulebook
	process *Process
	// missing holds methods that rules have asked for and that were not
	// counted.
	missing []rules.Method
	unfit   map[string]struct{} // the members that are synchronizers, or whose nodes have refused the rules
}

// Receive passes a message on. If a member has no functions the error names it,
// or else the log, once. The answer may also be to an earlier synchronizer of
// the name.
func (c *coordinator) Receive(m transaction.Message) {
	if m.Kind == transaction.RulesRefused {
		c.refused(m)
		return
	}
	_, known := c.unfit[m.From]
	if m.Kind == transaction.NoFunctions && !known && m.Epoch == c.process.incarnation && slices.Contains(c.Processes(), m.From) {
		c.unfit[m.From] = struct{}{}
		err := noMember(c.book.slot.name, m.From)
		if !c.book.failed(err) {
			c.process.node.cfg.Logger.Error("rpc: a member is a synchronizer", slog.Any("error", err))
		}
	}
	c.Synchronizer.Receive(m)
}

// refused handles that the node of a member does not keep the rules. The member
// follows them only after it has been asked again.
func (c *coordinator) refused(m transaction.Message) {
	_, known := c.unfit[m.From]
	if known || m.Epoch != c.process.incarnation || !slices.Contains(c.Processes(), m.From) {
		return
	}
	c.unfit[m.From] = struct{}{}
	err := faults{fmt.Errorf("synchronizer %q: the rules for %q were refused: %s", c.book.slot.name, m.From, m.Rule)}
	if !c.book.failed(err) {
		c.process.node.cfg.Logger.Error("rpc: rules were refused", slog.Any("error", err))
	}
}

// noMember is the error of rules for a process that is a synchronizer.
func noMember(name, process string) faults {
	return faults{fmt.Errorf("synchronizer %q: %q is a synchronizer: it has no functions that rules could be for", name, process)}
}

// Outbox returns the messages to send. If rules have asked for methods that are
// not counted, all that they have decided is dropped, and the synchronizer
// begins anew.
func (c *coordinator) Outbox() []transaction.Message {
	if len(c.missing) > 0 {
		c.again()
	}
	if c.Fetched() {
		c.book.settle(nil)
		c.book.installed()
	}
	return c.Synchronizer.Outbox()
}

// again begins anew, in a new epoch that counts the missing methods.
func (c *coordinator) again() {
	c.book.count(c.missing)
	c.missing = nil
	c.process.renew()
	if err := c.begin(); err != nil {
		panic(err)
	}
}

// begin runs init and installs the rules.
func (c *coordinator) begin() error {
	r, err := synchronizer.Rules(c.book.slot.name, c.book.present())
	if err = errors.Join(err, check(r)); err != nil {
		return faults{err}
	}
	return c.install(r)
}

// install installs rules.
func (c *coordinator) install(r *rules.Rules) error {
	if self := c.process.text; r.Members[self] != nil { // its own answer may come when it counts as one that is not there yet
		return noMember(c.book.slot.name, self)
	}
	c.Synchronizer = transaction.NewSynchronizer(c.process.text, c.process.incarnation)
	for m, rule := range r.Methods {
		c.add(m, rule)
	}
	for m := range c.book.count(nil) {
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
	if err := c.book.rule(c.process, r.Members); err != nil {
		return err
	}
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

// counters returns the function that answers Count in rules. A method that is
// not counted is noted as missing.
func (c *coordinator) counters() func(rules.Method) guard.Counters {
	machine := c.Synchronizer
	return func(m rules.Method) guard.Counters {
		if !machine.Watches(m.Of, m.Name) {
			if c.process.node.addressOf(m.Of).process == "" {
				panic(fmt.Sprintf("synchronizer %q: Count of %q of %q: it is no process", c.book.slot.name, m.Name, m.Of))
			}
			c.missing = append(c.missing, m)
		}
		return machine.Count(m.Of, m.Name)
	}
}

// check returns the faults of rules for processes.
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
