package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Stealing moves workers from stages that have too many to stages that have too
// few, and keeps their total: work stealing among stages, after section 4.8 of
// the dissertation of Cruz (2015), which takes the idea from Blumofe and
// Leiserson, "Scheduling Multithreaded Computations by Work Stealing" (J. ACM
// 46, 1999).
//
// A stage is hungry when more commands wait than it has workers and the backlog
// grows: more commands were accepted since the last tick than ended. It is
// replete when no more commands wait than it has workers, and a worker is free.
// A stage that was hungry at Samples consecutive ticks steals one worker from a
// stage that was replete for as long; both then start to count again. At each
// tick at most Pairs stages steal: those with the most waiting commands for
// each worker first, from those with the most free workers first.
//
// Where the capacity of the queue is small, half of the capacity replaces the
// number of workers, if that is less. And a queue that is more than half full
// need not grow: with back-pressure no queue grows for ever.
//
// A stage that is bound by stages ahead is never hungry, and never steals by
// the rule of the preset: another worker would only wait with the others. A
// blocked worker is not free, either. See [controller.StageStats].
//
// # The total
//
// At the start all stages get equal shares of Workers, as far as their bounds
// allow, and from then on that total stays: each steal is one worker less and
// one more in the same decision. A steal never gives a stage more than its
// maximum, and never leaves one fewer than its minimum or MinVictim. So a stage
// must have a range of workers, as with stage.Workers(1, 8); a stage.Workers(4,
// 4) neither steals nor is stolen from. If anything else changes the total,
// such as a stage that is added or removed, all workers are shared out again.
//
// Stages that share a pool steal and are stolen from as one: the pool is hungry
// when any of its stages is, and replete when no stage of it has a backlog and
// a worker is free. A paused stage keeps its workers, which count towards the
// total.
//
// # Presets
//
// [Cruz] is the rule of section 4.8. Every ten seconds the stages are sorted by
// their service rates, 100 · answered / accepted since the last tick: commands
// that were shed or dead-lettered were not processed. The first steals one
// worker from the last, and the second one from the last but one, if that has
// more than MinVictim and the thief has instances for one more; here
// StageStats.MaxWorkers stands for its instances. Samples has no effect, and a
// pool of several stages has the rate of all of them together.
//
// Two defects are fixed: a stage is never its own victim, and the second steal
// never undoes the first. And a stage to which nothing came and where nothing
// waits, which the listing takes for the slowest of all, comes last and steals
// nothing. One weakness stays: the rule compares only the order, so if all
// stages keep up, the first in the order still takes workers from the last.
//
//	            Workers     Pairs  Interval  MinVictim  Samples
//	no preset   2 per pool      2       1 s          1        2
//	Cruz        2 per pool      2      10 s          1        -
type Stealing struct {
	Preset    Preset        // [Cruz] or none; sets the defaults of the other fields as listed above
	Workers   int           // of all pools together
	Pairs     int           // the maximum number of steals at one tick
	Interval  time.Duration // between two ticks
	MinVictim int           // the least number of workers that a steal leaves a stage
	Samples   int           // how many consecutive ticks must agree
}

// sharePerPool is the default of [Stealing.Workers], for each pool.
const sharePerPool = 2

// Name returns "stealing", with the preset if there is one: "stealing:cruz".
func (p Stealing) Name() string { return p.Preset.name("stealing") }

