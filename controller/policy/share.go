package policy

import (
	"fmt"
	"sort"

	"github.com/golda-dev/golda/controller"
)

// shares says how a number of workers is shared out among units: all get the
// same, level, as far as their bounds allow, and the first ones that may have it
// get one of those that are left over.
type shares struct {
	level, over int
}

// divide finds the shares that use up the budget. Where that cannot be, because the
// units' bounds ask for more or allow less, it comes as near as they let it.
func divide(us []unit, budget int) shares {
	highest := 0
	for i := range us {
		highest = max(highest, us[i].most)
	}
	level := sort.Search(min(budget, highest), func(n int) bool { return rest(us, budget, n+1) < 0 })
	return shares{level: level, over: max(0, rest(us, budget, level))}
}

// rest is what is left of the budget at this level, and negative if that costs
// more.
func rest(us []unit, budget, level int) int {
	for i := range us {
		budget -= max(0, us[i].within(level))
		if budget < 0 {
			break // enough, and no sum overflows
		}
	}
	return budget
}

// within is the nearest number that the unit's bounds allow; where they
// contradict each other the lower one wins, as in [controller.Settle].
func (u *unit) within(n int) int { return max(min(n, u.most), u.least) }

// next is the share of one unit after the other.
func (h *shares) next(u *unit) int {
	n := u.within(h.level)
	if h.over > 0 && n == h.level && n < u.most {
		h.over--
		n++
	}
	return n
}

// shareOut gives each unit its share.
func shareOut(us []unit, budget int, d *controller.Decisions) {
	h := divide(us, budget)
	for i := range us {
		if n := h.next(&us[i]); n != us[i].workers {
			us[i].scale(d, n, fmt.Sprintf("its share of %d workers for %d pools", budget, len(us)))
		}
	}
}

// shared tells whether the units have as many workers together as they would if
// all were shared out now, and each within its bounds.
func shared(us []unit, budget int) bool {
	h, difference := divide(us, budget), 0
	for i := range us {
		u := &us[i]
		if u.workers != u.within(u.workers) {
			return false
		}
		difference += u.workers - h.next(u)
	}
	return difference == 0
}
