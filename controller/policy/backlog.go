package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Backlog gives a stage as many workers as drain its queue within Target at the
// measured service time. It is the default policy of a pipeline. The law is the
// target tracking of queue workers that cloud autoscalers call the acceptable
// backlog for each worker ("Scaling based on Amazon SQS", AWS, 2018), with a
// limit on growth that does not pay.
//
// # Up
//
// At each tick, every Interval while commands wait, a stage wants
//
//	wanted = max(queue · service / Target, workers · queue / (capacity / 2))
//
// workers, rounded up. The second term is for queues whose capacity is small
// compared with the load: a queue that is more than half full asks for more
// workers, and a full one for twice as many. Service is the mean handler time
// of the last commands, and includes the time so far of the handlers that have
// not returned. While it is not known the stage keeps its workers. The stage
// gets the wanted workers at once, but not more than twice the workers it has,
// and not more than its bounds and instances allow.
//
// A stage that is bound by stages ahead wants no more workers: another worker
// would only wait with the others. The journal says so when this starts; see
// [controller.StageStats].
//
// # Growth that does not pay
//
// Workers that compete for a CPU, a lock or a connection do not get more done
// when there are more of them. So Backlog measures the throughput of the stage
// while all its workers are busy, before and after it grows. If a growth to f
// times the workers gained less than a quarter of what f promises, it is
// undone, and the stage does not grow beyond the old number for 10 s, and for
// twice as long each further time, up to ten minutes. While the process uses 90
// % of the CPUs or more, each growth is judged before the next one. Otherwise
// the workers evidently wait rather than compute, and growth continues
// meanwhile. Where the CPU usage is not known, growth beyond one worker for
// each CPU is judged step by step.
//
// # Down
//
// A stage loses workers when fewer were needed for as long as Idle:
//
//	needed = max(wanted, busy workers / Utilization)
//
// where busy workers is an average over a second. Then the stage goes down to
// the highest number that was needed in that time, but loses no more than a
// quarter of its workers, and the time starts again. So a stage that is busy
// for 70 % of its time keeps its workers however its queue varies: under steady
// load the number becomes stable, and the policy reduces it at most twice a
// minute.
//
// # Groups
//
// Stages that share a pool are judged together: the backlog of the pool is the
// sum of their queues, each with its own service time. A paused stage is left
// out.
type Backlog struct {
	Interval    time.Duration // between two ticks while commands wait; default 100 ms; three times that while none wait
	Target      time.Duration // how long a queue may take to drain; default 100 ms
	Idle        time.Duration // how long fewer workers must have been enough; default 30 s
	Utilization float64       // how busy the remaining workers may be, above 0 and at most 1; default 0.7
}

// The constants of the law.
const (
	idleFactor    = 3   // how many intervals pass between ticks while all queues are empty
	worthwhile    = 4   // a growth pays if it gains at least this part (1/n) of the promised gain
	plainly       = 2   // and is known at once to pay if it gains this part (1/n)
	enoughTicks   = 3   // ticks after which the gain is known
	enoughDone    = 8   // commands that must be done in a measured time
	shareOfCPUs   = 0.9 // CPU usage above which workers may compete for the CPUs
	serviceWindow = 32  // number of last commands whose handler time makes the service time
	loadOver      = time.Second
	leastRefusal  = 10 * time.Second
	mostRefusal   = 10 * time.Minute
	trialEnds     = 10 * time.Second // the measure of an earlier number of workers expires after that time
	mostWork      = 100 * 365 * 24 * time.Hour
)

// Name returns "backlog".
func (Backlog) Name() string { return "backlog" }

