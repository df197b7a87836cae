package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// InFlight bounds the commands that are in the pipeline to the number that it
// can answer Within a time. It is the partner of a policy that learns of an
// overload at its ticks, such as [RT90] or [Shed]: it acts between two ticks,
// at the first command that would be late.
//
//	pipeline.Control(policy.RT90{Target: 350 * time.Millisecond}, policy.InFlight{Within: 300 * time.Millisecond})
//
// # The law
//
// By Little's law, J. D. C. Little, "A Proof for the Queuing Formula L = λW"
// (Operations Research, 1961), the commands in the pipeline are its throughput
// times their response time, and the throughput is at most the capacity:
//
//	limit = capacity · max(Within, 1.1 · mean time in handlers)
//
// The capacity is that of [Objective], by the service demand law: the least, over
// the pools, of workers · commands done / busy time over the last second or so,
// and no more than the commands done divided by the CPU usage. It is known
// before an overload. Where a pool may get more workers, twice as many count: a
// policy of workers has the time to add them. The limit changes when it is wrong
// by more than a tenth, and there is none before five commands are done.
//
// Commands beyond the limit are treated as if the queue of the entry were full:
// they wait, or are refused, as stage.Overflow says. The other limits of the
// kind count the load as well: Sentinel and the BBR limiter of kratos refuse
// beyond throughput · shortest response time, while the CPUs are busy.
//
// # Scope
//
// The controller of a pipeline limits its entry. The controller of a group, or of
// one stage (pipeline.ControlFor), limits each of its stages, by the capacity
// that the stage would have if the pool had no other work.
//
// # Weak spots
//
// It refuses whichever command comes when the limit is reached, whatever its
// priority. The commands in flight are counted for each command that is
// submitted, which reads the counts of every stage. A handler that suspends, a
// key or a guard holds commands back without busy workers: the capacity is
// overestimated then, and the limit is too high. If handlers alone take longer
// than Within, commands are late all the same.
type InFlight struct {
	Within   time.Duration // in which the last command admitted is to be answered; default 500 ms
	Interval time.Duration // between two ticks; default 100 ms
}

// The constants of the law.
const (
	leastOverWork = 1.1 // times the mean time in handlers that are in flight: fewer would leave workers idle
	looseLimit    = 0.1 // a limit that is wrong by less stays
)

// Name returns "inflight".
func (InFlight) Name() string { return "inflight" }

// Check returns all faults of the parameters.
func (p InFlight) Check() error {
	return errors.Join(
		fault("inflight", p.Within < 0, "Within %v is negative", p.Within),
		fault("inflight", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the limit: InFlight decides nothing else.
func (InFlight) Claims() []controller.Knob { return []controller.Knob{controller.KnobLimit} }

// New returns a controller with an empty memory.
func (p InFlight) New() controller.Controller {
	return &inFlight{
		law:   InFlight{cmp.Or(p.Within, 500*time.Millisecond), cmp.Or(p.Interval, 100*time.Millisecond)},
		meter: shed{stages: make(memory[tally])},
		load:  load{stages: make(memory[timing])},
	}
}

// inFlight is InFlight's memory of one run.
type inFlight struct {
	law   InFlight
	meter shed // counts the commands that come and go
	load  load
	paths paths
}

// Control sets the interval at the start, and measures and limits at each tick.
func (c *inFlight) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.meter.measure(s)
		for i := range s.Stages {
			c.load.stages.of(s.Stages[i].Name).measure(&s.Stages[i], 0)
		}
		d.WatchTimes(true)
		d.Every(c.law.Interval)
	case controller.EventTick:
		passed := s.At - c.meter.last
		if passed <= 0 {
			return
		}
		m := c.meter.measure(s)
		c.load.measure(s, &c.paths, &m, passed, Objective{Percentile: 99})
		if s.Group == "" {
			c.limit(controller.Entry, s.Entry.Limit, c.load.grown, c.load.mean, d)
			return
		}
		c.eachStage(s, d)
	default: // the others change nothing
	}
}

// eachStage limits the stages of a group, each by the capacity that its pool
// would have for it alone.
func (c *inFlight) eachStage(s *controller.Snapshot, d *controller.Decisions) {
	us := c.load.units.of(s)
	defer c.load.units.done()
	for i := range us {
		u := &us[i]
		workers := max(min(2*u.workers, u.most), u.workers)
		for _, st := range u.stages {
			t := c.load.stages.of(st.Name)
			if t.handled < fewestDone || t.busy <= 0 {
				continue
			}
			c.limit(st.ID, st.Admission.Limit, float64(workers)*t.handled/t.busy, t.work.mean, d)
		}
	}
}

// limit sets a limit, unless it is about right.
func (c *inFlight) limit(id controller.StageID, is int, capacity, work float64, d *controller.Decisions) {
	if !(capacity > 0) {
		return
	}
	within := max(c.law.Within.Seconds(), leastOverWork*work)
	want := int(min(math.Ceil(capacity*within), math.MaxInt32))
	if is > 0 && math.Abs(float64(want-is)) <= looseLimit*float64(is) {
		return
	}
	controller.KnobLimit.Set(d, id, want, fmt.Sprintf("%.4g/s can be done, so %d within %v", capacity, want, precise(within)))
}
