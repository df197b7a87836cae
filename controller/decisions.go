package controller

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// MinInterval is the shortest time between two ticks, and between two ends of a
// round. A controller that asks for less gets this: a slip in a parameter must not
// make a pipeline spin.
const MinInterval = time.Millisecond

// StarvedAfter is how long a stage has to wait with work before [EventStarved].
const StarvedAfter = time.Second

// Knob is one thing that can be turned. Each has one owner at a time.
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

// Dispatch is how the workers of a pool choose among its stages. For a pool with
// one stage all come to the same.
type Dispatch uint8

// The three ways to share workers. That each stage has workers of its own
// (SEDA) is no fourth: then each is alone in its own pool.
const (
	// SharedFIFO is one queue for all stages: the stage whose work came first is
	// served first, with no more of a stage in the queue than it has free instances.
	SharedFIFO Dispatch = iota
	// SharedPriority is SharedFIFO, but for stages of higher priority first.
	SharedPriority
	// Polled has each worker go from stage to stage as the [VisitPlan] says
	// (LEDA's private queues).
	Polled
)

var dispatches = [...]string{"shared FIFO", "shared priority", "polled"}

// String returns the way in a word or two.
func (m Dispatch) String() string {
	if int(m) >= len(dispatches) {
		return "unknown"
	}
	return dispatches[m]
}

// Batch bounds what a worker takes from a stage at once: at most Max commands, and,
// if fewer are there, only when one of them has waited for Linger, or for a day.
type Batch struct {
	Max    int
	Linger time.Duration
}

// String is "64", or "64 or 10ms" if there is a time to linger.
func (b Batch) String() string {
	if b.Linger == 0 {
		return strconv.Itoa(b.Max)
	}
	return fmt.Sprintf("%d or %v", b.Max, b.Linger)
}

// Rate lets PerSecond commands in, and up to Burst at once after a silence. The
// zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// String is "100/s, 10 at once", or "no limit".
func (r Rate) String() string {
	if r == (Rate{}) {
		return "no limit"
	}
	return fmt.Sprintf("%g/s, %d at once", r.PerSecond, r.Burst)
}

// Shed turns commands away at the door: each whose priority is less than Below,
// and of the others each with this Probability. The zero Shed turns none away but
// those of negative priority, of which there are none unless a command says so.
type Shed struct {
	Below       int
	Probability float64
}

// String is "below 3 and 25%", or "none".
func (x Shed) String() string {
	if x == (Shed{}) {
		return "none"
	}
	return fmt.Sprintf("below %d and %g%%", x.Below, 100*x.Probability)
}

// Gate decides on each command at a door. It is called by submitters, many at
// once, so it is the one part of a policy that is not called serially: it must be
// safe for concurrent use, quick, and must not block.
type Gate interface {
	// Admit is asked at the door, before the command is accepted; an error refuses
	// it and is told to the submitter. A gate that panics refuses.
	Admit(cmd any, queued, capacity int) error
}

// Decisions is where a controller says what it wants. The zero value is ready
// and wants nothing; Reset makes a used one so again and keeps its memory.
//
// Every method sets and none adds, and of two wishes for one knob the later wins.
// So a decision that is applied twice does no harm. Steal alone speaks of a
// difference: to the numbers in the snapshot that the controller was shown.
//
// Each wish comes with a reason: a few words for the journal, with numbers, such
// as "queue 120 > 100 for 3 samples".
//
// Decisions is not safe for concurrent use.
type Decisions struct {
	interval time.Duration // zero: nothing was said
	rounds   said[bool]
	visits   said[int]
	made     []string // pools that are wanted
	wishes   []wish   // one for each knob, in the order first spoken of
	kept     []wish   // knobs that stay as they are, for a reason
	place    map[target]int
	words    int // how often something was wished
}

// said is what was last said, if anything was.
type said[T any] struct {
	value T
	ok    bool
}

// target is one knob of one stage, of the entry, or of one pool.
type target struct {
	knob   Knob
	stage  StageID // NoStage if it is a pool's
	pool   string
	ofPool bool    // for whoever asks for something of NoStage, or of the pool ""
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
	word  int // the later of two wishes has more
}