// Check returns all faults of the parameters.
func (p Stealing) Check() error {
	return errors.Join(
		fault("stealing", p.Preset != "" && p.Preset != Cruz, "unknown Preset %q; known is %s", p.Preset, Cruz),
		fault("stealing", p.Workers < 0, "Workers %d is negative", p.Workers),
		fault("stealing", p.Pairs < 0, "Pairs %d is negative", p.Pairs),
		fault("stealing", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("stealing", p.MinVictim < 0, "MinVictim %d is negative", p.MinVictim),
		fault("stealing", p.Samples < 0, "Samples %d is negative", p.Samples),
		fault("stealing", p.Samples > 0 && p.Preset == Cruz,
			"Samples %d has no effect with the preset cruz, which counts no samples", p.Samples),
	)
}

// Claims returns the number of workers: Stealing decides nothing else.
func (Stealing) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller with an empty memory.
func (p Stealing) New() controller.Controller {
	return &stealing{law: p.withDefaults(), streaks: make(memory[streaks]), seen: make(memory[controller.Counters])}
}

func (p Stealing) withDefaults() Stealing {
	interval := time.Second
	if p.Preset == Cruz {
		interval = 10 * time.Second
	}
	return Stealing{
		Preset:    p.Preset,
		Workers:   p.Workers, // zero depends on the number of pools
		Pairs:     cmp.Or(p.Pairs, 2),
		Interval:  cmp.Or(p.Interval, interval),
		MinVictim: cmp.Or(p.MinVictim, 1),
		Samples:   cmp.Or(p.Samples, 2),
	}
}

// stealing is Stealing's memory of one run.
type stealing struct {
	law     Stealing
	streaks memory[streaks]
	seen    memory[controller.Counters]

	// Scratch memory of one tick. It is kept so that a tick allocates nothing.
	units                   units
	candidates              []candidate
	order, thieves, victims []ranked
}

// streaks is the memory of a unit: how many consecutive ticks it was hungry or
// replete.
type streaks struct {
	hungry, replete int
	held            held
}

// candidate is a unit with the progress of its stages since the last tick.
type candidate struct {
	*unit
	accepted, processed uint64
	hungry              *controller.StageStats // the hungriest of its stages, or nil
	bound               *controller.StageStats // the hungriest of the stages that are bound by stages ahead, or nil
}

// ranked is a candidate in an order: its index, and the rank by which it is
// sorted, ascending.
type ranked struct {
	place int
	rank  float64
}

// Control shares the workers out at the start and lets units steal at each
// tick.
func (c *stealing) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart && ev.Kind != controller.EventTick {
		return // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
	us := c.units.of(s)
	defer c.done()
	c.gather(us)
	c.skipPaused(s)
	c.seen.forget(s)
	budget := cmp.Or(c.law.Workers, sharePerPool*len(us))
	switch {
	case ev.Kind == controller.EventStart:
		d.Every(c.law.Interval)
		shareOut(us, budget, d)
	case !shared(us, budget):
		clear(c.streaks)
		shareOut(us, budget, d)
	default:
		c.inspect(us, s.At, d)
	}
}

// done releases the snapshot that was seen.
func (c *stealing) done() {
	c.units.done()
	clear(c.candidates)
}

// gather computes the progress of all units since the last tick. It cannot use
// the stages' Window: a window ends with each event that the controller gets,
// and a queue that became full a moment ago would leave next to nothing of it.
func (c *stealing) gather(us []unit) {
	c.candidates = c.candidates[:0]
	for i := range us {
		u := candidate{unit: &us[i]}
		for _, st := range u.stages {
			seen := c.seen.of(st.Name)
			since := st.Total.Sub(*seen)
			*seen = st.Total
			u.accepted += since.Accepted
			u.processed += since.Handled()
			switch hungers := u.hungers(st, since); {
			case hungers && st.Bound:
				u.bound = st
			case hungers && (u.hungry == nil || st.QueueLen > u.hungry.QueueLen):
				u.hungry = st
			}
		}
		c.candidates = append(c.candidates, u)
	}
}

// skipPaused forgets the commands that arrive at a stage while it is paused, so
// that they do not count afterwards.
func (c *stealing) skipPaused(s *controller.Snapshot) {
	for i := range s.Stages {
		if st := &s.Stages[i]; st.Paused {
			*c.seen.of(st.Name) = st.Total
		}
	}
}

// hungers reports whether a stage has a backlog that does not go away by
// itself.
func (u *unit) hungers(st *controller.StageStats, since controller.Counters) bool {
	grows := since.Accepted > ended(since)
	full := st.QueueCap > 0 && st.QueueLen > st.QueueCap/2
	return st.QueueLen > u.bearable(st) && (grows || full)
}

// replete reports whether a unit has workers to spare.
func (u *unit) replete() bool {
	for _, st := range u.stages {
		if st.QueueLen > u.bearable(st) {
			return false
		}
	}
	return !u.paused() && u.free() > 0
}

// bearable returns how many commands may wait at a stage: one for each worker,
// and no more than half of the capacity.
func (u *unit) bearable(st *controller.StageStats) int {
	if st.QueueCap > 0 {
		return min(u.workers, st.QueueCap/2)
	}
	return u.workers
}

// mayTake and mayGive report whether the bounds of a unit and of the law allow
// a steal.
func (Stealing) mayTake(u *unit) bool { return u.workers < u.most }

func (p Stealing) mayGive(u *unit) bool { return u.workers > max(p.MinVictim, u.least) }

func (c *stealing) inspect(us []unit, now time.Duration, d *controller.Decisions) {
	c.thieves, c.victims = c.thieves[:0], c.victims[:0]
	if c.law.Preset == Cruz {
		c.byRate(now, d)
	} else {
		c.byBacklog(now, d)
	}
	for i := range min(c.law.Pairs, len(c.thieves), len(c.victims)) {
		thief, victim := &c.candidates[c.thieves[i].place], &c.candidates[c.victims[i].place]
		take, give := c.reasons(thief, victim)
		thief.scale(d, thief.workers+1, take)
		victim.scale(d, victim.workers-1, give)
		delete(c.streaks, thief.name)
		delete(c.streaks, victim.name)
	}
	c.streaks.forgetUnits(us)
}

// byBacklog finds the thieves and the victims. No unit is both.
func (c *stealing) byBacklog(now time.Duration, d *controller.Decisions) {
	for i := range c.candidates {
		u := &c.candidates[i]
		m := c.streaks.of(u.name)
		m.hungry, m.replete = streak(m.hungry, u.hungry != nil), streak(m.replete, u.replete())
		if u.hungry == nil && u.bound != nil && c.law.mayTake(u.unit) {
			u.keep(&m.held, now, d, u.bound, "queue", u.bound.QueueLen)
		}
		switch {
		case m.hungry >= c.law.Samples && c.law.mayTake(u.unit):
			c.thieves = append(c.thieves, ranked{i, -float64(u.hungry.QueueLen) / float64(max(1, u.workers))})
		case m.replete >= c.law.Samples && c.law.mayGive(u.unit):
			c.victims = append(c.victims, ranked{i, -float64(u.free())})
		}
	}
	slices.SortStableFunc(c.thieves, byRank)
	slices.SortStableFunc(c.victims, byRank)
}

// byRate pairs the first with the last, the second with the last but one, and
// so on until they meet. A pair that may not exchange a worker is left out, and
// no other pair takes its place.
func (c *stealing) byRate(now time.Duration, d *controller.Decisions) {
	c.order = c.order[:0]
	for i := range c.candidates {
		if u := &c.candidates[i]; !u.paused() {
			c.order = append(c.order, ranked{i, u.rate()})
		}
	}
	slices.SortStableFunc(c.order, byRank)
	for first := range min(c.law.Pairs, len(c.order)/2) {
		thief, victim := c.order[first], c.order[len(c.order)-1-first]
		idle := math.IsInf(thief.rank, 1)
		if u := &c.candidates[thief.place]; u.bound != nil && u.hungry == nil {
			if !idle && c.law.mayTake(u.unit) {
				u.keep(&c.streaks.of(u.name).held, now, d, u.bound, "queue", u.bound.QueueLen)
			}
			continue
		}
		if !idle && c.law.mayTake(c.candidates[thief.place].unit) && c.law.mayGive(c.candidates[victim.place].unit) {
			c.thieves, c.victims = append(c.thieves, thief), append(c.victims, victim)
		}
	}
}

// rate returns 100 times the answered commands for each command that came.
// Where nothing came and nothing waits it is infinite: such a pool keeps up
// with everything. The listing has zero there, as for a stage that does not
// keep up at all.
func (u *candidate) rate() float64 {
	switch {
	case u.accepted > 0:
		return 100 * float64(u.processed) / float64(u.accepted)
	case u.empty():
		return math.Inf(1)
	default:
		return 0
	}
}

// ended counts the commands that a stage has finished in any way.
func ended(n controller.Counters) uint64 {
	return n.OK + n.Forwarded + n.Errors + n.Shed + n.DeadLettered
}

func byRank(a, b ranked) int { return cmp.Compare(a.rank, b.rank) }

// reasons returns the reasons for the thief and the victim. It must be called
// before their counts restart.
func (c *stealing) reasons(thief, victim *candidate) (take, give string) {
	if c.law.Preset == Cruz {
		slow, fast := thief.rate(), victim.rate()
		return fmt.Sprintf("steals from %q: rate %s, there %s", victim.name, percent(slow), percent(fast)),
			fmt.Sprintf("gives to %q: rate %s, there %s", thief.name, percent(fast), percent(slow))
	}
	waits := thief.hungry
	return fmt.Sprintf("steals from %q: %s", victim.name,
			why("queue", waits.QueueLen, ">", thief.bearable(waits), c.streaks.of(thief.name).hungry)),
		fmt.Sprintf("gives to %q: %d of %d workers free for %s", thief.name,
			victim.free(), victim.workers, sampled(c.streaks.of(victim.name).replete))
}

func percent(rate float64) string {
	if math.IsInf(rate, 1) {
		return "without work"
	}
	return strconv.FormatFloat(rate, 'f', 0, 64) + "%"
}
