package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/goid"
	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/worker"
)

// desk is where the controllers sit: it outlives the actor that does the work,
// so that a crash of that loses nothing.
type desk struct {
	p *Pipeline

	clerk atomic.Pointer[act.PID] // nil until it works
	calm  bell                    // of what can wait
	brisk bell                    // of what a visit order is made anew by
	first *clerk                  // who has asked the policies before the start; then nil

	now *board   // how the knobs are turned; the clerk's, once he works
	cpu cpuMeter // the clerk's, for all policies

	asking atomic.Uint64 // the goroutine that calls a policy, by its number; 0: none does

	mu       sync.Mutex // guards all below
	policies []controller.Policy
	groups   groupPolicies // of the groups that have a controller of their own
	journal  *controller.Journal
	orders   []any // for the clerk, whoever he will be
}

func (d *desk) open(p *Pipeline, now *board) {
	d.p = p
	d.policies, d.groups = p.set.policies, groupPolicies{}
	for _, own := range p.set.groups {
		d.groups[own.group] = own.policies
	}
	d.journal = controller.NewJournal(0)
	d.now = now
	d.calm = bell{desk: d, pause: 100 * time.Millisecond, heard: map[news]bool{}}
	d.brisk = bell{desk: d, pause: controller.MinInterval, heard: map[news]bool{}}
}

func (d *desk) entries() []controller.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal.Entries()
}

// names are the names of the policies of the pipeline's controller, or of a group's own.
func (d *desk) names(group string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return policyNames(d.of(group))
}

// of returns the policies of a controller. The caller holds the lock.
func (d *desk) of(group string) []controller.Policy {
	if group == "" {
		return d.policies
	}
	return d.groups[group]
}

// put notes the policies of a controller; a group's has none if it is to be governed by the pipeline's. The caller holds the lock.
func (d *desk) put(group string, policies []controller.Policy) {
	switch {
	case group == "":
		d.policies = policies
	case len(policies) == 0:
		delete(d.groups, group)
	default:
		d.groups[group] = policies
	}
}

func policyNames(policies []controller.Policy) string {
	names := make([]string, 0, len(policies))
	for _, law := range policies {
		names = append(names, law.Name())
	}
	return strings.Join(names, "+")
}

// prepare asks the policies for the first time, before the stages start, so that those
// start as they are wanted.
func (d *desk) prepare() error {
	c := &clerk{desk: d}
	d.first = c
	return c.hire(false)
}

func (d *desk) spawn(by act.Spawner, name string, ready func(error)) (*act.PID, error) {
	return act.Spawn(by, name, act.NewMailbox(nil), func() act.Actor {
		c := d.first
		if d.first = nil; c == nil {
			c = &clerk{desk: d}
		}
		c.ready = ready
		return c
	})
}

// tell sends the clerk a message, if he is there.
func (d *desk) tell(m any) {
	if pid := d.clerk.Load(); pid != nil {
		d.p.system.Root.Send(pid, m)
	}
}

// raise notes an event for the clerk. Anybody may call it; it does not block.
func (d *desk) raise(n news) {
	switch n.kind {
	case controller.EventRoundEnd, controller.EventVisits:
		d.brisk.raise(n)
	default:
		d.calm.raise(n)
	}
}

// bell gathers events for the clerk, each once until he has heard it, and rings no
// more often than he may be disturbed.
type bell struct {
	desk  *desk
	pause time.Duration // from one ring to the next

	mu    sync.Mutex // guards all below
	heard map[news]bool
	list  []news
	rung  bool
	next  *time.Timer // the only one: each that runs would ring once in a pause
}

// news is an event before it is told.
type news struct {
	kind controller.EventKind
	room *room.Room // nil if it is none of a stage
	pool string
}

func (b *bell) raise(n news) {
	b.mu.Lock()
	if !b.heard[n] {
		b.heard[n] = true
		b.list = append(b.list, n)
	}
	ring := !b.rung
	b.rung = true
	b.mu.Unlock()
	if ring {
		b.desk.tell(heed{b})
	}
}

