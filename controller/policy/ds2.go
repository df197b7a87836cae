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

// DS2 gives all stages at once the workers that the load needs: the scaling
// model of Kalavri, Liagouris, Hoffmann, Dimitrova, Forshaw and Roscoe, "Three
// steps is all you need: fast, accurate, automatic scaling decisions for
// distributed streaming dataflows" (OSDI 2018). Other policies look at one
// queue after the other, so that a slow line of stages grows from its first
// stage to its last. DS2 computes from the rates at the entry how much will
// arrive at each stage once the stages before it keep up, and sets all numbers
// in one step.
//
// # The law
//
// At each tick the law measures, since the last one, the busy time that a
// command takes at each stage (service), the commands that came from outside
// (arrivals), and how many commands each stage hands over to another one for
// each command that it handles (ratio). The load of the stages is the solution
// of
//
//	load[i] = arrivals[i] + sum over k of ratio[k][i] · load[k]
//
// and a pool gets the sum of load · service / Utilization over its stages,
// rounded up. Both measures are of the last commands, at least 32 of them if
// there were as many.
//
// Busy time is the time in handlers only. The time for which a worker waits for
// a slot in a stage ahead is not in it: such a worker is not short of time, and
// a law that counts it gives more workers to a stage that is held up.
//
// The original refuses a graph with loops. Here the equations are solved by
// iteration, which converges if fewer than one command comes back for each one
// that enters a loop.
//
// A pool gets at most Growth times its workers in one step, so that a wrong
// measure does little harm. It keeps its workers while they are enough for the
// load, and are not more than enough for a load that is a tenth higher. It
// keeps them, too, while the service time is not known, and loses none while
// its workers are busy for more than Utilization of their time or a queue is
// half full: then a low load is a measure that came too early.
//
// A pool that is bound by stages ahead gets more workers only if one of these
// stages does in the same step. The journal says so otherwise; see
// [controller.StageStats].
//
// # A budget
//
// Workers bounds the sum over all pools. If the load needs more, each worker
// goes where it gains most: to the pool with the fewest workers for its load.
// That pool limits the throughput of the whole, and a worker anywhere else
// gains nothing. The bounds of the pools come first.
//
// # What it protects, and its weak spots
//
// DS2 finds the workers for a new load in one to three steps, and is stable
// under a steady load. It acts seldom: within Interval a burst is up to the
// queues. It assumes that twice the workers get twice as much done. This is not
// so for handlers that compete for a lock or for a connection, nor for a keyed
// stage whose commands are mostly of one key; [Backlog] measures whether growth
// pays, and [Hill] looks for the best number. A source that waits while the
// first queue is full hides its load: then the first stage grows by 1 /
// Utilization in each step, until it keeps up. Handlers that submit commands to
// other stages, rather than forward or emit them, count as sources.
type DS2 struct {
	Interval    time.Duration // between two steps; default 10 s
	Warmup      int           // ticks after the start that only measure; default 2, below zero none
	Utilization float64       // how busy the workers are to be, above 0 and at most 1; default 0.7
	Growth      float64       // how many times the workers a pool may get in one step, above 1; default 2
	Workers     int           // of all pools together; 0: no limit but their own
}

// The constants of the law.
const (
	slack       = 1.1  // workers that are enough for this many times the load are left alone
	mostPasses  = 100  // of the iteration
	closeEnough = 1e-6 // the relative change of a load at which the iteration ends
)

// Name returns "ds2".
func (DS2) Name() string { return "ds2" }

