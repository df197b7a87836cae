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

// NoRope is the Buffer of a [DBR] without a limit on admission. It has a name
// because zero means the default.
const NoRope = -1

// DBR has the workers serve the slowest stage first: drum, buffer and rope, by
// Gordon, "Stage scheduling for CPU-intensive servers" (UCAM-CL-TR-781, 2010),
// after Goldratt, "What is This Thing Called Theory of Constraints" (1990), as
// in sections 3.4 and 4.5 of the dissertation of Cruz (2015).
//
// The slowest stage is the drum that sets the pace for all. The stages are
// ordered by how many commands a second a worker handles there, the slowest
// first, and a worker that handled something goes back to the first stage.
// Stages without work come last. The order is computed again when a worker has
// reached its end, but not before the order is Interval old, and in any case
// after ten intervals: where there is always work no worker reaches the end. A
// new order takes effect at the next visit.
//
// A visit always has a bound, and after a visit that ended at its bound with
// work left the worker goes on to the next stage and not back to the first one:
// otherwise, under overload, the drum has endless work and its output is never
// handled. And when a stage starves all the same, no worker goes back until the
// next tick.
//
// # The rope
//
// Commands that the drum cannot keep up with are not admitted: the pipeline's
// limit (KnobLimit) is Buffer commands plus the commands that the drum
// may have in hand, one for each worker that may be there. Submitters then wait
// for admission, and not in a queue. The rope replaces the limit that the
// pipeline has; it is set when the drum is known. By default Buffer is half of
// the capacity of the drum's queue. With [NoRope] there is no limit.
//
// # Presets
//
// [Cruz] is the listing. The rate is 100 · answered / arrived since the last
// order. It is near 100 for every stage that keeps up, and zero where no
// command arrived, even if a backlog was worked off, so that such stages are
// first. Visits have no bound; there is no rope. [Gordon] is DBRVisitPolicy of
// Yield: rates as here, the first stage twice after each success, no bound, no
// rope. Yield has places for 64 stages and leaves the last of those places out
// when it sorts, so a 64th stage never moves. (Both presets use the service
// times of this project, means and not percentiles.) A new order is computed
// only at the end of a round: with Cruz after a visit to the last stage, with
// Gordon after a pass in which no visit handled anything. A worker adopts it
// when it next goes back to the first stage. Both presets are for comparison:
// under overload the slowest stage is never empty and keeps all workers.
//
// [Measured] is the program behind the dissertation's tables, which is not the
// listing: it never orders the stages again and does not go back, so workers go
// round the pipeline, with at most 6 commands a visit. The listing is the worst
// policy under overload, this program among the best in the tables.
//
//	            Workers      Rate          Bound    Buffer             Interval
//	no preset   one per CPU  ByService     4        half the capacity  100 ms
//	Cruz        2            ByCompletion  NoBound  NoRope             1 ms
//	Gordon      one per CPU  ByService     NoBound  NoRope             1 ms
//	Measured    2            -             6        NoRope             1 ms
type DBR struct {
	Preset   Preset        // [Cruz], [Gordon], [Measured] or none; sets the defaults of the other fields as listed above
	Workers  int           // of the shared pool, and of each group if it is set
	Rate     Key           // [ByService] or [ByCompletion]
	Bound    int           // the maximum number of commands of a visit
	Buffer   int           // how many commands the rope lets wait, or [NoRope]
	Interval time.Duration // the minimum time between two orders
}

// Name returns "dbr", with the preset if there is one: "dbr:cruz".
func (p DBR) Name() string { return p.Preset.name("dbr") }

