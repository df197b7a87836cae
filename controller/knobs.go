package controller

import (
	"cmp"
	"math"
	"time"
)

// Knob is a setting that a policy can change. Each knob has one owner at a time.
// The knobs of this package are the variables of type *[Setting], and a Knob can
// be compared with them:
//
//	switch change.What {
//	case controller.KnobWorkers:
//		n := change.After.(int)
type Knob interface {
	// String returns the name of the knob, such as "workers".
	String() string
}

// Setting is a knob whose values have type T. What a wish for it means, and what
// its bounds are, is all here: a further knob is another variable, with a field
// of the [Snapshot] that shows its value.
type Setting[T any] struct{ rule }

// Set wishes that the knob of a stage has a value. The knobs of admission may
// belong to the [Entry], too. The reason is a few words for the journal, with
// numbers, such as "queue 120 > 100 for 3 samples".
//
//	controller.KnobWorkers.Set(d, st.ID, 4, "120 waiting")
func (k *Setting[T]) Set(d *Decisions, s StageID, value T, why string) {
	d.wish(ofStage(k, s), value, why)
}

// SetPool wishes that the knob of a pool has a value. The name of a stage means
// the stage's own pool.
func (k *Setting[T]) SetPool(d *Decisions, pool string, value T, why string) {
	if k.makes {
		d.makes(pool)
	}
	d.wish(ofPool(k, pool), value, why)
}

// Wish returns the value that a controller wishes for the knob of a stage,
// before it is limited to the knob's bounds, and why. It returns false if
// there is no wish.
func (k *Setting[T]) Wish(d *Decisions, s StageID) (value T, why string, ok bool) {
	return k.find(d, ofStage(k, s))
}

// PoolWish is [Setting.Wish] for the knob of a pool.
func (k *Setting[T]) PoolWish(d *Decisions, pool string) (value T, why string, ok bool) {
	return k.find(d, ofPool(k, pool))
}

func (k *Setting[T]) find(d *Decisions, t target) (value T, why string, ok bool) {
	w, ok := d.lookup(t)
	value, _ = w.value.(T)
	return value, w.why, ok
}

// String returns the name of the knob.
func (k *Setting[T]) String() string { return k.name }

// MarshalText returns the name of the knob: a [Change] can be written as JSON.
func (k *Setting[T]) MarshalText() ([]byte, error) { return []byte(k.name), nil }

func (k *Setting[T]) meaning() *rule { return &k.rule }

// ruled is a knob of this package.
type ruled interface {
	Knob
	meaning() *rule
}

// rule is the meaning of a wish for a knob: a function for each kind of owner
// that the knob has, nil for the others. The functions note a change, or a fault.
type rule struct {
	name  string
	makes bool // a wish for a pool that does not exist makes it

	stage func(t *settling, w wish, st *StageStats)
	pool  func(t *settling, w wish, p *PoolStats)
	entry func(t *settling, w wish, name string, is *Admission) // of a stage, too
}

