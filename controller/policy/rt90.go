package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// RT90 keeps the 90th percentile of the response time below a target, by the
// rate at which commands are admitted: Welsh and Culler, "Adaptive Overload
// Control for Busy Internet Servers" (USITS 2003).
//
// It protects an objective that users see: a command that is admitted is answered
// in time. Others are refused at once, with stage.ErrRate and the time after which
// to try again, and cost nothing more. The response time of a pipeline is the sum
// of the 90th percentiles of the times in the queue and in the handler, along the
// path on which it is largest: an estimate that is rather too high. Where a queue
// has grown, so that a command that comes now will wait for longer than that,
// this longer wait counts: it is known before it was measured.
//
// # The law
//
// At each tick, every Interval, the response times of the last interval are
// smoothed, and compared with the target:
//
//	time  = 0.7 · time + 0.3 · 90th percentile
//	error = (time - Target) / Target
//
//	error > 0      rate = rate / 1.2
//	error < -0.5   rate = rate + 2 · (-0.1 - error)
//
// Until the first error above 0 there is no limit, and then the rate begins with
// the throughput of the last interval. The law differs from the paper: a rate above
// 100 a second grows by a part of itself, at most 2 % a tick, where 2 a second
// would take hours. A rate that refuses hardly any command and is more than twice
// the admitted load is lifted, so that a quiet hour does not make it useless. And
// the rate is not cut when the last percentile, before it is smoothed, is within
// the target or a twentieth below the one before, or fewer commands are admitted
// than are done: then the last cut has had its effect, and the queued commands still have to be worked off. The authors' program
// truncates the time between two tokens to milliseconds, which admits 1,000 a
// second at most, and starts its average at 0, which hides the first three seconds
// of an overload; here neither is so.
//
// # Less quality before fewer commands
//
// With Quality, stages are asked for less quality before commands are refused, and
// for more of it when no command has to be refused any more: 1 / 1.2 of it for
// each error above 0, down to Quality. Handlers read it with behaviour.Quality,
// and give a cheaper answer.
//
// # Classes
//
// With Classes, a command has one by its Priority method, from 0 to Classes - 1.
// The rate is given to the highest class first, as far as commands of it come, and
// the rest to the next one: the lowest classes are refused first, with
// stage.ErrPolicy, and the highest only if the rate does not suffice for it alone.
// In the paper each class has a response time, and one that is too slow takes a
// part of the rates of all lower ones; here the classes share the queues and
// have one response time, and the preemption is complete.
//
// # Scope
//
// The controller of a pipeline bounds the commands that enter the pipeline. The
// controller of a group, or of one stage (pipeline.ControlFor), bounds the commands
// that are submitted to each of its stages, by the response time of that stage.
//
// # Weak spots
//
// It needs a target. It learns of an overload when commands have been handled,
// and then changes the rate for commands that are handled later: where that takes
// many intervals it oscillates. Capacity that comes back is used only slowly.
type RT90 struct {
	Target   time.Duration // of the 90th percentile; default 1 s
	Interval time.Duration // between two ticks; default 1 s
	Quality  float64       // the least quality, below 1, that is asked for before commands are refused; default 1: no less than full
	Classes  int           // priorities of commands, the highest first; default 1
}

// The constants of the law.
const (
	inertia     = 0.7 // weight of the smoothed time
	cutBy       = 1.2
	riseBelow   = -0.5
	riseFrom    = -0.1
	riseBy      = 2.0 // a second, for an error of one
	riseShare   = 50  // or this part (1/n) of the rate
	leastRate   = 0.05
	mostRate    = 1e9
	doneOver    = 500 * time.Millisecond
	falling     = 0.95 // of the last percentile
	mostUnused  = 2.0  // a rate that is so many times the admitted load bounds nothing
	fewRefusals = 0.01 // refusals, as a part of the admitted load, with a rate that suffices
	leastBurst  = 10
	qualityBy   = 0.02 // that is regained in a tick, for an error of one
	evenly      = 0.95 // of the rate, between the classes: commands do not come evenly
	mostClass   = 1000
)

// Name returns "rt90".
func (RT90) Name() string { return "rt90" }

