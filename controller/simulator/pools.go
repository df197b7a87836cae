package simulator

import (
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
)

// pool is a shared pool of a process: of the model, or one that a policy has
// made, or the own pool of a stage that other stages are bound to.
type pool struct {
	*inbox.SharedPool

	name         string
	model        bool // the model has it
	process      *process
	fewest, most int
	want         int
	plan         *controller.VisitPlan
}

// newPool adds a shared pool without workers.
func (p *process) newPool(name string, fewest, most int) *pool {
	x := &pool{SharedPool: inbox.NewSharedPool(name, p.pipeline), name: name, process: p, fewest: fewest, most: most}
	p.pools = append(p.pools, x)
	return x
}

// pool returns the shared pool of a name, nil if there is none.
func (p *process) pool(name string) *pool {
	if i := slices.IndexFunc(p.pools, func(x *pool) bool { return x.name == name }); i >= 0 {
		return p.pools[i]
	}
	return nil
}

// scale sets the number of workers.
func (x *pool) scale(n int) {
	if more := n - x.want; more > 0 {
		for range more - x.Unshrink(more) {
			w := x.process.run.newWorker(x.process, nil, x)
			x.Join(&w.Member)
			x.process.run.wake(w)
		}
	} else if more < 0 {
		x.Shrink(-more)
	}
	x.want = n
}

// bind has the workers of a pool visit a station: a shared one, or, by the
// station's name, its own.
func (p *process) bind(s *station, name string) {
	x := p.pool(name)
	switch {
	case x == nil && name == s.Name:
		s.inbox.Settings().Bind(nil)
		s.pool = nil
		s.scale(s.Workers)
		return
	case x == nil: // the own pool of another stage, which becomes a shared one
		host := p.stations[p.run.model.index(name)]
		x = p.newPool(name, host.Workers, host.Most)
		x.scale(host.want)
		p.visit(host, x)
	}
	p.visit(s, x)
}

func (p *process) visit(s *station, x *pool) {
	s.pool = x
	s.inbox.Settings().Bind(x.SharedPool)
	s.scale(0)
}

// applyPool applies a decision about a knob of a shared pool, and reports false
// if it is not simulated.
func (p *process) applyPool(c controller.Change) bool {
	x := p.pool(c.StageName)
	if x == nil {
		if i := p.run.model.index(c.StageName); i >= 0 { // a stage's own pool
			return p.applyOwn(p.stations[i], c)
		}
		x = p.newPool(c.StageName, 1, controller.MostWorkers)
	}
	switch c.What {
	case controller.KnobWorkers:
		x.scale(c.After.(int))
	case controller.KnobDispatch:
		x.SetDispatch(c.After.(controller.Dispatch))
	case controller.KnobVisit:
		x.plan, _ = c.After.(*controller.VisitPlan)
		x.SetPlan(x.plan)
	default:
		return false
	}
	return true
}

// applyOwn applies a decision about the own pool of a stage that no other stage
// is bound to: how its workers choose among stages does not matter yet.
func (p *process) applyOwn(s *station, c controller.Change) bool {
	switch c.What {
	case controller.KnobWorkers:
		s.scale(c.After.(int))
	case controller.KnobDispatch, controller.KnobVisit:
	default:
		return false
	}
	return true
}

// poolStats returns the pools as policies see them: the stages' own, and then
// the shared ones.
func (p *process) poolStats(stages []controller.StageStats, all []controller.PoolStats) []controller.PoolStats {
	stats := func(name string) (ps controller.PoolStats) {
		ps.Name = name
		for i := range stages {
			if st := &stages[i]; st.Pool == name {
				ps.Stages = append(ps.Stages, st.ID)
				ps.Busy, ps.Blocked = ps.Busy+st.Busy, ps.Blocked+st.Blocked
			}
		}
		if x := p.pool(name); x != nil {
			a := x.Accounts()
			ps.Dispatch, ps.Plan, ps.Workers, ps.MinWorkers, ps.MaxWorkers = x.Dispatch(), x.plan, x.want, x.fewest, x.most
			ps.Rounds, ps.Visits, ps.EmptyVisits = a.Rounds, a.Visits, a.Empties
		}
		return ps
	}
	for i := range stages {
		own := stats(stages[i].Name)
		if own.Own = true; p.pool(own.Name) == nil {
			own.Workers, own.MinWorkers, own.MaxWorkers = stages[i].Workers, stages[i].MinWorkers, stages[i].MaxWorkers
		}
		all = append(all, own)
	}
	for _, x := range p.pools {
		if p.run.model.index(x.name) < 0 {
			ps := stats(x.name)
			ps.Group = x.model
			all = append(all, ps)
		}
	}
	return all
}