// Check returns all faults of the parameters.
func (p DS2) Check() error {
	return errors.Join(
		fault("ds2", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("ds2", !(p.Utilization >= 0 && p.Utilization <= 1), "Utilization %v is not from 0 to 1", p.Utilization),
		fault("ds2", p.Growth != 0 && !(p.Growth > 1), "Growth %v is not above 1", p.Growth),
		fault("ds2", p.Workers < 0, "Workers %d is negative", p.Workers),
	)
}

// Claims returns the number of workers: DS2 decides nothing else.
func (DS2) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller with an empty memory.
func (p DS2) New() controller.Controller {
	return &ds2{law: p.withDefaults(), rates: make(memory[rates]), held: make(memory[held]), grows: map[string]bool{}}
}

func (p DS2) withDefaults() DS2 {
	return DS2{
		Interval:    cmp.Or(p.Interval, 10*time.Second),
		Warmup:      cmp.Or(p.Warmup, 2),
		Utilization: cmp.Or(p.Utilization, 0.7),
		Growth:      cmp.Or(p.Growth, 2),
		Workers:     p.Workers,
	}
}

// ds2 is DS2's memory of one run.
type ds2 struct {
	law   DS2
	ticks int
	last  time.Duration // time of the last measure
	rates memory[rates]
	held  memory[held]
	units units

	// Scratch, by stage and by unit.
	at    []*rates
	load  []float64
	plans []plan
	grows map[string]bool // the units that get more workers
}

// rates is the memory of a stage.
type rates struct {
	seen   bool
	fresh  bool                // it was seen for the first time at the last measure
	total  controller.Counters // at the last measure
	recent recent
	since  struct { // the last measure
		arrived float64 // commands from outside
		busy    float64 // seconds
	}
	to []outflow
}

// outflow is how many commands a stage has handed over to another one.
type outflow struct {
	stage  string
	here   bool    // the edge was there at the last measure
	total  uint64  // at the last measure
	recent float64 // for the recent commands
}

// recent is the number of the last commands and their busy time.
type recent struct {
	handled float64
	busy    float64 // seconds
}

// Control sets the interval at the start, and measures and scales at each tick.
func (c *ds2) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		c.measure(s)
	case controller.EventTick:
		passed := c.measure(s)
		if c.ticks++; c.ticks <= c.law.Warmup || passed <= 0 {
			return
		}
		us := c.units.of(s)
		c.solve(s, passed)
		c.decide(us, s, passed, d)
		c.held.forgetUnits(us)
		c.units.done()
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// measure updates the rates of all stages, and returns the seconds since the
// last measure.
func (c *ds2) measure(s *controller.Snapshot) (passed float64) {
	passed, c.last = (s.At - c.last).Seconds(), s.At
	c.at = c.at[:0]
	for i := range s.Stages {
		c.at = append(c.at, c.rates.of(s.Stages[i].Name))
	}
	for i := range s.Stages {
		c.at[i].measure(s.Stages[i].Total)
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		for at, from := range st.Before[:min(len(st.Before), len(st.Inflows))] {
			if from >= 0 && int(from) < len(c.at) {
				n := c.at[from].hand(st.Name, st.Inflows[at])
				c.at[i].since.arrived = max(c.at[i].since.arrived-n, 0)
			}
		}
	}
	for _, r := range c.at {
		r.to = slices.DeleteFunc(r.to, func(f outflow) bool { return !f.here })
	}
	c.rates.forget(s)
	return passed
}

// measure updates the rates of a stage, but for its edges.
func (r *rates) measure(total controller.Counters) {
	now := total.Sub(r.total)
	r.total = total
	r.since.arrived, r.since.busy = float64(now.Accepted), max(now.Busy, 0).Seconds()
	handled := float64(now.Handled())
	r.fresh, r.seen = !r.seen, true
	if r.fresh { // it is not known in what time this was counted
		handled, r.since.arrived, r.since.busy = 0, 0, 0
	}
	keep := 0.0 // of the commands before
	if r.recent.handled > 0 {
		keep = min(max(serviceWindow-handled, 0)/r.recent.handled, 1)
	}
	r.recent.handled = handled + keep*r.recent.handled
	r.recent.busy = r.since.busy + keep*r.recent.busy
	for i := range r.to {
		r.to[i].recent *= keep
		r.to[i].here = false
	}
}

// hand notes how many commands the stage has handed over to another one, and
// returns how many of them are new.
func (r *rates) hand(to string, total uint64) (n float64) {
	for i := range r.to {
		if f := &r.to[i]; f.stage == to {
			if total < f.total {
				f.total = 0 // the edge is a new one
			}
			n = float64(total - f.total)
			f.total, f.here = total, true
			f.recent += n
			return n
		}
	}
	if !r.fresh {
		n = float64(total) // the edge has been taken for the first time
	}
	r.to = append(r.to, outflow{stage: to, here: true, total: total, recent: n})
	return n
}

// service returns the busy time of a command, in seconds; 0 if it is not known.
func (r *rates) service() float64 {
	if r.recent.handled < 1 {
		return 0
	}
	return r.recent.busy / r.recent.handled
}

// ratio returns how many commands the stage hands over to another one for each
// command that it handles.
func (r *rates) ratio(to string) float64 {
	for i := range r.to {
		if r.to[i].stage == to && r.recent.handled >= 1 {
			return r.to[i].recent / r.recent.handled
		}
	}
	return 0
}

// solve computes the loads of the stages, in commands a second. Without loops
// one pass is enough, in the order of the pipeline: most often commands take
// that order.
func (c *ds2) solve(s *controller.Snapshot, passed float64) {
	c.load = c.load[:0]
	for range s.Stages {
		c.load = append(c.load, 0)
	}
	for range mostPasses {
		settled := true
		for i := range s.Stages {
			n := c.at[i].since.arrived / passed
			for _, from := range s.Stages[i].Before {
				if from >= 0 && int(from) < len(c.at) && !s.Stages[from].Paused {
					n += c.at[from].ratio(s.Stages[i].Name) * c.load[from]
				}
			}
			n = min(n, math.MaxInt32)
			settled = settled && math.Abs(n-c.load[i]) <= closeEnough*n
			c.load[i] = n
		}
		if settled {
			return
		}
	}
}

// plan is the number of workers that a unit is to get.
type plan struct {
	unit    *unit
	needs   float64 // workers that are busy all the time, for its load
	workers int
	bound   *controller.StageStats // a stage that is bound by stages ahead, though the unit needs more workers
}

// decide scales the units.
func (c *ds2) decide(us []unit, s *controller.Snapshot, passed float64, d *controller.Decisions) {
	c.plans = c.plans[:0]
	for i := range us {
		if u := &us[i]; !u.restore(d) {
			c.plans = append(c.plans, c.plan(u, passed))
		}
	}
	c.await(s)
	c.afford()
	for i := range c.plans {
		p := &c.plans[i]
		switch {
		case p.workers != p.unit.workers:
			p.unit.scale(d, p.workers, c.why(p, passed))
		case p.bound != nil:
			p.unit.keep(c.held.of(p.unit.name), s.At, d, p.bound, "queue", p.bound.QueueLen)
		}
	}
	clear(c.plans)
}

// plan computes the workers of a unit by itself.
func (c *ds2) plan(u *unit, passed float64) plan {
	p := plan{unit: u, workers: u.workers}
	busy, hot, instances, limited := 0.0, false, 0, true
	for _, st := range u.stages {
		r := c.at[st.ID]
		if r.service() <= 0 && (c.load[st.ID] > 0 || st.QueueLen > 0) {
			return p // not known
		}
		p.needs += c.load[st.ID] * r.service()
		busy += r.since.busy / passed
		hot = hot || st.QueueLen > 0 && st.QueueCap > 0 && st.QueueLen >= st.QueueCap-st.QueueCap/2
		limited = limited && st.Instances > 0
		instances += min(max(st.Instances, 0), math.MaxInt32)
		if st.Bound {
			p.bound = st
		}
	}
	hot = hot || busy > c.law.Utilization*float64(u.workers)
	most := u.most
	if limited && len(u.stages) > 0 {
		most = max(min(most, instances), u.least)
	}
	up, down := whole(p.needs/c.law.Utilization), whole(slack*p.needs/c.law.Utilization)
	switch {
	case u.paused():
	case up > u.workers:
		p.workers = max(min(up, most, c.grown(u.workers)), u.workers)
	case down < u.workers && !hot:
		p.workers = max(down, u.least, 1)
	}
	if p.workers <= u.workers {
		p.bound = nil
	}
	return p
}

// grown returns the most workers that a pool may get in a step.
func (c *ds2) grown(workers int) int {
	return max(int(min(c.law.Growth*float64(workers), math.MaxInt32)), workers+1)
}

// await has the units that are bound by stages ahead keep their workers, unless
// one of these stages gets more.
func (c *ds2) await(s *controller.Snapshot) {
	clear(c.grows)
	for i := range c.plans {
		if p := &c.plans[i]; p.workers > p.unit.workers {
			c.grows[p.unit.name] = true
		}
	}
	for again := true; again; {
		again = false
		for i := range c.plans {
			p := &c.plans[i]
			if p.bound == nil || p.workers <= p.unit.workers || c.growsAhead(s, p.bound) {
				continue
			}
			delete(c.grows, p.unit.name)
			p.workers, again = p.unit.workers, true // a unit behind this one may have relied on it
		}
	}
	for i := range c.plans {
		if p := &c.plans[i]; p.workers > p.unit.workers {
			p.bound = nil
		}
	}
}

// growsAhead reports whether a stage to which an edge leads gets more workers.
func (c *ds2) growsAhead(s *controller.Snapshot, st *controller.StageStats) bool {
	for _, id := range st.Next {
		if id >= 0 && int(id) < len(s.Stages) && c.grows[cmp.Or(s.Stages[id].Pool, s.Stages[id].Name)] {
			return true
		}
	}
	return false
}

// why returns the reason for a change of the workers of a unit.
func (c *ds2) why(p *plan, passed float64) string {
	load, busy := 0.0, 0.0
	for _, st := range p.unit.stages {
		load += c.load[st.ID]
		busy += c.at[st.ID].since.busy / passed
	}
	why := fmt.Sprintf("load %.4g/s of %v each at %.0f%%, %.1f busy now",
		load, seconds6(p.needs/max(load, 1e-9)), 100*c.law.Utilization, busy)
	if c.law.Workers > 0 {
		why += fmt.Sprintf(", of %d workers for all", c.law.Workers)
	}
	return why
}

// seconds6 returns a duration rounded to microseconds.
func seconds6(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second)).Round(time.Microsecond)
}

