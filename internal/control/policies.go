package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/stage/queue"
)

// afterPanic is when a policy is asked again that panicked before it had said
// when.
const afterPanic = time.Second

// startPolicies asks the policies of all controllers for the first time, and
// then applies all their decisions. If swap is true, workers leave the visit
// plans that they follow.
func (a *loopActor) startPolicies(swap bool) error {
	l := a.loop
	l.mu.Lock()
	policies := maps.Clone(l.policies)
	l.mu.Unlock()
	var all []*activePolicy
	for _, group := range slices.Sorted(maps.Keys(policies)) {
		some, err := l.newPolicies(group, policies[group])
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	a.install(all)
	l.reconcile(swap)
	return nil
}

// newPolicies makes controllers of policies, of all or of none.
func (l *Loop) newPolicies(group string, policies []controller.Policy) (all []*activePolicy, err error) {
	for _, policy := range policies {
		p, err := l.newPolicy(group, policy)
		if err != nil {
			return nil, err
		}
		if claimer, ok := policy.(controller.Claimer); ok && len(policies) > 1 {
			p.claims = append([]controller.Knob{}, claimer.Claims()...)
		}
		all = append(all, p)
	}
	return all, nil
}

func (l *Loop) newPolicy(group string, policy controller.Policy) (*activePolicy, error) {
	p := &activePolicy{group: group, policy: policy}
	err := l.guard(func() error { p.controller = policy.New(); return nil })
	if err == nil && p.controller == nil {
		err = errors.New("its New returned nil")
	}
	switch {
	case err == nil:
		return p, nil
	case group == "":
		return nil, fmt.Errorf("policy %q: %w", policy.Name(), err)
	default:
		return nil, fmt.Errorf("%q: policy %q: %w", group, policy.Name(), err)
	}
}

// install asks policies for the first time, besides the active ones.
func (a *loopActor) install(policies []*activePolicy) {
	a.active = append(a.active, policies...)
	for _, p := range policies {
		a.loop.state.visits[p.group] = 0
	}
	for _, p := range policies {
		a.consult(p, controller.Event{Kind: controller.EventStart, Stage: controller.NoStage}, a.view(p))
	}
}

// stopPolicies stops the active policies that leave.
func (a *loopActor) stopPolicies(leaves func(*activePolicy) bool) {
	var stay []*activePolicy
	for _, p := range a.active {
		if !leaves(p) {
			stay = append(stay, p)
			continue
		}
		if p.next != nil {
			p.next.Stop()
		}
		ev := controller.Event{Kind: controller.EventStop, Stage: controller.NoStage}
		_ = a.loop.call(p, ev, a.view(p)) // its decisions have no effect
	}
	a.active = stay
}

// use replaces the policies of a controller. They start from the pipeline's own
// settings. If one of them cannot start, nothing changes. A group without
// policies has no controller of its own: the pipeline's governs it then.
func (a *loopActor) use(group string, policies []controller.Policy) error {
	_, err := a.replace(group, policies, "", "replaced by Pipeline.SetPolicy or SetGroupPolicy")
	return err
}

// replace does what use does, and returns the number of its entry in the
// journal. An operator that has asked for it has a name.
func (a *loopActor) replace(group string, policies []controller.Policy, operator, why string) (number uint64, err error) {
	l := a.loop
	fresh, err := l.newPolicies(group, policies)
	if err != nil {
		return 0, err
	}
	if group == "" && l.temporary != nil {
		l.temporary.timer.Stop()
		l.temporary = nil
	}
	governed := a.governs(group)
	a.stopPolicies(func(p *activePolicy) bool { return p.group == group })
	l.mu.Lock()
	before := namesOf(l.policies[group])
	l.setPoliciesLocked(group, policies)
	l.mu.Unlock()
	a.reset(group)
	ch := swapped(group, before, namesOf(policies), time.Duration(l.Host.Now()))
	ch.Policy, ch.Why = cmp.Or(operator, ch.Policy), why
	number = l.write(ch)
	a.install(fresh)
	if group != "" && governed != a.governs(group) { // the pipeline's controller sees other stages than before
		for _, p := range a.active {
			if p.group == "" {
				a.consult(p, controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage}, a.view(p))
				a.reschedule(p)
			}
		}
	}
	l.reconcile(true)
	for _, p := range fresh {
		a.scheduleTick(p)
	}
	return number, nil
}

// reset sets back the knobs that a controller governs, and the knobs of a group
// that had a controller until now.
func (a *loopActor) reset(group string) {
	l := a.loop
	stage := func(name string) bool { return a.governor(name) == "" }
	pool := func(name string) bool { return a.poolGovernor(name) == "" }
	if group != "" {
		stage, pool = l.state.inGroup(group)
	}
	l.state = l.state.reset(l.Groups, group == "", stage, pool, l.running.has)
	delete(l.state.visits, group)
}

// knobPolicy is the policy itself in the journal.
var knobPolicy controller.Knob = named("policy")

// named is a knob that only a journal has.
type named string

// String is for [controller.Knob].
func (n named) String() string { return string(n) }

// noPolicy stands in the journal for the policies of a group that has no
// controller of its own.
const noPolicy = "the pipeline's"

// swapped returns the journal's entry for policies that were replaced.
func swapped(group, before, after string, at time.Duration) controller.Change {
	ch := controller.Change{
		At: at, Policy: after, Stage: controller.Entry, What: knobPolicy, Before: before, After: after,
	}
	if group != "" {
		ch.Group, ch.Stage, ch.StageName = group, controller.NoStage, group
		ch.Policy, ch.Before, ch.After = cmp.Or(after, before), cmp.Or(before, noPolicy), cmp.Or(after, noPolicy)
	}
	return ch
}

