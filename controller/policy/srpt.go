package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Form names one of the two forms of [SRPT].
type Form string

// The two forms.
const (
	// Global is one queue for all stages, ordered by their priorities.
	Global Form = "global"
	// Polled uses one queue for each stage; workers start with the last stage
	// and go back to it after each success.
	Polled Form = "polled"
)

// SRPT has the workers finish first the commands with the least work left:
// shortest remaining processing time, after Schrage and Miller, "The Queue
// M/G/1 with the Shortest Remaining Processing Time Discipline" (Operations
// Research 14, 1966), by Gordon, "Stage scheduling for CPU-intensive servers"
// (UCAM-CL-TR-781, 2010), as in sections 3.5 and 4.6 of the dissertation of
// Cruz (2015).
//
// It is depth first: no more commands are past the first stage than there are
// workers, so it suits large commands, such as images. The less work is left
// for a command at a stage, the earlier the stage is served:
//
//	remaining = mean service time + the most that remains at a stage that comes next
//
// It is the maximum because the path of a command is not known in advance, and
// so that a stage is never served before the stages that it feeds. All stages
// of a loop are as far from the end as the farthest of them. Where nothing is
// measured, or two stages have the same work left, the rank decides, and with
// [ByRank] only the rank: the farther from the sources, the earlier. As long as
// no edge is known the position in the pipeline decides. A new service time is
// used when it differs by more than a quarter.
//
// In the [Global] form the order is set by the stages' priorities, from 1. In
// the [Polled] form, whose name is "srpt-polled", it is the order of visits.
// For more than eight stages the global form is better: it does not visit empty
// queues.
//
// # Ageing
//
// A stage with much work may keep the workers from the stages before it for any
// time. When a stage starves (EventStarved) it is served before all others
// until the next tick. Ageing applies to a stage and not to a command: a policy
// cannot see how often a command went round a loop.
//
// # Presets
//
// [Cruz] uses the position in the pipeline as the rank, and neither measures
// nor ages. Its polled form stays at a stage until the queue is empty, as the
// dissertation's program did, and so resembles [Cohort].
//
//	                 Workers      Key     Bound    Interval
//	no preset        one per CPU  ByWork  NoBound  100 ms
//	no preset, polled                     1
//	Cruz, global     2            -       1        -
//	Cruz, polled     2            -       NoBound  -
type SRPT struct {
	Preset   Preset        // [Cruz] or none; sets the defaults of the other fields as listed above
	Form     Form          // [Global], the default, or [Polled]
	Workers  int           // of the shared pool, and of each group if it is set
	Key      Key           // [ByWork] or [ByRank]
	Bound    int           // the maximum number of commands of a visit, or [NoBound]
	NoAgeing bool          // disables ageing
	Interval time.Duration // between two ticks
}

// Name returns "srpt" or "srpt-polled", with the preset if there is one:
// "srpt:cruz".
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
			"Key %q has no effect with the preset cruz, which uses the position in the pipeline", p.Key),
		boundFault("srpt", p.Bound),
		fault("srpt", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("srpt", p.Interval > 0 && p.Preset == Cruz,
			"Interval %v has no effect with the preset cruz, which orders the stages once", p.Interval),
	)
}

// Claims returns the knobs of shared workers and their visits, and priorities
// in the global form.
func (p SRPT) Claims() []controller.Knob {
	if p.Form == Polled {
		return sharing()
	}
	return sharing(controller.KnobPriority)
}

// New returns a controller with an empty memory.
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

	// Scratch memory of one tick, for each stage of the snapshot.
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
	p.Now = c.law.Preset == "" // where workers go back to the first place, rounds may never end
	slices.Reverse(v.members)
	slices.SortStableFunc(v.members, func(a, b controller.StageID) int { return cmp.Compare(c.priorities[b], c.priorities[a]) })
	p.Order = append(p.Order, v.members...)
	return true
}

// more sets the priorities, in the global form.
func (c *srpt) more(v *view, all bool, d *controller.Decisions) {
	if c.law.Form == Polled {
		return
	}
	c.prioritize(v)
	for i := range v.Stages {
		if home(v.Snapshot, i, v.shared) != "" && (all || c.priorities[i] != v.Stages[i].Priority) {
			id := controller.StageID(i)
			controller.KnobPriority.Set(d, id, c.priorities[i], c.reason(v, id))
		}
	}
}

// prioritize gives each stage its priority, from 1. The stages of a loop get
// the same.
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

// number sets the priorities by the order of the stages.
func (c *srpt) number() {
	priority := 1
	for i, id := range c.order {
		if i > 0 && c.compare(c.order[i-1], id) != 0 {
			priority++
		}
		c.priorities[id] = priority
	}
}

// compare orders stages by descending work left, then by rank, then stages of
// loops (which are equal) before others, and then by position in the pipeline.
func (c *srpt) compare(a, b controller.StageID) int {
	if c.law.Key == ByWork && c.remaining[a] != c.remaining[b] {
		return cmp.Compare(c.remaining[b], c.remaining[a])
	}
	return cmp.Or(cmp.Compare(c.ranks[a], c.ranks[b]), cmp.Compare(c.places[a], c.places[b]))
}

// measure computes the distance of each stage from the sources, and from the
// end.
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
	for range v.Stages { // the longest path has no more steps than there are stages
		if !c.step(v) {
			break
		}
	}
	even(v.Snapshot, c.remaining, func(a, b time.Duration) time.Duration { return max(a, b) })
	c.services.forget(v.Snapshot)
}

// step propagates the remaining work one stage back, and reports whether
// anything changed.
func (c *srpt) step(v *view) (changed bool) {
	for i := len(v.Stages) - 1; i >= 0; i-- {
		left := time.Duration(*c.services.of(v.Stages[i].Name)) + c.after(v, v.Stages[i].Next)
		changed = changed || left != c.remaining[i]
		c.remaining[i] = left
	}
	return changed
}

// after returns the maximum of the remaining work at the next stages.
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
