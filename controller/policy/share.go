package policy

import (
	"fmt"
	"sort"

	"github.com/golda-dev/golda/controller"
)

// shares says how a number of workers is shared out among stages: all get the
// same, level, as far as their bounds allow, and the first ones that may have it
// get one of those that are left over.
type shares struct {
	level, over int
}

// divide finds the shares that use up the budget. Where that cannot be, because the
// stages' bounds ask for more or allow less, it comes as near as they let it.
func divide(s *controller.Snapshot, budget int) shares {
	highest := 0
	for i := range s.Stages {
		highest = max(highest, s.Stages[i].MaxWorkers)
	}
	level := sort.Search(min(budget, highest), func(n int) bool { return rest(s, budget, n+1) < 0 })
	return shares{level: level, over: max(0, rest(s, budget, level))}
}

// rest is what is left of the budget at this level, and negative if that costs
// more.
func rest(s *controller.Snapshot, budget, level int) int {
	for i := range s.Stages {
		budget -= max(0, within(&s.Stages[i], level))
		if budget < 0 {
			break // enough, and no sum overflows
		}
	}
	return budget
}

// within is the nearest number that the stage's bounds allow; where they
// contradict each other the lower one wins, as in [controller.Settle].
func within(st *controller.StageStats, n int) int {
	return max(min(n, st.MaxWorkers), st.MinWorkers)
}

// next is the share of one stage after the other.
func (h *shares) next(st *controller.StageStats) int {
	n := within(st, h.level)
	if h.over > 0 && n == h.level && n < st.MaxWorkers {
		h.over--
		n++
	}
	return n
}

// shareOut gives each stage its share.
func shareOut(s *controller.Snapshot, budget int, d *controller.Decisions) {
	h := divide(s, budget)
	for i := range s.Stages {
		st := &s.Stages[i]
		if n := h.next(st); n != st.Workers {
			d.Workers(st.ID, n, fmt.Sprintf("its share of %d workers for %d stages", budget, len(s.Stages)))
		}
	}
}

// shared tells whether the stages have as many workers together as they would if
// all were shared out now, and each within its bounds.
func shared(s *controller.Snapshot, budget int) bool {
	h, difference := divide(s, budget), 0
	for i := range s.Stages {
		st := &s.Stages[i]
		if st.Workers != within(st, st.Workers) {
			return false
		}
		difference += st.Workers - h.next(st)
	}
	return difference == 0
}