// ask asks a policy and reconciles; it reports whether the policy changed
// anything.
func (a *loopActor) ask(p *activePolicy, ev controller.Event, s *controller.Snapshot) (changed bool) {
	if changed = a.consult(p, ev, s); changed {
		a.loop.reconcile(false)
	}
	a.reschedule(p)
	return changed
}

// call shows a policy the state of the pipeline; the policy writes its answer
// into its decisions.
func (l *Loop) call(p *activePolicy, ev controller.Event, s *controller.Snapshot) error {
	err := l.guard(func() error { return controller.Ask(p.controller, ev, s, &p.decisions) })
	if err != nil {
		p.decisions.Reset()
	}
	return err
}

// consult asks a policy and applies its decisions to the desired state; it
// reports whether they change anything. A panic of the policy is logged, and
// its last decisions stay in force.
func (a *loopActor) consult(p *activePolicy, ev controller.Event, s *controller.Snapshot) (changed bool) {
	l := a.loop
	if err := l.call(p, ev, s); err != nil {
		a.log(p).Error("policy panicked; its last decisions stay", "policy", p.policy.Name(), "error", err)
		p.every = cmp.Or(p.every, afterPanic)
		return false
	}
	p.every = cmp.Or(p.decisions.Interval(), p.every)
	if on, ok := p.decisions.WantsRoundEnd(); ok {
		p.rounds = on
	}
	if n, ok := p.decisions.WantsVisits(); ok {
		p.visits = max(n, 0)
		l.state.visits[p.group] = p.visits // of several policies of a controller, the last one's number counts
		l.reportVisits()
	}
	if on, ok := p.decisions.WantsMachine(); ok {
		l.state.machine = on
	}
	if on, ok := p.decisions.WantsTimes(); ok {
		p.watches = on
	}
	changes, faults := controller.Settle(p.policy.Name(), s, &p.decisions)
	for _, err := range faults {
		a.log(p).Error("policy made an invalid decision", "error", err)
	}
	for _, ch := range p.decisions.Kept(p.policy.Name(), s) {
		l.write(p.widen(ch))
	}
	return a.apply(p, s, changes)
}

// apply applies the changes that the policy is allowed to make to the desired
// state.
func (a *loopActor) apply(p *activePolicy, s *controller.Snapshot, changes []controller.Change) (changed bool) {
	for _, ch := range changes {
		if p.claims != nil && !slices.Contains(p.claims, ch.What) {
			a.log(p).Error("policy turned a knob that it did not claim", "policy", ch.Policy, "knob", ch.What)
			continue
		}
		if name, ok := ch.After.(string); ok && ch.What == controller.KnobDiscipline {
			if _, err := queue.ByName(name); err != nil {
				a.log(p).Error("policy made an invalid decision", "policy", ch.Policy, "error", err)
				continue
			}
		}
		if of := foreign(s, ch); of != "" {
			a.refuse(p, ch, of)
			continue
		}
		ch = p.widen(ch)
		if a.loop.state.holds(ch) {
			continue
		}
		a.loop.state.apply(ch)
		a.loop.write(ch)
		changed = true
	}
	return changed
}

// refuse logs that a policy decided about something that its controller does
// not govern.
func (a *loopActor) refuse(p *activePolicy, ch controller.Change, of string) {
	k := logs.Kind{Level: slog.LevelError, Message: "policy turned a knob of what another controller governs", Stage: ch.StageName}
	a.loop.Limiter.Log(k, func() []any {
		return []any{"of", of, "policy", ch.Policy, "group", p.group, "knob", ch.What}
	})
}

// log returns the log for the faults of a policy.
func (a *loopActor) log(p *activePolicy) *slog.Logger {
	if p.group == "" {
		return a.loop.Log
	}
	return a.loop.Log.With("group", p.group)
}

// following are the knobs that follow the load.
var following = []controller.Knob{controller.KnobVisit, controller.KnobLimit, controller.KnobSojourn, controller.KnobRate}

// write writes a change to the journal and the log. A visit plan that is
// renewed every round, and bounds that follow the load, would crowd out all
// else: of consecutive changes of these the journal keeps one entry, and the
// log has them only at the level Debug. It returns the number of the entry.
func (l *Loop) write(ch controller.Change) (number uint64) {
	level, add := slog.LevelInfo, func(ch controller.Change) { l.journal.Add(ch) }
	follows := ch.What == controller.KnobShed && ch.Before != (controller.Shed{}) && ch.After != (controller.Shed{})
	switch {
	case follows, ch.Varies, slices.Contains(following, ch.What):
		level, add = slog.LevelDebug, l.journal.Amend
	default:
	}
	l.Log.Log(context.Background(), level, "changed", "stage", ch.StageName, "knob", ch.What, "policy", ch.Policy,
		"before", ch.Before, "after", ch.After, "why", ch.Why)
	l.mu.Lock()
	defer l.mu.Unlock()
	add(ch)
	l.decided.count(ch)
	return l.journal.Last()
}

// tick asks a policy again.
type tick struct{ of *activePolicy }

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has
// ended.
func (tick) IgnoreDeadLetterLogging() {}

// scheduleTick starts the time until the next tick of a policy. A policy that
// has never said when gets none.
func (a *loopActor) scheduleTick(p *activePolicy) {
	if p.every == 0 {
		return
	}
	l := a.loop
	if p.next == nil {
		p.next = time.AfterFunc(p.every, func() { l.send(tick{p}) })
		return
	}
	p.next.Reset(p.every)
}

// reschedule restarts the time until the next tick if the policy has just said
// when that is.
func (a *loopActor) reschedule(p *activePolicy) {
	if p.decisions.Interval() > 0 {
		a.scheduleTick(p)
	}
}