// take empties the bell. It rings again after a while.
func (b *bell) take() []news {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	clear(b.heard)
	if b.next != nil {
		b.next.Stop() // it rang twice: for a clerk that came, too
	}
	b.next = time.AfterFunc(b.pause, b.again)
	return list
}

func (b *bell) again() {
	b.mu.Lock()
	b.rung = len(b.list) > 0
	ring := b.rung
	b.mu.Unlock()
	if ring {
		b.desk.tell(heed{b})
	}
}

// heed tells the clerk that the bell has rung.
type heed struct{ bell *bell }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (heed) IgnoreDeadLetterLogging() {}

// tick asks a policy again.
type tick struct{ of *office }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (tick) IgnoreDeadLetterLogging() {}

// orders tells the clerk that there are orders. They lie on the desk, so that none is lost
// if he is not there, or is replaced.
type orders struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (orders) IgnoreDeadLetterLogging() {}

// use is the order to replace the policies of the pipeline's controller, or of a group's.
type use struct {
	group    string
	policies []controller.Policy
	done     chan error // has room for one
}

// reform is the order to do something to the state of the knobs, and have policies look
// again.
type reform struct {
	do   func(s *board)
	done chan error // has room for one
}

// order puts an order on the desk.
func (d *desk) order(m any) {
	d.mu.Lock()
	d.orders = append(d.orders, m)
	d.mu.Unlock()
	d.tell(orders{})
}

// obey carries out all orders on the desk.
func (c *clerk) obey() {
	d := c.desk
	d.mu.Lock()
	list := d.orders
	d.orders = nil
	d.mu.Unlock()
	for _, m := range list {
		switch m := m.(type) {
		case use:
			m.done <- c.use(m.group, m.policies)
		case reform:
			c.reform(m)
			m.done <- nil
		}
	}
}

// office is one policy at work.
type office struct {
	group      string // whose controller the policy is of, "" for the pipeline's
	policy     controller.Policy
	controller controller.Controller
	claims     []controller.Knob // nil: all
	windows    controller.Windows
	ids        []controller.StageID // which stages the last snapshot showed; nil: all
	decisions  controller.Decisions
	every      time.Duration
	next       *time.Timer
	rounds     bool
	visits     int
}

// clerk is the controllers' actor: the shell around pure policies. It looks,
// asks, applies and writes down, one event after the other. It asks for its next
// tick when it is done with the last, so ticks never pile up.
type clerk struct {
	desk    *desk
	ready   func(error)
	offices []*office
	watch   *time.Timer // for stages that may starve
	waiting map[string]waits
}

// waits is what was seen of a stage that has work, when the clerk last looked.
type waits struct {
	visits  uint64
	starved bool // and the policies know
}

// afterPanic is when a policy is asked again that panicked before it had said when.
const afterPanic = time.Second

// Receive handles a message to the controllers.
func (c *clerk) Receive(ctx act.Context) {
	switch m := ctx.Message().(type) {
	case *act.Started:
		c.begin(ctx)
	case tick:
		if slices.Contains(c.offices, m.of) {
			c.ask(m.of, controller.Event{Kind: controller.EventTick, Stage: controller.NoStage})
			c.sleep(m.of)
		}
	case heed:
		c.heed(m.bell.take())
	case look:
		c.look()
	case orders:
		c.obey()
	case *act.Stopping:
		c.end()
	}
}

// begin takes the desk, and has the policies begin, unless they have.
func (c *clerk) begin(ctx act.Context) {
	d := c.desk
	d.clerk.Store(ctx.Self())
	var err error
	if c.offices == nil {
		err = c.hire(true)
	}
	c.ready(err)
	for _, o := range c.offices {
		c.sleep(o)
	}
	c.waiting = map[string]waits{}
	c.watch = time.AfterFunc(controller.StarvedAfter, c.lookAgain)
	c.obey()
	d.calm.again() // what rang before, or for somebody who is gone
	d.brisk.again()
}

