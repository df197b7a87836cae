package leda

import (
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// A plan has one [controller.EventRoundEnd], and a plan that is decided again is no new
// one. But a script that orders the stages after each round, and finds the order as it
// was, waits for the end of the next round all the same. That one is seen in the
// pool's count of rounds, by looking from time to time.

// lookAgain is how often.
const lookAgain = 100 * time.Millisecond

// roundIsOver tells whether the function for the end of a round is to be called.
func (g *MonitoringGroup) roundIsOver(ev controller.Event) bool {
	if g.lastFocused == nil {
		return false
	}
	over := ev.Kind == controller.EventRoundEnd
	for p, before := range g.ended {
		if is := g.l.now.Pool(string(p)); is != nil && is.Rounds > before {
			over = true
		}
	}
	return over
}

// follow remembers a pool whose plan has told its end and stays. So has, for all we
// know, one that was there when the script began to listen.
func (g *MonitoringGroup) follow(ev controller.Event, p Pool, plan *controller.VisitPlan) {
	is := g.l.now.Pool(string(p))
	_, before := g.ended[p]
	told := before || g.unsaid || ev.Kind == controller.EventRoundEnd && ev.Pool == string(p)
	if g.lastFocused != nil && told && is != nil && plan.Equal(is.Plan) {
		g.ended[p] = is.Rounds
		return
	}
	delete(g.ended, p)
}

// forgetOthers forgets all pools but these.
func (g *MonitoringGroup) forgetOthers(pools []Pool) {
	maps.DeleteFunc(g.ended, func(p Pool, _ uint64) bool { return !slices.Contains(pools, p) })
}

// next is how long it is until something is to be looked at, if anything is.
func (g *MonitoringGroup) next(now time.Duration) (wait time.Duration, ok bool) {
	if len(g.ended) > 0 {
		wait, ok = lookAgain, true
	}
	for _, t := range g.timers {
		if left := t.due - now; !ok || left < wait {
			wait, ok = left, true
		}
	}
	return wait, ok
}