// Check returns all faults of the parameters.
func (p Backlog) Check() error {
	return errors.Join(
		fault("backlog", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("backlog", p.Target < 0, "Target %v is negative", p.Target),
		fault("backlog", p.Idle < 0, "Idle %v is negative", p.Idle),
		fault("backlog", !(p.Utilization >= 0 && p.Utilization <= 1), "Utilization %v is not from 0 to 1", p.Utilization),
	)
}

// Lag describes a queue that several processes work off, and the workers of
// these processes that handle its commands.
type Lag struct {
	Pending   uint64  // commands that are not done: waiting and in hand
	Fill      float64 // how full the queue is, from 0 to 1; 0 if it has no capacity
	Rate      float64 // commands a second that are done; 0 if it is not known
	Processes int     // that work the queue off
	Workers   int     // in all these processes
	Most      int     // the most workers that these processes may have
	Busy      float64 // how many of the workers are busy, on average
}

// Wanted returns how many workers the law asks for in all processes, and how
// many processes of this kind have that many workers. A command takes Busy /
// Rate of the workers' time (the service demand law), so the workers are
//
//	max((Pending - Busy) · Busy / Rate / Target, Workers · Fill · 2, Busy / Utilization)
//
// rounded up. While no command is known to be done, and one is pending, they
// are at least the present workers. If there is no process, Wanted asks for one
// with one worker as soon as a command is pending. It may be called by any
// goroutine.
func (p Backlog) Wanted(l Lag) (workers int, processes float64) {
	if l.Processes <= 0 {
		n := int(min(l.Pending, 1))
		return n, float64(n)
	}
	p = p.withDefaults()
	work := 0.0
	if l.Rate > 0 {
		work = min(max(float64(l.Pending)-l.Busy, 0)*l.Busy/l.Rate, mostWork.Seconds())
	}
	workers = max(p.wanted(work, 2*l.Fill, l.Workers), p.needed(l.Busy))
	if !(l.Rate > 0) && l.Pending > 0 {
		workers = max(workers, l.Workers, 1)
	}
	return workers, float64(workers) * float64(l.Processes) / float64(max(l.Most, 1))
}

// wanted returns how many workers the queues ask for: work is in seconds, and
// fill is 1 at half of the capacity.
func (p Backlog) wanted(work, fill float64, workers int) int {
	return whole(max(work/p.Target.Seconds(), fill*float64(workers)))
}

// needed returns how many workers there must be, given the number of busy ones.
func (p Backlog) needed(busy float64) int { return whole(busy / p.Utilization) }

// whole rounds up to a number of workers. The error of a division, such as of
// 0.7000000000000001 by 0.7, is no worker.
func whole(n float64) int {
	if !(n > 0) { // or not a number
		return 0
	}
	return int(math.Ceil(min(n*(1-1e-9), math.MaxInt32)))
}

// Claims returns the number of workers: Backlog decides nothing else.
func (Backlog) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller with an empty memory.
func (p Backlog) New() controller.Controller {
	return &backlog{law: p.withDefaults(), flows: make(memory[flow]), trends: make(memory[trend])}
}

func (p Backlog) withDefaults() Backlog {
	return Backlog{
		Interval:    cmp.Or(p.Interval, 100*time.Millisecond),
		Target:      cmp.Or(p.Target, 100*time.Millisecond),
		Idle:        cmp.Or(p.Idle, 30*time.Second),
		Utilization: cmp.Or(p.Utilization, 0.7),
	}
}

// backlog is Backlog's memory of one run.
type backlog struct {
	law    Backlog
	every  time.Duration // the interval that was set last
	flows  memory[flow]
	trends memory[trend]
	units  units
}

// flow is the memory of a stage.
type flow struct {
	busySeen time.Duration // the totals at the last tick
	doneSeen uint64
	busy     time.Duration // handler time of the last commands
	handled  float64       // the number of these commands
}

// service returns the mean time of a command in its handler, in seconds; 0 if
// it is not known.
func (f *flow) service() float64 { return f.busy.Seconds() / max(f.handled, 1) }

// since returns the handler time and the number of commands since the last
// tick, and updates the service time with them.
func (f *flow) since(st *controller.StageStats) (busy time.Duration, done uint64) {
	busy, done = st.Total.Busy-f.busySeen, st.Total.Handled()-f.doneSeen
	if busy < 0 || st.Total.Handled() < f.doneSeen { // a new stage has the name of an old one
		busy, done = max(st.Total.Busy, 0), st.Total.Handled()
	}
	f.busySeen, f.doneSeen = st.Total.Busy, st.Total.Handled()
	f.busy += busy
	f.handled += float64(done)
	if over := f.handled / serviceWindow; over > 1 {
		f.busy = time.Duration(float64(f.busy) / over)
		f.handled = serviceWindow
	}
	return busy, done
}

// trend is the memory of a unit.
type trend struct {
	seen  bool
	last  time.Duration // time of the last tick
	busy  float64       // busy workers, on average
	held  held
	needs struct { // since the number of workers was last needed or changed
		since time.Duration
		most  int
	}

	// The throughput of the current number of workers, over consecutive ticks
	// at which all of them were busy.
	ticks int
	span  time.Duration
	done  uint64

	// The throughput of fewer workers, with which the current number is
	// compared; 0 workers: no growth is on trial.
	proven  int
	rate    float64 // commands a second
	began   time.Duration
	ceiling int // a number beyond which growth did not pay; 0: none is known
	until   time.Duration
	refusal time.Duration
}

// observation is the state of a unit at one tick.
type observation struct {
	now      time.Duration
	passed   time.Duration // since the last tick; 0 if there was none
	crowded  bool          // workers may compete for the CPUs
	busy     time.Duration
	done     uint64
	work     float64 // seconds of work in the queues
	fill     float64 // of the fullest queue: 1 is half of its capacity
	waiting  int
	unknown  bool                   // commands wait whose service time is not known
	bound    *controller.StageStats // the longest queue among the stages that are bound by stages ahead
	capacity int                    // number of workers for which there are instances
}

// Control sets the interval at the start and inspects every unit at each tick.
func (c *backlog) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.setInterval(c.law.Interval, d)
	case controller.EventQueueFull:
		c.setInterval(c.law.Interval, d)
	case controller.EventTick:
		us := c.units.of(s)
		waits := false
		for i := range us {
			waits = c.inspect(&us[i], s, d) || waits
		}
		c.flows.forget(s)
		c.trends.forgetUnits(us)
		c.units.done()
		if waits {
			c.setInterval(c.law.Interval, d)
		} else {
			c.setInterval(idleFactor*c.law.Interval, d)
		}
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// setInterval sets the time between two ticks.
func (c *backlog) setInterval(every time.Duration, d *controller.Decisions) {
	if c.every != every {
		c.every = every
		d.Every(every)
	}
}

// inspect observes and scales a unit, and reports whether commands wait there.
func (c *backlog) inspect(u *unit, s *controller.Snapshot, d *controller.Decisions) (waits bool) {
	t := c.trends[u.name]
	l := c.observe(u, t, s)
	switch rests := l.waiting == 0 && l.bound == nil && u.workers == u.least; {
	case rests && (t == nil || l.now >= t.until):
		delete(c.trends, u.name) // it has no work, and no worker to lose
		return false
	case t == nil:
		t = c.trends.of(u.name)
		t.needs.since = l.now
	}
	t.last, t.seen = l.now, true
	if u.restore(d) || u.paused() {
		t.changed(l.now)
		t.proven = 0
		return false
	}
	waits = l.waiting > 0
	t.measure(&l, u.workers)
	wanted := c.wanted(&l, u.workers)
	if c.judge(u, t, &l, d) || c.grow(u, t, &l, wanted, d) {
		return waits
	}
	c.shrink(u, t, &l, wanted, d)
	return waits
}

// observe gathers the load, progress and bounds of the stages of a unit.
func (c *backlog) observe(u *unit, t *trend, s *controller.Snapshot) observation {
	l := observation{now: s.At, capacity: math.MaxInt}
	l.crowded = s.CPUUsage >= shareOfCPUs || s.CPUUsage <= 0 && u.workers >= s.CPUs // 0: it is not known
	if t != nil && t.seen && s.At > t.last {
		l.passed = s.At - t.last
	}
	instances, limited := 0, true
	for _, st := range u.stages {
		f := c.flows.of(st.Name)
		busy, done := f.since(st)
		l.busy += busy
		l.done += done
		limited = limited && st.Instances > 0
		instances += min(max(st.Instances, 0), math.MaxInt32)
		switch {
		case st.QueueLen <= 0:
		case st.Bound:
			if l.bound == nil || st.QueueLen > l.bound.QueueLen {
				l.bound = st
			}
		default:
			l.waiting = max(l.waiting, st.QueueLen)
			l.work += float64(st.QueueLen) * f.service()
			l.unknown = l.unknown || f.service() == 0
			if st.QueueCap > 0 {
				l.fill = max(l.fill, 2*float64(st.QueueLen)/float64(st.QueueCap))
			}
		}
	}
	if limited && len(u.stages) > 0 {
		l.capacity = instances
	}
	return l
}

// measure adds an observation to the measured throughput of the current number
// of workers.
func (t *trend) measure(l *observation, workers int) {
	if l.passed == 0 {
		return
	}
	busy := l.busy.Seconds() / l.passed.Seconds()
	t.busy += (busy - t.busy) * min(1, l.passed.Seconds()/loadOver.Seconds())
	if busy < 0.75*float64(workers) || l.waiting == 0 {
		t.ticks, t.span, t.done = 0, 0, 0
		return
	}
	t.ticks++
	t.span += l.passed
	t.done += l.done
}

// measured reports whether the throughput of the current number of workers is
// known.
func (t *trend) measured(workers int) bool {
	return t.span > 0 && t.done >= uint64(max(enoughDone, 2*workers))
}

// speed returns the throughput of the current number of workers, in commands a
// second.
func (t *trend) speed() float64 { return float64(t.done) / t.span.Seconds() }

// wanted returns how many workers the queues ask for.
func (c *backlog) wanted(l *observation, workers int) int {
	n := c.law.wanted(l.work, l.fill, workers)
	if l.unknown {
		n = max(n, workers)
	}
	return n
}

// judge compares the throughput of the current number of workers with the
// throughput of the number before the growth, and reports whether it undoes the
// growth.
func (c *backlog) judge(u *unit, t *trend, l *observation, d *controller.Decisions) bool {
	switch {
	case t.proven == 0:
		return false
	case t.proven >= u.workers || l.now-t.began >= trialEnds: // another controller changed the number, or the trial took too long
		t.proven = 0
		return false
	case !t.measured(u.workers):
		return false
	}
	promised := float64(u.workers)/float64(t.proven) - 1
	gained := t.speed()/t.rate - 1
	switch {
	case gained >= promised/plainly || t.ticks >= enoughTicks && gained >= promised/worthwhile:
		t.proven, t.refusal, t.ceiling = 0, 0, 0
		return false
	case t.ticks < enoughTicks:
		return false
	}
	before := max(t.proven, u.least)
	t.refusal = min(max(2*t.refusal, leastRefusal), mostRefusal)
	t.ceiling, t.until, t.proven = before, l.now+t.refusal, 0
	t.changed(l.now)
	u.scale(d, before, fmt.Sprintf("%d workers got %.0f%% more done than %d: not more than %[3]d for %[4]v",
		u.workers, 100*gained, before, t.refusal))
	return true
}

// grow gives the unit the workers that its queues ask for, and reports whether
// it did.
func (c *backlog) grow(u *unit, t *trend, l *observation, wanted int, d *controller.Decisions) bool {
	most := min(u.most, l.capacity)
	if t.ceiling > 0 && l.now < t.until {
		most = min(most, t.ceiling)
	}
	if u.workers >= most {
		return false
	}
	if wanted <= u.workers {
		c.bound(u, t, l, d)
		return false
	}
	known := t.measured(u.workers)
	if l.crowded && (t.proven > 0 || !known) {
		return false // wait for the result of the last growth, or for a throughput to compare with
	}
	n := min(wanted, most)
	if n-u.workers > u.workers {
		n = max(2*u.workers, 1)
	}
	if t.proven == 0 && known {
		t.proven, t.rate, t.began = u.workers, t.speed(), l.now
	}
	t.changed(l.now)
	u.scale(d, n, fmt.Sprintf("%s: %d workers wanted", c.reason(l, u.workers), wanted))
	return true
}

// bound notes in the journal that the unit would grow if it were not bound by
// stages ahead.
func (c *backlog) bound(u *unit, t *trend, l *observation, d *controller.Decisions) {
	if st := l.bound; st != nil {
		f := c.flows.of(st.Name)
		b := observation{work: float64(st.QueueLen) * f.service(), fill: 2 * float64(st.QueueLen) / float64(max(st.QueueCap, 1))}
		if c.wanted(&b, u.workers) > u.workers {
			u.keep(&t.held, l.now, d, st, "queue", st.QueueLen)
		}
	}
}

// reason describes the queue, for the journal.
func (c *backlog) reason(l *observation, workers int) string {
	if l.work/c.law.Target.Seconds() >= l.fill*float64(workers) {
		return fmt.Sprintf("queue %d, work for %v, target %v", l.waiting, seconds(l.work), c.law.Target)
	}
	return fmt.Sprintf("queue %d, %.0f%% of its capacity", l.waiting, 50*l.fill)
}

// seconds returns a duration rounded for messages.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second)).Round(time.Millisecond)
}

// shrink removes workers that were not needed for a long time.
func (c *backlog) shrink(u *unit, t *trend, l *observation, wanted int, d *controller.Decisions) {
	needed := max(wanted, c.law.needed(t.busy), 1)
	if needed >= u.workers {
		t.needs.since, t.needs.most = l.now, 0
		return
	}
	t.needs.most = max(t.needs.most, needed)
	if l.now-t.needs.since < c.law.Idle || u.workers <= u.least {
		return
	}
	n := max(t.needs.most, u.workers-max(1, u.workers/4), u.least)
	if n >= u.workers {
		return
	}
	u.scale(d, n, fmt.Sprintf("at most %d needed for %v, %.1f busy now", t.needs.most, l.now-t.needs.since, t.busy))
	t.proven = 0
	t.changed(l.now)
}

// changed restarts the measurements, since the number of workers has changed.
func (t *trend) changed(now time.Duration) {
	t.ticks, t.span, t.done = 0, 0, 0
	t.needs.since, t.needs.most = now, 0
}
