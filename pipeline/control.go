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
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/goid"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/worker"
)

// controlLoop is where the controllers sit: it outlives the actor that does the work,
// so that a crash of that loses nothing.
type controlLoop struct {
	p *Pipeline

	clerk atomic.Pointer[actor.PID] // nil until it works
	calm  eventQueue                // of what can wait
	brisk eventQueue                // of what a visit order is made anew by
	first *loopActor                // who has asked the policies before the start; then nil

	now *desiredState // how the knobs are turned; the control loop's, once he works
	cpu cpuMeter      // the control loop's, for all policies

	asking atomic.Uint64 // the goroutine that calls a policy, by its number; 0: none does

	mu       sync.Mutex // guards all below
	policies []controller.Policy
	groups   groupPolicies // of the groups that have a controller of their own
	journal  *controller.Journal
	orders   []any // for the control loop, whoever he will be
}

func (l *controlLoop) open(p *Pipeline, now *desiredState) {
	l.p = p
	l.policies, l.groups = p.set.policies, groupPolicies{}
	for _, own := range p.set.groups {
		l.groups[own.group] = own.policies
	}
	l.journal = controller.NewJournal(0)
	l.now = now
	l.calm = eventQueue{desk: l, pause: 100 * time.Millisecond, heard: map[loopEvent]bool{}}
	l.brisk = eventQueue{desk: l, pause: controller.MinInterval, heard: map[loopEvent]bool{}}
}

func (l *controlLoop) entries() []controller.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Entries()
}

// names are the names of the policies of the pipeline's controller, or of a group's own.
func (l *controlLoop) names(group string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return policyNames(l.of(group))
}

// of returns the policies of a controller. The caller holds the lock.
func (l *controlLoop) of(group string) []controller.Policy {
	if group == "" {
		return l.policies
	}
	return l.groups[group]
}

// put notes the policies of a controller; a group's has none if it is to be governed by the pipeline's. The caller holds the lock.
func (l *controlLoop) put(group string, policies []controller.Policy) {
	switch {
	case group == "":
		l.policies = policies
	case len(policies) == 0:
		delete(l.groups, group)
	default:
		l.groups[group] = policies
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
func (l *controlLoop) prepare() error {
	a := &loopActor{loop: l}
	l.first = a
	return a.startPolicies(false)
}

func (l *controlLoop) spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
		a := l.first
		if l.first = nil; a == nil {
			a = &loopActor{loop: l}
		}
		a.ready = ready
		return a
	})
}

// send sends the control loop a message, if he is there.
func (l *controlLoop) send(m any) {
	if pid := l.clerk.Load(); pid != nil {
		l.p.system.Root.Send(pid, m)
	}
}

// notify notes an event for the control loop. Anybody may call it; it does not block.
func (l *controlLoop) notify(n loopEvent) {
	switch n.kind {
	case controller.EventRoundEnd, controller.EventVisits:
		l.brisk.add(n)
	default:
		l.calm.add(n)
	}
}

// eventQueue gathers events for the control loop, each once until he has heard it, and rings no
// more often than he may be disturbed.
type eventQueue struct {
	desk  *controlLoop
	pause time.Duration // from one ring to the next

	mu    sync.Mutex // guards all below
	heard map[loopEvent]bool
	list  []loopEvent
	rung  bool
	next  *time.Timer // the only one: each that runs would ring once in a pause
}

// loopEvent is an event before it is told.
type loopEvent struct {
	kind controller.EventKind
	room *inbox.Inbox // nil if it is none of a stage
	pool string
}

func (q *eventQueue) add(n loopEvent) {
	q.mu.Lock()
	if !q.heard[n] {
		q.heard[n] = true
		q.list = append(q.list, n)
	}
	ring := !q.rung
	q.rung = true
	q.mu.Unlock()
	if ring {
		q.desk.send(eventsReady{q})
	}
}

// take empties the bell. It rings again after a while.
func (q *eventQueue) take() []loopEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	clear(q.heard)
	if q.next != nil {
		q.next.Stop() // it rang twice: for a clerk that came, too
	}
	q.next = time.AfterFunc(q.pause, q.again)
	return list
}

func (q *eventQueue) again() {
	q.mu.Lock()
	q.rung = len(q.list) > 0
	ring := q.rung
	q.mu.Unlock()
	if ring {
		q.desk.send(eventsReady{q})
	}
}

