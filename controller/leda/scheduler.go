package leda

import (
	"math"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// SchedulerGroup are the methods that say which work comes first.
type SchedulerGroup struct {
	l *Leda

	order   []Stage
	restart int // counted from one; 0: do not
	bound   int // of every visit; 0: none
	bounds  map[Stage]int

	visits    int
	afterThem func()
	unsaid    bool // how many
}

// VisitOrder (A.4.1) is the order in which workers visit stages, once UsePrivateQueues
// was said. Stages may be named more than once; those that are left out are visited
// once at the end, so that none is forgotten. An empty order is that of the pipeline.
// A worker adopts the order when it comes to the end of the one before, or restarts
// (see RestartAtIndex), and begins with the first stage of the list.
//
// In LStage the empty order was a crash, every order leaked the one before (L5), and
// one of more than about forty places ran over the stack (L18).
func (g *SchedulerGroup) VisitOrder(stages []Stage) error {
	for _, st := range stages {
		if _, err := g.l.find("scheduler.visitOrder", st); err != nil {
			return err
		}
	}
	g.order = slices.Clone(stages)
	return nil
}

// MaxVisits (A.4.2) has a function called each time that the workers of shared pools
// have made so many visits. Less than one visit means never, and needs no function.
// There is one such function; the later wins.
//
// In LStage the code was commented out, and nothing was ever called (L17).
func (g *SchedulerGroup) MaxVisits(maxVisits int, f func()) error {
	if maxVisits > 0 && f == nil {
		return nothing("scheduler.maxVisits")
	}
	g.visits, g.afterThem, g.unsaid = max(maxVisits, 0), f, true
	return nil
}

// RestartAtIndex (A.4.3) sends a worker that handled something to that place of the
// visit order, counted from one. An order that is shorter ends there.
//
// LStage knew the first place only.
func (g *SchedulerGroup) RestartAtIndex(index int) error {
	if index < 1 {
		return wrong("scheduler.restartAtIndex", index, "places are counted from one")
	}
	g.restart = index
	return nil
}

// DoNotRestart (A.4.4) has workers always go on to the next place.
func (g *SchedulerGroup) DoNotRestart() { g.restart = 0 }

// Steal (A.4.5) moves workers from the pool of the victim to that of the thief, fewer if
// the bounds of either do not allow as many: their sum stays.
//
// The appendix takes stage2 for the number of threads and has no line for numThreads;
// the listing and the text say what is meant. In LStage more than one never moved,
// the second theft from a stage hung for ever (L9), and a stage without a stated
// number of instances could steal nothing (L14).
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

// move sets both pools, rather than asking for a theft: that one counts from the
// snapshot, knows the stages' own pools only, and comes after all that is set.
func (g *SchedulerGroup) move(to, from Pool, wanted int) error {
	t, _ := g.l.crew(to)
	f, _ := g.l.crew(from)
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

// SetPriority (A.4.6) says how a stage stands in the queue that it shares: higher first,
// and first come, first served among equals.
//
// In LStage equals were in no order (L13), and a change left the queue in none.
func (g *SchedulerGroup) SetPriority(st Stage, priority int) error {
	id, err := g.l.find("scheduler.setPriority", st)
	if err != nil {
		return err
	}
	why := because("scheduler.setPriority(%d)", priority)
	return g.l.decide(func(d *controller.Decisions) { d.Priority(id, priority, why) })
}

// GetPriority (A.4.7) tells how a stage stands in the queue that it shares.
func (g *SchedulerGroup) GetPriority(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int { return s.Priority })
}

// MaxEventsWhenFocused (A.4.8) bounds how many commands a worker handles in one visit
// to a stage, or to any if it is [All]. Less than one means no bound: for All there is
// none left, a single stage has that of All again.
//
// A visit that comes to its bound is followed by the next place, as the appendix says,
// even where RestartAtIndex was said. LStage did that, too (L3), but handled one
// command more than it was told (L2).
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

// plan is what was said of visits, for the stages of one pool.
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

// limit bounds the visits of a plan, if any bound was set.
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
		plan.Bound = math.MaxInt32 // a plan bounds all or none; this is as good as none
	}
}

// span is how far it is up to a number, and 0 if it is down; as far as there are
// numbers.
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
