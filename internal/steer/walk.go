package steer

import "github.com/golda-dev/golda/controller"

// Walk is one worker's way through a visit plan: it says which place comes
// next. Inboxes use it, and so do the simulators of policies. The zero Walk is
// at the first place. A Walk is not safe for concurrent use.
type Walk struct {
	at int
}

// At returns the current place in an order of n places; n must be greater than
// zero.
func (w *Walk) At(n int) int {
	if w.at >= n {
		w.at = 0
	}
	return w.at
}

// EndsRound reports whether the visit to the current place, in an order of n
// places, ends a round: the place is the last one, and it is not the case that
// the plan has [controller.VisitPlan.FullRounds] and the walk restarts. Handled
// and bounded are as for Leave, which is called after EndsRound.
func (w *Walk) EndsRound(p *controller.VisitPlan, n, handled int, bounded bool) bool {
	return w.At(n) == n-1 && !(p.Restarts(handled, bounded) && p.FullRounds)
}

// Leave moves on from the current place, in an order of n places. Handled is
// how many commands the visit handled; bounded says whether the visit ended
// because of its bound. Leave reports whether the walk went past the end. If it
// did, or if [controller.VisitPlan.Restarts] reports true, the worker adopts a
// newer plan if there is one: see [Walk.Restart].
func (w *Walk) Leave(p *controller.VisitPlan, n, handled int, bounded bool) (round bool) {
	if p.Restarts(handled, bounded) {
		w.at = max(0, min(p.RestartAt, n-1))
		return false
	}
	if w.at++; w.at < n {
		return false
	}
	w.at = 0
	return true
}

// Restart goes back to the first place, as a worker does for a new plan.
func (w *Walk) Restart() { w.at = 0 }