// The knobs.
var (
	// KnobWorkers is the number of workers of a pool. The number of a stage is
	// the number of its own pool. A wish for a pool that does not exist makes it, with
	// at least one worker and at most [MostWorkers].
	KnobWorkers = &Setting[int]{rule{name: "workers", makes: true, stage: (*settling).ownWorkers, pool: (*settling).poolWorkers}}

	// KnobPool is the name of the pool whose workers visit a stage: an existing
	// pool, or one that the same decision makes. The stage's own name, or the
	// empty one, means its own pool. The number of workers of the own pool can be
	// decided only once a snapshot shows the stage there again: while the stage is
	// bound to another pool, the bounds of its own are 0.
	KnobPool = &Setting[string]{rule{name: "pool", stage: (*settling).bind}}

	// KnobDispatch is how the workers of a pool choose among its stages.
	KnobDispatch = &Setting[Dispatch]{rule{name: "dispatch", pool: (*settling).dispatch}}

	// KnobVisit is the visit plan of a pool, which must not be changed once it was
	// given away. Each plan has one [EventRoundEnd]. A plan that is equal to the
	// current one changes nothing and has no further event.
	KnobVisit = &Setting[*VisitPlan]{rule{name: "visit", pool: func(t *settling, w wish, p *PoolStats) {
		if plan := w.value.(*VisitPlan); !plan.Equal(p.Plan) {
			t.note(w, p.Name, p.Plan, plan)
		}
	}}}

	// KnobInstances is how many workers may be at a stage at once.
	KnobInstances = &Setting[int]{rule{name: "instances", stage: func(t *settling, w wish, st *StageStats) {
		t.number(w, st.Name, st.Instances, 1, mostInstances)
	}}}

	// KnobPriority is the priority of a stage among the stages of a
	// [SharedPriority] pool.
	KnobPriority = &Setting[int]{rule{name: "priority", stage: func(t *settling, w wish, st *StageStats) {
		turn(t, w, st.Name, st.Priority, w.value.(int))
	}}}

	// KnobBatch bounds the batches that workers take from a stage.
	KnobBatch = &Setting[Batch]{rule{name: "batch", stage: (*settling).batch}}

	// KnobCapacity is how many commands a stage's queue may hold. Commands that it
	// already holds beyond that stay.
	KnobCapacity = &Setting[int]{rule{name: "capacity", stage: func(t *settling, w wish, st *StageStats) {
		t.number(w, st.Name, st.QueueCap, 1, mostCapacity)
	}}}

	// KnobEnabled says whether a stage's queue takes commands. A disabled stage
	// refuses commands that are submitted to it and sheds commands that are
	// forwarded to it; the commands in its queue are still handled.
	KnobEnabled = &Setting[bool]{rule{name: "enabled", stage: func(t *settling, w wish, st *StageStats) {
		turn(t, w, st.Name, st.Enabled, w.value.(bool))
	}}}

	// KnobDiscipline is the order in which a stage's queue gives out its commands:
	// a name that stage/queue knows. The commands that already wait are put in
	// that order.
	KnobDiscipline = &Setting[string]{rule{name: "discipline", stage: func(t *settling, w wish, st *StageStats) {
		turn(t, w, st.Name, st.Discipline, w.value.(string))
	}}}

	// KnobQuality asks the handlers of a stage for a quality, from 1 (full) to 0.
	// Handlers read it with behaviour.Quality; handlers that do not read it are
	// not affected.
	KnobQuality = &Setting[float64]{rule{name: "quality", stage: func(t *settling, w wish, st *StageStats) {
		q := w.value.(float64)
		if math.IsNaN(q) {
			t.faultf(w, st.Name, "not a number")
			return
		}
		turn(t, w, st.Name, st.Quality, min(max(q, 0), 1))
	}}}

	// KnobSojourn is how long a command may wait in a stage's queue, in whole
	// microseconds and at most an hour; 0 is no bound. A command that has waited
	// for longer when its turn comes ends unhandled, as with stage.TTL: it is
	// shed as expired, and leaves a letter. The option stays in force beside the
	// knob. A stage with stage.Linger has at least a millisecond more than that
	// time.
	KnobSojourn = &Setting[time.Duration]{rule{name: "sojourn", stage: (*settling).sojourn}}

	// KnobRate bounds how many commands a second are admitted, at a stage or at
	// the [Entry].
	KnobRate = &Setting[Rate]{rule{name: "rate", entry: (*settling).rate}}

	// KnobLimit bounds how many commands may be in flight, in a stage or in the
	// whole pipeline ([Entry]); 0 is no limit. Commands beyond the limit are
	// treated as if the queue were full. Commands that guards hold back do not
	// count at the entry.
	KnobLimit = &Setting[int]{rule{name: "limit", entry: func(t *settling, w wish, name string, is *Admission) {
		turn(t, w, name, is.Limit, max(w.value.(int), 0))
	}}}

	// KnobShed refuses some of the commands, at a stage or at the [Entry].
	KnobShed = &Setting[Shed]{rule{name: "shed", entry: (*settling).shed}}

	// KnobGate is the gate of a stage or of the [Entry]; nil removes it. A gate
	// that cannot be compared, such as a function, counts as a new one each time.
	KnobGate = &Setting[Gate]{rule{name: "gate", entry: func(t *settling, w wish, name string, is *Admission) {
		if g, _ := w.value.(Gate); !same(is.Gate, g) {
			t.note(w, name, is.Gate, g)
		}
	}}}

	// theft is the rule of [Decisions.Steal] and no knob: Settle turns a theft
	// into two changes of KnobWorkers.
	theft = &Setting[int]{rule{name: "steal", stage: (*settling).steal}}
)

func (t *settling) ownWorkers(w wish, st *StageStats) {
	if !t.overridden(w, st) {
		t.number(w, st.Name, st.Workers, st.MinWorkers, st.MaxWorkers)
	}
}

func (t *settling) poolWorkers(w wish, p *PoolStats) {
	t.number(w, p.Name, p.Workers, p.MinWorkers, p.MaxWorkers)
}

func (t *settling) dispatch(w wish, p *PoolStats) {
	m := w.value.(Dispatch)
	if int(m) >= len(dispatches) {
		t.faultf(w, p.Name, "unknown dispatch: %d", m)
		return
	}
	turn(t, w, p.Name, p.Dispatch, m)
}

func (t *settling) bind(w wish, st *StageStats) {
	pool := cmp.Or(w.value.(string), st.Name)
	if _, own := t.own(pool); pool != st.Name && t.pool(pool, own) == nil {
		t.unknownPool(pool, w.knob)
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

// mostSojourn is the longest bound.
const mostSojourn = time.Hour

func (t *settling) sojourn(w wish, st *StageStats) {
	bound := min(max(w.value.(time.Duration), 0), mostSojourn).Truncate(time.Microsecond)
	if bound > 0 && st.Batch.Linger > 0 {
		bound = max(bound, min(st.Batch.Linger, mostSojourn)+time.Millisecond).Truncate(time.Microsecond)
	}
	turn(t, w, st.Name, st.Sojourn, bound)
}
