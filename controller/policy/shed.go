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

// Shed refuses the least important commands when more come than can be handled,
// and as few as possible: the load shedder of Uber, after "Cinnamon: using
// century old tech to build a mean load shedder" (Uber Engineering, 2023). A
// command says how important it is by a method Priority, see queue.Prioritized;
// other commands have priority 0.
//
// # The law
//
// A pool is overloaded when its workers were busy and commands waited at every
// tick for as long as After. Then a PI controller computes at each tick which
// share of the commands to refuse. Its error is
//
//	(admitted + surplus - (done + spare)) / max(offered, done)
//
// of the commands since the last tick. Offered are all that were submitted from
// outside, admitted the ones that Shed did not refuse, and done the ones that
// left the pipeline. Spare is how many more could have been done by workers
// that were idle, in the busiest pool. Surplus is the part of the waiting
// commands that is to be done in this time, so that commands wait for about
// Target; it is negative if they wait for less. It is half of the
// throughput at most, and the other half is admitted in any case, so
// important commands pass while a queue becomes shorter.
//
// The original divides by what was done. Here it is by what was offered, if
// that is more: otherwise the gain of the loop would grow with the overload,
// and at ten times the capacity it would oscillate. And the original has no
// surplus: then a queue that is full when the shedding begins stays full, and
// all commands that are admitted wait. And the integral begins with the share
// that is too many when the shedding begins, rather than with none: the error
// would need seconds to add up to it, in which the queue fills.
//
// The share becomes a threshold by the distribution of the priorities of about
// 1,000 recent commands: commands below the threshold are refused, and of the
// commands with just this priority as many as are missing. So all commands of
// high priority pass as long as they are no more than can be handled. The
// shedding ends when the share is zero.
//
// # Where it refuses
//
// Shed refuses at the entry of the pipeline, before a command takes any
// resources; the submitter gets an error that is stage.ErrPolicy. In the
// controller of a group it refuses at the stages of the group instead: only
// commands that are submitted to these stages, and none that other stages
// forward. Shed claims no other knob, so it can be combined with a policy for
// workers; that has the time of After to add some.
//
// # What it protects, and its weak spots
//
// Shed keeps the throughput at the capacity and the waits short, under any
// overload, and gives the capacity to the commands that matter. It does nothing
// for the first time of After: until then a full queue refuses regardless of
// priorities, and a low After takes bursts for overloads. If all commands have
// the same priority, Shed refuses at random. Sources that submit a refused
// command again, such as feeds, are never less than the capacity; they need no
// Shed. Callers that wait for a slot count as offered and admitted when they
// begin to wait. Where a rate or a gate refuses commands, too, these count as
// admitted.
type Shed struct {
	Interval time.Duration // between two ticks; default 500 ms
	After    time.Duration // how long a pool must be overloaded; default 10 s
	Target   time.Duration // how long commands may wait while it sheds; default 500 ms
	P, I     float64       // the gains of the controller, I for a second; default 0.1 and 1.4
}

// The constants of the law.
const (
	busyShare    = 0.95 // workers that are busy for this share of their time are all busy
	mostSurplus  = 0.5  // of the throughput, for commands that wait
	leastThrough = 0.5  // of the throughput, that is always admitted
	finestEdge   = 1e-4 // the steps in which the edge is set
	leastLoad    = 0.01 // of a pool: below that it has spare time without a bound
)

// Name returns "shed".
func (Shed) Name() string { return "shed" }