// Every says how long after this call the controller wants to be asked again,
// and so on from there until it says otherwise. A controller that never says
// is never asked by the clock. Less than [MinInterval] counts as MinInterval.
func (d *Decisions) Every(interval time.Duration) {
	d.interval = max(interval, MinInterval)
}

// OnRoundEnd says whether the controller wants to hear of [EventRoundEnd].
func (d *Decisions) OnRoundEnd(on bool) { d.rounds = said[bool]{on, true} }

// OnVisits says after how many visits the controller wants to hear of
// [EventVisits], again and again; 0 and less mean never.
func (d *Decisions) OnVisits(n int) { d.visits = said[int]{n, true} }

// Workers says how many workers the stage's own pool should have.
func (d *Decisions) Workers(s StageID, n int, why string) {
	d.wish(ofStage(KnobWorkers, s), n, why)
}

// Pool says that there should be a pool of that name, and how many workers it
// should have. If there is none it is made, with at least one worker and at most
// [MostWorkers]. A stage's name means its own pool: then it is the same as Workers.
func (d *Decisions) Pool(name string, workers int, why string) {
	if !slices.Contains(d.made, name) {
		d.made = append(d.made, name)
	}
	d.wish(ofPool(KnobWorkers, name), workers, why)
}

// Keep leaves the number of workers of a stage's own pool, or of a shared pool if s is [NoStage], as it is, and says
// why: it is for the journal only, see [Kept]. A controller says it when something begins to hold it back, and not at
// every look. For the same reason it does not undo a wish.
func (d *Decisions) Keep(s StageID, pool string, why string) {
	t := ofStage(KnobWorkers, s)
	if s == NoStage {
		t = ofPool(KnobWorkers, pool)
	}
	d.kept = append(d.kept, wish{target: t, why: why})
}

// Bind says which pool's workers visit a stage: one that there is, or that this
// decision makes. The stage's own name, or the empty one, is its own pool. How
// many workers that has can be decided once the snapshot shows it again: while the stage
// is elsewhere, its bounds are 0.
func (d *Decisions) Bind(s StageID, pool, why string) {
	d.wish(ofStage(KnobPool, s), pool, why)
}

// Dispatch says how the workers of a pool choose among its stages.
func (d *Decisions) Dispatch(pool string, m Dispatch, why string) {
	d.wish(ofPool(KnobDispatch, pool), m, why)
}

// Visit gives a pool a new visit plan, which is not changed any more. Each plan
// has one [EventRoundEnd]; a plan that is equal to the present one changes nothing,
// so there is no further one for it.
func (d *Decisions) Visit(pool string, p *VisitPlan, why string) {
	d.wish(ofPool(KnobVisit, pool), p, why)
}

// Steal moves n workers from the victim's own pool to the thief's, fewer if the
// bounds of either do not allow as many: their sum stays. Thefts come after all that
// is wanted with Workers, one after the other, so that none takes what another has
// taken. One pair of stages has one theft, and the later one counts.
func (d *Decisions) Steal(thief, victim StageID, n int, why string) {
	d.wish(target{knob: knobSteal, stage: thief, victim: victim}, n, why)
}

// knobSteal is no knob: a theft comes to two changes of [KnobWorkers].
const knobSteal Knob = "steal"

// Instances says how many workers may be at a stage at once.
func (d *Decisions) Instances(s StageID, n int, why string) {
	d.wish(ofStage(KnobInstances, s), n, why)
}

// Priority says how a stage stands among those of a [SharedPriority] pool.
func (d *Decisions) Priority(s StageID, p int, why string) {
	d.wish(ofStage(KnobPriority, s), p, why)
}

// Batch bounds what a worker takes from a stage at once.
func (d *Decisions) Batch(s StageID, n int, linger time.Duration, why string) {
	d.wish(ofStage(KnobBatch, s), Batch{n, linger}, why)
}

// Capacity says how many commands a stage's queue has room for. What it holds
// beyond that stays.
func (d *Decisions) Capacity(s StageID, n int, why string) {
	d.wish(ofStage(KnobCapacity, s), n, why)
}

