package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// MG1 visits the stages as often as an optimal server of several queues would:
// the policy of that name in Yield, the library behind Gordon, "Stage
// scheduling for CPU-intensive servers" (UCAM-CL-TR-781, 2010), after Boxma,
// Levy and Weststrate, "Efficient visit orders for polling systems"
// (Performance Evaluation 18, 1993).
//
// For each stage rho is the part of the time that one worker would be busy with
// the commands that arrive there: arrivals a second, times the mean service
// time. It is limited to 0.005 to 0.99 and mixed with its earlier value, 7
// parts new to 3 parts old. Then
//
//	frequency   = sqrt(rho · (1 - rho)) / the sum of that over all stages
//	occurrences = max(1, floor(frequency · Size))
//
// The occurrences of the first stage of the pipeline go to the first places of
// the table in the order of the golden ratio, the occurrences of the next stage
// to the next places, and so on; the remaining places go to the most frequent
// stage. So the visits of each stage are spread as evenly as possible, for any
// numbers, and best if Size is a Fibonacci number. There are at least as many
// places as stages. If the occurrences are more than the places, a stage takes
// places from one that occurs as often or more often, never from a rarer one. A
// stage occurs most often with a rho of a half: a stage that is nearly always
// busy need not be visited often to find work.
//
// A new table is made when a worker has reached the end of the current one, but
// not before the current one is Interval old (and in any case after ten
// intervals). Where no command arrived the current table stays. At first each
// stage is visited once, in the order of the ranks.
//
// The law is for visits that last until the queue is empty. Here visits have a
// bound by default, which they do not reach as long as the stages keep up; use
// [NoBound] for the original's visits. The original's service times were 95th
// percentiles, and these are means.
//
//	Workers      Size  Bound  Interval
//	one per CPU  144   64     5 s
type MG1 struct {
	Workers  int           // of the shared pool, and of each group if it is set
	Size     int           // how many places the table has
	Bound    int           // the maximum number of commands of a visit, or [NoBound]
	Interval time.Duration // the minimum time between two tables
}

// The limits of rho, and the weight of a new one.
const (
	leastRho, mostRho = 0.005, 0.99
	freshRho          = 0.7
)

// Name returns "mg1".
func (MG1) Name() string { return "mg1" }

