package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Spacing names how the visits of a table are spread.
type Spacing string

// The two ways.
const (
	// Smooth spreads the visits of each stage evenly over the table: smooth weighted
	// round robin.
	Smooth Spacing = "smooth"
	// Interleaved is the way of the dissertation: the stage with the most visits, then
	// one of the next, and again, until that has no more.
	Interleaved Spacing = "interleaved"
)

// LRB visits the stages as often as each is in demand: load rate based visits, sections
// 3.3 and 4.4 of the dissertation of Cruz (2015), after a policy of Gordon's that
// is here as [MG1].
//
// The demand of a stage is the work that came to it since the table was made: how many
// commands arrived, times the mean service time. (Of a stage that never handled
// one, the mean of all.) With [ByArrivals] it is the number of arrivals alone, as
// in the original, which visits a stage ten times slower no more often for that. The
// table has Size places, and each stage gets its share of them:
//
//	visits = max(1, ceil(demand · Size / demand of all))
//
// so the table is a little longer than Size. A new one is made when a worker has come to
// the end of the present one, but not before it is Interval old (and in any case after
// ten intervals). Where nothing arrived the present one stays. At first each stage
// is visited once, in their order by rank.
//
// # Presets
//
// [Cruz] is the listing: demand by arrivals, interleaved, exhaustive visits, two
// workers, the order of the pipeline. For demands of 50, 30 and 20 and nine
// places it gives 1 2 1 2 1 2 1 3 1 3. Three things are mended. A stage without
// demand has one visit: the original forgot it, and when all other work was done and
// all demand was its own, took equal demands for a reason to change nothing, and
// stood still for ever. The walk ends when all visits are given out: the original
// ended it with the first and the last, and lost others. And the ceiling is taken
// in whole numbers, where the original's fractions gave a visit too many.
//
//	            Workers      Demand       Spacing      Size         Bound    Interval
//	no preset   one per CPU  ByWork       Smooth       3 per stage  8        10 ms
//	Cruz        2            ByArrivals   Interleaved  3 per stage  NoBound  10 ms
type LRB struct {
	Preset   Preset        // [Cruz] or none; the rest defaults to the line above
	Workers  int           // of the shared pool, and of each group if it is set
	Demand   Key           // [ByWork] or [ByArrivals]
	Spacing  Spacing       // how the visits are spread
	Size     int           // how many places the table has
	Bound    int           // the most commands of a visit, or [NoBound]
	Interval time.Duration // the least time between two tables
}

// sizePerStage is the default of [LRB.Size], for each stage.
const sizePerStage = 3

// Name is "lrb", with the preset if there is one: "lrb:cruz".
func (p LRB) Name() string { return p.Preset.name("lrb") }

