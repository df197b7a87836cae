package policy

import (
	"fmt"
	"sort"

	"github.com/golda-dev/golda/controller"
)

// shares says how a number of workers is divided among units: each unit gets
// level workers, as far as its bounds allow, and the first units that may have
// one more get the rest, one each.
type shares struct {
	level, over int
}

// divide computes the shares that use up the budget. If the units' bounds ask
// for more or allow less, the sum comes as near to the budget as the bounds
// allow.
func divide(us []unit, budget int) shares {
	highest := 0
	for i := range us {
		highest = max(highest, us[i].most)
	}
	level := sort.Search(min(budget, highest), func(n int) bool { return rest(us, budget, n+1) < 0 })
	return shares{level: level, over: max(0, rest(us, budget, level))}
}

// rest returns the rest of the budget at this level. It is negative if the
// level costs more.
func rest(us []unit, budget, level int) int {
	for i := range us {
		budget -= max(0, us[i].within(level))
		if budget < 0 {
			break // stopping here prevents an overflow of the sum
		}
	}
	return budget
}

// within returns the nearest number within the unit's bounds; if they
// contradict each other the lower one wins, as in [controller.Settle].
func (u *unit) within(n int) int { return max(min(n, u.most), u.least) }

// next returns the share of the next unit.
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

// shared reports whether the units together have as many workers as they would
// have after sharing out now, and each is within its bounds.
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
