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
// few, and keeps their number: work stealing among stages, after section 4.8 of
// the dissertation of Cruz (2015), which takes the idea from Blumofe and Leiserson,
// "Scheduling Multithreaded Computations by Work Stealing" (J. ACM 46, 1999).
//
// A stage is hungry when more commands wait than it has workers and the backlog
// grows: more were accepted since the last look than ended. It is replete when no
// more wait than that, and a worker is free. A stage that was hungry at Samples looks
// in a row steals one worker from a stage that was replete for as long; both
// then begin to count anew. At each look at most Pairs stages steal, those with
// the most commands waiting for each worker first, and from those with the most free
// workers first.
//
// Where the queue has little room, half of its capacity counts for the number of
// workers, if that is less. And a queue that is more than half full need not grow:
// back-pressure lets none grow for ever.
//
// A stage that stages ahead bound is never hungry, and never steals by the rule of the preset: another worker would
// only wait with the others. A worker that is blocked is not free, either. See
// [controller.StageStats].
//
// # The total
//
// At the start all stages get equal shares of Workers, as far as their bounds
// allow, and from then on that total stays: each theft is one worker less and one
// more in the same decision. No stage has more than its most, or fewer than its least
// or MinVictim because of a theft. So a stage must have room between its bounds, as
// with stage.Workers(1, 8); a stage.Workers(4, 4) neither steals nor is stolen from.
// If anything else changes the total, a stage that comes or goes, all is shared out
// anew.
//
// Stages that share a pool steal and are stolen from as one: the pool is hungry when
// any of its stages is, and replete when all of them have no backlog and a worker is
// free. A stage that is paused keeps its workers, which count towards the total.
//
// # Presets
//
// [Cruz] is the rule of section 4.8. Every ten seconds the stages are put in the
// order of their service rates, 100 · answered / accepted since the last look: what was
// shed or dead-lettered was not processed. The
// first steals one from the last, the second one from the last but one, if that has
// more than MinVictim and the thief has instances for one more; here
// StageStats.MaxWorkers stands for its instances. Samples means nothing to it, and a
// pool of several stages has the rate of all of them together.
//
// Two things are mended: a stage is never its own victim, and the second
// theft never undoes the first. And a stage to which nothing came and where nothing
// waits, which the listing takes for the slowest of all, comes last and steals
// nothing. What stays is that the rule looks at order only: where all stages keep up, the
// first in line still takes workers from the last.
//
//	            Workers     Pairs  Interval  MinVictim  Samples
//	no preset   2 per pool      2       1 s          1        2
//	Cruz        2 per pool      2      10 s          1        -
type Stealing struct {
	Preset    Preset        // [Cruz] or none; the rest defaults to the line above
	Workers   int           // of all pools together
	Pairs     int           // the most thefts at one look
	Interval  time.Duration // between two looks
	MinVictim int           // a theft leaves a stage no fewer
	Samples   int           // how many looks in a row must agree
}

// sharePerPool is the default of [Stealing.Workers], for each pool.
const sharePerPool = 2

// Name is "stealing", with the preset if there is one: "stealing:cruz".
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
			"Samples %d means nothing to the preset cruz, which counts none", p.Samples),
	)
}

// Claims returns the number of workers, which is all that Stealing decides.
func (Stealing) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller that has seen nothing yet.
func (p Stealing) New() controller.Controller {
	return &stealing{law: p.withDefaults(), moods: make(memory[mood]), seen: make(memory[controller.Counters])}
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
	law   Stealing
	moods memory[mood]
	seen  memory[controller.Counters]

	// Of one look. They are kept so that looking allocates nothing.
	units                   units
	candidates              []candidate
	order, thieves, victims []rival
}

// mood is what is remembered of a unit: looks in a row.
type mood struct {
	hungry, replete int
	held            held
}

// candidate is a unit with what happened at its stages since the last look.
type candidate struct {
	*unit
	accepted, processed uint64
	hungry              *controller.StageStats // the hungriest of its stages, nil if none is
	bound               *controller.StageStats // the one that would be, if stages ahead did not bound it
}

// rival is a candidate in an order: its place, and what it is ordered by, from
// the least.
type rival struct {
	place int
	rank  float64
}

// Control shares the workers out at the start and lets units steal on each tick.
func (c *stealing) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart && ev.Kind != controller.EventTick {
		return // the end asks for nothing, and what comes later is not known here
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
		clear(c.moods)
		shareOut(us, budget, d)
	default:
		c.look(us, s.At, d)
	}
}

// done lets go of what was seen.
func (c *stealing) done() {
	c.units.done()
	clear(c.candidates)
}

// gather finds out what happened since the last look. That is not the stages'
// Window: a window ends with each event that the controller is told of, and a queue that
// has filled up a moment ago would leave next to nothing of it.
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

// skipPaused forgets what comes in at a stage while it is paused, so that it is no
// news afterwards.
func (c *stealing) skipPaused(s *controller.Snapshot) {
	for i := range s.Stages {
		if st := &s.Stages[i]; st.Paused {
			*c.seen.of(st.Name) = st.Total
		}
	}
}