// Check returns all faults of the parameters.
func (p DBR) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("dbr", p.Preset != "" && p.Preset != Cruz && p.Preset != Gordon && p.Preset != Measured,
			"unknown Preset %q; known are %s, %s, %s", p.Preset, Cruz, Gordon, Measured),
		workersFault("dbr", p.Workers),
		fault("dbr", l.Rate != ByService && l.Rate != ByCompletion,
			"unknown Rate %q; known are %s, %s", p.Rate, ByService, ByCompletion),
		fault("dbr", p.Bound < 0, "Bound %d is negative; without one the slowest stage keeps all workers", p.Bound),
		fault("dbr", p.Buffer < 0 && p.Buffer != NoRope, "Buffer %d is negative; use NoRope for none", p.Buffer),
		fault("dbr", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the knobs of shared workers and their visits, and the limit if
// there is a rope.
func (p DBR) Claims() []controller.Knob {
	if p.withDefaults().Buffer == NoRope {
		return sharing()
	}
	return sharing(controller.KnobLimit)
}

// New returns a controller with an empty memory.
func (p DBR) New() controller.Controller {
	l := p.withDefaults()
	r := rhythm{interval: l.Interval, rounds: true}
	if p.Preset == "" {
		r.patience, r.relief = usualPatience, true
	}
	return newVisits(
		gathering{dispatch: controller.Polled, workers: p.Workers, usual: originalWorkers(p.Preset)},
		r,
		&dbr{law: l, stages: make(memory[pace])},
	)
}

func (p DBR) withDefaults() DBR {
	d := p.defaults()
	return DBR{
		Preset:   p.Preset,
		Workers:  p.Workers,
		Rate:     cmp.Or(p.Rate, d.Rate),
		Bound:    cmp.Or(p.Bound, d.Bound),
		Buffer:   cmp.Or(p.Buffer, d.Buffer), // zero depends on the drum's queue
		Interval: cmp.Or(p.Interval, d.Interval),
	}
}

func (p DBR) defaults() DBR {
	switch p.Preset {
	case Cruz:
		return DBR{Rate: ByCompletion, Bound: NoBound, Buffer: NoRope, Interval: time.Millisecond}
	case Gordon:
		return DBR{Rate: ByService, Bound: NoBound, Buffer: NoRope, Interval: time.Millisecond}
	case Measured:
		return DBR{Rate: ByCompletion, Bound: measuredBound, Buffer: NoRope, Interval: time.Millisecond}
	default:
		return DBR{Rate: ByService, Bound: 4, Interval: 100 * time.Millisecond}
	}
}

// dbr is DBR's memory of one run.
type dbr struct {
	law    DBR
	stages memory[pace]
	ranks  []int
}

// pace is the memory of a stage.
type pace struct {
	since
	service steady
	rate    float64 // commands a second, or percent
	idle    bool    // it had nothing to do
}

func (c *dbr) route(v *view, p *controller.VisitPlan) bool {
	if c.law.Preset == "" {
		c.ranks = byLevel(c.ranks, v)
	}
	bounded(v, p, c.law.Bound)
	if c.law.Preset == Measured {
		p.Order = append(p.Order, v.members...)
		return c.measure(v)
	}
	p.Restart, p.Advance = !slices.ContainsFunc(v.members, v.starves), true
	p.Now = c.law.Preset == ""
	p.FullRounds = c.law.Preset == Gordon
	knows := c.measure(v)
	if knows {
		c.sort(v)
	}
	if c.law.Preset == Gordon && len(v.members) > 0 {
		p.Order = append(p.Order, v.members[0])
	}
	p.Order = append(p.Order, v.members...)
	return knows
}

// measure records how fast each stage is, and reports whether any stage had
// work.
func (c *dbr) measure(v *view) bool {
	busy := false
	for _, id := range v.members {
		st := v.stage(id)
		m := c.stages.of(st.Name)
		window, _ := m.note(st, v.At)
		m.idle = window.Accepted == 0 && window.Handled() == 0 && st.QueueLen <= 0 && st.InHand <= 0
		if c.law.Rate == ByCompletion {
			m.rate = c.completion(window)
		} else {
			m.rate = perSecond(m.service.follow(mean(st, window)))
		}
		busy = busy || !m.idle
	}
	c.stages.forget(v.Snapshot)
	return busy
}

// completion returns how many commands handlers answered for each hundred that
// arrived. Where none arrived it is zero, as in the listing; without a preset,
// a stage that only works off its backlog is faster than any other.
func (c *dbr) completion(window controller.Counters) float64 {
	switch {
	case window.Accepted > 0:
		return 100 * float64(window.Handled()) / float64(window.Accepted)
	case window.Handled() > 0 && c.law.Preset != Cruz:
		return math.Inf(1)
	default:
		return 0
	}
}

// perSecond returns how many commands a worker handles in a second. It is zero
// for a stage that never handled one: such a stage comes first and is measured
// soon.
func perSecond(service time.Duration) float64 {
	if service <= 0 {
		return 0
	}
	return float64(time.Second) / float64(service)
}

// yieldSorts is how many stages Yield sorts: all but the last of the 64 that a
// group may have.
const yieldSorts = 63

// sort puts the slowest stage first.
func (c *dbr) sort(v *view) {
	stages := v.members
	if c.law.Preset == Gordon {
		stages = stages[:min(len(stages), yieldSorts)]
	}
	slices.SortStableFunc(stages, func(a, b controller.StageID) int {
		m, n := c.stages.of(v.stage(a).Name), c.stages.of(v.stage(b).Name)
		if c.law.Preset == "" && m.idle != n.idle {
			return later(m.idle)
		}
		return cmp.Compare(m.rate, n.rate)
	})
}

func later(is bool) int {
	if is {
		return 1
	}
	return -1
}

func (c *dbr) why(v *view) string {
	first := v.stage(v.members[0])
	switch m := c.stages.of(first.Name); {
	case m.idle:
		return fmt.Sprintf("%s, nothing to do at %q, the first, %s", stagesIn(v), first.Name, boundText(c.law.Bound))
	case c.law.Rate == ByCompletion:
		return fmt.Sprintf("%s, the slowest is %q: %.0f%% ended", stagesIn(v), first.Name, m.rate)
	default:
		return fmt.Sprintf("%s, the slowest is %q: %.1f commands a second", stagesIn(v), first.Name, m.rate)
	}
}

// drum returns the slowest of all stages that had work and are measured, or nil
// if there is none.
func (c *dbr) drum(v *view) (slowest *controller.StageStats) {
	least := math.Inf(1)
	for i := range v.Stages {
		m := c.stages[v.Stages[i].Name]
		if m == nil || m.idle || m.rate >= least || (m.rate <= 0 && c.law.Rate == ByService) {
			continue
		}
		slowest, least = &v.Stages[i], m.rate
	}
	return slowest
}

// more sets the rope, unless the policy governs a group, which has no entry of
// its own.
func (c *dbr) more(v *view, all bool, d *controller.Decisions) {
	drum := c.drum(v)
	if c.law.Buffer == NoRope || drum == nil || v.Group != "" {
		return
	}
	buffer, inHand := c.buffer(drum), inHand(v, drum)
	if limit := buffer + inHand; all || limit != v.Entry.Limit {
		controller.KnobLimit.Set(d, controller.Entry, limit, fmt.Sprintf("%d for the buffer of %q, the drum, and %d in hand there", buffer, drum.Name, inHand))
	}
}

// unknownBuffer is the default buffer if the capacity of the drum's queue is
// not known.
const unknownBuffer = 512

func (c *dbr) buffer(drum *controller.StageStats) int {
	switch {
	case c.law.Buffer > 0:
		return c.law.Buffer
	case drum.QueueCap <= 0:
		return unknownBuffer
	default:
		return max(1, drum.QueueCap/2)
	}
}

// inHand returns how many commands a stage may have in hand, one for each
// worker that may be there.
func inHand(v *view, st *controller.StageStats) int {
	n := st.Instances
	if p := v.Pool(st.Pool); p != nil && p.Workers > 0 && (n <= 0 || p.Workers < n) {
		n = p.Workers
	}
	return max(1, n)
}
