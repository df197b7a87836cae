package leda

import (
	"slices"

	"github.com/golda-dev/golda/controller"
)

// call calls the callbacks that are due.
func (l *Leda) call(ev controller.Event) {
	l.Monitoring.fire(l.now.At)
	if l.Monitoring.roundIsOver(ev) {
		l.Monitoring.lastFocused()
	}
	if ev.Kind == controller.EventVisits && l.Scheduler.visits > 0 {
		l.Scheduler.afterThem()
	}
}

// govern makes the decisions that follow from everything that the script has
// set so far. It repeats them in every call: [controller.Settle] drops
// decisions that are already in force, stages change their indexes, and the
// decisions of a call that panicked were lost.
func (l *Leda) govern(ev controller.Event) {
	l.forget(ev)
	if l.Monitoring.Machine {
		l.d.WatchMachine(true)
	}
	l.gather()
	pools := l.shared()
	for _, p := range pools {
		how, why := l.dispatch(p)
		controller.KnobDispatch.SetPool(l.d, string(p), how, why)
		if !l.private {
			continue
		}
		plan := l.Scheduler.plan(p)
		controller.KnobVisit.SetPool(l.d, string(p), plan, because("scheduler.visitOrder of %d", len(plan.Order)))
		l.Monitoring.follow(ev, p, plan)
	}
	l.Monitoring.forgetOthers(pools)
	l.listen()
	if wait, ok := l.Monitoring.next(l.now.At); ok {
		l.d.Every(wait)
	}
}

// gather puts the stages that have no pool into the global one.
func (l *Leda) gather() {
	for i := range l.now.Stages {
		st := &l.now.Stages[i]
		l.explain(controller.StageID(i))
		if !l.homeless(st) || l.ready("", Global) != nil || poolOf(st) == l.real(Global) {
			continue
		}
		_ = l.bind(controller.StageID(i), Global, "the script gives it no pool") // cannot fail during a call
	}
}

// explain notes, once for each stage, why it keeps its own workers although the
// script gives it no pool.
func (l *Leda) explain(id controller.StageID) {
	st := &l.now.Stages[id]
	if l.apart[nameOf(st)] || l.placed[nameOf(st)] || st.Blocking || st.Paused || poolOf(st) != Pool(st.Name) || !l.tooFew(st) {
		return
	}
	l.apart[nameOf(st)] = true
	c, _ := l.sizeOf(Global)
	l.d.Keep(id, "", because("it keeps its own, as its options ask for at least %d and pool %q has %d",
		st.Needs, l.real(Global), max(c.workers, 1)))
}

// shared returns the pools that visit a stage other than their owner.
func (l *Leda) shared() []Pool {
	var pools []Pool
	for i := range l.now.Stages {
		st := &l.now.Stages[i]
		p := poolOf(st)
		if l.exists(p) && p != Pool(st.Name) && !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	return pools
}

// dispatch returns how the workers of a pool choose: by priority if priorities
// differ.
func (l *Leda) dispatch(p Pool) (how controller.Dispatch, why string) {
	switch {
	case l.private:
		return controller.Polled, because("usePrivateQueues")
	case l.differ(p):
		return controller.SharedPriority, "a shared queue, and priorities differ"
	default:
		return controller.SharedFIFO, "a shared queue, and all priorities are the same"
	}
}

// differ reports whether the stages of a pool have different priorities.
func (l *Leda) differ(p Pool) bool {
	var seen []int
	for i := range l.now.Stages {
		if st := &l.now.Stages[i]; poolOf(st) == p {
			seen = append(seen, st.Priority)
		}
	}
	return len(slices.Compact(seen)) > 1
}

// listen asks for events only if the set of wanted events has changed: asking
// again might make the engine restart its count of visits.
func (l *Leda) listen() {
	if l.Monitoring.changed {
		l.d.OnRoundEnd(l.Monitoring.lastFocused != nil)
	}
	if l.Scheduler.changed {
		l.d.OnVisits(l.Scheduler.visits)
	}
	l.Monitoring.changed, l.Scheduler.changed = false, false
}
