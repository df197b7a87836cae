package pipeline

import (
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// desiredState is how all knobs are to be turned. Policies change it, and what is running is
// then made to follow; so a policy that takes over can begin with the pipeline's own
// settings, and only what is different in the end is touched.
type desiredState struct {
	entry  controller.Admission
	stages map[string]*stageState
	pools  map[string]*poolState // the shared ones
	order  []string              // of pools, as they were made
	visits map[string]int        // how many the policies of each controller want to hear of at once, by its group
	hosts  map[string]*poolState // own pools of stages that others are bound to, too
}

// stageState is how the knobs of a stage are turned, and those of its own pool.
type stageState struct {
	core       *engine.Core
	group      string // that declares it, "" if none does
	pool       string // whose workers visit it; its own name for its own
	workers    int    // of its own, if they do
	knobs      inbox.Knobs
	dispatch   controller.Dispatch // of its own pool; with one stage it means nothing
	plan       *controller.VisitPlan
	discipline string
	ordered    string                // what the queue was told
	admission  *controller.Admission // nil: all are let in
	paused     bool                  // by the user, not by a policy
}

// poolState is how the knobs of a shared pool are turned.
type poolState struct {
	name         string
	group        bool // the pipeline declares it
	fewest, most int
	workers      int
	dispatch     controller.Dispatch
	plan         *controller.VisitPlan
	pool         *engine.Pool          // nil until it is needed
	followed     *controller.VisitPlan // what its workers were told
}

// newDesiredState is how the pipeline itself has the knobs. Stages of groups may have been removed since.
func newDesiredState(stages []*engine.Core, groups []grouping) *desiredState {
	d := &desiredState{
		stages: make(map[string]*stageState, len(stages)), pools: map[string]*poolState{}, hosts: map[string]*poolState{},
		visits: map[string]int{},
	}
	for _, c := range stages {
		d.add(c)
	}
	for _, g := range groups {
		d.addPool(&poolState{name: g.name, group: true, fewest: g.fewest, most: g.most, workers: g.fewest})
		for _, c := range g.stages {
			if st := d.stages[c.Name()]; st != nil && st.core == c {
				st.pool, st.group = g.name, g.name
			}
		}
	}
	return d
}

// add takes a stage in, as its options have it.
func (d *desiredState) add(c *engine.Core) {
	fewest, _ := c.Bounds()
	d.stages[c.Name()] = &stageState{
		core: c, pool: c.Name(), workers: fewest, knobs: c.Preset(), discipline: c.Discipline().Name(),
	}
}

func (d *desiredState) addPool(p *poolState) {
	d.pools[p.name] = p
	d.order = append(d.order, p.name)
}

// remove lets a stage go.
func (d *desiredState) remove(name string) { delete(d.stages, name) }

// admits is who is let in to the stage.
func (st *stageState) admits() controller.Admission {
	if st.admission == nil {
		return controller.Admission{}
	}
	return *st.admission
}

// own reports whether a stage has its own workers.
func (st *stageState) own() bool { return st.pool == st.core.Name() }

// reset is the pipeline's own state, with what has happened since: stages that are
// paused stay so, pools that were made are there still, and numbers of workers are
// handed over where the pool stays. It is found anew, from the options, since a pipeline that
// kept it would have two states of each stage to keep. What covers and coversPool do not report stays as it is, and so does the
// entry unless it is asked for; but a stage that is bound to a pool that is reset is reset, too.
func (d *desiredState) reset(groups []grouping, entry bool, covers, coversPool func(name string) bool) *desiredState {
	stages := make([]*engine.Core, 0, len(d.stages))
	for _, st := range d.stages {
		stages = append(stages, st.core)
	}
	fresh := newDesiredState(stages, groups)
	fresh.hosts, fresh.visits = d.hosts, d.visits
	if !entry {
		fresh.entry = d.entry
	}
	for name, st := range fresh.stages {
		now := d.stages[name]
		if !covers(name) && !coversPool(now.pool) {
			fresh.stages[name] = now
			continue
		}
		st.paused, st.knobs.Paused, st.ordered = now.paused, now.paused, now.ordered
		if st.own() && now.own() {
			st.workers = now.workers
		}
	}
	for _, name := range d.order {
		now := d.pools[name]
		if !coversPool(name) {
			if fresh.pools[name] == nil {
				fresh.order = append(fresh.order, name)
			}
			fresh.pools[name] = now
			continue
		}
		if p := fresh.pools[name]; p != nil {
			p.pool, p.followed, p.workers = now.pool, now.followed, now.workers
			continue
		}
		if now.pool != nil {
			fresh.addPool(&poolState{name: name, fewest: 1, most: now.most, workers: 1, pool: now.pool, followed: now.followed})
		}
	}
	return fresh
}

// apply notes a change that was settled.
func (d *desiredState) apply(ch controller.Change) {
	if ch.Stage == controller.Entry {
		admit(&d.entry, ch)
		return
	}
	if ch.Stage == controller.NoStage {
		d.applyPool(ch)
		return
	}
	st := d.stages[ch.StageName]
	if st == nil {
		return // a stage that has just come; the policies are asked again when the board has it
	}
	switch ch.What {
	case controller.KnobDispatch:
		st.dispatch = ch.After.(controller.Dispatch)
	case controller.KnobVisit:
		st.plan, _ = ch.After.(*controller.VisitPlan)
	case controller.KnobWorkers:
		st.workers = ch.After.(int)
	case controller.KnobPool:
		st.bind(ch.After.(string))
	case controller.KnobInstances:
		st.knobs.Instances = ch.After.(int)
	case controller.KnobPriority:
		st.knobs.Priority = ch.After.(int)
	case controller.KnobBatch:
		b := ch.After.(controller.Batch)
		st.knobs.Batch, st.knobs.Linger = b.Max, b.Linger
	case controller.KnobCapacity:
		st.knobs.Capacity = ch.After.(int)
	case controller.KnobEnabled:
		st.knobs.Disabled = !ch.After.(bool)
	case controller.KnobDiscipline:
		st.discipline = ch.After.(string)
	case controller.KnobQuality:
		st.knobs.Quality = ch.After.(float64)
	default:
		if st.admission == nil {
			st.admission = new(controller.Admission)
		}
		admit(st.admission, ch)
	}
}

// bind moves a stage to another pool. Back in its own it begins with the fewest
// workers, until something else is said.
func (st *stageState) bind(pool string) {
	st.pool = pool
	fewest, _ := st.core.Bounds()
	st.workers = fewest
}

// applyPool notes a change of a shared pool.
func (d *desiredState) applyPool(ch controller.Change) {
	p := d.pools[ch.StageName]
	if p == nil {
		p = &poolState{name: ch.StageName, fewest: 1, most: controller.MostWorkers, workers: 1}
		d.addPool(p)
	}
	switch ch.What {
	case controller.KnobWorkers:
		p.workers = ch.After.(int)
	case controller.KnobDispatch:
		p.dispatch = ch.After.(controller.Dispatch)
	case controller.KnobVisit:
		p.plan, _ = ch.After.(*controller.VisitPlan)
	default:
	}
}

func admit(a *controller.Admission, ch controller.Change) {
	switch ch.What {
	case controller.KnobRate:
		a.Rate = ch.After.(controller.Rate)
	case controller.KnobLimit:
		a.Limit = ch.After.(int)
	case controller.KnobShed:
		a.Shed = ch.After.(controller.Shed)
	case controller.KnobGate:
		a.Gate, _ = ch.After.(controller.Gate)
	default:
	}
}
