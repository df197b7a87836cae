package pipeline

import (
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage/queue"
)

// reconcile makes what is running as the state of the knobs says. At once, it also has
// workers leave the visit plan that they are at.
func (p *Pipeline) reconcile(atOnce bool) {
	d := p.control.now
	used := d.used()
	for _, name := range d.order {
		p.reconcilePool(d.pools[name], used.by[name], atOnce)
	}
	for _, c := range p.stages().stages {
		p.reconcileHost(d, d.stages[c.Name()], used.guests[c.Name()], atOnce)
	}
	for _, c := range p.stages().stages {
		if st := d.stages[c.Name()]; st != nil {
			p.reconcileStage(d, st)
		}
	}
	if atOnce {
		p.dropPools(d, used)
	}
	p.host.SetAdmission(d.entry)
	watchVisits(d)
}

// usage is which pools have stages, and which stages' own pools have those of others.
type usage struct{ by, guests map[string]bool }

func (d *desiredState) used() usage {
	u := usage{map[string]bool{}, map[string]bool{}}
	for name, st := range d.stages {
		u.by[st.pool] = true
		if st.pool != name {
			u.guests[st.pool] = true
		}
	}
	return u
}

// reconcilePool makes a shared pool as it should be. One that nobody needs any more, or
// yet, has no workers.
func (p *Pipeline) reconcilePool(want *poolState, used, atOnce bool) {
	workers := want.workers
	if !want.group && !used {
		workers = 0
	}
	if want.pool == nil {
		if workers == 0 {
			return
		}
		want.pool = engine.NewPool(want.name, &p.env, want.fewest, want.most)
		want.pool.Begin(part.Seal{}, workers)
		p.pools.Add(want.pool)
	}
	sp := want.pool.Shared()
	sp.SetDispatch(want.dispatch)
	if want.plan != want.followed {
		sp.SetPlan(p.placed(want.plan, atOnce))
		want.followed = want.plan
	}
	if want.pool.Want() != workers {
		want.pool.Scale(part.Seal{}, workers)
	}
}

// reconcileHost makes a stage's own pool one that others share, if another stage is bound to
// it, and only its own again when none is.
func (p *Pipeline) reconcileHost(d *desiredState, st *stageState, guests, atOnce bool) {
	if st == nil {
		return
	}
	name := st.core.Name()
	host := d.hosts[name]
	switch {
	case guests:
		if host == nil {
			host = &poolState{name: name}
			host.fewest, host.most = st.core.Bounds()
			d.hosts[name] = host
		}
		host.workers, host.dispatch, host.plan = max(st.workers, 1), st.dispatch, st.plan
		p.reconcilePool(host, true, atOnce)
	case host != nil:
		p.pools.Stop(host.pool)
		delete(d.hosts, name)
	}
}

// dropPools lets pools go that nobody needs any more, when policies have changed: who
// comes with names of his own each time shall not fill the pipeline.
func (p *Pipeline) dropPools(d *desiredState, used usage) {
	d.order = slices.DeleteFunc(d.order, func(name string) bool {
		pool := d.pools[name]
		if pool.group || used.by[name] {
			return false
		}
		if pool.pool != nil {
			p.pools.Stop(pool.pool)
		}
		delete(d.pools, name)
		return true
	})
}

// placed is a plan with the places of stages for their numbers in a snapshot.
func (p *Pipeline) placed(plan *controller.VisitPlan, atOnce bool) *controller.VisitPlan {
	if plan == nil {
		return nil
	}
	stages := p.stages().stages
	places := make([]controller.StageID, len(stages))
	for i, c := range stages {
		places[i] = controller.StageID(c.Inbox().Place)
	}
	copied := renumbered(plan, places)
	copied.Now = plan.Now || atOnce
	return copied
}

// reconcileStage makes a stage as it should be.
func (p *Pipeline) reconcileStage(d *desiredState, want *stageState) {
	c := want.core
	if c.Inbox().Knobs() != want.knobs {
		c.Adjust(func(k *inbox.Knobs) { *k = want.knobs })
	}
	c.Inbox().SetAdmission(want.admits())
	reconcileDiscipline(want)
	pool := d.pools[want.pool]
	if pool == nil {
		pool = d.hosts[want.pool]
	}
	if want.own() && pool == nil {
		c.Bind(nil)
		if c.Want() != want.workers {
			c.Scale(part.Seal{}, want.workers)
		}
		return
	}
	if pool == nil || pool.pool == nil {
		return // a pool that cannot be: it stays as it is
	}
	c.Bind(pool.pool)
	if c.Want() != 0 {
		c.Scale(part.Seal{}, 0)
	}
}

// reconcileDiscipline gives a stage's queue its order: the one that the stage's options
// give, parameters and all, if that is meant, or else the one of that name.
func reconcileDiscipline(want *stageState) {
	own := want.core.Discipline()
	if want.ordered == "" {
		want.ordered = own.Name()
	}
	if want.ordered == want.discipline {
		return
	}
	want.ordered = want.discipline
	if want.discipline == own.Name() {
		want.core.Inbox().Order(own)
		return
	}
	if d, err := queue.ByName(want.discipline); err == nil { // the control loop has seen to that
		want.core.Inbox().Order(d)
	}
}

// watchVisits has the shared pools tell of as many visits as a policy of their controller wants to hear of.
func watchVisits(d *desiredState) {
	for _, name := range d.order {
		visits, own := d.visits[name]
		if p := d.pools[name]; !own || !p.group {
			visits = d.visits[""]
		}
		if pool := d.pools[name].pool; pool != nil {
			pool.Shared().ReportVisits(visits)
		}
	}
}
