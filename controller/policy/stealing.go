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
// # Presets
//
// [Cruz] is the rule of section 4.8. Every ten seconds the stages are put in the
// order of their service rates, 100 · ended / accepted since the last look. The
// first steals one from the last, the second one from the last but one, if that has
// more than MinVictim and the thief has instances for one more; here
// StageStats.MaxWorkers stands for its instances. Samples means nothing to it.
//
// Two things are mended: a stage is never its own victim, and the second
// theft never undoes the first. And a stage to which nothing came and where nothing
// waits, which the listing takes for the slowest of all, comes last and steals
// nothing. What stays is that the rule looks at order only: where all stages keep up, the
// first in line still takes workers from the last.
//
//	            Workers      Pairs  Interval  MinVictim  Samples
//	no preset   2 per stage      2       1 s          1        2
//	Cruz        2 per stage      2      10 s          1        -
type Stealing struct {
	Preset    Preset        // [Cruz] or none; the rest defaults to the line above
	Workers   int           // of all stages together
	Pairs     int           // the most thefts at one look
	Interval  time.Duration // between two looks
	MinVictim int           // a theft leaves a stage no fewer
	Samples   int           // how many looks in a row must agree
}

// sharePerStage is the default of [Stealing.Workers], for each stage.
const sharePerStage = 2

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

// New returns a controller that has seen nothing yet.
func (p Stealing) New() controller.Controller {
	return &stealing{law: p.withDefaults(), moods: make(memory[mood])}
}

func (p Stealing) withDefaults() Stealing {
	interval := time.Second
	if p.Preset == Cruz {
		interval = 10 * time.Second
	}
	return Stealing{
		Preset:    p.Preset,
		Workers:   p.Workers, // zero depends on the number of stages
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

	// Of one look. They are kept so that looking allocates nothing.
	order, thieves, victims []rival
}

// mood is what is remembered of a stage: looks in a row.
type mood struct {
	hungry, replete int
}

// rival is a stage in an order: its place in the snapshot, and what it is
// ordered by, from the least.
type rival struct {
	stage int
	rank  float64
}

// Control shares the workers out at the start and lets stages steal on each tick.
func (c *stealing) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		shareOut(s, c.law.budget(s), d)
	case controller.EventTick:
		if shared(s, c.law.budget(s)) {
			c.look(s, d)
			return
		}
		clear(c.moods)
		shareOut(s, c.law.budget(s), d)
	default: // the end asks for nothing, and what comes later is not known here
	}
}

func (p Stealing) budget(s *controller.Snapshot) int {
	return cmp.Or(p.Workers, sharePerStage*len(s.Stages))
}

// mayTake and mayGive tell what a stage's bounds and the law's own allow.
func (Stealing) mayTake(st *controller.StageStats) bool { return st.Workers < st.MaxWorkers }

func (p Stealing) mayGive(st *controller.StageStats) bool {
	return st.Workers > max(p.MinVictim, st.MinWorkers)
}

func (c *stealing) look(s *controller.Snapshot, d *controller.Decisions) {
	c.thieves, c.victims = c.thieves[:0], c.victims[:0]
	if c.law.Preset == Cruz {
		c.byRate(s)
	} else {
		c.byBacklog(s)
	}
	for i := range min(c.law.Pairs, len(c.thieves), len(c.victims)) {
		thief, victim := &s.Stages[c.thieves[i].stage], &s.Stages[c.victims[i].stage]
		take, give := c.reasons(thief, victim)
		d.Workers(thief.ID, thief.Workers+1, take)
		d.Workers(victim.ID, victim.Workers-1, give)
		delete(c.moods, thief.Name)
		delete(c.moods, victim.Name)
	}
	c.moods.forget(s)
}

// byBacklog finds who steals and who is stolen from. Nobody is both.
func (c *stealing) byBacklog(s *controller.Snapshot) {
	for i := range s.Stages {
		st := &s.Stages[i]
		m := c.moods.of(st.Name)
		m.hungry, m.replete = streak(m.hungry, hungry(st)), streak(m.replete, replete(st))
		switch {
		case m.hungry >= c.law.Samples && c.law.mayTake(st):
			c.thieves = append(c.thieves, rival{i, -float64(st.QueueLen) / float64(max(1, st.Workers))})
		case m.replete >= c.law.Samples && c.law.mayGive(st):
			c.victims = append(c.victims, rival{i, -float64(st.Workers - st.Busy)})
		}
	}
	slices.SortStableFunc(c.thieves, byRank)
	slices.SortStableFunc(c.victims, byRank)
}

// hungry tells whether a stage has a backlog that does not go away by itself.
func hungry(st *controller.StageStats) bool {
	grows := st.Window.Accepted > ended(st.Window)
	full := st.QueueCap > 0 && st.QueueLen > st.QueueCap/2
	return st.QueueLen > bearable(st) && (grows || full)
}

func replete(st *controller.StageStats) bool {
	return st.QueueLen <= bearable(st) && st.Busy < st.Workers
}

// bearable is how many commands may wait at a stage: one for each worker, and no
// more than half of what there is room for.
func bearable(st *controller.StageStats) int {
	if st.QueueCap > 0 {
		return min(st.Workers, st.QueueCap/2)
	}
	return st.Workers
}

// byRate pairs the first with the last, the second with the last but one, and so
// on until they meet. A pair that may not is left out, and none takes its place.
func (c *stealing) byRate(s *controller.Snapshot) {
	c.order = c.order[:0]
	for i := range s.Stages {
		c.order = append(c.order, rival{i, rate(&s.Stages[i])})
	}
	slices.SortStableFunc(c.order, byRank)
	for first := range min(c.law.Pairs, len(c.order)/2) {
		thief, victim := c.order[first], c.order[len(c.order)-1-first]
		idle := math.IsInf(thief.rank, 1)
		if !idle && c.law.mayTake(&s.Stages[thief.stage]) && c.law.mayGive(&s.Stages[victim.stage]) {
			c.thieves, c.victims = append(c.thieves, thief), append(c.victims, victim)
		}
	}
}

// rate is 100 times what ended for what came. Where nothing came and nothing
// waits it is without bound: such a stage keeps up with everything. The
// listing has zero there, as for a stage that does not keep up at all.
func rate(st *controller.StageStats) float64 {
	switch {
	case st.Window.Accepted > 0:
		return 100 * float64(ended(st.Window)) / float64(st.Window.Accepted)
	case st.QueueLen <= 0:
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
func (c *stealing) reasons(thief, victim *controller.StageStats) (take, give string) {
	if c.law.Preset == Cruz {
		slow, fast := rate(thief), rate(victim)
		return fmt.Sprintf("steals from %q: rate %s, there %s", victim.Name, percent(slow), percent(fast)),
			fmt.Sprintf("gives to %q: rate %s, there %s", thief.Name, percent(fast), percent(slow))
	}
	return fmt.Sprintf("steals from %q: %s", victim.Name,
			why("queue", thief.QueueLen, ">", bearable(thief), c.moods.of(thief.Name).hungry)),
		fmt.Sprintf("gives to %q: %d of %d workers free for %s", thief.Name,
			victim.Workers-victim.Busy, victim.Workers, sampled(c.moods.of(victim.Name).replete))
}

func percent(rate float64) string {
	if math.IsInf(rate, 1) {
		return "without work"
	}
	return strconv.FormatFloat(rate, 'f', 0, 64) + "%"
}
