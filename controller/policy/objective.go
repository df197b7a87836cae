package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Objective holds a response time: the user states the aim, and Objective picks
// among the laws of this package, and tunes them.
//
//	pipeline.Control(policy.Objective{Within: 200 * time.Millisecond}) // 99 of 100 answers
//
// Of all commands that the pipeline admits, Percentile percent are to be
// answered Within that time. What the pipeline cannot answer in time it refuses
// at once. Each knob has one owner, and each decision names the aim.
//
// # Workers
//
// [Backlog] with a Target of a tenth of Within. More workers come before
// refusals: the door (below) counts on twice the workers as long as the bounds
// of a stage allow them. A stage with stage.Blocking that does 200 commands a
// second or more, and has been overloaded for 10 s though it may have more
// workers, is given to [Hill], which finds out whether more or fewer are better;
// Backlog has it back when nothing was refused for 30 s. DS2 and its steps of 10
// s are too slow for this aim.
//
// # The door
//
// A command is refused if its predicted wait is too long. The rate at the entry
// is the capacity of the pipeline, and its burst the commands that may wait: a
// saved permit is a free place in the queue, so that a burst of any height is
// cut at the first command that would be late, between two ticks, and the error
// says when to come again. By the service demand law
//
//	capacity = least, over the pools, of workers · commands done / busy time
//
// over the last second or so, and no more than the commands done divided by the
// CPU usage. It is known before an overload. Of Within, the handlers need the sum of
// their percentiles along the longest path; the wait may have the rest:
//
//	wait  = Within - sum of percentiles
//	most  = trust · capacity · (sum of mean times + wait / 2)
//	rate  = capacity + (most - commands in flight) / wait
//	burst = capacity · wait / 2
//
// The percentile is extrapolated from the mean and the 90th percentile, as if
// the time were exponential. The second term of the rate corrects errors of the
// first one: by Little's law the commands in flight are the capacity times
// the response time. It is left out while they are within three tenths of most. The
// trust is 1; it falls by a tenth for each half second in which the measured
// response time is beyond Within, and rises again by a twentieth.
//
// Of the laws of admission Objective takes none as it is. [Limit] finds how many
// commands a dependency bears, whatever their response time; [RT90] learns of an
// overload when commands have been answered too late, and a burst of two seconds
// is over by then. The response time corrects the door here, and does not make
// it.
//
// # Priorities
//
// When commands are refused, Objective looks whether they differ in priority
// (see queue.Prioritized). Then the least important ones are refused, with
// stage.ErrPolicy, by a threshold, as [Shed] does; its share follows from the
// rate and the offered load at each tick. The door remains behind it.
//
// # Commands that wait for too long
//
// The door relies on a capacity that may drop, and does not know it at the
// start. While commands are refused, and while the oldest has waited for longer
// than wait, the stages that commands enter from outside drop the commands that
// have waited for longer, as [CoDel] does: the rest of the time would not suffice
// for their handlers. If one has waited for longer nevertheless, the newest goes first
// until none has for a second. Keep switches both off.
//
// # Scope
//
// In pipeline.Control the aim is about the whole way, from submission to the
// last answer, and the door is the entry. With Stage it is about the wait and
// the handler of this one stage, and the door is the entry, too. In
// pipeline.ControlFor the aim is about the stages of the group, or the one
// stage, and the door refuses only commands that are submitted there from outside.
//
// # Weak spots
//
// If the handlers alone take longer than Within, nothing helps: then a tenth of
// Within is left for the wait, and the reasons say so. It prefers a refusal to
// a late answer, so it is not for work that must be done however late. A
// handler that suspends, a key or a guard holds commands back without busy
// workers; then the door knows the capacity only by the measured response
// times, and needs some seconds. Retries count as one command that takes longer.
type Objective struct {
	Within     time.Duration // the bound of the response time; default 500 ms
	Percentile float64       // of the admitted commands that are to be answered within it, from 50 on and below 100; default 99
	Stage      string        // whose wait and handler are bounded; default: the whole way through the pipeline
	Keep       bool          // drop no command that was admitted
}

// The constants of the law.
const (
	waitShare    = 2.0 // the part (1/n) of the wait that is used when commands come evenly
	leastWait    = 10  // the part (1/n) of Within that the wait has at least
	ticksWithin  = 10  // ticks in the time Within
	shortestTick = 10 * time.Millisecond
	longestTick  = 100 * time.Millisecond
	demandOver   = time.Second // over which times and rates are averaged
	fewestDone   = 5           // commands without which no capacity is known
	leastUsage   = 0.05        // of the CPUs, from which it says something
	usageOver    = time.Second // over which the snapshot has the usage of the CPUs
	looseRate    = 0.1         // a rate that is wrong by less stays
	looseBurst   = 0.2         // and a burst
	looseFlight  = 0.3         // a number in flight that is wrong by less is right
	lowestRate   = 0.05        // of the capacity
	trustCut     = 0.9
	trustRise    = 1.05
	leastTrust   = 0.05
	trustEvery   = 500 * time.Millisecond
	fewestTrust  = 20  // answers, between two changes of the trust
	shedPart     = 0.9 // of the rate that the threshold lets pass: the door is to refuse little
	shedOver     = 500 * time.Millisecond
	shedCalm     = time.Second      // without refusals, after which the threshold goes
	shedAgain    = 10 * time.Second // after which priorities are looked for again
	growsFor     = time.Second      // after a refusal, for which the door waits for more workers
	climbsAfter  = 10 * time.Second // of overload, after which Hill is asked
	climbsUntil  = 30 * time.Second // without an overload, after which Backlog is asked again
	climbsFrom   = 200              // commands a second
)