// hire asks the policies of all controllers for the first time, and does what they decide all at once.
func (c *clerk) hire(swap bool) error {
	d := c.desk
	d.mu.Lock()
	groups := maps.Clone(d.groups)
	groups[""] = d.policies
	d.mu.Unlock()
	var all []*office
	for _, group := range groups.order() {
		offices, err := d.hireAll(group, groups[group])
		if err != nil {
			return err
		}
		all = append(all, offices...)
	}
	c.install(all)
	d.p.follow(swap)
	return nil
}

// hireAll puts policies to work, all or none.
func (d *desk) hireAll(group string, policies []controller.Policy) (offices []*office, err error) {
	for _, law := range policies {
		o, err := d.hire(group, law)
		if err != nil {
			return nil, err
		}
		if claimer, ok := law.(controller.Claimer); ok && len(policies) > 1 {
			o.claims = append([]controller.Knob{}, claimer.Claims()...)
		}
		offices = append(offices, o)
	}
	return offices, nil
}

// install asks policies for the first time, beside those that are at work.
func (c *clerk) install(offices []*office) {
	c.offices = append(c.offices, offices...)
	for _, o := range offices {
		c.desk.now.visits[o.group] = 0
	}
	for _, o := range offices {
		c.consult(o, controller.Event{Kind: controller.EventStart, Stage: controller.NoStage}, c.view(o))
	}
}

// hire puts a policy to work.
func (d *desk) hire(group string, law controller.Policy) (*office, error) {
	o := &office{group: group, policy: law}
	err := d.guard(func() error { o.controller = law.New(); return nil })
	if err == nil && o.controller == nil {
		err = errors.New("its New returned nil")
	}
	switch {
	case err == nil:
		return o, nil
	case group == "":
		return nil, fmt.Errorf("policy %q: %w", law.Name(), err)
	default:
		return nil, fmt.Errorf("group %q: policy %q: %w", group, law.Name(), err)
	}
}

// guard calls a policy's code, in a goroutine of its own, so that one that ends its goroutine ends none of ours. Meanwhile
// the desk knows the goroutine, see [Pipeline.uncontrolled].
func (d *desk) guard(f func() error) error {
	return worker.Guard("controller", func() error {
		d.asking.Store(goid.ID())
		defer d.asking.Store(0)
		return f()
	})
}

// dismiss ends the policies at work that leave.
func (c *clerk) dismiss(leaves func(*office) bool) {
	var stay []*office
	for _, o := range c.offices {
		if !leaves(o) {
			stay = append(stay, o)
			continue
		}
		if o.next != nil {
			o.next.Stop()
		}
		ev := controller.Event{Kind: controller.EventStop, Stage: controller.NoStage}
		_ = c.desk.answer(o, ev, c.view(o)) // it comes to nothing
	}
	c.offices = stay
}

func (c *clerk) end() {
	if c.watch != nil {
		c.watch.Stop()
	}
	c.dismiss(func(*office) bool { return true })
}

// use has other policies govern what a controller governs. They begin with the pipeline's own settings. If one
// cannot begin, all is as before. A group's controller without policies is none: the pipeline's governs the group then.
func (c *clerk) use(group string, policies []controller.Policy) error {
	d := c.desk
	offices, err := d.hireAll(group, policies)
	if err != nil {
		return err
	}
	governed := c.governs(group)
	c.dismiss(func(o *office) bool { return o.group == group })
	after := policyNames(policies)
	d.mu.Lock()
	before := policyNames(d.of(group))
	d.put(group, policies)
	d.mu.Unlock()
	c.reset(group)
	c.write(swapped(group, before, after, time.Duration(d.p.host.Now())))
	c.install(offices)
	if group != "" && governed != c.governs(group) { // the pipeline's controller sees other stages than before
		for _, o := range c.offices {
			if o.group == "" {
				c.consult(o, controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage}, c.view(o))
				c.awake(o)
			}
		}
	}
	d.p.follow(true)
	for _, o := range offices {
		c.sleep(o)
	}
	return nil
}