// Enable says whether a stage's queue takes commands. One that does not refuses
// what is submitted and sheds what is forwarded to it; what it holds is done.
func (d *Decisions) Enable(s StageID, on bool, why string) {
	d.wish(ofStage(KnobEnabled, s), on, why)
}

// Discipline says in which order a stage's queue gives its commands out: a name
// that stage/queue knows. What waits is put in that order.
func (d *Decisions) Discipline(s StageID, name, why string) {
	d.wish(ofStage(KnobDiscipline, s), name, why)
}

// Degrade asks the handlers of a stage for less, from 1, all, to 0. They read it
// with behaviour.Quality; those that do not are not concerned.
func (d *Decisions) Degrade(s StageID, quality float64, why string) {
	d.wish(ofStage(KnobQuality, s), quality, why)
}

// Rate bounds how many commands a second are let in, at a stage or at the [Entry].
func (d *Decisions) Rate(scope StageID, perSecond float64, burst int, why string) {
	d.wish(ofStage(KnobRate, scope), Rate{perSecond, burst}, why)
}

// Limit bounds how many commands may be in flight, in a stage or in all the
// pipeline ([Entry]); 0 is no limit. What is beyond is as if there were no room.
func (d *Decisions) Limit(scope StageID, inFlight int, why string) {
	d.wish(ofStage(KnobLimit, scope), inFlight, why)
}

// Shed turns some of the commands away, at a stage or at the [Entry].
func (d *Decisions) Shed(scope StageID, below int, probability float64, why string) {
	d.wish(ofStage(KnobShed, scope), Shed{below, probability}, why)
}

// Gate puts a gate at a stage or at the [Entry]; nil takes it away. A gate that
// cannot be compared, such as a function, counts as another one each time.
func (d *Decisions) Gate(scope StageID, g Gate, why string) {
	d.wish(ofStage(KnobGate, scope), g, why)
}

func (d *Decisions) wish(t target, value any, why string) {
	d.words++
	w := wish{t, value, why, d.words}
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

// Interval is what was last said with Every, and zero if nothing was: the
// interval in force stays.
func (d *Decisions) Interval() time.Duration { return d.interval }

// WantsRoundEnd is what was last said with OnRoundEnd; ok is false if nothing was.
func (d *Decisions) WantsRoundEnd() (on, ok bool) { return d.rounds.value, d.rounds.ok }

// WantsVisits is what was last said with OnVisits; ok is false if nothing was.
func (d *Decisions) WantsVisits() (n int, ok bool) { return d.visits.value, d.visits.ok }

// Wants tells how many workers were wanted for a stage's own pool, and why; ok is
// false if nothing was said about it. The number is as it was said, not yet held to
// the stage's bounds.
func (d *Decisions) Wants(s StageID) (n int, why string, ok bool) {
	v, why, ok := d.Wish(KnobWorkers, s)
	n, _ = v.(int)
	return n, why, ok
}

// Wish tells what was wanted of a stage's knob, as it was said.
func (d *Decisions) Wish(k Knob, s StageID) (value any, why string, ok bool) {
	return d.find(ofStage(k, s))
}

// PoolWish tells what was wanted of a pool's knob, as it was said.
func (d *Decisions) PoolWish(k Knob, pool string) (value any, why string, ok bool) {
	return d.find(ofPool(k, pool))
}

func (d *Decisions) find(t target) (value any, why string, ok bool) {
	w, ok := d.spoken(t)
	return w.value, w.why, ok
}

func (d *Decisions) spoken(t target) (w wish, ok bool) {
	i, ok := d.place[t]
	if !ok {
		return wish{}, false
	}
	return d.wishes[i], true
}

// Pools are the names that were given to Pool, in that order, each once.
func (d *Decisions) Pools() []string { return d.made }

// Reset forgets all that was said.
func (d *Decisions) Reset() {
	clear(d.wishes) // let go of the values and reasons
	clear(d.kept)
	clear(d.made)
	clear(d.place)
	*d = Decisions{made: d.made[:0], wishes: d.wishes[:0], kept: d.kept[:0], place: d.place}
}
