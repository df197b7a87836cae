package leda

import (
	"math"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// SchedulerGroup has the methods that decide which work comes first.
type SchedulerGroup struct {
	l *Leda

	order   []Stage
	restart int // counted from one; 0: no restart
	bound   int // of every visit; 0: none
	bounds  map[Stage]int

	visits    int
	afterThem func()
	changed   bool // visits was set, and listen has not run since
}

// VisitOrder (A.4.1) sets the order in which workers visit stages, once
// UsePrivateQueues was called. A stage may be listed more than once; stages
// that are left out are visited once at the end, so that none is forgotten. An
// empty order means the order of the pipeline. A worker adopts the new order
// when it reaches the end of the previous one, or restarts (see
// RestartAtIndex), and starts with the first stage of the list.
//
// In LStage an empty order crashed, every order leaked the previous one (L5),
// and an order of more than about forty places overflowed the stack (L18).
func (g *SchedulerGroup) VisitOrder(stages []Stage) error {
	for _, st := range stages {
		if _, err := g.l.find("scheduler.visitOrder", st); err != nil {
			return err
		}
	}
	g.order = slices.Clone(stages)
	return nil
}

// MaxVisits (A.4.2) registers a function that is called each time the workers
// of shared pools have made that many visits. Less than one visit means never,
// and needs no function. There is one such function; a later call replaces it.
//
// In LStage the code was commented out, and no function was ever called (L17).
func (g *SchedulerGroup) MaxVisits(maxVisits int, f func()) error {
	if maxVisits > 0 && f == nil {
		return nothing("scheduler.maxVisits")
	}
	g.visits, g.afterThem, g.changed = max(maxVisits, 0), f, true
	return nil
}

// RestartAtIndex (A.4.3) sends a worker that handled a command to that place of
// the visit order, counted from one. In a shorter order it means the last
// place.
//
// LStage supported only the first place.
func (g *SchedulerGroup) RestartAtIndex(index int) error {
	if index < 1 {
		return wrong("scheduler.restartAtIndex", index, "places are counted from one")
	}
	g.restart = index
	return nil
}

// DoNotRestart (A.4.4) makes workers always go on to the next place.
func (g *SchedulerGroup) DoNotRestart() { g.restart = 0 }

// Steal (A.4.5) moves workers from the pool of the victim to the pool of the
// thief, fewer if the bounds of either do not allow as many: their sum stays
// the same.
//
// The appendix describes stage2 as the number of threads and does not describe
// numThreads; the listing and the text show the intended meaning. In LStage it
// never moved more than one worker, the second steal from a stage hung for ever
// (L9), and a stage without a stated number of instances could steal nothing
// (L14).
func (g *SchedulerGroup) Steal(thief, victim Stage, numThreads int) error {
	const method = "scheduler.steal"
	if _, err := g.l.find(method, thief); err != nil {
		return err
	}
	if _, err := g.l.find(method, victim); err != nil {
		return err
	}
	if numThreads < 0 {
		return negative(method, numThreads)
	}
	return g.move(g.l.Pool.GetPool(thief), g.l.Pool.GetPool(victim), numThreads)
}

// move sets both pools, rather than calling Decisions.Steal, which counts from
// the snapshot, supports only the stages' own pools, and is applied after all
// other wishes.
func (g *SchedulerGroup) move(to, from Pool, wanted int) error {
	t, _ := g.l.sizeOf(to)
	f, _ := g.l.sizeOf(from)
	n := min(wanted, span(f.least, f.workers), span(t.workers, t.most))
	if n == 0 || to == from {
		return nil
	}
	why := because("scheduler.steal(%d): %d of %s go to %s", wanted, n, from, to)
	if err := g.l.resize(to, t.workers+n, why); err != nil {
		return err
	}
	return g.l.resize(from, f.workers-n, why)
}

// SetPriority (A.4.6) sets the priority of a stage in the queue that it shares:
// higher first, and first come, first served among equals.
//
// In LStage equals were in no defined order (L13), and a change left the queue
// unsorted.
func (g *SchedulerGroup) SetPriority(st Stage, priority int) error {
	id, err := g.l.find("scheduler.setPriority", st)
	if err != nil {
		return err
	}
	why := because("scheduler.setPriority(%d)", priority)
	return g.l.decide(func(d *controller.Decisions) { controller.KnobPriority.Set(d, id, priority, why) })
}

// GetPriority (A.4.7) returns the priority of a stage in the queue that it
// shares.
func (g *SchedulerGroup) GetPriority(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int { return s.Priority })
}

// MaxEventsWhenFocused (A.4.8) bounds how many commands a worker handles in one
// visit to a stage, or to any stage if it is [All]. Less than one means no
// bound: for All it removes all bounds, for a single stage it restores the
// bound of All.
//
// After a visit that reaches its bound the worker goes on to the next place, as
// the appendix says, even if RestartAtIndex is set. LStage did that, too (L3),
// but handled one command more than the bound (L2).
func (g *SchedulerGroup) MaxEventsWhenFocused(st Stage, maxEvents int) error {
	if st == All {
		clear(g.bounds)
		g.bound = max(maxEvents, 0)
		return nil
	}
	if _, err := g.l.find("scheduler.maxEventsWhenFocused", st); err != nil {
		return err
	}
	if delete(g.bounds, st); maxEvents > 0 {
		g.bounds[st] = maxEvents
	}
	return nil
}

// plan returns the visit plan for the stages of one pool.
func (g *SchedulerGroup) plan(p Pool) *controller.VisitPlan {
	order := g.order
	if len(order) == 0 {
		order = g.l.Stages()
	}
	plan := &controller.VisitPlan{Restart: g.restart > 0}
	for i, st := range order {
		if i < g.restart {
			plan.RestartAt = len(plan.Order)
		}
		if id := g.l.at(st); id >= 0 && g.visited(id, p) {
			plan.Order = append(plan.Order, id)
		}
	}
	plan.RestartAt = max(0, min(plan.RestartAt, len(plan.Order)-1))
	g.limit(plan)
	return plan
}

func (g *SchedulerGroup) visited(id controller.StageID, p Pool) bool {
	st := &g.l.now.Stages[id]
	return poolOf(st) == p && !st.Paused
}

// limit sets the bounds of a plan's visits, if any bound was set.
func (g *SchedulerGroup) limit(plan *controller.VisitPlan) {
	for _, id := range plan.Order {
		if n, ok := g.bounds[nameOf(&g.l.now.Stages[id])]; ok {
			if plan.Bounds == nil {
				plan.Bounds = make(map[controller.StageID]int)
			}
			plan.Bounds[id] = n
		}
	}
	if g.bound == 0 && len(plan.Bounds) == 0 {
		return
	}
	plan.Gating, plan.Bound, plan.Advance = controller.Bounded, g.bound, plan.Restart
	if g.bound == 0 {
		plan.Bound = math.MaxInt32 // a plan bounds all stages or none; this is practically no bound
	}
}

// span returns the distance from a number up to another, limited to
// math.MaxInt, or 0 if the other is not greater.
func span(from, to int) int {
	switch {
	case to <= from:
		return 0
	case to-from < 0:
		return math.MaxInt
	default:
		return to - from
	}
}
