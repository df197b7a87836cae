package controller

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// MinInterval is the shortest time between two ticks, and between two round
// ends. A controller that asks for a shorter interval gets this one: a wrong
// parameter must not make a pipeline spin.
const MinInterval = time.Millisecond

// Knob names one setting that a policy can change. Each knob has one owner at a
// time.
type Knob string

// The knobs, each with the type of its values in a [Change].
const (
	KnobWorkers    Knob = "workers"    // of a pool: int
	KnobPool       Knob = "pool"       // of a stage: string, the name of the pool whose workers visit it
	KnobDispatch   Knob = "dispatch"   // of a pool: Dispatch
	KnobVisit      Knob = "visit"      // of a pool: *VisitPlan
	KnobInstances  Knob = "instances"  // of a stage: int
	KnobPriority   Knob = "priority"   // of a stage: int
	KnobBatch      Knob = "batch"      // of a stage: Batch
	KnobCapacity   Knob = "capacity"   // of a stage: int
	KnobEnabled    Knob = "enabled"    // of a stage: bool
	KnobDiscipline Knob = "discipline" // of a stage: string, a name of stage/queue
	KnobQuality    Knob = "quality"    // of a stage: float64
	KnobRate       Knob = "rate"       // of a stage or the entry: Rate
	KnobLimit      Knob = "limit"      // of a stage or the entry: int
	KnobShed       Knob = "shed"       // of a stage or the entry: Shed
	KnobGate       Knob = "gate"       // of a stage or the entry: Gate
)

// Dispatch is how the workers of a pool choose among its stages. For a pool
// with one stage all dispatches are the same.
type Dispatch uint8

// There are three ways to share workers. A stage with workers of its own (SEDA)
// needs no fourth one: it is the only stage of its own pool.
const (
	// SharedFIFO uses one queue for all stages: the stage with the oldest
	// request for a worker is served first. A stage has no more entries in the
	// queue than it has free instances.
	SharedFIFO Dispatch = iota
	// SharedPriority is like SharedFIFO, but serves stages of higher priority
	// first.
	SharedPriority
	// Polled makes each worker go from stage to stage in the order of the
	// [VisitPlan] (LEDA's private queues).
	Polled
)

var dispatches = [...]string{"shared FIFO", "shared priority", "polled"}

// String returns the dispatch as one or two words.
func (m Dispatch) String() string {
	if int(m) >= len(dispatches) {
		return "unknown"
	}
	return dispatches[m]
}

// Batch bounds the batches that workers take from a stage. A worker takes at
// most Max commands. It takes fewer only when one of them has waited for
// Linger, or for a day.
type Batch struct {
	Max    int
	Linger time.Duration
}

// String returns, for example, "64", or "64 or 10ms" if Linger is set.
func (b Batch) String() string {
	if b.Linger == 0 {
		return strconv.Itoa(b.Max)
	}
	return fmt.Sprintf("%d or %v", b.Max, b.Linger)
}

// Rate admits PerSecond commands a second, and up to Burst at once after an
// idle time. The zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// String returns, for example, "100/s, 10 at once", or "no limit".
func (r Rate) String() string {
	if r == (Rate{}) {
		return "no limit"
	}
	return fmt.Sprintf("%g/s, %d at once", r.PerSecond, r.Burst)
}

// Shed refuses commands at admission: each command with a priority below Below,
// and each other command with this Probability. The zero Shed refuses only
// commands of negative priority; commands have one only if the submitter sets
// it.
type Shed struct {
	Below       int
	Probability float64
}

// String returns, for example, "below 3 and 25%", or "none".
func (x Shed) String() string {
	if x == (Shed{}) {
		return "none"
	}
	return fmt.Sprintf("below %d and %g%%", x.Below, 100*x.Probability)
}

// Gate decides on each command at admission. Gates are the one part of a policy
// that is not called serially: many submitters call Admit at once, so it must
// be safe for concurrent use, quick, and must not block.
type Gate interface {
	// Admit is called before a command is accepted. If it returns an error, the
	// command is refused and the submitter gets the error. A gate that panics
	// refuses the command.
	Admit(cmd any, queued, capacity int) error
}

// Decisions are the wishes of a controller. The zero value is ready and holds
// no wish; Reset empties a used one and keeps its memory.
//
// Every method sets a value and none adds to one, and the later of two wishes
// for one knob wins. So it does no harm to apply a decision twice. Only Steal
// states a difference: it is relative to the numbers in the snapshot that the
// controller got.
//
// Each wish has a reason: a few words for the journal, with numbers, such as
// "queue 120 > 100 for 3 samples".
//
// Decisions is not safe for concurrent use.
type Decisions struct {
	interval time.Duration // zero: not set
	rounds   option[bool]
	visits   option[int]
	machine  option[bool]
	made     []string // names given to Pool
	wishes   []wish   // one for each knob, in the order of the first wish for it
	kept     []wish   // knobs that stay as they are, each with a reason
	place    map[target]int
	count    int // how many wishes were made since Reset
}

