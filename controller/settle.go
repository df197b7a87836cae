package controller

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Settle compares the wishes of a controller with the current state and returns
// the changes to make, in the order in which the controller first named the
// knobs, with steals last. It changes nothing itself; its caller applies the
// changes.
//
// A wish beyond a knob's bounds is limited to them, and the change says so. A
// wish for the current value changes nothing. A wish for a missing stage or
// pool, or for an impossible value, is a fault; the other wishes still count.
//
// Each knob changes at most once, however often and by whatever names the
// controller named it. Settle modifies neither s nor the wishes of d, so calling
// it twice gives the same answer, and calling it after the changes were applied
// gives none, except for steals and for gates that cannot be compared.
func Settle(policy string, s *Snapshot, d *Decisions) (changes []Change, faults []error) {
	t := &d.settling // the rules of the knobs get it, so a fresh one would be on the heap
	*t = settling{policy: policy, s: s, d: d}
	defer func() { *t = settling{} }()
	for _, w := range d.wishes {
		if w.knob != theft {
			t.settle(w)
		}
	}
	for _, w := range d.wishes {
		if w.knob == theft {
			t.settle(w)
		}
	}
	return t.changes, t.faults
}

// Kept returns the controller's statements of Keep, in the same order, as
// changes that change nothing: Before and After are equal. Statements about
// missing stages and pools are left out.
func (d *Decisions) Kept(policy string, s *Snapshot) (notes []Change) {
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

// MostWorkers is the highest number of workers of a pool that a policy makes.
const MostWorkers = 1 << 12

// The highest values of other knobs.
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
		t.ofEntry(w, "entry", &t.s.Entry)
	case !t.known(w.stage):
		t.unknownStage(w.stage, w.knob)
	default:
		t.ofStage(w, &t.s.Stages[w.stage])
	}
}

func (t *settling) known(s StageID) bool { return s >= 0 && int(s) < len(t.s.Stages) }

// turn notes a change if the value differs. It is a generic function, not a
// method, so that a value is put into an interface, and thus on the heap, only
// if it has changed.
func turn[T comparable](t *settling, w wish, name string, before, after T) {
	if before != after {
		t.note(w, name, before, after)
	}
}

func (t *settling) note(w wish, name string, before, after any) {
	t.changes = append(t.changes, Change{
		At: t.s.At, Policy: t.policy, Stage: w.stage, StageName: name,
		What: w.knob, Before: before, After: after, Why: cmp.Or(w.why, "no reason given"), Varies: w.varies,
	})
}

// number changes a knob that has bounds.
func (t *settling) number(w wish, name string, before, least, most int) {
	wanted := w.value.(int)
	if after := hold(wanted, least, most); after != before {
		t.note(w.held(wanted, after), name, before, after)
	}
}

// hold returns the nearest number within the bounds. If the bounds contradict
// each other the lower one wins: a stage with too many workers is slow, a stage
// without workers is dead.
func hold(wanted, least, most int) int { return max(min(wanted, most), least) }

// held returns the wish with a reason that mentions the bound, if the bound
// changed the number.
func (w wish) held(wanted, got int) wish {
	why := cmp.Or(w.why, "no reason given")
	switch {
	case got < wanted:
		w.why = fmt.Sprintf("%s (wanted %d, limited to the maximum, %d)", why, wanted, got)
	case got > wanted:
		w.why = fmt.Sprintf("%s (wanted %d, limited to the minimum, %d)", why, wanted, got)
	}
	return w
}

func (t *settling) faultf(w wish, name, format string, args ...any) {
	t.faults = append(t.faults, &decisionError{
		Policy: t.policy, Knob: w.knob, Stage: w.stage, OfPool: w.ofPool, Name: name, Problem: fmt.Sprintf(format, args...),
	})
}

// unknownStage records a decision about a stage that is not in the snapshot.
func (t *settling) unknownStage(s StageID, k Knob) {
	t.faults = append(t.faults, &decisionError{Policy: t.policy, Knob: k, Stage: s})
}

// unknownPool records a decision about a pool that is not in the snapshot.
func (t *settling) unknownPool(pool string, k Knob) {
	t.faults = append(t.faults, &decisionError{Policy: t.policy, Knob: k, Stage: NoStage, OfPool: true, Name: pool})
}

func (t *settling) ofPool(w wish) {
	i, own := t.own(w.pool)
	if own {
		w.stage = i // so that the change reads the same for both names
	}
	if own && w.knob.meaning().stage != nil {
		t.ofStage(w, &t.s.Stages[i])
		return
	}
	p := t.pool(w.pool, own)
	switch settle := w.knob.meaning().pool; {
	case p == nil:
		t.unknownPool(w.pool, w.knob)
	case settle == nil:
		t.faultf(w, p.Name, "a pool has no such knob")
	default:
		settle(t, w, p)
	}
}

// own returns the stage with this own pool, if there is one. The snapshot may
// have stages without pools, as in a test.
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

// pool returns the pool as it is, or as it will be if this decision makes it:
// with at least one worker, since the commands of a stage wait for ever if its
// pool has none.
func (t *settling) pool(name string, own bool) *PoolStats {
	p := t.s.Pool(name)
	if p == nil && name != "" && (own || slices.Contains(t.d.made, name)) {
		p = &PoolStats{Name: name, Own: own, MinWorkers: 1, MaxWorkers: MostWorkers}
	}
	return p
}

func (t *settling) ofStage(w wish, st *StageStats) {
	if settle := w.knob.meaning().stage; settle != nil {
		settle(t, w, st)
		return
	}
	t.ofEntry(w, st.Name, &st.Admission)
}

// ofEntry settles a wish for the admission of a stage or of the pipeline.
func (t *settling) ofEntry(w wish, name string, is *Admission) {
	if settle := w.knob.meaning().entry; settle != nil {
		settle(t, w, name, is)
		return
	}
	t.faultf(w, name, "has no such knob")
}

// overridden reports whether a later wish sets the same number of workers under
// its other name: the stage's, or its pool's.
func (t *settling) overridden(w wish, st *StageStats) bool {
	other := ofPool(w.knob, st.Name)
	if w.ofPool {
		other = ofStage(w.knob, w.stage)
	}
	o, ok := t.d.lookup(other)
	return ok && o.seq > w.seq && (w.ofPool || t.means(st.Name, w.stage))
}

// means reports whether a pool's name means that stage's own pool.
func (t *settling) means(pool string, s StageID) bool {
	i, own := t.own(pool)
	return own && i == s
}