// Check returns all faults of the parameters.
func (p Shed) Check() error {
	return errors.Join(
		fault("shed", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("shed", p.After < 0, "After %v is negative", p.After),
		fault("shed", p.Target < 0, "Target %v is negative", p.Target),
		fault("shed", !(p.P >= 0) || math.IsInf(p.P, 1), "P %v is not a number from 0 on", p.P),
		fault("shed", !(p.I >= 0) || math.IsInf(p.I, 1), "I %v is not a number from 0 on", p.I),
	)
}

// Claims returns the shedding: Shed decides nothing else.
func (Shed) Claims() []controller.Knob { return []controller.Knob{controller.KnobShed} }

// New returns a controller with an empty memory.
func (p Shed) New() controller.Controller {
	return &shed{
		law:    Shed{cmp.Or(p.Interval, 500*time.Millisecond), cmp.Or(p.After, 10*time.Second), cmp.Or(p.Target, 500*time.Millisecond), cmp.Or(p.P, 0.1), cmp.Or(p.I, 1.4)},
		stages: make(memory[tally]), pools: make(memory[stood]),
	}
}

// shed is Shed's memory of one run.
type shed struct {
	law      Shed
	last     time.Duration // time of the last measure
	inFlight int
	stages   memory[tally]
	pools    memory[stood]
	units    units
	seen     []int // scratch: priorities

	on       bool
	integral float64
	share    float64 // that is refused
	refuses  controller.Shed
}

// tally is the memory of a stage.
type tally struct {
	seen    bool
	total   controller.Counters
	inflows uint64
	waiting int
	busy    time.Duration // since the last measure, blocked time included
}

// stood is the memory of a pool whose queues are not empty.
type stood struct {
	on    bool
	since time.Duration
}

// demand is what was measured since the last tick.
type demand struct {
	offered, admitted, done float64
	load                    float64 // of the busiest pool, from 0 to 1
	queued                  int     // in pools whose queues stand
	stands, full            bool
	overloaded              bool
}

// spare is how many more commands could have been done.
func (m *demand) spare() float64 { return max(m.done, 1) * (1/max(m.load, leastLoad) - 1) }

// Control sets the interval at the start, and measures and sheds at each tick.
func (c *shed) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		c.measure(s)
	case controller.EventTick:
		if passed := s.At - c.last; passed > 0 {
			m := c.measure(s)
			c.watch(s, passed, &m)
			c.decide(s, passed, &m, d)
		}
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// measure counts the commands since the last measure.
func (c *shed) measure(s *controller.Snapshot) (m demand) {
	in := 0.0 // accepted from outside
	for i := range s.Stages {
		st := &s.Stages[i]
		t, inflows := c.stages.of(st.Name), uint64(0)
		for _, n := range st.Inflows {
			inflows += n
		}
		now := st.Total.Sub(t.total)
		accepted := float64(now.Accepted) - float64(inflows-t.inflows)
		if inflows < t.inflows {
			accepted = float64(now.Accepted)
		}
		if t.seen { // else it is not known in what time this was counted
			in += max(accepted, 0)
			m.admitted += max(accepted, 0) + float64(st.Submitters-t.waiting)
			m.offered += float64(now.Rejected)
		}
		*t = tally{seen: true, total: st.Total, inflows: inflows, waiting: st.Submitters, busy: max(now.Busy, 0) + max(now.Blocked, 0)}
	}
	c.stages.forget(s)
	m.admitted = max(m.admitted, 0)
	m.offered += m.admitted
	m.done = max(in-float64(s.InFlight-c.inFlight), 0)
	c.last, c.inFlight = s.At, s.InFlight
	return m
}

// watch looks at the pools.
func (c *shed) watch(s *controller.Snapshot, passed time.Duration, m *demand) {
	us := c.units.of(s)
	for i := range us {
		u, busy, queued, half := &us[i], time.Duration(0), 0, false
		for _, st := range u.stages {
			busy += c.stages.of(st.Name).busy
			queued += min(max(st.QueueLen, 0)+max(st.Submitters, 0), math.MaxInt32)
			half = half || st.QueueCap > 0 && st.QueueLen >= st.QueueCap-st.QueueCap/2
		}
		load := min(busy.Seconds()/(passed.Seconds()*float64(max(u.workers, 1))), 1)
		p := c.pools.of(u.name)
		stands := queued > 0 && (load >= busyShare || half)
		if stands && !p.on {
			p.since = s.At
		}
		if p.on = stands; stands {
			load = 1
			m.queued += queued
			m.stands, m.full = true, m.full || half
			m.overloaded = m.overloaded || s.At-p.since >= c.law.After
		}
		m.load = max(m.load, load)
	}
	c.pools.forgetUnits(us)
	c.units.done()
}

// decide computes the share to refuse, and sets the threshold.
func (c *shed) decide(s *controller.Snapshot, passed time.Duration, m *demand, d *controller.Decisions) {
	if !c.on && !m.overloaded {
		return
	}
	if !c.on { // what is too many is known, and needs no error to add up
		c.integral = max(1-(m.done+m.spare())/max(m.offered, 1), 0)
	}
	c.on = true
	c.look(s)
	if len(c.seen) > 0 {
		c.share = c.control(passed, m)
	}
	c.on = m.stands || c.share > 0
	x := c.threshold()
	if x == c.refuses {
		return
	}
	c.refuses = x
	a := func(n float64) float64 { return n / passed.Seconds() }
	why := fmt.Sprintf("offered %.4g/s, done %.4g/s, %d waiting: %.0f%% refused", a(m.offered), a(m.done), m.queued, 100*c.share)
	if s.Group == "" {
		controller.KnobShed.Set(d, controller.Entry, x, why)
		return
	}
	for i := range s.Stages {
		controller.KnobShed.Set(d, controller.StageID(i), x, why)
	}
}

// look gathers the recent priorities, in order.
func (c *shed) look(s *controller.Snapshot) {
	c.seen = append(c.seen[:0], s.Priorities...)
	for i := range s.Stages {
		c.seen = append(c.seen, s.Stages[i].Priorities...)
	}
	slices.Sort(c.seen)
}

// control is the PI controller. It returns the share to refuse.
func (c *shed) control(passed time.Duration, m *demand) float64 {
	admitted, most := m.admitted, mostSurplus*m.done
	if m.full { // which refuses commands that Shed has admitted
		admitted = max(admitted, m.offered*(1-c.refused()))
	}
	wait := c.law.Target.Seconds()
	surplus := float64(m.queued)*passed.Seconds() - m.done*wait // of the time that corrects it, twice the Target
	surplus = min(max(surplus/(2*wait), -most), most)
	e := (admitted + surplus - m.done - m.spare()) / max(m.offered, m.done, 1)
	c.integral = min(max(c.integral+c.law.I*e*passed.Seconds(), 0), 1)
	highest := 1 - leastThrough*min(m.done/max(m.offered, 1), 1)
	c.integral = min(c.integral, highest)
	return min(max(c.law.P*e+c.integral, 0), highest)
}

// refused returns the share of the recent commands that the present threshold
// refuses.
func (c *shed) refused() float64 {
	sum := 0.0
	for _, p := range c.seen {
		sum += c.refuses.Share(p)
	}
	return sum / float64(max(len(c.seen), 1))
}

// threshold returns what refuses the share of the recent commands. While no
// priority is known it refuses none, and looks at them.
func (c *shed) threshold() controller.Shed {
	n := len(c.seen)
	switch {
	case !c.on:
		return controller.Shed{}
	case n == 0 || c.share <= 0:
		return controller.Shed{Below: math.MinInt}
	}
	refused := c.share * float64(n)
	below := c.seen[min(int(refused), n-1)]
	first, _ := slices.BinarySearch(c.seen, below)
	equal, _ := slices.BinarySearchFunc(c.seen, below, func(p, below int) int {
		if p <= below {
			return -1
		}
		return 1
	})
	edge := (refused - float64(first)) / float64(equal-first)
	return controller.Shed{Below: below, Edge: min(max(math.Round(edge/finestEdge)*finestEdge, 0), 1)}
}
