package policy

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// unit is the object that a policy of workers scales: a pool, and the stages
// that its workers visit. A stage with workers of its own is a unit; the stages
// of a group are one unit together, since they have one number of workers.
//
// The load of a unit is the load of its stage with the longest queue. The sum
// would be wrong: ten stages with five commands each are not a backlog, since
// the workers reach all of them soon, and a threshold would mean something else
// in each group. The mean would be wrong, too: one stuck stage would hide
// behind nine idle ones. A worker of the pool can visit any stage, so the stage
// with the greatest need represents all, and a threshold means the same for a
// stage with its own workers and for a group. As queues have different
// capacities, the longest queue is the queue furthest above its own threshold.
type unit struct {
	name   string
	stage  controller.StageID       // the stage whose own pool it is, or NoStage
	stages []*controller.StageStats // the stages that are not paused, in the order of the pipeline

	workers, least, most, busy, blocked int
}

// paused reports that no worker may visit any of the unit's stages. The bounds
// of such a unit are set to its number of workers, so that policies neither add
// nor remove any.
func (u *unit) paused() bool { return len(u.stages) == 0 }

// hottest returns the stage that is furthest above its threshold among the
// stages that another worker could help, or nil; and likewise among the stages
// that are bound by stages ahead, which no worker can help.
func (u *unit) hottest(load, threshold func(*controller.StageStats) int) (hottest, bound *controller.StageStats) {
	above, beyond := 0, 0
	for _, st := range u.stages {
		switch a := load(st) - threshold(st); {
		case st.Bound:
			if bound == nil || a > beyond {
				bound, beyond = st, a
			}
		case hottest == nil || a > above:
			hottest, above = st, a
		}
	}
	return hottest, bound
}

// held is the memory of a unit that would get one more worker if it were not
// bound by stages ahead.
type held struct {
	on   bool
	last time.Duration // when the unit was last seen held back
}

// heldAgain is how long a unit must not have been held back before the journal
// reports it again.
const heldAgain = 10 * time.Second

// report records that a unit is held back, and reports whether the journal
// should say so.
func (h *held) report(now time.Duration) bool {
	anew := !h.on || now-h.last >= heldAgain
	h.on, h.last = true, now
	return anew
}

// keep notes in the journal why a unit gets no more workers, if it did not do
// so recently.
func (u *unit) keep(h *held, now time.Duration, d *controller.Decisions, st *controller.StageStats, what string, load int) {
	if !h.report(now) {
		return
	}
	w := st.Window
	const why = "%s %d of %q, but it is bound by a stage ahead: %d workers blocked, for %v of the %v in which they had work"
	d.Keep(u.stage, u.name, fmt.Sprintf(why,
		what, load, st.Name, st.Blocked, w.Blocked.Round(time.Millisecond), (w.Busy+w.Blocked).Round(time.Millisecond)))
}

// longest returns the stage that is furthest above its threshold, the first of
// equals, or nil if all are paused.
func (u *unit) longest(load, threshold func(*controller.StageStats) int) (longest *controller.StageStats) {
	above := 0
	for _, st := range u.stages {
		if a := load(st) - threshold(st); longest == nil || a > above {
			longest, above = st, a
		}
	}
	return longest
}

// empty reports whether the queues of all stages are empty.
func (u *unit) empty() bool {
	for _, st := range u.stages {
		if st.QueueLen > 0 {
			return false
		}
	}
	return true
}

// free returns how many workers are idle.
func (u *unit) free() int { return u.workers - u.busy - u.blocked }

// scale sets the number of workers of the unit.
func (u *unit) scale(d *controller.Decisions, n int, why string) {
	if u.stage == controller.NoStage {
		controller.KnobWorkers.SetPool(d, u.name, n, why)
		return
	}
	controller.KnobWorkers.Set(d, u.stage, n, why)
}

// restore brings a unit back within its bounds, and reports whether it had to.
func (u *unit) restore(d *controller.Decisions) bool {
	switch {
	case u.workers < u.least:
		u.scale(d, u.least, fmt.Sprintf("workers %d < %d, the minimum", u.workers, u.least))
	case u.workers > u.most:
		u.scale(d, u.most, fmt.Sprintf("workers %d > %d, the maximum", u.workers, u.most))
	default:
		return false
	}
	return true
}

// units lists the units to scale. It is kept from tick to tick so that listing
// allocates nothing; a list is valid until the tick is done.
type units struct {
	list   []unit
	stages []*controller.StageStats
	shared bool // some stage is bound to a pool that is not its own
}

// mostKept is the number of units up to which the list is kept from tick to
// tick. A list for more takes much memory, and making it again costs little
// compared with so long a tick.
const mostKept = 256

// done ends a tick. It releases the snapshot, which may be megabytes.
func (us *units) done() {
	if len(us.list) > mostKept || len(us.stages) > mostKept {
		*us = units{}
		return
	}
	clear(us.list)
	clear(us.stages)
}

// of lists first the stages with a pool of their own, in the order of the
// pipeline, then the shared pools that a stage is bound to. A pool to which no
// stage is bound has no work and is left alone.
func (us *units) of(s *controller.Snapshot) []unit {
	us.list, us.stages = us.list[:0], us.stages[:0]
	us.shared = false
	for i := range s.Stages {
		us.shared = us.shared || !own(&s.Stages[i])
	}
	for i := range s.Stages {
		if st := &s.Stages[i]; own(st) {
			us.add(unit{
				name: st.Name, stage: controller.StageID(i),
				workers: st.Workers, least: st.MinWorkers, most: st.MaxWorkers, busy: st.Busy, blocked: st.Blocked,
			}, us.at(s, st))
		}
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		if p.Own {
			continue
		}
		if awake, bound := us.bound(s, p.Name); bound {
			us.add(unit{
				name: p.Name, stage: controller.NoStage,
				workers: p.Workers, least: p.MinWorkers, most: p.MaxWorkers, busy: p.Busy, blocked: p.Blocked,
			}, awake)
		}
	}
	return us.list
}

func own(st *controller.StageStats) bool { return st.Pool == "" || st.Pool == st.Name }

func (us *units) add(u unit, awake []*controller.StageStats) {
	u.stages = awake
	if u.paused() {
		u.least, u.most = u.workers, u.workers
	}
	us.list = append(us.list, u)
}

// at returns the stages that the workers of a stage's own pool visit and that
// are not paused: the stage itself, and other stages that are bound to its
// pool.
func (us *units) at(s *controller.Snapshot, st *controller.StageStats) (awake []*controller.StageStats) {
	from := len(us.stages)
	if !st.Paused {
		us.stages = append(us.stages, st)
	}
	us.bound(s, st.Name)
	return us.stages[from:]
}

// bound returns the stages that are bound to a pool other than their own and
// are not paused, and reports whether there are any such stages, paused or not.
func (us *units) bound(s *controller.Snapshot, pool string) (awake []*controller.StageStats, bound bool) {
	from := len(us.stages)
	if !us.shared {
		return nil, false
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		if own(st) || st.Pool != pool {
			continue
		}
		bound = true
		if !st.Paused {
			us.stages = append(us.stages, st)
		}
	}
	return us.stages[from:], bound
}