// eventsReady tells the control loop that the bell has rung.
type eventsReady struct{ bell *eventQueue }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (eventsReady) IgnoreDeadLetterLogging() {}

// tick asks a policy again.
type tick struct{ of *activePolicy }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (tick) IgnoreDeadLetterLogging() {}

// orders tells the control loop that there are orders. They lie on the control loop, so that none is lost
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
	do   func(d *desiredState)
	done chan error // has room for one
}

// order puts an order on the control loop.
func (l *controlLoop) order(m any) {
	l.mu.Lock()
	l.orders = append(l.orders, m)
	l.mu.Unlock()
	l.send(orders{})
}

// runOrders carries out all orders on the control loop.
func (a *loopActor) runOrders() {
	l := a.loop
	l.mu.Lock()
	list := l.orders
	l.orders = nil
	l.mu.Unlock()
	for _, m := range list {
		switch m := m.(type) {
		case use:
			m.done <- a.use(m.group, m.policies)
		case reform:
			a.reform(m)
			m.done <- nil
		}
	}
}

// activePolicy is one policy at work.
type activePolicy struct {
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

// loopActor is the controllers' actor: the shell around pure policies. It looks,
// asks, applies and writes down, one event after the other. It asks for its next
// tick when it is done with the last, so ticks never pile up.
type loopActor struct {
	loop    *controlLoop
	ready   func(error)
	offices []*activePolicy
	watch   *time.Timer // for stages that may starve
	waiting map[string]waits
}

// waits is what was seen of a stage that has work, when the control loop last looked.
type waits struct {
	visits  uint64
	starved bool // and the policies know
}

// afterPanic is when a policy is asked again that panicked before it had said when.
const afterPanic = time.Second

// Receive handles a message to the controllers.
func (a *loopActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.begin(ctx)
	case tick:
		if slices.Contains(a.offices, m.of) {
			a.ask(m.of, controller.Event{Kind: controller.EventTick, Stage: controller.NoStage})
			a.sleep(m.of)
		}
	case eventsReady:
		a.handleEvents(m.bell.take())
	case reconcileDue:
		a.reconcile()
	case orders:
		a.runOrders()
	case *actor.Stopping:
		a.end()
	}
}

// begin takes the control loop, and has the policies begin, unless they have.
func (a *loopActor) begin(ctx actor.Context) {
	l := a.loop
	l.clerk.Store(ctx.Self())
	var err error
	if a.offices == nil {
		err = a.startPolicies(true)
	}
	a.ready(err)
	for _, o := range a.offices {
		a.sleep(o)
	}
	a.waiting = map[string]waits{}
	a.watch = time.AfterFunc(controller.StarvedAfter, a.scheduleReconcile)
	a.runOrders()
	l.calm.again() // what rang before, or for somebody who is gone
	l.brisk.again()
}

// startPolicies asks the policies of all controllers for the first time, and does what they decide all at once.
func (a *loopActor) startPolicies(swap bool) error {
	l := a.loop
	l.mu.Lock()
	groups := maps.Clone(l.groups)
	groups[""] = l.policies
	l.mu.Unlock()
	var all []*activePolicy
	for _, group := range groups.order() {
		offices, err := l.newPolicies(group, groups[group])
		if err != nil {
			return err
		}
		all = append(all, offices...)
	}
	a.install(all)
	l.p.reconcile(swap)
	return nil
}

