package pipeline

import (
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// follow makes what is running as the state of the knobs says. At once, it also has
// workers leave the visit plan that they are at.
func (p *Pipeline) follow(atOnce bool) {
	s := p.desk.now
	used := s.used()
	for _, name := range s.order {
		p.followPool(s.pools[name], used.by[name], atOnce)
	}
	for _, c := range p.roster().stages {
		p.followHost(s, s.stages[c.Name()], used.guests[c.Name()], atOnce)
	}
	for _, c := range p.roster().stages {
		if st := s.stages[c.Name()]; st != nil {
			p.followStage(s, st)
		}
	}
	if atOnce {
		p.dropPools(s, used)
	}
	p.host.Admit(s.entry)
	watchVisits(s)
}

// usage is which pools have stages, and which stages' own pools have those of others.
type usage struct{ by, guests map[string]bool }

func (s *board) used() usage {
	u := usage{map[string]bool{}, map[string]bool{}}
	for name, st := range s.stages {
		u.by[st.pool] = true
		if st.pool != name {
			u.guests[st.pool] = true
		}
	}
	return u
}

// followPool makes a shared pool as it should be. One that nobody needs any more, or
// yet, has no workers.
func (p *Pipeline) followPool(want *poolState, used, atOnce bool) {
	workers := want.workers
	if !want.group && !used {
		workers = 0
	}
	if want.pool == nil {
		if workers == 0 {
			return
		}
		want.pool = stage.NewPool(want.name, &p.env, want.fewest, want.most)
		want.pool.Begin(part.Seal{}, workers)
		p.pools.Add(want.pool)
	}
	crew := want.pool.Crew()
	crew.Choose(want.dispatch)
	if want.plan != want.followed {
		crew.Follow(p.placed(want.plan, atOnce))
		want.followed = want.plan
	}
	if want.pool.Want() != workers {
		want.pool.Scale(part.Seal{}, workers)
	}
}

// followHost makes a stage's own pool one that others share, if another stage is bound to
// it, and only its own again when none is.
func (p *Pipeline) followHost(s *board, st *stageState, guests, atOnce bool) {
	if st == nil {
		return
	}
	name := st.core.Name()
	host := s.hosts[name]
	switch {
	case guests:
		if host == nil {
			host = &poolState{name: name}
			host.fewest, host.most = st.core.Bounds()
			s.hosts[name] = host
		}
		host.workers, host.dispatch, host.plan = max(st.workers, 1), st.dispatch, st.plan
		p.followPool(host, true, atOnce)
	case host != nil:
		p.pools.Stop(host.pool)
		delete(s.hosts, name)
	}
}

// dropPools lets pools go that nobody needs any more, when policies have changed: who
// comes with names of his own each time shall not fill the house.
func (p *Pipeline) dropPools(s *board, used usage) {
	s.order = slices.DeleteFunc(s.order, func(name string) bool {
		pool := s.pools[name]
		if pool.group || used.by[name] {
			return false
		}
		if pool.pool != nil {
			p.pools.Stop(pool.pool)
		}
		delete(s.pools, name)
		return true
	})
}

// placed is a plan with the places of stages for their numbers in a snapshot.
func (p *Pipeline) placed(plan *controller.VisitPlan, atOnce bool) *controller.VisitPlan {
	if plan == nil {
		return nil
	}
	stages := p.roster().stages
	places := make([]controller.StageID, len(stages))
	for i, c := range stages {
		places[i] = controller.StageID(c.Room().Place)
	}
	copied := renumbered(plan, places)
	copied.Now = plan.Now || atOnce
	return copied
}

// followStage makes a stage as it should be.
func (p *Pipeline) followStage(s *board, want *stageState) {
	c := want.core
	if c.Room().Knobs() != want.knobs {
		c.Adjust(func(k *room.Knobs) { *k = want.knobs })
	}
	c.Room().Admit(want.admits())
	followDiscipline(want)
	pool := s.pools[want.pool]
	if pool == nil {
		pool = s.hosts[want.pool]
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

// followDiscipline gives a stage's queue its order: the one that the stage's options
// give, parameters and all, if that is meant, or else the one of that name.
func followDiscipline(want *stageState) {
	own := want.core.Discipline()
	if want.ordered == "" {
		want.ordered = own.Name()
	}
	if want.ordered == want.discipline {
		return
	}
	want.ordered = want.discipline
	if want.discipline == own.Name() {
		want.core.Room().Order(own)
		return
	}
	if d, err := queue.ByName(want.discipline); err == nil { // the clerk has seen to that
		want.core.Room().Order(d)
	}
}

// watchVisits has the crews tell of as many visits as a policy of their controller wants to hear of.
func watchVisits(s *board) {
	for _, name := range s.order {
		visits, own := s.visits[name]
		if p := s.pools[name]; !own || !p.group {
			visits = s.visits[""]
		}
		if pool := s.pools[name].pool; pool != nil {
			pool.Crew().Tell(visits)
		}
	}
}