// option holds the last value that was set; ok is false if no value was set.
type option[T any] struct {
	value T
	ok    bool
}

// target is one knob of one stage, of the entry, or of one pool.
type target struct {
	knob   Knob
	stage  StageID // NoStage for the knob of a pool
	pool   string
	ofPool bool    // distinguishes wishes for NoStage and for the pool "" from each other
	victim StageID // of a theft
}

func ofStage(k Knob, s StageID) target { return target{knob: k, stage: s} }

func ofPool(k Knob, name string) target {
	return target{knob: k, stage: NoStage, pool: name, ofPool: true}
}

type wish struct {
	target
	value any
	why   string
	seq   int // the later of two wishes has the higher number
}

// Every sets the time from this call to the next tick, and from then on between
// ticks, until Every is called again. A controller that never calls Every gets
// no ticks. Less than [MinInterval] counts as MinInterval.
func (d *Decisions) Every(interval time.Duration) {
	d.interval = max(interval, MinInterval)
}

// OnRoundEnd sets whether the controller gets [EventRoundEnd].
func (d *Decisions) OnRoundEnd(on bool) { d.rounds = option[bool]{on, true} }

// OnVisits sets the number of visits after which the controller gets
// [EventVisits], repeatedly; 0 and less mean never.
func (d *Decisions) OnVisits(n int) { d.visits = option[int]{n, true} }

// WatchMachine sets whether snapshots have the MachineUsage. Reading it takes
// some tens of microseconds a snapshot, so it is not read unless a controller
// asks for it. Of several controllers the last one counts.
func (d *Decisions) WatchMachine(on bool) { d.machine = option[bool]{on, true} }

// Workers sets the number of workers of the stage's own pool.
func (d *Decisions) Workers(s StageID, n int, why string) {
	d.wish(ofStage(KnobWorkers, s), n, why)
}

// Pool asks for a pool of that name with that number of workers. If the pool
// does not exist it is made, with at least one worker and at most
// [MostWorkers]. The name of a stage means the stage's own pool: then Pool is
// the same as Workers.
func (d *Decisions) Pool(name string, workers int, why string) {
	if !slices.Contains(d.made, name) {
		d.made = append(d.made, name)
	}
	d.wish(ofPool(KnobWorkers, name), workers, why)
}

// Keep leaves the number of workers of a stage's own pool (or of a shared pool,
// if s is [NoStage]) as it is, and states why. It is for the journal only, see
// [Decisions.Kept]. A controller calls it when something starts to hold the
// number back, and not on every call of Control. As it is only a note, it does
// not undo a wish.
func (d *Decisions) Keep(s StageID, pool string, why string) {
	t := ofStage(KnobWorkers, s)
	if s == NoStage {
		t = ofPool(KnobWorkers, pool)
	}
	d.kept = append(d.kept, wish{target: t, why: why})
}

// Bind sets which pool's workers visit a stage: an existing pool, or one that
// this decision makes. The stage's own name, or the empty one, means its own
// pool. The number of workers of the own pool can be decided only once a
// snapshot shows the stage there again: while the stage is bound to another
// pool, the bounds of its own are 0.
func (d *Decisions) Bind(s StageID, pool, why string) {
	d.wish(ofStage(KnobPool, s), pool, why)
}

// Dispatch sets how the workers of a pool choose among its stages.
func (d *Decisions) Dispatch(pool string, m Dispatch, why string) {
	d.wish(ofPool(KnobDispatch, pool), m, why)
}

// Visit gives a pool a new visit plan, which must not be changed any more. Each
// plan has one [EventRoundEnd]. A plan that is equal to the current one changes
// nothing and has no further event.
func (d *Decisions) Visit(pool string, p *VisitPlan, why string) {
	d.wish(ofPool(KnobVisit, pool), p, why)
}

// Steal moves n workers from the victim's own pool to the thief's; fewer if the
// bounds of either pool do not allow n. Their sum stays the same. Steals are
// applied after all wishes of Workers, one after the other, so that no steal
// takes workers that another one has taken. For each pair of stages only the
// last Steal counts.
func (d *Decisions) Steal(thief, victim StageID, n int, why string) {
	d.wish(target{knob: knobSteal, stage: thief, victim: victim}, n, why)
}

// knobSteal marks a Steal and is not a real knob: Settle turns it into two
// changes of [KnobWorkers].
const knobSteal Knob = "steal"

// Instances sets how many workers may be at a stage at once.
func (d *Decisions) Instances(s StageID, n int, why string) {
	d.wish(ofStage(KnobInstances, s), n, why)
}

// Priority sets the priority of a stage among the stages of a [SharedPriority]
// pool.
func (d *Decisions) Priority(s StageID, p int, why string) {
	d.wish(ofStage(KnobPriority, s), p, why)
}

// Batch sets the bounds of the batches that workers take from a stage.
func (d *Decisions) Batch(s StageID, n int, linger time.Duration, why string) {
	d.wish(ofStage(KnobBatch, s), Batch{n, linger}, why)
}

