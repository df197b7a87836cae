package policy

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// unit is what a policy of workers scales: a pool, and the stages that its workers
// visit. A stage with workers of its own is a unit with itself; the stages of a
// group are one unit together, since there is one number of workers for them all.
//
// What a unit has to do is what the stage with the longest queue has to do. The
// sum would not do: ten stages with five commands each are no backlog, for the
// workers get round to all of them soon, and a threshold would mean something else
// in each group. Nor would the mean: one stage that is stuck would hide behind nine
// that have nothing to do. A worker of the pool can go to whatever stage has need of
// it, so the stage that has most need speaks for all, and a threshold means the
// same for a stage with its own workers and for a group. As queues have
// different room, the longest is the one that is furthest above its own threshold.
type unit struct {
	name   string
	stage  controller.StageID       // whose own pool it is, or NoStage
	stages []*controller.StageStats // those that are not paused, in the order of the pipeline

	workers, least, most, busy, blocked int
}

// paused tells that no worker may visit any of the unit's stages. Its bounds are
// closed around what it has: policies neither add nor take.
func (u *unit) paused() bool { return len(u.stages) == 0 }

// hottest returns the stage that is furthest above its threshold of those that another worker could help, nil if there is
// none, and likewise of those that stages ahead bound: no worker can help these.
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

// held is what is remembered of a unit that would have one more worker if stages ahead did not bound it.
type held struct {
	on   bool
	last time.Duration // when that was seen last
}

// heldAnew is for how long a unit must not have been held back so that the journal says it again.
const heldAnew = 10 * time.Second

// begins notes that a unit is held back, and reports whether the journal is to say so.
func (h *held) begins(now time.Duration) bool {
	anew := !h.on || now-h.last >= heldAnew
	h.on, h.last = true, now
	return anew
}

// keep has the journal say why a unit gets no worker more, if it did not lately.
func (u *unit) keep(h *held, now time.Duration, d *controller.Decisions, st *controller.StageStats, what string, load int) {
	if !h.begins(now) {
		return
	}
	w := st.Window
	d.Keep(u.stage, u.name, fmt.Sprintf("%s %d of %q, but a stage ahead bounds it: %d workers blocked, for %v of %v that they had work",
		what, load, st.Name, st.Blocked, w.Blocked.Round(time.Millisecond), (w.Busy+w.Blocked).Round(time.Millisecond)))
}

// longest returns the stage that is furthest above its threshold, the first of
// equals, and nil if all are paused.
func (u *unit) longest(load, threshold func(*controller.StageStats) int) (longest *controller.StageStats) {
	above := 0
	for _, st := range u.stages {
		if a := load(st) - threshold(st); longest == nil || a > above {
			longest, above = st, a
		}
	}
	return longest
}

// empty tells that nothing waits at any stage.
func (u *unit) empty() bool {
	for _, st := range u.stages {
		if st.QueueLen > 0 {
			return false
		}
	}
	return true
}

// free is how many workers have nothing to do.
func (u *unit) free() int { return u.workers - u.busy - u.blocked }

// scale says how many workers the unit should have.
func (u *unit) scale(d *controller.Decisions, n int, why string) {
	if u.stage == controller.NoStage {
		d.Pool(u.name, n, why)
		return
	}
	d.Workers(u.stage, n, why)
}

// restore brings a unit back between its bounds, and tells whether it had to.
func (u *unit) restore(d *controller.Decisions) bool {
	switch {
	case u.workers < u.least:
		u.scale(d, u.least, fmt.Sprintf("workers %d < %d, the least", u.workers, u.least))
	case u.workers > u.most:
		u.scale(d, u.most, fmt.Sprintf("workers %d > %d, the most", u.workers, u.most))
	default:
		return false
	}
	return true
}

// units lists what there is to scale. It is kept from look to look so that looking
// allocates nothing; what it returns is good until the look is done.
type units struct {
	list   []unit
	stages []*controller.StageStats
	guests bool // some stage is bound to a pool not its own: who they are takes a look at all
}

// mostKept is for how many units the list is kept from look to look. One for more is larger than what
// the making of it costs beside so long a look.
const mostKept = 256

// done ends a look. It lets go of what was seen, which may be megabytes.
func (us *units) done() {
	if len(us.list) > mostKept || len(us.stages) > mostKept {
		*us = units{}
		return
	}
	clear(us.list)
	clear(us.stages)
}

// of lists first the stages with a pool of their own, in the order of the pipeline,
// then the shared pools that a stage is bound to. A pool that nobody is
// bound to has nothing to do and is left alone.
func (us *units) of(s *controller.Snapshot) []unit {
	us.list, us.stages = us.list[:0], us.stages[:0]
	us.guests = false
	for i := range s.Stages {
		us.guests = us.guests || !own(&s.Stages[i])
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

// at returns the stages at a stage's own pool that are not paused: itself, and those
// that are guests there.
func (us *units) at(s *controller.Snapshot, st *controller.StageStats) (awake []*controller.StageStats) {
	from := len(us.stages)
	if !st.Paused {
		us.stages = append(us.stages, st)
	}
	us.bound(s, st.Name)
	return us.stages[from:]
}

// bound returns the stages that are bound to a pool not their own and are not
// paused, and whether there are any such stages at all.
func (us *units) bound(s *controller.Snapshot, pool string) (awake []*controller.StageStats, bound bool) {
	from := len(us.stages)
	if !us.guests {
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
