package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// steal makes two changes of workers of one theft.
func (t *settling) steal(w wish, thief *StageStats) {
	if !t.known(w.victim) {
		t.faults = append(t.faults, &UnknownStageError{t.policy, w.victim})
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

// span is how far it is up to a number, and zero if it is down; as far as there are
// numbers.
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

// workers is how many a stage will have with the changes so far.
func (t *settling) workers(s StageID) int {
	if i := t.turned(s); i >= 0 {
		return t.changes[i].After.(int)
	}
	return t.s.Stages[s].Workers
}

// turned is the place of the change of a stage's workers, less than zero if there
// is none.
func (t *settling) turned(s StageID) int {
	return slices.IndexFunc(t.changes, func(c Change) bool { return c.Stage == s && c.What == KnobWorkers })
}

// move adds to a change of workers, or makes one; and one that comes to nothing
// in the end is none.
func (t *settling) move(w wish, st *StageStats, n int) {
	i := t.turned(w.stage)
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
