package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Settle holds what a controller wants against what is, and returns what is to
// change, in the order in which it was first spoken of, thefts last. It only tells;
// whoever calls it turns the knobs.
//
// A wish beyond a knob's bounds is held to them, and the change says so. A wish
// for what already is changes nothing. A wish for a stage or pool that there is not
// is an [*UnknownStageError] or [*UnknownPoolError], one for an impossible value a
// [*ValueError]; the other wishes stand.
//
// Each knob is turned once, however often and by whatever names it was spoken of.
// Settle changes neither s nor d, so asking twice gives the same answer, and asking
// again once the changes are made gives none, but for thefts and for gates that
// cannot be compared.
func Settle(policy string, s *Snapshot, d *Decisions) (changes []Change, faults []error) {
	t := settling{policy: policy, s: s, d: d}
	for _, w := range d.wishes {
		if w.knob != knobSteal {
			t.settle(w)
		}
	}
	for _, w := range d.wishes {
		if w.knob == knobSteal {
			t.settle(w)
		}
	}
	return t.changes, t.faults
}

// Kept returns what the controller said about numbers of workers that stay as they are, in the order in which it said so, as
// changes that change nothing: Before and After are equal. What was said of stages and pools that are not there is left out.
func Kept(policy string, s *Snapshot, d *Decisions) (notes []Change) {
	t := settling{policy: policy, s: s, d: d}
	for _, w := range d.kept {
		switch p := s.Pool(w.pool); {
		case w.ofPool && p != nil:
			t.note(w, p.Name, p.Workers, p.Workers)
		case !w.ofPool && t.known(w.stage):
			st := &s.Stages[w.stage]
			t.note(w, st.Name, st.Workers, st.Workers)
		}
	}
	return t.changes
}

// MostWorkers is the most workers of a pool that a policy makes.
const MostWorkers = 1 << 12

// The most that other knobs can be turned to.
const (
	mostInstances = math.MaxInt32
	mostBatch     = 1 << 16
	mostCapacity  = 1 << 30
)

// settling is one call of Settle.
type settling struct {
	policy  string
	s       *Snapshot
	d       *Decisions
	changes []Change
	faults  []error
}

func (t *settling) settle(w wish) {
	switch {
	case w.ofPool:
		t.ofPool(w)
	case w.stage == Entry:
		t.admission(w, "entry", &t.s.Entry)
	case !t.known(w.stage):
		t.faults = append(t.faults, &UnknownStageError{t.policy, w.stage})
	default:
		t.ofStage(w, &t.s.Stages[w.stage])
	}
}

func (t *settling) known(s StageID) bool { return s >= 0 && int(s) < len(t.s.Stages) }

// turn notes a change, if it is one. It is no method, for the sake of its types:
// nothing goes into an interface, and so on the heap, unless it has changed.
func turn[T comparable](t *settling, w wish, name string, before, after T) {
	if before != after {
		t.note(w, name, before, after)
	}
}

func (t *settling) note(w wish, name string, before, after any) {
	t.changes = append(t.changes, Change{
		At: t.s.At, Policy: t.policy, Stage: w.stage, StageName: name,
		What: w.knob, Before: before, After: after, Why: cmp.Or(w.why, "no reason given"),
	})
}

// number turns a knob that has bounds.
func (t *settling) number(w wish, name string, before, least, most int) {
	wanted := w.value.(int)
	if after := hold(wanted, least, most); after != before {
		t.note(w.held(wanted, after), name, before, after)
	}
}

// hold returns the nearest number that the bounds allow. Where the bounds contradict
// each other the lower one wins: a stage with too many workers is slow, one with
// none is dead.
func hold(wanted, least, most int) int { return max(min(wanted, most), least) }

// held is the wish with the reason why it was not wholly granted, if it was not.
func (w wish) held(wanted, got int) wish {
	why := cmp.Or(w.why, "no reason given")
	switch {
	case got < wanted:
		w.why = fmt.Sprintf("%s (wanted %d, held to the most, %d)", why, wanted, got)
	case got > wanted:
		w.why = fmt.Sprintf("%s (wanted %d, held to the least, %d)", why, wanted, got)
	}
	return w
}

func (t *settling) faultf(w wish, name, format string, args ...any) {
	t.faults = append(t.faults, &ValueError{t.policy, w.knob, name, fmt.Sprintf(format, args...)})
}

