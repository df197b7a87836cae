package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// VisitPlan is the order in which each worker of a polled pool visits stages,
// and when a visit ends. A plan must not be changed after it was given to
// [KnobVisit]. The zero plan visits the stages of the pool in the order
// of the pipeline, once each, and stays at each stage until its queue is empty.
//
// In a pool that shares one queue only the bounds count: how many commands a
// worker takes before it goes back to the queue.
//
// A visit is *successful* if at least one command was handled.
type VisitPlan struct {
	// Order lists the stages in the order of visits; it may list a stage more
	// than once. Stages of the pool that it leaves out are visited once at its
	// end, so that no plan can starve a stage; stages of other pools are
	// skipped.
	Order []StageID
	// Gating says when a visit ends.
	Gating Gating
	// Bound is the maximum number of commands of one visit, if Gating is
	// Bounded; Bounds overrides it for single stages. Less than 1 counts as 1.
	Bound  int
	Bounds map[StageID]int
	// Quantum is the maximum time of one visit, if Gating is TimeBounded.
	Quantum time.Duration
	// Restart sends a worker after a successful visit to the place RestartAt of
	// Order; without it the worker goes on to the next place.
	Restart   bool
	RestartAt int
	// Advance makes an exception to Restart: after a visit that ended because
	// of its bound, the worker goes on to the next place. So a stage with
	// endless work does not keep the workers at itself and the stages before
	// it.
	Advance bool
	// FullRounds makes a round end only when a worker goes past the last place.
	// Without it each visit to the last place ends a round, even if the worker
	// then goes back to RestartAt. Without Restart it makes no difference.
	FullRounds bool
	// Now makes workers adopt this plan at their next visit. Without it a
	// worker adopts the plan at the end of its round, or when a successful
	// visit sends it back to RestartAt. In both cases it starts with the first
	// place of this plan.
	Now bool
}

// Gating says when a visit ends. The names come from Harizopoulos and Ailamaki
// (CMU-CS-02-113, 2002), where they have one.
type Gating uint8

// The four gatings.
const (
	// Exhaustive visits end when the queue is empty, new arrivals included
	// (non-gated).
	Exhaustive Gating = iota
	// Gated visits end when the commands that were queued at the start of the
	// visit are done (D-gated).
	Gated
	// Bounded visits end at the latest after a number of commands (cutoff).
	Bounded
	// TimeBounded visits end with the batch during which their time runs out.
	TimeBounded
)

var gatings = [...]string{"exhaustive", "gated", "bounded", "time-bounded"}

// String returns the gating as one word.
func (g Gating) String() string {
	if int(g) >= len(gatings) {
		return "unknown"
	}
	return gatings[g]
}

// BoundOf returns the maximum number of commands of one visit to a stage, or 0
// if the plan sets none.
func (p *VisitPlan) BoundOf(s StageID) int {
	if p == nil || p.Gating != Bounded {
		return 0
	}
	if n, ok := p.Bounds[s]; ok {
		return max(n, 1)
	}
	return max(p.Bound, 1)
}

// Restarts reports whether a visit sends the worker back to RestartAt. Handled
// is how many commands the visit handled; bounded says whether the visit ended
// because of its bound.
func (p *VisitPlan) Restarts(handled int, bounded bool) bool {
	return p != nil && p.Restart && handled > 0 && (!bounded || !p.Advance)
}

// Equal reports whether two plans are the same. A nil plan equals only a nil
// plan.
func (p *VisitPlan) Equal(q *VisitPlan) bool {
	if p == nil || q == nil {
		return p == q
	}
	return slices.Equal(p.Order, q.Order) && p.Gating == q.Gating && p.Bound == q.Bound && p.Quantum == q.Quantum &&
		sameBounds(p.Bounds, q.Bounds) && p.Restart == q.Restart && p.RestartAt == q.RestartAt &&
		p.Advance == q.Advance && p.FullRounds == q.FullRounds && p.Now == q.Now
}

func sameBounds(a, b map[StageID]int) bool {
	if len(a) != len(b) {
		return false
	}
	for s, n := range a {
		if m, ok := b[s]; !ok || m != n {
			return false
		}
	}
	return true
}

// String returns the plan as one line, such as "1 2 3 2, bounded 8, 4 at 3,
// restart at 1". Stages and places of the order are numbered from one.
func (p *VisitPlan) String() string {
	if p == nil {
		return "no plan"
	}
	var b strings.Builder
	for i, s := range p.Order {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, int(s)+1)
	}
	if len(p.Order) == 0 {
		b.WriteString("in order")
	}
	fmt.Fprintf(&b, ", %v", p.Gating)
	switch p.Gating {
	case Bounded:
		fmt.Fprintf(&b, " %d", max(p.Bound, 1))
		for _, s := range slices.Sorted(maps.Keys(p.Bounds)) {
			fmt.Fprintf(&b, ", %d at %d", p.BoundOf(s), int(s)+1)
		}
	case TimeBounded:
		fmt.Fprintf(&b, " %v", p.Quantum)
	default:
	}
	if p.Restart {
		fmt.Fprintf(&b, ", restart at %d", p.RestartAt+1)
		if p.Advance {
			b.WriteString(" unless bounded")
		}
	}
	if p.FullRounds {
		b.WriteString(", full rounds")
	}
	if p.Now {
		b.WriteString(", now")
	}
	return b.String()
}