// swapped is the journal's entry for policies that were replaced.
func swapped(group, before, after string, at time.Duration) controller.Change {
	ch := controller.Change{
		At: at, Policy: after, Stage: controller.Entry, What: knobPolicy, Before: before, After: after, Why: "told to use it",
	}
	if group != "" {
		ch.Group, ch.Stage, ch.StageName = group, controller.NoStage, group
		ch.Policy, ch.Before, ch.After = cmp.Or(after, before), cmp.Or(before, noPolicy), cmp.Or(after, noPolicy)
	}
	return ch
}

// noPolicy stands for the policies of a group that has no controller of its own.
const noPolicy = "the pipeline's"

// reset sets the knobs back of what a controller governs, and of a group that had one until now.
func (c *clerk) reset(group string) {
	d := c.desk
	stage := func(name string) bool { return c.governor(name) == "" }
	pool := func(name string) bool { return c.governorOf(name) == "" }
	if group != "" {
		stage = func(name string) bool { st := d.now.stages[name]; return st != nil && st.group == group }
		pool = func(name string) bool {
			p := d.now.pools[name]
			return p != nil && p.group && name == group || p == nil && stage(name)
		}
	}
	d.now = d.now.reset(d.p.groups, group == "", stage, pool)
	delete(d.now.visits, group)
}

// knobPolicy is what a journal calls the policy itself.
const knobPolicy controller.Knob = "policy"

// reform changes the state of the knobs beside all policies, and tells them.
func (c *clerk) reform(m reform) {
	d := c.desk
	m.do(d.now)
	c.each(controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage})
	d.p.follow(true)
	for _, o := range c.offices {
		c.awake(o)
	}
}

// each asks all policies.
func (c *clerk) each(ev controller.Event) {
	for _, o := range c.offices {
		c.consult(o, ev, c.view(o))
	}
}

// heed tells the policies what has happened. For all that has, each is shown the pipeline as it
// was at one look, until one of them decides something: to look takes the longer the more stages
// there are, and in a long line all of them may become full at once.
func (c *clerk) heed(list []news) {
	seen := map[*office]*controller.Snapshot{}
	for _, n := range list {
		for _, o := range c.offices {
			if n.kind == controller.EventRoundEnd && !o.rounds || n.kind == controller.EventVisits && o.visits == 0 {
				continue
			}
			if !c.concerns(o, n) {
				continue
			}
			if seen[o] == nil {
				seen[o] = c.desk.p.view()
			}
			s := c.narrow(o, seen[o]) // if it was shown before, nothing was counted since
			ev := controller.Event{Kind: n.kind, Stage: o.place(c.desk.p.roster().id(n.room)), Pool: n.pool}
			if c.askOf(o, ev, s) {
				clear(seen)
			}
		}
	}
}

// look asks whether a stage starves.
type look struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (look) IgnoreDeadLetterLogging() {}

func (c *clerk) lookAgain() { c.desk.tell(look{}) }

func (c *clerk) look() {
	p := c.desk.p
	r := p.roster()
	sheets := room.Counts(r.all)
	for i, st := range r.stages {
		name, sheet := st.Name(), r.of(sheets, i)
		if sheet.Crew == nil || sheet.Queued == 0 || sheet.Out > 0 || sheet.Knobs.Paused {
			delete(c.waiting, name)
			continue
		}
		before, known := c.waiting[name]
		starves := known && before.visits == sheet.Visits
		if starves && !before.starved {
			for _, o := range c.offices {
				if c.governor(name) == o.group {
					s := c.view(o)
					c.askOf(o, controller.Event{Kind: controller.EventStarved, Stage: o.place(controller.StageID(i))}, s)
				}
			}
		}
		c.waiting[name] = waits{sheet.Visits, starves}
	}
	c.watch.Reset(controller.StarvedAfter)
}

// sleep asks for the next tick; a policy that never said when is not asked
// again.
func (c *clerk) sleep(o *office) {
	if o.every == 0 {
		return
	}
	d := c.desk
	if o.next == nil {
		o.next = time.AfterFunc(o.every, func() { d.tell(tick{o}) })
		return
	}
	o.next.Reset(o.every)
}