// hungers tells whether a stage has a backlog that does not go away by itself.
func (u *unit) hungers(st *controller.StageStats, since controller.Counters) bool {
	grows := since.Accepted > ended(since)
	full := st.QueueCap > 0 && st.QueueLen > st.QueueCap/2
	return st.QueueLen > u.bearable(st) && (grows || full)
}

// replete tells whether a unit has workers to spare.
func (u *unit) replete() bool {
	for _, st := range u.stages {
		if st.QueueLen > u.bearable(st) {
			return false
		}
	}
	return !u.paused() && u.free() > 0
}

// bearable is how many commands may wait at a stage: one for each worker, and no
// more than half of what there is room for.
func (u *unit) bearable(st *controller.StageStats) int {
	if st.QueueCap > 0 {
		return min(u.workers, st.QueueCap/2)
	}
	return u.workers
}

// mayTake and mayGive tell what a unit's bounds and the law's own allow.
func (Stealing) mayTake(u *unit) bool { return u.workers < u.most }

func (p Stealing) mayGive(u *unit) bool { return u.workers > max(p.MinVictim, u.least) }

func (c *stealing) look(us []unit, now time.Duration, d *controller.Decisions) {
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
		delete(c.moods, thief.name)
		delete(c.moods, victim.name)
	}
	c.moods.forgetUnits(us)
}

// byBacklog finds who steals and who is stolen from. Nobody is both.
func (c *stealing) byBacklog(now time.Duration, d *controller.Decisions) {
	for i := range c.candidates {
		u := &c.candidates[i]
		m := c.moods.of(u.name)
		m.hungry, m.replete = streak(m.hungry, u.hungry != nil), streak(m.replete, u.replete())
		if u.hungry == nil && u.bound != nil && c.law.mayTake(u.unit) {
			u.keep(&m.held, now, d, u.bound, "queue", u.bound.QueueLen)
		}
		switch {
		case m.hungry >= c.law.Samples && c.law.mayTake(u.unit):
			c.thieves = append(c.thieves, rival{i, -float64(u.hungry.QueueLen) / float64(max(1, u.workers))})
		case m.replete >= c.law.Samples && c.law.mayGive(u.unit):
			c.victims = append(c.victims, rival{i, -float64(u.free())})
		}
	}
	slices.SortStableFunc(c.thieves, byRank)
	slices.SortStableFunc(c.victims, byRank)
}

// byRate pairs the first with the last, the second with the last but one, and so
// on until they meet. A pair that may not is left out, and none takes its place.
func (c *stealing) byRate(now time.Duration, d *controller.Decisions) {
	c.order = c.order[:0]
	for i := range c.candidates {
		if u := &c.candidates[i]; !u.paused() {
			c.order = append(c.order, rival{i, u.rate()})
		}
	}
	slices.SortStableFunc(c.order, byRank)
	for first := range min(c.law.Pairs, len(c.order)/2) {
		thief, victim := c.order[first], c.order[len(c.order)-1-first]
		idle := math.IsInf(thief.rank, 1)
		if u := &c.candidates[thief.place]; u.bound != nil && u.hungry == nil {
			if !idle && c.law.mayTake(u.unit) {
				u.keep(&c.moods.of(u.name).held, now, d, u.bound, "queue", u.bound.QueueLen)
			}
			continue
		}
		if !idle && c.law.mayTake(c.candidates[thief.place].unit) && c.law.mayGive(c.candidates[victim.place].unit) {
			c.thieves, c.victims = append(c.thieves, thief), append(c.victims, victim)
		}
	}
}

// rate is 100 times what handlers answered for what came. Where nothing came and nothing
// waits it is without bound: such a pool keeps up with everything. The
// listing has zero there, as for a stage that does not keep up at all.
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

// ended counts the commands that a stage was done with, in whatever way.
func ended(n controller.Counters) uint64 {
	return n.OK + n.Forwarded + n.Errors + n.Shed + n.DeadLettered
}

func byRank(a, b rival) int { return cmp.Compare(a.rank, b.rank) }

// reasons tells thief and victim why. It is asked before they begin to count anew.
func (c *stealing) reasons(thief, victim *candidate) (take, give string) {
	if c.law.Preset == Cruz {
		slow, fast := thief.rate(), victim.rate()
		return fmt.Sprintf("steals from %q: rate %s, there %s", victim.name, percent(slow), percent(fast)),
			fmt.Sprintf("gives to %q: rate %s, there %s", thief.name, percent(fast), percent(slow))
	}
	waits := thief.hungry
	return fmt.Sprintf("steals from %q: %s", victim.name,
			why("queue", waits.QueueLen, ">", thief.bearable(waits), c.moods.of(thief.name).hungry)),
		fmt.Sprintf("gives to %q: %d of %d workers free for %s", thief.name,
			victim.free(), victim.workers, sampled(c.moods.of(victim.name).replete))
}

func percent(rate float64) string {
	if math.IsInf(rate, 1) {
		return "without work"
	}
	return strconv.FormatFloat(rate, 'f', 0, 64) + "%"
}