// Name returns "objective".
func (Objective) Name() string { return "objective" }

// Check returns all faults of the parameters.
func (p Objective) Check() error {
	return errors.Join(
		fault("objective", p.Within < 0, "Within %v is negative", p.Within),
		fault("objective", p.Within > 0 && p.Within < time.Millisecond, "Within %v is below a millisecond", p.Within),
		fault("objective", p.Percentile != 0 && !(p.Percentile >= 50 && p.Percentile < 100),
			"Percentile %v is not from 50 on and below 100: write 99 for 99 of 100 commands", p.Percentile),
	)
}

// AimsAt returns the stage that the aim is about, or nothing: a pipeline refuses
// to start if it has no such stage.
func (p Objective) AimsAt() string { return p.Stage }

// Claims returns the workers, the rate and the shedding, and, unless Keep is
// set, the bound of the wait and the order.
func (p Objective) Claims() []controller.Knob {
	knobs := []controller.Knob{controller.KnobWorkers, controller.KnobRate, controller.KnobShed}
	if !p.Keep {
		knobs = append(knobs, controller.KnobSojourn, controller.KnobDiscipline)
	}
	return knobs
}

// New returns a controller with an empty memory.
func (p Objective) New() controller.Controller {
	p.Within, p.Percentile = cmp.Or(p.Within, 500*time.Millisecond), cmp.Or(p.Percentile, 99)
	every := min(max(p.Within/ticksWithin, shortestTick), longestTick)
	return &objective{
		aim: p, every: every, name: fmt.Sprintf("%g%% within %v", p.Percentile, p.Within),
		load:  load{stages: make(memory[timing])},
		meter: shed{stages: make(memory[tally])},
		scaler: scaler{
			backlog: Backlog{Target: p.Within / ticksWithin}.New(), hill: Hill{}.New(), stages: make(memory[climber]),
		},
		entries: make(memory[entrance]), trust: 1,
	}
}

// objective is Objective's memory of one run.
type objective struct {
	aim   Objective
	every time.Duration
	name  string // of the aim, for the journal

	meter   shed // counts the commands that come and go
	load    load
	scaler  scaler
	entries memory[entrance] // by the name of the stage; "" is the entry
	paths   paths

	trust    float64
	trusted  time.Duration // when the trust last changed
	answers  float64       // since then
	pressed  time.Duration // when a command was last refused
	pressing bool          // commands were refused of late
	workers  int           // of all pools
	grew     time.Duration // when these became more, or nothing was refused
	sifting  sifting
}

// Control sets the interval at the start, and measures and decides at each tick.
func (c *objective) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.scaler.control(c, ev, s, d)
		c.meter.measure(s)
		for i := range s.Stages {
			c.load.stages.of(s.Stages[i].Name).measure(&s.Stages[i], 0)
		}
		d.WatchTimes(true)
		d.Every(c.every)
	case controller.EventTick:
		passed := s.At - c.meter.last
		if passed <= 0 {
			return
		}
		m := c.meter.measure(s)
		c.load.measure(s, &c.paths, &m, passed, c.aim)
		c.press(s.At, &m)
		c.scaler.control(c, ev, s, d)
		c.admit(s, &m, d)
		c.hurry(s, d)
		d.Every(c.every)
	default: // the others change nothing
	}
}

// press notes whether commands are refused.
func (c *objective) press(now time.Duration, m *demand) {
	if m.offered > m.admitted {
		c.pressed, c.pressing = now, true
	}
	c.pressing = c.pressing && now-c.pressed < shedCalm
}

// entrance is the memory of a door, or of a stage that commands enter.
type entrance struct {
	most   float64 // commands in flight
	late   bool    // a command has waited for too long, of late
	lateAt time.Duration
	turned bool // the newest goes first
}

// admit sets the rate of the door, and the threshold in front of it.
func (c *objective) admit(s *controller.Snapshot, m *demand, d *controller.Decisions) {
	l := &c.load
	c.doubt(s.At, m)
	if !(l.capacity > 0) {
		return
	}
	wait, capacity := c.wait().Seconds(), l.capacity
	if c.growing(s) {
		capacity = l.grown
	}
	most := max(c.trust*capacity*l.visits*(l.mean+wait/waitShare), float64(l.narrow.workers+1))
	c.entries.of("").most = most
	wrong := (most - l.inFlight) / max(l.visits, 1e-3)
	if wrong > 0 && !c.pressing || math.Abs(most-l.inFlight) <= looseFlight*most {
		wrong = 0
	}
	rate := max(capacity+wrong/wait, lowestRate*l.capacity, 1e-3)
	want := controller.Rate{
		PerSecond: float64(math.Float32frombits(math.Float32bits(float32(rate)) &^ 0xffff)), // a few digits
		Burst:     int(min(max(math.Ceil(c.trust*l.capacity*wait/waitShare), 1), math.MaxInt32)),
	}
	c.sift(s, m, want.PerSecond, d)
	c.set(s, want, m, d)
}