// ask shows a policy the state of the pipeline and does what it decides.
func (c *clerk) ask(o *office, ev controller.Event) { c.askOf(o, ev, c.view(o)) }

// askOf is ask with what is shown; it reports whether the policy decided anything.
func (c *clerk) askOf(o *office, ev controller.Event, s *controller.Snapshot) (changed bool) {
	if changed = c.consult(o, ev, s); changed {
		c.desk.p.follow(false)
	}
	c.awake(o)
	return changed
}

// awake sets a policy's clock anew if it has just said when it wants to be asked.
func (c *clerk) awake(o *office) {
	if o.decisions.Interval() > 0 {
		c.sleep(o)
	}
}

// answer shows a policy the state of the pipeline and has it answer into its decisions.
func (d *desk) answer(o *office, ev controller.Event, s *controller.Snapshot) error {
	err := d.guard(func() error { return controller.Ask(o.controller, ev, s, &o.decisions) })
	if err != nil {
		o.decisions.Reset()
	}
	return err
}

// consult asks a policy and notes what it decides; it reports whether that is
// anything. A policy that panics is logged, and what it decided last stays in force.
func (c *clerk) consult(o *office, ev controller.Event, s *controller.Snapshot) (changed bool) {
	p := c.desk.p
	if err := c.desk.answer(o, ev, s); err != nil {
		o.log(p).Error("policy panicked; its last decisions stay", "policy", o.policy.Name(), "error", err)
		o.every = cmp.Or(o.every, afterPanic)
		return false
	}
	o.every = cmp.Or(o.decisions.Interval(), o.every)
	if on, ok := o.decisions.WantsRoundEnd(); ok {
		o.rounds = on
	}
	if n, ok := o.decisions.WantsVisits(); ok {
		o.visits = max(n, 0)
		c.desk.now.visits[o.group] = o.visits // several who ask hear of the last one's
		watchVisits(c.desk.now)
	}
	changes, faults := controller.Settle(o.policy.Name(), s, &o.decisions)
	for _, err := range faults {
		o.log(p).Error("policy made a decision that means nothing", "error", err)
	}
	for _, ch := range controller.Kept(o.policy.Name(), s, &o.decisions) {
		c.write(o.widen(ch))
	}
	return c.note(o, s, changes)
}

// note notes the changes that the policy may make.
func (c *clerk) note(o *office, s *controller.Snapshot, changes []controller.Change) (changed bool) {
	d := c.desk
	for _, ch := range changes {
		if o.claims != nil && !slices.Contains(o.claims, ch.What) {
			o.log(d.p).Error("policy turned a knob that it did not claim", "policy", ch.Policy, "knob", ch.What)
			continue
		}
		if name, ok := ch.After.(string); ok && ch.What == controller.KnobDiscipline {
			if _, err := queue.ByName(name); err != nil {
				o.log(d.p).Error("policy made a decision that means nothing", "policy", ch.Policy, "error", err)
				continue
			}
		}
		if whose := o.foreign(s, ch); whose != "" {
			c.refuse(o, ch, whose)
			continue
		}
		ch = o.widen(ch)
		d.now.apply(ch)
		c.write(ch)
		changed = true
	}
	return changed
}

// write writes a change down. A visit plan that is made anew each round, and a limit
// that follows the load, would crowd out all else: of those that follow one
// another one entry stays, and the log has them only if asked for all.
func (c *clerk) write(ch controller.Change) {
	d := c.desk
	level, add := slog.LevelInfo, func(ch controller.Change) { d.journal.Add(ch) }
	if ch.What == controller.KnobVisit || ch.What == controller.KnobLimit {
		level, add = slog.LevelDebug, d.journal.Amend
	}
	d.p.set.log.Log(context.Background(), level, "changed", "stage", ch.StageName, "knob", ch.What, "policy", ch.Policy,
		"before", ch.Before, "after", ch.After, "why", ch.Why)
	d.mu.Lock()
	defer d.mu.Unlock()
	add(ch)
}
