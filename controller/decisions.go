package controller

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// minInterval is the shortest time between two ticks, and between two round
// ends. A controller that asks for a shorter interval gets this one: a wrong
// parameter must not make a pipeline spin.
const minInterval = time.Millisecond

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
// each command of just this priority with the probability Edge, and each
// command with this Probability. The zero Shed refuses none, and does not look
// at priorities; with the lowest Below it looks and refuses none.
type Shed struct {
	Below       int
	Edge        float64
	Probability float64
}

// Share returns which share of the commands of a priority is refused, from 0 to
// 1.
func (x Shed) Share(priority int) float64 {
	switch {
	case x == (Shed{}):
		return 0
	case priority < x.Below:
		return 1
	case priority == x.Below:
		return max(x.Edge, x.Probability)
	default:
		return x.Probability
	}
}

// String returns, for example, "below 3 and 25%", "below 3 and 40% of 3", or
// "none".
func (x Shed) String() string {
	switch {
	case x == (Shed{}):
		return "none"
	case x == (Shed{Below: math.MinInt}):
		return "none, but it looks at priorities"
	case x.Edge == 0:
		return fmt.Sprintf("below %d and %g%%", x.Below, 100*x.Probability)
	case x.Probability == 0:
		return fmt.Sprintf("below %d and %.4g%% of %[1]d", x.Below, 100*x.Edge)
	default:
		return fmt.Sprintf("below %d, %.4g%% of %[1]d and %[3]g%%", x.Below, 100*x.Edge, 100*x.Probability)
	}
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
// A knob, such as [KnobWorkers], makes a wish: see [Setting.Set]. A wish sets a
// value and none adds to one, and the later of two wishes for one knob wins. So
// it does no harm to apply a decision twice. Only Steal states a difference: it
// is relative to the numbers in the snapshot that the controller got.
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
	times    option[bool]
	made     []string // names of pools that get workers
	wishes   []wish   // one for each knob, in the order of the first wish for it
	kept     []wish   // knobs that stay as they are, each with a reason
	place    map[target]int
	count    int      // how many wishes were made since Reset
	settling settling // memory of Settle, empty between its calls
}

// option holds the last value that was set; ok is false if no value was set.
type option[T any] struct {
	value T
	ok    bool
}

// target is one knob of one stage, of the entry, or of one pool.
type target struct {
	knob   ruled
	stage  StageID // NoStage for the knob of a pool
	pool   string
	ofPool bool    // distinguishes wishes for NoStage and for the pool "" from each other
	victim StageID // of a theft
}

func ofStage(k ruled, s StageID) target { return target{knob: k, stage: s} }

func ofPool(k ruled, name string) target {
	return target{knob: k, stage: NoStage, pool: name, ofPool: true}
}

type wish struct {
	target
	value any
	why   string
	seq   int // the later of two wishes has the higher number

	varies bool // it is one of many
}

// Every sets the time from this call to the next tick, and from then on between
// ticks, until Every is called again. A controller that never calls Every gets
// no ticks. Less than a millisecond counts as a millisecond.
func (d *Decisions) Every(interval time.Duration) {
	d.interval = max(interval, minInterval)
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

// WatchTimes sets whether snapshots of [EventTick] have the times of commands,
// [StageStats.Wait] and [StageStats.Work]. The engine measures them anyway, but
// copying them takes some microseconds for each stage.
func (d *Decisions) WatchTimes(on bool) { d.times = option[bool]{on, true} }

// makes notes that a pool must be made, if it does not exist.
func (d *Decisions) makes(pool string) {
	if !slices.Contains(d.made, pool) {
		d.made = append(d.made, pool)
	}
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

// Vary says that the wish for the number of workers of a stage's own pool (or
// of a shared pool, if s is [NoStage]) is one of many: the controller turns the
// knob again and again, to see what the stage makes of it. It is for the
// journal only, which would otherwise hold nothing else.
func (d *Decisions) Vary(s StageID, pool string) {
	t := ofStage(KnobWorkers, s)
	if s == NoStage {
		t = ofPool(KnobWorkers, pool)
	}
	if i, ok := d.place[t]; ok {
		d.wishes[i].varies = true
	}
}

// Steal moves n workers from the victim's own pool to the thief's; fewer if the
// bounds of either pool do not allow n. Their sum stays the same. Steals are
// applied after all wishes of [KnobWorkers], one after the other, so that no steal
// takes workers that another one has taken. For each pair of stages only the
// last Steal counts.
func (d *Decisions) Steal(thief, victim StageID, n int, why string) {
	d.wish(target{knob: theft, stage: thief, victim: victim}, n, why)
}

func (d *Decisions) wish(t target, value any, why string) {
	d.count++
	w := wish{target: t, value: value, why: why, seq: d.count}
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
	return KnobWorkers.Wish(d, s)
}

// WantsTimes returns the last value set with WatchTimes; ok is false if none
// was set.
func (d *Decisions) WantsTimes() (on, ok bool) { return d.times.value, d.times.ok }

func (d *Decisions) lookup(t target) (w wish, ok bool) {
	i, ok := d.place[t]
	if !ok {
		return wish{}, false
	}
	return d.wishes[i], true
}

// Pools returns the names of the pools for which a number of workers was wished
// by the name of the pool, in that order, each once.
func (d *Decisions) Pools() []string { return d.made }

// Reset removes all wishes and settings.
func (d *Decisions) Reset() {
	clear(d.wishes) // release the values and reasons
	clear(d.kept)
	clear(d.made)
	clear(d.place)
	*d = Decisions{made: d.made[:0], wishes: d.wishes[:0], kept: d.kept[:0], place: d.place}
}