// newPolicies puts policies to work, all or none.
func (l *controlLoop) newPolicies(group string, policies []controller.Policy) (offices []*activePolicy, err error) {
	for _, law := range policies {
		o, err := l.newPolicy(group, law)
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
func (a *loopActor) install(offices []*activePolicy) {
	a.offices = append(a.offices, offices...)
	for _, o := range offices {
		a.loop.now.visits[o.group] = 0
	}
	for _, o := range offices {
		a.consult(o, controller.Event{Kind: controller.EventStart, Stage: controller.NoStage}, a.view(o))
	}
}

// newPolicy puts a policy to work.
func (l *controlLoop) newPolicy(group string, law controller.Policy) (*activePolicy, error) {
	o := &activePolicy{group: group, policy: law}
	err := l.guard(func() error { o.controller = law.New(); return nil })
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
// the control loop knows the goroutine, see [Pipeline.uncontrolled].
func (l *controlLoop) guard(f func() error) error {
	return worker.Guard("controller", func() error {
		l.asking.Store(goid.ID())
		defer l.asking.Store(0)
		return f()
	})
}

// removePolicies ends the policies at work that leave.
func (a *loopActor) removePolicies(leaves func(*activePolicy) bool) {
	var stay []*activePolicy
	for _, o := range a.offices {
		if !leaves(o) {
			stay = append(stay, o)
			continue
		}
		if o.next != nil {
			o.next.Stop()
		}
		ev := controller.Event{Kind: controller.EventStop, Stage: controller.NoStage}
		_ = a.loop.answer(o, ev, a.view(o)) // it comes to nothing
	}
	a.offices = stay
}

func (a *loopActor) end() {
	if a.watch != nil {
		a.watch.Stop()
	}
	a.removePolicies(func(*activePolicy) bool { return true })
}

// use has other policies govern what a controller governs. They begin with the pipeline's own settings. If one
// cannot begin, all is as before. A group's controller without policies is none: the pipeline's governs the group then.
func (a *loopActor) use(group string, policies []controller.Policy) error {
	l := a.loop
	offices, err := l.newPolicies(group, policies)
	if err != nil {
		return err
	}
	governed := a.governs(group)
	a.removePolicies(func(o *activePolicy) bool { return o.group == group })
	after := policyNames(policies)
	l.mu.Lock()
	before := policyNames(l.of(group))
	l.put(group, policies)
	l.mu.Unlock()
	a.reset(group)
	a.write(swapped(group, before, after, time.Duration(l.p.host.Now())))
	a.install(offices)
	if group != "" && governed != a.governs(group) { // the pipeline's controller sees other stages than before
		for _, o := range a.offices {
			if o.group == "" {
				a.consult(o, controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage}, a.view(o))
				a.awake(o)
			}
		}
	}
	l.p.reconcile(true)
	for _, o := range offices {
		a.sleep(o)
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
func (a *loopActor) reset(group string) {
	l := a.loop
	stage := func(name string) bool { return a.governor(name) == "" }
	pool := func(name string) bool { return a.governorOf(name) == "" }
	if group != "" {
		stage = func(name string) bool { st := l.now.stages[name]; return st != nil && st.group == group }
		pool = func(name string) bool {
			p := l.now.pools[name]
			return p != nil && p.group && name == group || p == nil && stage(name)
		}
	}
	l.now = l.now.reset(l.p.groups, group == "", stage, pool)
	delete(l.now.visits, group)
}

// knobPolicy is what a journal calls the policy itself.
const knobPolicy controller.Knob = "policy"

// reform changes the state of the knobs beside all policies, and tells them.
func (a *loopActor) reform(m reform) {
	l := a.loop
	m.do(l.now)
	a.each(controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage})
	l.p.reconcile(true)
	for _, o := range a.offices {
		a.awake(o)
	}
}

// each asks all policies.
func (a *loopActor) each(ev controller.Event) {
	for _, o := range a.offices {
		a.consult(o, ev, a.view(o))
	}
}

// handleEvents tells the policies what has happened. For all that has, each is shown the pipeline as it
// was at one look, until one of them decides something: to look takes the longer the more stages
// there are, and in a long line all of them may become full at once.
func (a *loopActor) handleEvents(list []loopEvent) {
	seen := map[*activePolicy]*controller.Snapshot{}
	for _, n := range list {
		for _, o := range a.offices {
			if n.kind == controller.EventRoundEnd && !o.rounds || n.kind == controller.EventVisits && o.visits == 0 {
				continue
			}
			if !a.concerns(o, n) {
				continue
			}
			if seen[o] == nil {
				seen[o] = a.loop.p.view()
			}
			s := a.narrow(o, seen[o]) // if it was shown before, nothing was counted since
			ev := controller.Event{Kind: n.kind, Stage: o.place(a.loop.p.stages().id(n.room)), Pool: n.pool}
			if a.askOf(o, ev, s) {
				clear(seen)
			}
		}
	}
}

// reconcileDue asks whether a stage starves.
type reconcileDue struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (reconcileDue) IgnoreDeadLetterLogging() {}

func (a *loopActor) scheduleReconcile() { a.loop.send(reconcileDue{}) }

func (a *loopActor) reconcile() {
	p := a.loop.p
	r := p.stages()
	sheets := inbox.Counts(r.all)
	for i, st := range r.stages {
		name, sheet := st.Name(), r.of(sheets, i)
		if sheet.Crew == nil || sheet.Queued == 0 || sheet.Out > 0 || sheet.Knobs.Paused {
			delete(a.waiting, name)
			continue
		}
		before, known := a.waiting[name]
		starves := known && before.visits == sheet.Visits
		if starves && !before.starved {
			for _, o := range a.offices {
				if a.governor(name) == o.group {
					s := a.view(o)
					a.askOf(o, controller.Event{Kind: controller.EventStarved, Stage: o.place(controller.StageID(i))}, s)
				}
			}
		}
		a.waiting[name] = waits{sheet.Visits, starves}
	}
	a.watch.Reset(controller.StarvedAfter)
}

// sleep asks for the next tick; a policy that never said when is not asked
// again.
func (a *loopActor) sleep(o *activePolicy) {
	if o.every == 0 {
		return
	}
	l := a.loop
	if o.next == nil {
		o.next = time.AfterFunc(o.every, func() { l.send(tick{o}) })
		return
	}
	o.next.Reset(o.every)
}

// ask shows a policy the state of the pipeline and does what it decides.
func (a *loopActor) ask(o *activePolicy, ev controller.Event) { a.askOf(o, ev, a.view(o)) }

// askOf is ask with what is shown; it reports whether the policy decided anything.
func (a *loopActor) askOf(o *activePolicy, ev controller.Event, s *controller.Snapshot) (changed bool) {
	if changed = a.consult(o, ev, s); changed {
		a.loop.p.reconcile(false)
	}
	a.awake(o)
	return changed
}

// awake sets a policy's clock anew if it has just said when it wants to be asked.
func (a *loopActor) awake(o *activePolicy) {
	if o.decisions.Interval() > 0 {
		a.sleep(o)
	}
}

// answer shows a policy the state of the pipeline and has it answer into its decisions.
func (l *controlLoop) answer(o *activePolicy, ev controller.Event, s *controller.Snapshot) error {
	err := l.guard(func() error { return controller.Ask(o.controller, ev, s, &o.decisions) })
	if err != nil {
		o.decisions.Reset()
	}
	return err
}

// consult asks a policy and notes what it decides; it reports whether that is
// anything. A policy that panics is logged, and what it decided last stays in force.
func (a *loopActor) consult(o *activePolicy, ev controller.Event, s *controller.Snapshot) (changed bool) {
	p := a.loop.p
	if err := a.loop.answer(o, ev, s); err != nil {
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
		a.loop.now.visits[o.group] = o.visits // several who ask hear of the last one's
		watchVisits(a.loop.now)
	}
	changes, faults := controller.Settle(o.policy.Name(), s, &o.decisions)
	for _, err := range faults {
		o.log(p).Error("policy made a decision that means nothing", "error", err)
	}
	for _, ch := range controller.Kept(o.policy.Name(), s, &o.decisions) {
		a.write(o.widen(ch))
	}
	return a.note(o, s, changes)
}

// note notes the changes that the policy may make.
func (a *loopActor) note(o *activePolicy, s *controller.Snapshot, changes []controller.Change) (changed bool) {
	l := a.loop
	for _, ch := range changes {
		if o.claims != nil && !slices.Contains(o.claims, ch.What) {
			o.log(l.p).Error("policy turned a knob that it did not claim", "policy", ch.Policy, "knob", ch.What)
			continue
		}
		if name, ok := ch.After.(string); ok && ch.What == controller.KnobDiscipline {
			if _, err := queue.ByName(name); err != nil {
				o.log(l.p).Error("policy made a decision that means nothing", "policy", ch.Policy, "error", err)
				continue
			}
		}
		if whose := o.foreign(s, ch); whose != "" {
			a.refuse(o, ch, whose)
			continue
		}
		ch = o.widen(ch)
		l.now.apply(ch)
		a.write(ch)
		changed = true
	}
	return changed
}

// write writes a change down. A visit plan that is made anew each round, and a limit
// that follows the load, would crowd out all else: of those that follow one
// another one entry stays, and the log has them only if asked for all.
func (a *loopActor) write(ch controller.Change) {
	l := a.loop
	level, add := slog.LevelInfo, func(ch controller.Change) { l.journal.Add(ch) }
	if ch.What == controller.KnobVisit || ch.What == controller.KnobLimit {
		level, add = slog.LevelDebug, l.journal.Amend
	}
	l.p.set.log.Log(context.Background(), level, "changed", "stage", ch.StageName, "knob", ch.What, "policy", ch.Policy,
		"before", ch.Before, "after", ch.After, "why", ch.Why)
	l.mu.Lock()
	defer l.mu.Unlock()
	add(ch)
}