// growing reports whether there may soon be more workers: no command was refused
// of late, or not for long, or the workers have just become more.
func (c *objective) growing(s *controller.Snapshot) bool {
	workers := 0
	for i := range s.Pools {
		workers += min(max(s.Pools[i].Workers, 0), math.MaxInt32)
	}
	if !c.pressing || workers > c.workers {
		c.grew = s.At
	}
	c.workers = workers
	return s.At-c.grew < growsFor
}

// set sets the rate, unless it is about right.
func (c *objective) set(s *controller.Snapshot, want controller.Rate, m *demand, d *controller.Decisions) {
	is := s.Entry.Rate
	if s.Group != "" && len(s.Stages) > 0 {
		is = s.Stages[0].Admission.Rate
	}
	loose := looseRate
	if !c.pressing && c.load.inFlight < c.entries.of("").most {
		loose = looseFlight
	}
	if is.PerSecond > 0 && math.Abs(want.PerSecond-is.PerSecond) <= loose*is.PerSecond {
		want.PerSecond = is.PerSecond
	}
	if is.Burst > 0 && math.Abs(float64(want.Burst-is.Burst)) <= looseBurst*float64(is.Burst) {
		want.Burst = is.Burst
	}
	if want == is {
		return
	}
	why := c.why(m)
	if s.Group == "" {
		controller.KnobRate.Set(d, controller.Entry, want, why)
		return
	}
	for i := range s.Stages {
		controller.KnobRate.Set(d, controller.StageID(i), want, why)
	}
}

// why says why the rate is as it is.
func (c *objective) why(m *demand) string {
	l := &c.load
	slow := ""
	if l.tail >= c.aim.Within.Seconds()*(1-1.0/leastWait) {
		slow = fmt.Sprintf(", but the handlers alone take %v", precise(l.tail))
	}
	return fmt.Sprintf("%s: %.4g/s offered, %q bears %.4g/s, %.0f of %.0f in flight%s",
		c.name, m.offered/l.passed, l.narrow.name, l.capacity, l.inFlight, c.entries.of("").most, slow)
}

// wait returns how long a command may wait.
func (c *objective) wait() time.Duration {
	left := c.aim.Within - time.Duration(min(c.load.tail, math.MaxInt32)*float64(time.Second))
	return max(left, c.aim.Within/leastWait)
}

// doubt changes the trust by the response time that was measured.
func (c *objective) doubt(now time.Duration, m *demand) {
	c.answers += m.done
	if now-c.trusted < trustEvery || c.answers < fewestTrust {
		return
	}
	c.trusted, c.answers = now, 0
	switch within := c.aim.Within.Seconds(); {
	case c.load.response > within:
		c.trust = max(c.trust*trustCut, leastTrust)
	case c.load.response < within*falling:
		c.trust = min(c.trust*trustRise, 1)
	}
}

// sifting is the memory of the threshold of priorities.
type sifting struct {
	on      bool
	offered average // a second
	share   float64
	alike   bool          // all priorities were the same
	since   time.Duration // when they were
	refuses controller.Shed
}

// sift refuses the least important commands, if they differ.
func (c *objective) sift(s *controller.Snapshot, m *demand, rate float64, d *controller.Decisions) {
	x := &c.sifting
	offered := m.offered / c.load.passed
	x.offered.value += (offered - x.offered.value) * min(1, c.load.passed/shedOver.Seconds())
	switch {
	case !c.pressing && x.share == 0:
		x.on = false
	case x.alike && s.At-x.since < shedAgain:
		x.on = false
	default:
		x.on, x.alike = true, false
	}
	c.meter.look(s)
	seen := c.meter.seen
	if x.on && len(seen) >= fewestTrust && seen[0] == seen[len(seen)-1] {
		x.on, x.alike, x.since = false, true, s.At
	}
	x.share = 0
	if x.on && len(seen) >= fewestTrust && x.offered.value > 0 {
		x.share = min(max(1-shedPart*rate/x.offered.value, 0), 1)
	}
	c.meter.on, c.meter.share = x.on, x.share
	want := c.meter.threshold()
	if want == x.refuses || want.Below == x.refuses.Below && math.Abs(want.Edge-x.refuses.Edge) < looseRate {
		return
	}
	x.refuses = want
	why := fmt.Sprintf("%s: %.0f%% of %.4g/s are too many, the least important ones first", c.name, 100*x.share, x.offered.value)
	if s.Group == "" {
		controller.KnobShed.Set(d, controller.Entry, want, why)
		return
	}
	for i := range s.Stages {
		controller.KnobShed.Set(d, controller.StageID(i), want, why)
	}
}
