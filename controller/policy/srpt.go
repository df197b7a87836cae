package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Form names one of the two ways of [SRPT].
type Form string

// The two ways.
const (
	// Global is one queue for all stages, ordered by their priorities.
	Global Form = "global"
	// Polled is a queue for each stage, and workers that begin with the last stage and go
	// back to it after each success.
	Polled Form = "polled"
)

// SRPT has the workers finish what is nearest to its end: shortest remaining
// processing time, after Schrage and Miller, "The Queue M/G/1 with the Shortest
// Remaining Processing Time Discipline" (Operations Research 14, 1966), by Gordon,
// "Stage scheduling for CPU-intensive servers" (UCAM-CL-TR-781, 2010), as in sections
// 3.5 and 4.6 of the dissertation of Cruz (2015).
//
// It is depth first: no more commands are past the first stage than there are workers, so
// it is what to take where commands are large, as images are. A stage comes the earlier
// the less work is left for a command there:
//
//	remaining = mean service time + the most that remains at a stage that comes next
//
// The most, because which way a command will go is not known, and so a stage never
// comes before those that it feeds. Stages of a loop are all as far from the end as
// the one that is farthest. Where
// nothing is measured, or two remain equal, the rank decides, and with [ByRank] it
// alone: the farther from the sources, the earlier. As long as no way is known it is
// the place in the pipeline. Service times are followed when they differ by more than
// a quarter.
//
// In the [Global] form the stages' priorities say so, from 1. In the [Polled]
// form, whose name is "srpt-polled", it is the order of visits. For more than eight
// stages the global one is the better: it does not look at queues that are empty.
//
// # Ageing
//
// A stage with much to do may keep the workers from those before it as long as it likes.
// When a stage starves (EventStarved) it comes before all others until the next look.
// What ages is a stage and not a command: how often a command went round a loop, a
// policy cannot see.
//
// # Presets
//
// [Cruz] has the place in the pipeline for a rank, and neither measures nor ages. Its
// polled form stays at a stage until the queue is empty, as the seed's program did,
// and so is much like [Cohort].
//
//	                 Workers      Key     Bound    Interval
//	no preset        one per CPU  ByWork  NoBound  100 ms
//	no preset, polled                     1
//	Cruz, global     2            -       1        -
//	Cruz, polled     2            -       NoBound  -
type SRPT struct {
	Preset   Preset        // [Cruz] or none; the rest defaults to the line above
	Form     Form          // [Global], the default, or [Polled]
	Workers  int           // of the shared pool, and of each group if it is set
	Key      Key           // [ByWork] or [ByRank]
	Bound    int           // the most commands of a visit, or [NoBound]
	NoAgeing bool          // leaves a stage that starves where it is
	Interval time.Duration // between two looks
}

// Name is "srpt" or "srpt-polled", with the preset if there is one: "srpt:cruz".
func (p SRPT) Name() string {
	if p.Form == Polled {
		return p.Preset.name("srpt-polled")
	}
	return p.Preset.name("srpt")
}

// Check returns all faults of the parameters.
func (p SRPT) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("srpt", p.Preset != "" && p.Preset != Cruz, "unknown Preset %q; known is %s", p.Preset, Cruz),
		fault("srpt", l.Form != Global && l.Form != Polled, "unknown Form %q; known are %s, %s", p.Form, Global, Polled),
		workersFault("srpt", p.Workers),
		fault("srpt", l.Key != ByWork && l.Key != ByRank, "unknown Key %q; known are %s, %s", p.Key, ByWork, ByRank),
		fault("srpt", p.Key != "" && p.Preset == Cruz,
			"Key %q means nothing to the preset cruz, which goes by the place in the pipeline", p.Key),
		boundFault("srpt", p.Bound),
		fault("srpt", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("srpt", p.Interval > 0 && p.Preset == Cruz,
			"Interval %v means nothing to the preset cruz, which looks once", p.Interval),
	)
}

// Claims are the knobs of shared workers and their visits, and priorities in the
// global form.
func (p SRPT) Claims() []controller.Knob {
	if p.Form == Polled {
		return sharing()
	}
	return sharing(controller.KnobPriority)
}

// New returns a controller that has seen nothing yet.
func (p SRPT) New() controller.Controller {
	l := p.withDefaults()
	dispatch := controller.SharedPriority
	if l.Form == Polled {
		dispatch = controller.Polled
	}
	return newVisits(
		gathering{dispatch: dispatch, workers: p.Workers, usual: originalWorkers(p.Preset)},
		rhythm{interval: l.Interval, relief: !l.NoAgeing},
		&srpt{law: l, services: make(memory[steady])},
	)
}

func (p SRPT) withDefaults() SRPT {
	p.Form, p.Key = cmp.Or(p.Form, Global), cmp.Or(p.Key, ByWork)
	if p.Preset == Cruz {
		p.NoAgeing = true
		if p.Form == Polled {
			p.Bound = cmp.Or(p.Bound, NoBound)
		}
	} else {
		p.Interval = cmp.Or(p.Interval, 100*time.Millisecond)
		if p.Form == Global {
			p.Bound = cmp.Or(p.Bound, NoBound) // a batch: slow commands are taken one at a time
		}
	}
	p.Bound = cmp.Or(p.Bound, 1)
	return p
}