// Check returns all faults of the parameters.
func (p MG1) Check() error {
	return errors.Join(
		workersFault("mg1", p.Workers),
		sizeFault("mg1", p.Size),
		boundFault("mg1", p.Bound),
		fault("mg1", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the knobs of shared workers and their visits.
func (MG1) Claims() []controller.Knob { return sharing() }

// New returns a controller with an empty memory.
func (p MG1) New() controller.Controller {
	l := p.withDefaults()
	return newVisits(
		gathering{dispatch: controller.Polled, workers: p.Workers},
		rhythm{interval: l.Interval, rounds: true, patience: usualPatience},
		&mg1{law: l, stages: make(memory[busyness])},
	)
}

func (p MG1) withDefaults() MG1 {
	p.Size = cmp.Or(p.Size, 144)
	p.Bound = cmp.Or(p.Bound, mostBound)
	p.Interval = cmp.Or(p.Interval, 5*time.Second)
	return p
}

// mg1 is MG1's memory of one run.
type mg1 struct {
	law    MG1
	stages memory[busyness]

	// Scratch memory of one tick.
	ranks  []int
	cells  []cell // one for each stage, in the order of the pipeline
	most   int    // index of the most frequent cell
	places []int  // in the order of the golden ratio
	table  []int  // the cell of each place
	knows  bool
}

// busyness is the memory of a stage.
type busyness struct {
	since
	rho float64 // the mixed value
}

func (c *mg1) route(v *view, p *controller.VisitPlan) bool {
	c.ranks = byLevel(c.ranks, v)
	bounded(v, p, c.law.Bound)
	c.knows = c.measure(v)
	if !c.knows || len(v.members) == 1 {
		p.Order = append(p.Order, v.members...)
		return c.knows
	}
	size := max(c.law.Size, len(v.members))
	c.divide(v, size)
	if len(c.places) != size {
		c.places = golden(size)
	}
	c.spread()
	for _, i := range c.table {
		p.Order = append(p.Order, c.cells[i].stage)
	}
	return true
}

// measure updates rho of each stage, and reports whether anything arrived.
func (c *mg1) measure(v *view) bool {
	arrived := false
	for _, id := range v.members {
		arrived = arrived || v.stage(id).Total.Accepted != c.stages.of(v.stage(id).Name).total.Accepted
	}
	if !arrived {
		return false
	}
	usual := usualService(v)
	for _, id := range v.members {
		st := v.stage(id)
		b := c.stages.of(st.Name)
		window, took := b.note(st, v.At)
		service := cmp.Or(mean(st, window), usual)
		b.mix(float64(window.Accepted) * float64(service) / float64(max(took, 1)))
	}
	c.stages.forget(v.Snapshot)
	return true
}

func (b *busyness) mix(rho float64) {
	b.rho = freshRho*min(max(rho, leastRho), mostRho) + (1-freshRho)*b.rho
}

// divide computes the occurrences of each stage in a table, and finds the most
// frequent stage (the first of several).
func (c *mg1) divide(v *view, size int) {
	c.cells = c.cells[:0]
	sum := 0.0
	for _, id := range v.members {
		sum += c.root(v, id)
	}
	for _, id := range v.members {
		c.cells = append(c.cells, cell{stage: id, visits: max(1, int(c.root(v, id)/sum*float64(size)))})
	}
	slices.SortFunc(c.cells, func(a, b cell) int { return cmp.Compare(a.stage, b.stage) })
	c.most = 0
	for i := range c.cells {
		if c.cells[i].visits > c.cells[c.most].visits {
			c.most = i
		}
	}
}

func (c *mg1) root(v *view, id controller.StageID) float64 {
	rho := c.stages.of(v.stage(id).Name).rho
	return math.Sqrt(rho * (1 - rho))
}

// golden lists the places of a table in the order of the golden ratio: the
// position of the k-th is the position of the fraction of k times the ratio
// among all such fractions.
func golden(size int) []int {
	fraction := func(k int) float64 {
		_, f := math.Modf(float64(k) * (math.Phi - 1))
		return f
	}
	byFraction := make([]int, size)
	for k := range byFraction {
		byFraction[k] = k
	}
	slices.SortFunc(byFraction, func(a, b int) int { return cmp.Compare(fraction(a), fraction(b)) })
	places := make([]int, size)
	for place, k := range byFraction {
		places[k] = place
	}
	return places
}

// spread fills the table with the most frequent stage and writes the others
// over it, one after the other. A stage takes no place from a less frequent
// one.
func (c *mg1) spread() {
	c.table = c.table[:0]
	for range c.places {
		c.table = append(c.table, c.most)
	}
	k := 0
	for i := range c.cells {
		for range c.cells[i].visits {
			at := &c.table[c.places[k%len(c.places)]]
			if c.cells[*at].visits >= c.cells[i].visits {
				*at = i
			}
			k++
		}
	}
}

func (c *mg1) why(v *view) string {
	if !c.knows {
		return fmt.Sprintf("%s in order, nothing arrived yet, %s", stagesIn(v), boundText(c.law.Bound))
	}
	if len(v.members) == 1 {
		return fmt.Sprintf("%s, %s", stagesIn(v), boundText(c.law.Bound))
	}
	most := c.cells[c.most]
	return fmt.Sprintf("%s by the square root of rho, the most at %q: %d visits, rho %.2f", stagesIn(v),
		v.stage(most.stage).Name, most.visits, c.stages.of(v.stage(most.stage).Name).rho)
}
