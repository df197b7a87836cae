package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Cohort sends all workers up the stages and down again, and makes them do at
// each stage the work that is there: wavefront order, after Larus and Parkes,
// "Using Cohort Scheduling to Enhance Server Performance" (USENIX 2002), as in
// sections 3.2 and 4.3 of the dissertation of Cruz (2015).
//
// The order is 1 2 … N … 2, by rank and then by the order of the pipeline.
// Commands move ahead with the wave, and the data that a handler needs in the
// processor's cache stays there for a cohort of commands. The best published
// gain of this order is a fifth more throughput; visits that batch work
// (behaviour.Batcher) gain more.
//
// # When a visit ends
//
// By default a visit is bounded by the number of commands that take Quantum:
//
//	bound = ceil(Quantum / mean service time), from 1 to 64
//
// and by 8 as long as nothing was measured. The bound is computed at each
// Interval and changed when it differs by more than a quarter. Bound sets one
// number for all stages. Gating selects another way, with the names of
// Harizopoulos and Ailamaki (CMU-CS-02-113, 2002). Use [Exhaustive] visits only
// if no queue is always full: if one is, no worker ever leaves that stage for
// the others. A stage to which commands may come back is bounded even then.
//
// # Presets
//
// [Cruz] is the listing of the dissertation: exhaustive visits, in the order of
// the pipeline, by two workers. [Gordon] is WavefrontVisitPolicy of the library
// Yield (2010): it turns at both ends by visiting them twice, 2 3 4 4 3 2 1 1.
//
//	            Workers      Gating      Bound       Quantum  Interval
//	no preset   one per CPU  bounded     by Quantum  100 µs   1 s
//	Cruz        2            exhaustive  by Quantum  100 µs   1 s
//	Gordon      one per CPU  exhaustive  by Quantum  100 µs   1 s
type Cohort struct {
	Preset   Preset        // [Cruz], [Gordon] or none; sets the defaults of the other fields as listed above
	Workers  int           // of the shared pool, and of each group if it is set
	Gating   Gating        // when a visit ends
	Bound    int           // the maximum number of commands of a visit, if it is bounded
	Quantum  time.Duration // how long a visit should take, if it is bounded by number or by time
	Interval time.Duration // between two ticks that read service times and ranks
}

// Name returns "cohort", with the preset if there is one: "cohort:cruz".
func (p Cohort) Name() string { return p.Preset.name("cohort") }

// Check returns all faults of the parameters.
func (p Cohort) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("cohort", p.Preset != "" && p.Preset != Cruz && p.Preset != Gordon,
			"unknown Preset %q; known are %s, %s", p.Preset, Cruz, Gordon),
		workersFault("cohort", p.Workers),
		fault("cohort", !slices.Contains([]Gating{Exhaustive, Gated, Bounded, TimeBounded}, l.Gating),
			"unknown Gating %q; known are %s, %s, %s, %s", p.Gating, Exhaustive, Gated, Bounded, TimeBounded),
		fault("cohort", p.Bound < 0, "Bound %d is negative; use Gating: Exhaustive for none", p.Bound),
		fault("cohort", p.Bound > 0 && l.Gating != Bounded, "Bound %d has no effect on %s visits", p.Bound, l.Gating),
		fault("cohort", p.Quantum < 0, "Quantum %v is negative", p.Quantum),
		fault("cohort", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the knobs of shared workers and their visits.
func (Cohort) Claims() []controller.Knob { return sharing() }

// New returns a controller with an empty memory.
func (p Cohort) New() controller.Controller {
	l := p.withDefaults()
	var r rhythm
	if p.Preset == "" || l.measures() {
		r.interval = l.Interval
	}
	return newVisits(
		gathering{dispatch: controller.Polled, workers: p.Workers, usual: originalWorkers(p.Preset)},
		r,
		&cohort{law: l, services: make(memory[steady])},
	)
}

func (p Cohort) withDefaults() Cohort {
	gating := Bounded
	if p.Preset != "" {
		gating = Exhaustive
	}
	p.Gating = cmp.Or(p.Gating, gating)
	p.Quantum = cmp.Or(p.Quantum, 100*time.Microsecond)
	p.Interval = cmp.Or(p.Interval, time.Second)
	return p
}

// measures reports whether bounds depend on the service time.
func (p Cohort) measures() bool { return p.Gating == Bounded && p.Bound == 0 }

// cohort is Cohort's memory of one run.
type cohort struct {
	law      Cohort
	services memory[steady]
	ranks    []int
}

func (c *cohort) route(v *view, p *controller.VisitPlan) bool {
	if c.law.Preset == "" {
		c.ranks = byLevel(c.ranks, v)
	}
	if c.law.Preset == Gordon {
		p.Order = turning(p.Order, v.members)
	} else {
		p.Order = wave(p.Order, v.members)
	}
	c.gate(v, p)
	return true
}

// wave appends the order up and down: 1 2 3 4 3 2.
func wave(to, stages []controller.StageID) []controller.StageID {
	to = append(to, stages...)
	for i := len(stages) - 2; i > 0; i-- {
		to = append(to, stages[i])
	}
	return to
}

// turning appends the order up and down with both ends twice, from the second:
// 2 3 4 4 3 2 1 1.
func turning(to, stages []controller.StageID) []controller.StageID {
	to = append(to, stages[1:]...)
	for _, id := range slices.Backward(stages) {
		to = append(to, id)
	}
	return append(to, stages[0])
}

// gate sets when visits end.
func (c *cohort) gate(v *view, p *controller.VisitPlan) {
	switch {
	case c.law.Gating == Exhaustive:
		exhaust(v, p)
	case c.law.Gating == Gated:
		p.Gating = controller.Gated
	case c.law.Gating == TimeBounded:
		p.Gating, p.Quantum = controller.TimeBounded, c.law.Quantum
	case c.law.measures():
		c.measure(v, p)
	default:
		bounded(v, p, c.law.Bound)
	}
}

// measure bounds each stage's visits by the service time there.
func (c *cohort) measure(v *view, p *controller.VisitPlan) {
	bounded(v, p, usualBound)
	for _, id := range v.members {
		st := v.stage(id)
		if service := c.services.of(st.Name).follow(st.Service()); service > 0 {
			boundOf(p, id, fitting(c.law.Quantum, service))
		}
	}
	c.services.forget(v.Snapshot)
}

// fitting returns how many commands fit into a quantum, rounded up.
func fitting(quantum, service time.Duration) int {
	n := quantum / service
	if quantum%service > 0 {
		n++
	}
	return int(min(max(n, 1), mostBound))
}

func (c *cohort) why(v *view) string {
	switch {
	case c.law.measures():
		return fmt.Sprintf("a wave over %s, as many commands as take %v", stagesIn(v), c.law.Quantum)
	case c.law.Gating == Bounded:
		return fmt.Sprintf("a wave over %s, %s", stagesIn(v), boundText(c.law.Bound))
	default:
		return fmt.Sprintf("a wave over %s, %s", stagesIn(v), c.law.Gating)
	}
}
