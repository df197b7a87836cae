package leda

import (
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// A plan has one [controller.EventRoundEnd], and a plan that is decided again
// is not a new one. But a script that orders the stages after each round, and
// computes the same order, still waits for the end of the next round. The
// package detects that end by reading the pool's count of rounds from time to
// time.

// pollRounds is the interval of these reads.
const pollRounds = 100 * time.Millisecond

// roundIsOver reports whether the function for the end of a round must be
// called.
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

// follow remembers a pool whose plan stays after its EventRoundEnd. A plan that
// was there when the script started to listen may have had its event already,
// so its pool is remembered, too.
func (g *MonitoringGroup) follow(ev controller.Event, p Pool, plan *controller.VisitPlan) {
	is := g.l.now.Pool(string(p))
	_, before := g.ended[p]
	ended := before || g.changed || ev.Kind == controller.EventRoundEnd && ev.Pool == string(p)
	if g.lastFocused != nil && ended && is != nil && plan.Equal(is.Plan) {
		g.ended[p] = is.Rounds
		return
	}
	delete(g.ended, p)
}

// forgetOthers drops all pools except these.
func (g *MonitoringGroup) forgetOthers(pools []Pool) {
	maps.DeleteFunc(g.ended, func(p Pool, _ uint64) bool { return !slices.Contains(pools, p) })
}

// next returns the time until the next timer or read is due; ok is false if
// there is none.
func (g *MonitoringGroup) next(now time.Duration) (wait time.Duration, ok bool) {
	if len(g.ended) > 0 {
		wait, ok = pollRounds, true
	}
	for _, t := range g.timers {
		if left := t.due - now; !ok || left < wait {
			wait, ok = left, true
		}
	}
	return wait, ok
}