// Check returns all faults of the parameters.
func (p RT90) Check() error {
	return errors.Join(
		fault("rt90", p.Target < 0, "Target %v is negative", p.Target),
		fault("rt90", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("rt90", !(p.Quality >= 0 && p.Quality <= 1), "Quality %v is not from 0 to 1", p.Quality),
		fault("rt90", p.Classes < 0 || p.Classes > mostClass, "Classes %d is not from 0 to %d", p.Classes, mostClass),
	)
}

// Claims returns the rate, the quality if Quality is set, and the gate if there
// are Classes.
func (p RT90) Claims() []controller.Knob {
	knobs := []controller.Knob{controller.KnobRate}
	if p.Quality > 0 && p.Quality < 1 {
		knobs = append(knobs, controller.KnobQuality)
	}
	if p.Classes > 1 {
		knobs = append(knobs, controller.KnobGate)
	}
	return knobs
}

// New returns a controller with an empty memory.
func (p RT90) New() controller.Controller {
	return &rt90{
		law: RT90{
			cmp.Or(p.Target, time.Second), cmp.Or(p.Interval, time.Second), cmp.Or(p.Quality, 1), cmp.Or(p.Classes, 1),
		},
		doors: make(memory[door]),
	}
}

// rt90 is RT90's memory of one run.
type rt90 struct {
	law   RT90
	doors memory[door] // by the name of the stage; "" is the entry
	paths paths
}

// door is the memory of an entry: of the pipeline's, or of a stage's.
type door struct {
	known   bool    // time is
	time    float64 // seconds, smoothed
	last    float64 // the last percentile
	done    float64 // a second, smoothed if ticks are short
	waited  float64 // seconds since the rate was cut
	rate    float64 // a second; 0: no limit
	quality float64
	classes *classes // nil: there is one
	seen    controller.Counters
	since   time.Duration
}

// share gives the rate to the classes.
func (c *rt90) share(e *door, x state, id controller.StageID, is controller.Admission, d *controller.Decisions) {
	if e.classes == nil {
		e.classes = &classes{make([]class, c.law.Classes)}
	}
	if x.passed > 0 {
		e.classes.share(evenly*e.rate, x.passed)
	}
	if is.Gate != controller.Gate(e.classes) {
		controller.KnobGate.Set(d, id, e.classes, "the highest class first")
	}
}

// state is the load at a door between two ticks.
type state struct {
	response                float64 // the 90th percentile, in seconds; 0: nothing was measured
	admitted, refused, done float64 // a second
	passed                  float64 // seconds
}

// Control asks for ticks at the start and judges every door at each of them.
func (c *rt90) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		d.WatchTimes(true)
	case controller.EventTick:
		if s.Group == "" {
			c.entry(s, d)
			return
		}
		for i := range s.Stages {
			st := &s.Stages[i]
			x := c.doors.of(st.Name).now(st.Total, s.At, response(st))
			c.judge(c.doors[st.Name], x, controller.StageID(i), st.Admission, d)
			c.degrade(c.doors[st.Name], st, controller.StageID(i), d)
		}
		c.doors.forget(s)
	default: // the others change nothing
	}
}

// response returns the 90th percentile of the response time of a stage: as it
// was measured, or as a command has it that comes now, if it will wait for
// longer. If nothing was measured, it is how long the oldest command has waited.
func response(st *controller.StageStats) float64 {
	wait := st.Wait.P90
	if ahead := st.QueueLen; ahead > 0 && st.Workers > 0 && st.Work.Mean > 0 {
		wait = max(wait, time.Duration(min(float64(ahead)/float64(st.Workers)*float64(st.Work.Mean), float64(mostWork))))
	}
	p90 := wait + st.Work.P90
	if st.QueueLen > 0 && st.Work.Count == 0 {
		p90 = max(p90, st.OldestWait)
	}
	return max(p90, 0).Seconds()
}

