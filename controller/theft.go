package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// steal turns one Steal into two changes of KnobWorkers.
func (t *settling) steal(w wish, thief *StageStats) {
	if !t.known(w.victim) {
		t.unknownStage(w.victim, KnobWorkers)
		return
	}
	victim, wanted := &t.s.Stages[w.victim], w.value.(int)
	n := min(wanted, span(victim.MinWorkers, t.workers(w.victim)), span(t.workers(w.stage), thief.MaxWorkers))
	if n <= 0 || w.stage == w.victim {
		return
	}
	if n < wanted {
		w.why = fmt.Sprintf("%s (wanted %d, the bounds allow %d)", cmp.Or(w.why, "no reason given"), wanted, n)
	}
	w.knob = KnobWorkers
	t.move(w, thief, n)
	w.stage = w.victim
	t.move(w, victim, -n)
}

// span returns the distance from a number up to another, limited to
// math.MaxInt, or zero if the other is not greater.
func span(from, to int) int {
	switch {
	case to <= from:
		return 0
	case to-from < 0:
		return math.MaxInt
	default:
		return to - from
	}
}

// workers returns how many workers a stage will have after the changes so far.
func (t *settling) workers(s StageID) int {
	if i := t.workersChange(s); i >= 0 {
		return t.changes[i].After.(int)
	}
	return t.s.Stages[s].Workers
}

// workersChange returns the index of the change of a stage's workers, or a
// negative number if there is none.
func (t *settling) workersChange(s StageID) int {
	return slices.IndexFunc(t.changes, func(c Change) bool { return c.Stage == s && c.What == KnobWorkers })
}

// move adds n to the change of a stage's workers, or makes one. It removes a
// change that changes nothing in the end.
func (t *settling) move(w wish, st *StageStats, n int) {
	i := t.workersChange(w.stage)
	if i < 0 {
		t.note(w, st.Name, st.Workers, st.Workers+n)
		return
	}
	c := &t.changes[i]
	c.After = c.After.(int) + n
	c.Why += "; " + cmp.Or(w.why, "no reason given")
	if c.After == c.Before {
		t.changes = slices.Delete(t.changes, i, i+1)
	}
}