// Capacity sets how many commands a stage's queue may hold. Commands that it
// already holds beyond that stay.
func (d *Decisions) Capacity(s StageID, n int, why string) {
	d.wish(ofStage(KnobCapacity, s), n, why)
}

// Enable sets whether a stage's queue takes commands. A disabled stage refuses
// commands that are submitted to it and sheds commands that are forwarded to
// it; the commands in its queue are still handled.
func (d *Decisions) Enable(s StageID, on bool, why string) {
	d.wish(ofStage(KnobEnabled, s), on, why)
}

// Discipline sets the order in which a stage's queue gives out its commands: a
// name that stage/queue knows. The commands that already wait are put in that
// order.
func (d *Decisions) Discipline(s StageID, name, why string) {
	d.wish(ofStage(KnobDiscipline, s), name, why)
}

// Degrade asks the handlers of a stage for a lower quality, from 1 (full) to 0.
// Handlers read it with behaviour.Quality; handlers that do not read it are not
// affected.
func (d *Decisions) Degrade(s StageID, quality float64, why string) {
	d.wish(ofStage(KnobQuality, s), quality, why)
}

// Rate bounds how many commands a second are admitted, at a stage or at the
// [Entry].
func (d *Decisions) Rate(scope StageID, perSecond float64, burst int, why string) {
	d.wish(ofStage(KnobRate, scope), Rate{perSecond, burst}, why)
}

// Limit bounds how many commands may be in flight, in a stage or in the whole
// pipeline ([Entry]); 0 is no limit. Commands beyond the limit are treated as
// if the queue were full. Commands that guards hold back do not count at the
// entry.
func (d *Decisions) Limit(scope StageID, inFlight int, why string) {
	d.wish(ofStage(KnobLimit, scope), inFlight, why)
}

// Shed refuses some of the commands, at a stage or at the [Entry].
func (d *Decisions) Shed(scope StageID, below int, probability float64, why string) {
	d.wish(ofStage(KnobShed, scope), Shed{below, probability}, why)
}

// Gate sets the gate of a stage or of the [Entry]; nil removes it. A gate that
// cannot be compared, such as a function, counts as a new one each time.
func (d *Decisions) Gate(scope StageID, g Gate, why string) {
	d.wish(ofStage(KnobGate, scope), g, why)
}

func (d *Decisions) wish(t target, value any, why string) {
	d.count++
	w := wish{t, value, why, d.count}
	if i, ok := d.place[t]; ok {
		d.wishes[i] = w
		return
	}
	if d.place == nil {
		d.place = make(map[target]int)
	}
	d.place[t] = len(d.wishes)
	d.wishes = append(d.wishes, w)
}

// Interval returns the last interval set with Every, or zero if none was set:
// then the interval in force stays.
func (d *Decisions) Interval() time.Duration { return d.interval }

// WantsRoundEnd returns the last value set with OnRoundEnd; ok is false if none
// was set.
func (d *Decisions) WantsRoundEnd() (on, ok bool) { return d.rounds.value, d.rounds.ok }

// WantsVisits returns the last value set with OnVisits; ok is false if none was
// set.
func (d *Decisions) WantsVisits() (n int, ok bool) { return d.visits.value, d.visits.ok }

// WantsMachine returns the last value set with WatchMachine; ok is false if
// none was set.
func (d *Decisions) WantsMachine() (on, ok bool) { return d.machine.value, d.machine.ok }

// Wants returns how many workers the controller wants for a stage's own pool,
// and why; ok is false if there is no wish for it. The number is as the
// controller gave it, before it is limited to the stage's bounds.
func (d *Decisions) Wants(s StageID) (n int, why string, ok bool) {
	v, why, ok := d.Wish(KnobWorkers, s)
	n, _ = v.(int)
	return n, why, ok
}

// Wish returns the wish for a stage's knob, as the controller gave it.
func (d *Decisions) Wish(k Knob, s StageID) (value any, why string, ok bool) {
	return d.find(ofStage(k, s))
}

// PoolWish returns the wish for a pool's knob, as the controller gave it.
func (d *Decisions) PoolWish(k Knob, pool string) (value any, why string, ok bool) {
	return d.find(ofPool(k, pool))
}

func (d *Decisions) find(t target) (value any, why string, ok bool) {
	w, ok := d.lookup(t)
	return w.value, w.why, ok
}

func (d *Decisions) lookup(t target) (w wish, ok bool) {
	i, ok := d.place[t]
	if !ok {
		return wish{}, false
	}
	return d.wishes[i], true
}

// Pools returns the names that were given to Pool, in that order, each once.
func (d *Decisions) Pools() []string { return d.made }

// Reset removes all wishes and settings.
func (d *Decisions) Reset() {
	clear(d.wishes) // release the values and reasons
	clear(d.kept)
	clear(d.made)
	clear(d.place)
	*d = Decisions{made: d.made[:0], wishes: d.wishes[:0], kept: d.kept[:0], place: d.place}
}
