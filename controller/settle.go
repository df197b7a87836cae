package controller

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// Change is one knob that is to be turned: who wants it, what, and why.
type Change struct {
	At     time.Duration // since the pipeline started
	Policy string
	// Stage is whose knob it is: a stage's, the [Entry]'s, or [NoStage] for a pool
	// that is not a stage's own. StageName is the stage's or the pool's name, or
	// "entry".
	Stage     StageID
	StageName string
	What      Knob
	// Before and After are of the type that the knob's values have, see [Knob].
	Before, After any
	Why           string
}

// String returns the change as a line of a log.
func (c Change) String() string {
	of := "stage"
	switch c.Stage {
	case NoStage:
		of = "pool"
	case Entry:
		return fmt.Sprintf("%v %s: entry: %s %v to %v: %s", c.At, c.Policy, c.What, c.Before, c.After, c.Why)
	default:
	}
	return fmt.Sprintf("%v %s: %s %q: %s %v to %v: %s",
		c.At, c.Policy, of, c.StageName, c.What, c.Before, c.After, c.Why)
}

// UnknownStageError is the fault of a policy that wanted something of a stage
// that is not in the snapshot.
type UnknownStageError struct {
	Policy string
	Stage  StageID
}

// Error names the policy and the stage.
func (e *UnknownStageError) Error() string {
	return fmt.Sprintf("controller: policy %q: decision for unknown stage %d", e.Policy, e.Stage)
}

// UnknownPoolError is the fault of a policy that wanted something of a pool that
// is not in the snapshot and that it did not make.
type UnknownPoolError struct {
	Policy string
	Pool   string
}

// Error names the policy and the pool.
func (e *UnknownPoolError) Error() string {
	return fmt.Sprintf("controller: policy %q: decision for unknown pool %q", e.Policy, e.Pool)
}

// ValueError is the fault of a policy that wanted what a knob cannot be turned to.
type ValueError struct {
	Policy  string
	Knob    Knob
	Name    string // the stage or pool
	Problem string
}

// Error names all four.
func (e *ValueError) Error() string {
	return fmt.Sprintf("controller: policy %q: %s of %q: %s", e.Policy, e.Knob, e.Name, e.Problem)
}

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

func (t *settling) admission(w wish, name string, is *Admission) {
	switch w.knob {
	case KnobRate:
		t.rate(w, name, is)
	case KnobLimit:
		turn(t, w, name, is.Limit, max(w.value.(int), 0))
	case KnobShed:
		t.shed(w, name, is)
	case KnobGate:
		if g, _ := w.value.(Gate); !same(is.Gate, g) {
			t.note(w, name, is.Gate, g)
		}
	default:
		t.faultf(w, name, "has no such knob")
	}
}

func (t *settling) rate(w wish, name string, is *Admission) {
	r := w.value.(Rate)
	switch {
	case math.IsNaN(r.PerSecond) || math.IsInf(r.PerSecond, 0) || r.PerSecond < 0:
		t.faultf(w, name, "%v a second", r.PerSecond)
		return
	case r.PerSecond == 0:
		r = Rate{} // no limit, whatever the burst
	default:
		r.Burst = max(r.Burst, 1)
	}
	turn(t, w, name, is.Rate, r)
}

func (t *settling) shed(w wish, name string, is *Admission) {
	x := w.value.(Shed)
	if math.IsNaN(x.Probability) {
		t.faultf(w, name, "not a number")
		return
	}
	x.Probability = min(max(x.Probability, 0), 1)
	turn(t, w, name, is.Shed, x)
}

// same tells whether two gates are one. To compare what cannot be compared, a
// function or what holds one, is a panic in Go; here it is another gate.
func same(a, b Gate) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && canCompare(a) && canCompare(b) && a == b
}

func canCompare(g Gate) bool {
	switch of := reflect.TypeOf(g); of.Kind() {
	case reflect.Struct, reflect.Array: // it depends on what is in there
		return reflect.ValueOf(g).Comparable()
	default: // most gates are pointers, for which nothing need be allocated
		return of.Comparable()
	}
}