// afford reduces the plans to the budget.
func (c *ds2) afford() {
	left := c.law.Workers
	if left == 0 {
		return
	}
	for i := range c.plans {
		p := &c.plans[i]
		if left -= p.workers; left < 0 {
			c.share()
			return
		}
	}
}

// share divides the budget: the workers of each unit are the same share of the
// number that its load needs, within the bounds and the plan of the unit.
func (c *ds2) share() {
	low, high := 0.0, 1.0
	for c.cost(high) <= c.law.Workers && high < math.MaxInt32 {
		high *= 2
	}
	for range 64 { // the highest level that the budget pays for
		if middle := (low + high) / 2; c.cost(middle) <= c.law.Workers {
			low = middle
		} else {
			high = middle
		}
	}
	if c.fair(low) {
		return
	}
	left := c.law.Workers - c.cost(low)
	for i := range c.plans {
		p := &c.plans[i]
		n := p.at(low)
		if left > 0 && p.at(high) > n { // the next worker of several units comes at the same level
			n++
			left--
		}
		p.workers = n
	}
}

// fair keeps the present workers, and reports true, if the budget pays for them
// and the pool with the fewest workers for its load would hardly have more at a
// level.
func (c *ds2) fair(level float64) bool {
	sum := 0
	for i := range c.plans {
		p := &c.plans[i]
		if sum += p.unit.workers; sum > c.law.Workers || slack*float64(p.unit.workers) < float64(p.at(level)) {
			return false
		}
	}
	for i := range c.plans {
		c.plans[i].workers = c.plans[i].unit.workers
	}
	return true
}

// cost returns how many workers all units have at a level.
func (c *ds2) cost(level float64) (n int) {
	for i := range c.plans {
		if n += c.plans[i].at(level); n > c.law.Workers {
			break // stopping here prevents an overflow of the sum
		}
	}
	return n
}

// at returns the workers of a unit at a level: the level is the workers for
// each worker that the unit needs.
func (p *plan) at(level float64) int {
	least := min(max(p.unit.least, 1), p.workers)
	if p.needs <= 0 {
		return p.workers // it is not known
	}
	return min(max(whole(level*p.needs), least), p.workers)
}