// srpt is SRPT's memory of one run.
type srpt struct {
	law      SRPT
	services memory[steady]

	// Of one look, for each stage of the snapshot.
	ranks      []int
	places     []int // in the pipeline, -1 in a loop
	remaining  []time.Duration
	priorities []int
	order      []controller.StageID
}

func (c *srpt) route(v *view, p *controller.VisitPlan) bool {
	bounded(v, p, c.law.Bound)
	if c.law.Form != Polled {
		return true
	}
	c.prioritize(v)
	p.Restart = true
	p.Now = c.law.Preset == "" // where workers go back, rounds may never end
	slices.Reverse(v.members)
	slices.SortStableFunc(v.members, func(a, b controller.StageID) int { return cmp.Compare(c.priorities[b], c.priorities[a]) })
	p.Order = append(p.Order, v.members...)
	return true
}

// more says the priorities, in the global form.
func (c *srpt) more(v *view, all bool, d *controller.Decisions) {
	if c.law.Form == Polled {
		return
	}
	c.prioritize(v)
	for i := range v.Stages {
		if home(v.Snapshot, i, v.shared) != "" && (all || c.priorities[i] != v.Stages[i].Priority) {
			id := controller.StageID(i)
			d.Priority(id, c.priorities[i], c.reason(v, id))
		}
	}
}

// prioritize gives each stage its priority, from 1; the same to the stages of a loop.
func (c *srpt) prioritize(v *view) {
	c.priorities, c.order = c.priorities[:0], c.order[:0]
	for i := range v.Stages {
		c.priorities, c.order = append(c.priorities, i+1), append(c.order, controller.StageID(i))
	}
	if c.law.Preset != Cruz {
		c.measure(v)
		slices.SortStableFunc(c.order, c.compare)
		c.number()
	}
	for i := range v.Stages {
		if v.starves(controller.StageID(i)) {
			c.priorities[i] = len(v.Stages) + 1
		}
	}
}

// number gives the stages their priorities by their order.
func (c *srpt) number() {
	priority := 1
	for i, id := range c.order {
		if i > 0 && c.compare(c.order[i-1], id) != 0 {
			priority++
		}
		c.priorities[id] = priority
	}
}

// compare puts those with the most left to do first, then those nearest to the
// sources, then those of loops, who are equal, and then those who are first in the
// pipeline.
func (c *srpt) compare(a, b controller.StageID) int {
	if c.law.Key == ByWork && c.remaining[a] != c.remaining[b] {
		return cmp.Compare(c.remaining[b], c.remaining[a])
	}
	return cmp.Or(cmp.Compare(c.ranks[a], c.ranks[b]), cmp.Compare(c.places[a], c.places[b]))
}

// measure finds how far each stage is from the sources, and from the end.
func (c *srpt) measure(v *view) {
	c.ranks, c.places = levels(c.ranks[:0], v.Snapshot), c.places[:0]
	for i := range v.Stages {
		place := i
		if v.Stages[i].Cyclic {
			place = -1
		}
		c.places = append(c.places, place)
	}
	if c.law.Key != ByWork {
		return
	}
	c.remaining = c.remaining[:0]
	for i := range v.Stages {
		st := &v.Stages[i]
		c.services.of(st.Name).follow(st.Service())
		c.remaining = append(c.remaining, 0)
	}
	for range v.Stages { // the longest way has no more steps than there are stages
		if !c.step(v) {
			break
		}
	}
	even(v.Snapshot, c.remaining, func(a, b time.Duration) time.Duration { return max(a, b) })
	c.services.forget(v.Snapshot)
}

// step carries what remains one stage back, and tells whether anything changed.
func (c *srpt) step(v *view) (changed bool) {
	for i := len(v.Stages) - 1; i >= 0; i-- {
		left := time.Duration(*c.services.of(v.Stages[i].Name)) + c.after(v, v.Stages[i].Next)
		changed = changed || left != c.remaining[i]
		c.remaining[i] = left
	}
	return changed
}

// after is the most that remains at a stage that comes next.
func (c *srpt) after(v *view, next []controller.StageID) (most time.Duration) {
	for _, id := range next {
		if isStage(v.Snapshot, id) {
			most = max(most, c.remaining[id])
		}
	}
	return most
}

func (c *srpt) reason(v *view, id controller.StageID) string {
	switch {
	case v.starves(id):
		return fmt.Sprintf("it starves, with %d waiting", v.stage(id).QueueLen)
	case c.law.Preset == Cruz:
		return fmt.Sprintf("place %d of %d", id+1, len(v.Stages))
	case c.law.Key == ByWork && c.remaining[id] > 0:
		return fmt.Sprintf("%v of work remain", c.remaining[id])
	default:
		return fmt.Sprintf("rank %d, place %d", c.ranks[id], id+1)
	}
}

func (c *srpt) why(v *view) string {
	if c.law.Form == Polled {
		return fmt.Sprintf("%s from the last, %s", stagesIn(v), boundText(c.law.Bound))
	}
	return fmt.Sprintf("one queue for %s by priority, %s", stagesIn(v), boundText(c.law.Bound))
}
