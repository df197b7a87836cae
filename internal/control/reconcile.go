package control

import (
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage/queue"
)

// reconcile makes the stages and pools follow the desired state. If atOnce is
// true, workers leave their visit plans, and pools that are not needed any more
// are stopped.
func (l *Loop) reconcile(atOnce bool) {
	s := l.state
	u := s.usage()
	for _, name := range s.order {
		l.reconcilePool(s.pools[name], u.used[name], atOnce)
	}
	stages := l.Pipeline.Stages()
	for _, c := range stages {
		if want := s.stages[c.Name()]; want != nil {
			l.reconcileHost(c, want, u.hosts[c.Name()], atOnce)
		}
	}
	for _, c := range stages {
		if want := s.stages[c.Name()]; want != nil {
			l.reconcileStage(c, want)
		}
	}
	if atOnce {
		l.dropUnused(u, stages)
	}
	l.Host.SetAdmission(s.entry)
	l.reportVisits()
}

// reconcilePool makes a shared pool follow its state. One that no stage is
// bound to has no workers, unless it is a group's.
func (l *Loop) reconcilePool(want *poolState, used, atOnce bool) {
	workers := want.workers
	if !want.group && !used {
		workers = 0
	}
	p := l.running.pools[want.name]
	if p == nil {
		if workers == 0 {
			return
		}
		p = l.startPool(want, workers)
		l.running.pools[want.name] = p
	}
	l.setPool(p, want, workers, atOnce)
}

// startPool starts a shared pool.
func (l *Loop) startPool(want *poolState, workers int) *pool {
	p := &pool{Pool: engine.NewPool(want.name, l.Env, want.fewest, want.most)}
	p.StartWith(part.Seal{}, workers)
	l.Pipeline.StartPool(p.Pool)
	return p
}

func (l *Loop) setPool(p *pool, want *poolState, workers int, atOnce bool) {
	shared := p.Shared()
	shared.SetDispatch(want.dispatch)
	if want.plan != p.plan {
		shared.SetPlan(l.byPlace(want.plan, atOnce))
		p.plan = want.plan
	}
	if p.Want() != workers {
		p.Scale(part.Seal{}, workers)
	}
}

// reconcileHost makes a stage's own pool a shared one if other stages are bound
// to it, and its own again when none is.
func (l *Loop) reconcileHost(c *engine.Core, st *stageState, hosts, atOnce bool) {
	name := c.Name()
	p := l.running.hosts[name]
	if !hosts {
		if p != nil {
			l.Pipeline.StopPool(p.Pool)
			delete(l.running.hosts, name)
		}
		return
	}
	want := &poolState{name: name, workers: max(st.workers, 1), dispatch: st.dispatch, plan: st.plan}
	if p == nil {
		want.fewest, want.most = c.Bounds()
		p = l.startPool(want, want.workers)
		l.running.hosts[name] = p
	}
	l.setPool(p, want, want.workers, atOnce)
}

// dropUnused stops the shared pools that no stage is bound to. It is called
// when policies have changed: policies that come with pool names of their own
// each time must not fill the pipeline with pools.
func (l *Loop) dropUnused(u usage, stages []*engine.Core) {
	for _, name := range l.state.dropUnused(u) {
		if p := l.running.pools[name]; p != nil {
			l.Pipeline.StopPool(p.Pool)
			delete(l.running.pools, name)
		}
	}
	if len(l.running.orders) > 0 {
		given := l.running.orders
		l.running.orders = make(map[*engine.Core]string, len(given))
		for _, c := range stages { // removed stages are forgotten
			if name, ok := given[c]; ok {
				l.running.orders[c] = name
			}
		}
	}
}

// byPlace returns a plan with the places of stages for their numbers in a
// snapshot.
func (l *Loop) byPlace(plan *controller.VisitPlan, atOnce bool) *controller.VisitPlan {
	if plan == nil {
		return nil
	}
	stages := l.Pipeline.Stages()
	places := make([]controller.StageID, len(stages))
	for i, c := range stages {
		places[i] = controller.StageID(c.Inbox().Place)
	}
	copied := renumber(plan, places)
	copied.Now = plan.Now || atOnce
	return copied
}

// reconcileStage makes a stage follow its state.
func (l *Loop) reconcileStage(c *engine.Core, want *stageState) {
	if c.Inbox().Settings().Knobs() != want.knobs {
		c.Adjust(func(k *inbox.Knobs) { *k = want.knobs })
	}
	c.Inbox().Settings().SetAdmission(want.admits())
	l.reconcileDiscipline(c, want.discipline)
	p := l.running.pools[want.pool]
	if p == nil {
		p = l.running.hosts[want.pool]
	}
	if want.own() && p == nil {
		c.Bind(nil)
		if c.Want() != want.workers {
			c.Scale(part.Seal{}, want.workers)
		}
		return
	}
	if p == nil {
		return // a pool that cannot be: the stage stays as it is
	}
	c.Bind(p.Pool)
	if c.Want() != 0 {
		c.Scale(part.Seal{}, 0)
	}
}

// reconcileDiscipline gives a stage's queue its discipline: the discipline of
// the stage's options, with its parameters, if it has that name, else the
// discipline of package queue.
func (l *Loop) reconcileDiscipline(c *engine.Core, want string) {
	own := c.Discipline()
	given, ok := l.running.orders[c]
	if !ok {
		given = own.Name()
	}
	if given == want {
		return
	}
	if want == own.Name() {
		delete(l.running.orders, c)
		c.Inbox().Settings().Order(own)
		return
	}
	l.running.orders[c] = want
	if d, err := queue.ByName(want); err == nil { // apply has checked the name
		c.Inbox().Settings().Order(d)
	}
}

// reportVisits makes the shared pools report after as many visits as a policy
// of their controller wants.
func (l *Loop) reportVisits() {
	for _, name := range l.state.order {
		if p := l.running.pools[name]; p != nil {
			p.Shared().ReportVisits(l.state.reports(name))
		}
	}
}