// entry judges the entry of the pipeline.
func (c *rt90) entry(s *controller.Snapshot, d *controller.Decisions) {
	var total controller.Counters
	for i := range s.Stages {
		t := &s.Stages[i].Total
		total.Errors += t.Errors
		total.OK += t.OK
		total.Shed += t.Shed
		total.DeadLettered += t.DeadLettered
		total.Rejected += t.Rejected
	}
	total.Accepted = total.OK + total.Errors + total.Shed + total.DeadLettered + uint64(max(s.InFlight, 0))
	e := c.doors.of("")
	c.judge(e, e.now(total, s.At, c.paths.longest(s, response)), controller.Entry, s.Entry, d)
	for i := range s.Stages {
		c.degrade(e, &s.Stages[i], controller.StageID(i), d)
	}
}

// now returns the load since the last tick.
func (e *door) now(total controller.Counters, now time.Duration, response float64) state {
	window, passed := total.Sub(e.seen), (now - e.since).Seconds()
	e.seen, e.since = total, now
	if !(passed > 0) {
		return state{}
	}
	return state{
		response: response, passed: passed,
		admitted: float64(window.Accepted) / passed, refused: float64(window.Rejected) / passed, done: float64(window.Handled()) / passed,
	}
}

// judge follows the law, and sets the rate and the classes.
func (c *rt90) judge(e *door, x state, id controller.StageID, is controller.Admission, d *controller.Decisions) {
	if e.quality == 0 {
		e.quality = 1
	}
	if x.response > 0 {
		c.follow(e, x)
	}
	why := func() string {
		return fmt.Sprintf("90 of 100 within %v, target %v: %.0f/s admitted, %.0f/s done", precise(e.time), c.law.Target, x.admitted, x.done)
	}
	if is.Rate.PerSecond != e.rate {
		controller.KnobRate.Set(d, id, controller.Rate{PerSecond: e.rate, Burst: max(int(math.Ceil(e.rate/100)), leastBurst)}, why())
	}
	if c.law.Classes > 1 {
		c.share(e, x, id, is, d)
	}
}

// follow changes the rate, the quality and the classes by what a tick shows.
func (c *rt90) follow(e *door, x state) {
	target := c.law.Target.Seconds()
	draining := x.response <= e.last && x.admitted < falling*x.done
	falls := x.response <= target || e.known && (x.response < falling*e.last || draining)
	e.done += (x.done - e.done) * min(1, x.passed/doneOver.Seconds())
	x.done = max(x.done, e.done)
	e.last = x.response
	if !e.known {
		e.known, e.time = true, x.response
	} else {
		e.time = inertia*e.time + (1-inertia)*x.response
	}
	e.waited += x.passed
	wrong := (e.time - target) / target
	used := e.rate > 0 && x.refused > fewRefusals*x.admitted
	switch {
	case wrong > 0 && (falls || e.rate > 0 && e.waited < target): // the last step has its effect, or will have it
	case wrong > 0 && e.quality > c.law.Quality:
		e.quality = max(e.quality/cutBy, c.law.Quality)
	case wrong > 0:
		e.cut(x)
		e.waited = 0
	case wrong >= riseBelow:
	case used:
		e.rate = min(e.rate+max(riseBy, e.rate/riseShare)*(riseFrom-wrong), mostRate)
	default:
		e.relax(x, riseFrom-wrong, c.law)
	}
}

// cut lowers the rate.
func (e *door) cut(x state) {
	from := x.done
	if e.rate > 0 {
		from = min(e.rate, max(cutBy*x.admitted, x.done))
	}
	e.rate = max(from/cutBy, leastRate)
}

// relax lets a rate grow that suffices, up to twice the admitted load, and asks
// for more quality. A rate beyond that is no limit.
func (e *door) relax(x state, by float64, law RT90) {
	e.quality = min(e.quality+qualityBy*by, 1)
	if e.rate == 0 {
		return
	}
	e.rate += max(riseBy, e.rate/riseShare) * by
	if e.rate > mostUnused*max(x.admitted, leastRate) {
		e.rate = 0
	}
}

// degrade asks the handlers of a stage for a quality.
func (c *rt90) degrade(e *door, st *controller.StageStats, id controller.StageID, d *controller.Decisions) {
	if c.law.Quality < 1 && st.Quality != e.quality {
		controller.KnobQuality.Set(d, id, e.quality,
			fmt.Sprintf("90 of 100 within %v, target %v", precise(e.time), c.law.Target))
	}
}
