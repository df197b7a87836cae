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

// The two spacings.
const (
	// Smooth spreads the visits of each stage evenly over the table: smooth
	// weighted round robin.
	Smooth Spacing = "smooth"
	// Interleaved is the order of the dissertation: the stage with the most
	// visits, then one of the next, and again, until the first has no more.
	Interleaved Spacing = "interleaved"
)

// LRB visits each stage in proportion to the demand for it: load rate based
// visits, sections 3.3 and 4.4 of the dissertation of Cruz (2015), after a
// policy of Gordon's that is available here as [MG1].
//
// The demand of a stage is the work that arrived since the table was made: the
// number of commands that arrived, times the mean service time. (For a stage
// that never handled a command, the mean of all stages.) With [ByArrivals] it
// is only the number of arrivals, as in the original, which does not visit a
// stage more often for being ten times slower. The table has Size places, and
// each stage gets its share of them:
//
//	visits = max(1, ceil(demand · Size / demand of all))
//
// so the table is a little longer than Size. A new table is made when a worker
// has reached the end of the current one, but not before the current one is
// Interval old (and in any case after ten intervals). Where no command arrived
// the current table stays. At first each stage is visited once, in the order of
// the ranks.
//
// # Presets
//
// [Cruz] is the listing: demand by arrivals, interleaved, exhaustive visits,
// two workers, the order of the pipeline. For demands of 50, 30 and 20 and nine
// places it gives 1 2 1 2 1 2 1 3 1 3. Three defects are fixed. A stage without
// demand has one visit: the original forgot such a stage, and when all other
// work was done and all demand was at that stage, it took equal demands for a
// reason to change nothing, and stopped for ever. The walk ends when all visits
// are given out: the original ended it with the first and the last stage, and
// lost others. And the ceiling is computed in whole numbers, where the
// original's fractions gave a visit too many.
//
// [Measured] is the listing with the bound of the program that was measured: 6
// commands. The listing itself is among the worst under overload, the program
// among the best in the dissertation's tables.
//
//	            Workers      Demand       Spacing      Size         Bound    Interval
//	no preset   one per CPU  ByWork       Smooth       3 per stage  8        10 ms
//	Cruz        2            ByArrivals   Interleaved  3 per stage  NoBound  10 ms
//	Measured    2            ByArrivals   Interleaved  3 per stage  6        10 ms
type LRB struct {
	Preset   Preset        // [Cruz], [Measured] or none; sets the defaults of the other fields as listed above
	Workers  int           // of the shared pool, and of each group if it is set
	Demand   Key           // [ByWork] or [ByArrivals]
	Spacing  Spacing       // how the visits are spread
	Size     int           // how many places the table has
	Bound    int           // the maximum number of commands of a visit, or [NoBound]
	Interval time.Duration // the minimum time between two tables
}

// sizePerStage is the default of [LRB.Size], for each stage.
const sizePerStage = 3

// Name returns "lrb", with the preset if there is one: "lrb:cruz".
func (p LRB) Name() string { return p.Preset.name("lrb") }

// Check returns all faults of the parameters.
func (p LRB) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("lrb", p.Preset != "" && p.Preset != Cruz && p.Preset != Measured,
			"unknown Preset %q; known are %s, %s", p.Preset, Cruz, Measured),
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

// Claims returns the knobs of shared workers and their visits.
func (LRB) Claims() []controller.Knob { return sharing() }

// New returns a controller with an empty memory.
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
	switch p.Preset {
	case Cruz:
		d = LRB{Demand: ByArrivals, Spacing: Interleaved, Bound: NoBound}
	case Measured:
		d = LRB{Demand: ByArrivals, Spacing: Interleaved, Bound: measuredBound}
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
	total   uint64 // the demand of all stages at the last tick

	// Scratch memory of one tick.
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

// measure records the demand of each stage.
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

// mostDemand limits a demand, so that no sum and no product of it overflows: in
// nanoseconds, it is thirteen days of work.
const mostDemand = 1 << 50

func work(arrivals uint64, service time.Duration) uint64 {
	high, low := bits.Mul64(arrivals, uint64(service))
	if high > 0 {
		return mostDemand
	}
	return min(low, mostDemand)
}

// usualService returns the mean service time of all stages; it is never zero.
func usualService(v *view) time.Duration {
	var all controller.Counters
	for _, id := range v.members {
		n := v.stage(id).Total
		all.OK += n.Handled()
		all.Busy += n.Busy
	}
	return max(1, mean(&controller.StageStats{Total: all}, all))
}

// share returns a demand's share of the places of a table, rounded up.
func share(demand, total uint64, size int) int {
	return int((demand*uint64(size) + total - 1) / total)
}

// smooth spreads visits evenly: at each place every stage gets as much credit
// as it has visits, and the stage with the most credit is visited and pays for
// all.
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

// interleave is the walk of the dissertation: the stages are sorted by their
// visits. After each visit the walk goes back to the first stage, or on to the
// second if it was at the first. If a stage has no visits left, the walk goes
// on to the next.
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
