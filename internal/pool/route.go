package pool

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// route is a visit plan with the inboxes it leads to.
type route[M, I any] struct {
	plan  *controller.VisitPlan
	order []*Binding[M, I]
	ended *atomic.Bool // a worker ended a round; shared by all routes of one plan
}

// newRoute follows a plan through the inboxes of a pool. Inboxes that the plan
// leaves out are put at the end.
func newRoute[M, I any](plan *controller.VisitPlan, bound []*Binding[M, I]) *route[M, I] {
	rt := &route[M, I]{plan: plan, ended: new(atomic.Bool)}
	if plan != nil {
		for _, s := range plan.Order {
			if i := slices.IndexFunc(bound, func(b *Binding[M, I]) bool { return b.place == int(s) }); i >= 0 {
				rt.order = append(rt.order, bound[i])
			}
		}
	}
	for _, b := range bound {
		if !slices.Contains(rt.order, b) {
			rt.order = append(rt.order, b)
		}
	}
	return rt
}

// refit returns the route for other inboxes. It is no new plan, so the end of
// its first round is reported once only.
func (rt *route[M, I]) refit(bound []*Binding[M, I]) *route[M, I] {
	fresh := newRoute(rt.plan, bound)
	fresh.ended = rt.ended
	return fresh
}

// firstRound reports whether the round that a worker has ended is the first of
// the plan.
func (rt *route[M, I]) firstRound() bool { return !rt.ended.Load() && !rt.ended.Swap(true) }

// Visit is what a worker of a pool knows of its route, and of the visit that it
// makes or has made last. Only the worker touches it.
type Visit[M, I any] struct {
	route   *route[M, I]
	walk    steer.Walk
	empty   int // places in a row without work
	place   int // of the inbox
	walked  bool
	handled int // commands, in this visit
	queued  int // commands in the inbox's queue when the visit began
	began   int64
}

// Begin begins a visit at an inbox that has so many commands.
func (v *Visit[M, I]) Begin(b *Binding[M, I], queued int) {
	v.place, v.handled, v.queued, v.began = b.place, 0, queued, 0
}

// Took notes that the worker has taken n commands.
func (v *Visit[M, I]) Took(n int) { v.handled += n }

// turnTo makes a worker leave its route in the middle if the fresh route is of
// the same plan, for other inboxes, or of a plan with Now.
func (v *Visit[M, I]) turnTo(fresh *route[M, I]) {
	if fresh.plan == v.route.plan || fresh.plan != nil && fresh.plan.Now {
		v.adopt(fresh)
	}
}

// adopt makes a worker follow the fresh route from its first place, unless it
// follows it already.
func (v *Visit[M, I]) adopt(fresh *route[M, I]) {
	if fresh != v.route {
		v.route = fresh
		v.walk.Restart()
	}
}

// leave goes on to the next place of the route, or to the first place of a
// fresh one. It reports whether a round has ended.
func (v *Visit[M, I]) leave(fresh *route[M, I], handled int, bounded bool) (round bool) {
	v.empty++
	if handled > 0 {
		v.empty = 0
	}
	rt := v.route
	restarts := rt.plan.Restarts(handled, bounded)
	round = v.walk.EndsRound(rt.plan, len(rt.order), handled, bounded)
	past := v.walk.Leave(rt.plan, len(rt.order), handled, bounded)
	if past || restarts {
		v.adopt(fresh)
	} else {
		v.turnTo(fresh)
	}
	return round
}

// left is how many commands the worker may still take by a plan: 0 for any
// number, -1 for none.
func (v *Visit[M, I]) left(plan *controller.VisitPlan, clock func() int64) int {
	if plan == nil {
		return 0
	}
	left := 0
	switch plan.Gating {
	case controller.Gated:
		left = v.queued - v.handled
	case controller.Bounded:
		left = plan.BoundOf(controller.StageID(v.place)) - v.handled
	case controller.TimeBounded: // the only gating that needs a clock
		now := clock()
		if v.handled == 0 {
			v.began = now
		}
		if time.Duration(now-v.began) < plan.Quantum || v.handled == 0 {
			return 0
		}
	default:
		return 0
	}
	if left <= 0 {
		return -1
	}
	return left
}