func (t *settling) ofPool(w wish) {
	i, own := t.own(w.pool)
	if own {
		w.stage = i // so that it reads the same, however it was said
	}
	if own && w.knob == KnobWorkers {
		t.ofStage(w, &t.s.Stages[i])
		return
	}
	p := t.pool(w.pool, own)
	switch {
	case p == nil:
		t.faults = append(t.faults, &UnknownPoolError{t.policy, w.pool})
	case w.knob == KnobWorkers:
		t.number(w, p.Name, p.Workers, p.MinWorkers, p.MaxWorkers)
	case w.knob == KnobDispatch:
		t.dispatch(w, p)
	case !w.value.(*VisitPlan).Equal(p.Plan):
		t.note(w, p.Name, p.Plan, w.value)
	}
}

// own tells whose own pool it is, if anybody's. A policy may be shown stages
// without pools, as in a test.
func (t *settling) own(pool string) (StageID, bool) {
	if p := t.s.Pool(pool); p != nil && !p.Own {
		return NoStage, false
	}
	for i := range t.s.Stages {
		if t.s.Stages[i].Name == pool {
			return StageID(i), true
		}
	}
	return NoStage, false
}

// pool is the pool as it is, or as it will be if it is made now: with a worker at
// least, since what is bound to a pool without any waits for ever.
func (t *settling) pool(name string, own bool) *PoolStats {
	p := t.s.Pool(name)
	if p == nil && name != "" && (own || slices.Contains(t.d.made, name)) {
		p = &PoolStats{Name: name, Own: own, MinWorkers: 1, MaxWorkers: MostWorkers}
	}
	return p
}

func (t *settling) dispatch(w wish, p *PoolStats) {
	m := w.value.(Dispatch)
	if int(m) >= len(dispatches) {
		t.faultf(w, p.Name, "no such way: %d", m)
		return
	}
	turn(t, w, p.Name, p.Dispatch, m)
}

func (t *settling) ofStage(w wish, st *StageStats) {
	switch w.knob {
	case KnobWorkers:
		if !t.outdone(w, st) {
			t.number(w, st.Name, st.Workers, st.MinWorkers, st.MaxWorkers)
		}
	case knobSteal:
		t.steal(w, st)
	case KnobPool:
		t.bind(w, st)
	case KnobInstances:
		t.number(w, st.Name, st.Instances, 1, mostInstances)
	case KnobPriority:
		turn(t, w, st.Name, st.Priority, w.value.(int))
	case KnobBatch:
		t.batch(w, st)
	case KnobCapacity:
		t.number(w, st.Name, st.QueueCap, 1, mostCapacity)
	case KnobEnabled:
		turn(t, w, st.Name, st.Enabled, w.value.(bool))
	case KnobDiscipline:
		turn(t, w, st.Name, st.Discipline, w.value.(string))
	case KnobQuality:
		t.quality(w, st)
	default:
		t.admission(w, st.Name, &st.Admission)
	}
}

// outdone tells whether the number of workers was spoken of later by the other
// name that it has: the stage's, or its pool's.
func (t *settling) outdone(w wish, st *StageStats) bool {
	other := ofPool(KnobWorkers, st.Name)
	if w.ofPool {
		other = ofStage(KnobWorkers, w.stage)
	}
	o, ok := t.d.spoken(other)
	return ok && o.word > w.word && (w.ofPool || t.means(st.Name, w.stage))
}

// means tells whether a pool's name means that stage's own pool.
func (t *settling) means(pool string, s StageID) bool {
	i, own := t.own(pool)
	return own && i == s
}

func (t *settling) bind(w wish, st *StageStats) {
	pool := cmp.Or(w.value.(string), st.Name)
	if _, own := t.own(pool); pool != st.Name && t.pool(pool, own) == nil {
		t.faults = append(t.faults, &UnknownPoolError{t.policy, pool})
		return
	}
	turn(t, w, st.Name, cmp.Or(st.Pool, st.Name), pool)
}

func (t *settling) batch(w wish, st *StageStats) {
	wanted := w.value.(Batch)
	after := Batch{hold(wanted.Max, 1, mostBatch), max(wanted.Linger, 0)}
	if after != st.Batch {
		t.note(w.held(wanted.Max, after.Max), st.Name, st.Batch, after)
	}
}

func (t *settling) quality(w wish, st *StageStats) {
	q := w.value.(float64)
	if math.IsNaN(q) {
		t.faultf(w, st.Name, "not a number")
		return
	}
	turn(t, w, st.Name, st.Quality, min(max(q, 0), 1))
}