// Check returns all faults of the parameters.
func (p LRB) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("lrb", p.Preset != "" && p.Preset != Cruz, "unknown Preset %q; known is %s", p.Preset, Cruz),
		workersFault("lrb", p.Workers),
		fault("lrb", l.Demand != ByWork && l.Demand != ByArrivals,
			"unknown Demand %q; known are %s, %s", p.Demand, ByWork, ByArrivals),
		fault("lrb", l.Spacing != Smooth && l.Spacing != Interleaved,
			"unknown Spacing %q; known are %s, %s", p.Spacing, Smooth, Interleaved),
		sizeFault("lrb", p.Size),
		boundFault("lrb", p.Bound),
		fault("lrb", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims are the knobs of shared workers and their visits.
func (LRB) Claims() []controller.Knob { return sharing() }

// New returns a controller that has seen nothing yet.
func (p LRB) New() controller.Controller {
	l := p.withDefaults()
	return newVisits(
		gathering{dispatch: controller.Polled, workers: p.Workers, usual: originalWorkers(p.Preset)},
		rhythm{interval: l.Interval, rounds: true, patience: usualPatience},
		&lrb{law: l, counted: make(memory[since])},
	)
}

func (p LRB) withDefaults() LRB {
	d := LRB{Demand: ByWork, Spacing: Smooth, Bound: usualBound}
	if p.Preset == Cruz {
		d = LRB{Demand: ByArrivals, Spacing: Interleaved, Bound: NoBound}
	}
	return LRB{
		Preset:   p.Preset,
		Workers:  p.Workers,
		Demand:   cmp.Or(p.Demand, d.Demand),
		Spacing:  cmp.Or(p.Spacing, d.Spacing),
		Size:     p.Size, // zero depends on the number of stages
		Bound:    cmp.Or(p.Bound, d.Bound),
		Interval: cmp.Or(p.Interval, 10*time.Millisecond),
	}
}

// lrb is LRB's memory of one run.
type lrb struct {
	law     LRB
	counted memory[since]
	total   uint64 // the demand of all at the last look

	// Of one look.
	ranks []int
	cells []cell
}

// cell is a stage's part of a table.
type cell struct {
	stage  controller.StageID
	demand uint64
	visits int
	credit int // of smooth weighted round robin
}

func (c *lrb) route(v *view, p *controller.VisitPlan) bool {
	if c.law.Preset == "" {
		c.ranks = byLevel(c.ranks, v)
	}
	bounded(v, p, c.law.Bound)
	c.measure(v)
	if c.total == 0 || len(v.members) == 1 {
		p.Order = append(p.Order, v.members...)
		return c.total > 0
	}
	size := cmp.Or(c.law.Size, min(sizePerStage*len(v.members), mostSize))
	for i := range c.cells {
		c.cells[i].visits = max(1, share(c.cells[i].demand, c.total, size))
	}
	if c.law.Spacing == Smooth {
		p.Order = smooth(p.Order, c.cells)
	} else {
		p.Order = interleave(p.Order, c.cells)
	}
	return true
}

// measure takes down what each stage was in demand of.
func (c *lrb) measure(v *view) {
	c.cells, c.total = c.cells[:0], 0
	usual := usualService(v)
	for _, id := range v.members {
		st := v.stage(id)
		window, _ := c.counted.of(st.Name).note(st, v.At)
		demand := min(window.Accepted, mostDemand)
		if c.law.Demand == ByWork {
			demand = work(window.Accepted, cmp.Or(mean(st, window), usual))
		}
		c.total += demand
		c.cells = append(c.cells, cell{stage: id, demand: demand})
	}
	c.counted.forget(v.Snapshot)
}

// mostDemand is what a demand is held to, so that no sum and no product of it
// overflows: in nanoseconds, thirteen days of work.
const mostDemand = 1 << 50

func work(arrivals uint64, service time.Duration) uint64 {
	high, low := bits.Mul64(arrivals, uint64(service))
	if high > 0 {
		return mostDemand
	}
	return min(low, mostDemand)
}

// usualService is the mean service time of all stages, and not zero.
func usualService(v *view) time.Duration {
	var all controller.Counters
	for _, id := range v.members {
		n := v.stage(id).Total
		all.OK += n.Handled()
		all.Busy += n.Busy
	}
	return max(1, mean(&controller.StageStats{Total: all}, all))
}

// share is a demand's part of a table's places, rounded up.
func share(demand, total uint64, size int) int {
	return int((demand*uint64(size) + total - 1) / total)
}

// smooth spreads visits evenly: at each place every stage gets as much credit as it has
// visits, and the one with the most credit is visited and pays for all.
func smooth(to []controller.StageID, cells []cell) []controller.StageID {
	all := 0
	for i := range cells {
		all += cells[i].visits
	}
	for range all {
		richest := 0
		for i := range cells {
			cells[i].credit += cells[i].visits
			if cells[i].credit > cells[richest].credit {
				richest = i
			}
		}
		cells[richest].credit -= all
		to = append(to, cells[richest].stage)
	}
	return to
}

// interleave is the walk of the dissertation: the stages stand by their visits, and
// after each visit the walk goes back to the first of them, or on to the second if it
// is there; where one has none left it goes on to the next.
func interleave(to []controller.StageID, cells []cell) []controller.StageID {
	slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(b.visits, a.visits) })
	left := 0
	for i := range cells {
		left += cells[i].visits
	}
	for at := 0; left > 0; {
		if cells[at].visits == 0 {
			at = (at + 1) % len(cells)
			continue
		}
		to = append(to, cells[at].stage)
		cells[at].visits--
		left--
		if at == 0 {
			at = 1 % len(cells)
		} else {
			at = 0
		}
	}
	return to
}

func (c *lrb) why(v *view) string {
	if c.total == 0 {
		return fmt.Sprintf("%s in order, no demand yet, %s", stagesIn(v), boundText(c.law.Bound))
	}
	most := slices.MaxFunc(c.cells, func(a, b cell) int { return cmp.Compare(a.demand, b.demand) })
	return fmt.Sprintf("%s by %s, the most at %q: %d%%", stagesIn(v), c.law.Demand,
		v.stage(most.stage).Name, most.demand*100/c.total)
}
