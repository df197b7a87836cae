package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Backlog gives a stage as many workers as drain its queue within Target at the measured service time, and is
// the default policy of a pipeline. The law is the target tracking of queue workers that cloud autoscalers call the
// acceptable backlog for each worker ("Scaling based on Amazon SQS", AWS, 2018), with a bound on growth that
// does not pay.
//
// # Up
//
// At each look, every Interval while something waits, a stage wants
//
//	wanted = max(queue · service / Target, workers · queue / (capacity / 2))
//
// workers, rounded up. The second term is for queues that are short beside the commands that wait before them: a queue that
// is more than half full asks for more, a full one for twice as many. Service is the mean time of the last commands in their
// handlers, and includes how long those that have not returned have been there; while it is not known the stage
// keeps its workers. The stage gets what it wants at
// once, but no more than twice the workers it has, and no more than its bounds and instances allow.
//
// A stage that stages ahead bound wants no more: another worker would only wait with the others. The journal says so
// when that begins; see [controller.StageStats].
//
// # Growth that does not pay
//
// Workers that compete for a CPU, a lock or a connection get no more done by being more. So Backlog measures what the
// stage gets done while all its workers are at work, before and after it grows. If a growth to f times the workers gained less
// than a quarter of what f promises, it is taken back, and the stage does not grow beyond that for 10 s, and for
// twice as long each further time, up to ten minutes. While the process uses 90 % of the CPUs or more, each growth
// is judged before the next; otherwise, when workers evidently wait rather than compute, growth goes on meanwhile. Where
// it is not known how much of the CPUs is in use, growth beyond one worker for each CPU is judged step by step.
//
// # Down
//
// A worker goes when fewer were needed for as long as Idle:
//
//	needed = max(wanted, busy workers / Utilization)
//
// where busy workers is an average over a second. Then the stage goes down to the most that was needed in that time, but
// gives away no more than a quarter of its workers, and the time begins anew. So what is busy for 70 % of its time
// keeps its workers however its queue plays: under steady load the number comes to rest, and the policy changes it at most twice a
// minute on its way down.
//
// # Groups
//
// Stages that share a pool are judged together: what waits for the pool is the sum of their queues, each with its own
// service time. A stage that is paused is left out.
type Backlog struct {
	Interval    time.Duration // between two looks while something waits; default 100 ms, three times that while nothing does
	Target      time.Duration // for how long a queue may take to drain; default 100 ms
	Idle        time.Duration // for how long fewer workers must have been enough; default 30 s
	Utilization float64       // how busy the workers that stay may be, above 0 and at most 1; default 0.7
}

// The constants of the law.
const (
	calmly        = 3   // a look at a pipeline with empty queues stands for so many
	worthwhile    = 4   // a growth pays that gains at least the fourth part of what it promises
	plainly       = 2   // and is known at once to pay if it gains the half
	enoughLooks   = 3   // looks after which the gain is known
	enoughDone    = 8   // commands that have to be done in a measured time
	shareOfCPUs   = 0.9 // of the CPUs in use, above which workers may compete for them
	serviceWindow = 32  // commands whose time in the handler makes the service time
	loadOver      = time.Second
	leastRefusal  = 10 * time.Second
	mostRefusal   = 10 * time.Minute
	trialEnds     = 10 * time.Second // what a growth is held against is forgotten after that
)

// Name is "backlog".
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

// Claims returns the number of workers, which is all that Backlog decides.
func (Backlog) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller that has seen nothing yet.
func (p Backlog) New() controller.Controller {
	return &backlog{law: p.withDefaults(), flows: make(memory[flow]), tides: make(memory[tide])}
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
	law   Backlog
	every time.Duration // what was last asked for
	flows memory[flow]
	tides memory[tide]
	units units
}

// flow is what is remembered of a stage.
type flow struct {
	busySeen time.Duration // the totals at the last look
	doneSeen uint64
	busy     time.Duration // in handlers, of the last commands
	handled  float64       // these
}

// service is the mean time of a command in its handler, in seconds; 0 if it is not known.
func (f *flow) service() float64 { return f.busy.Seconds() / max(f.handled, 1) }

// since returns the time in handlers and the commands that were handled since the last look, and learns the service time
// from them.
func (f *flow) since(st *controller.StageStats) (busy time.Duration, done uint64) {
	busy, done = st.Total.Busy-f.busySeen, st.Total.Handled()-f.doneSeen
	if busy < 0 || st.Total.Handled() < f.doneSeen { // a stage made anew under its old name
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

// tide is what is remembered of a unit.
type tide struct {
	seen  bool
	last  time.Duration // when it was last looked at
	busy  float64       // workers, on average
	held  held
	needs struct { // since the number of workers was last known to be needed
		since time.Duration
		most  int
	}

	// What the present number of workers gets done, in a row of looks at which all of them were at work.
	looks int
	span  time.Duration
	done  uint64

	// What fewer workers got done, against which the present number is held; 0 workers: nothing is on trial.
	proven  int
	rate    float64 // commands a second
	began   time.Duration
	ceiling int // a number beyond which growth did not pay; 0: none is known
	until   time.Duration
	refusal time.Duration
}

// unitLook is what one look at a unit shows.
type unitLook struct {
	now      time.Duration
	passed   time.Duration // since the last look; 0 if there was none
	crowded  bool          // workers may compete for the CPUs
	busy     time.Duration
	done     uint64
	work     float64 // seconds of it in the queues
	fill     float64 // of the fullest queue: 1 is half of its capacity
	waiting  int
	unknown  bool                   // something waits whose service time is not known
	bound    *controller.StageStats // the longest queue of a stage that stages ahead bound
	capacity int                    // workers that find instances
}

// Control asks for looks at the start, and looks at every unit on each of them.
func (c *backlog) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.wake(c.law.Interval, d)
	case controller.EventQueueFull:
		c.wake(c.law.Interval, d)
	case controller.EventTick:
		us := c.units.of(s)
		waits := false
		for i := range us {
			waits = c.look(&us[i], s, d) || waits
		}
		c.flows.forget(s)
		c.tides.forgetUnits(us)
		c.units.done()
		if waits {
			c.wake(c.law.Interval, d)
		} else {
			c.wake(calmly*c.law.Interval, d)
		}
	default: // the end asks for nothing, and what comes later is not known here
	}
}

// wake asks for looks at that interval.
func (c *backlog) wake(every time.Duration, d *controller.Decisions) {
	if c.every != every {
		c.every = every
		d.Every(every)
	}
}

// look sees to a unit, and reports whether something waits there.
func (c *backlog) look(u *unit, s *controller.Snapshot, d *controller.Decisions) (waits bool) {
	t := c.tides[u.name]
	l := c.see(u, t, s)
	switch rests := l.waiting == 0 && l.bound == nil && u.workers == u.least; {
	case rests && (t == nil || l.now >= t.until):
		delete(c.tides, u.name) // it has nothing to do, and no worker to lose
		return false
	case t == nil:
		t = c.tides.of(u.name)
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

// see gathers what happened at the stages of a unit.
func (c *backlog) see(u *unit, t *tide, s *controller.Snapshot) unitLook {
	l := unitLook{now: s.At, capacity: math.MaxInt}
	l.crowded = s.CPUUsage >= shareOfCPUs || s.CPUUsage <= 0 && u.workers >= s.CPUs // 0: it is not known
	if t != nil && t.seen && s.At > t.last {
		l.passed = s.At - t.last
	}
	room, limited := 0, true
	for _, st := range u.stages {
		f := c.flows.of(st.Name)
		busy, done := f.since(st)
		l.busy += busy
		l.done += done
		limited = limited && st.Instances > 0
		room += min(max(st.Instances, 0), math.MaxInt32)
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
		l.capacity = room
	}
	return l
}

// measure adds a look to what is known of the present number of workers.
func (t *tide) measure(l *unitLook, workers int) {
	if l.passed == 0 {
		return
	}
	busy := l.busy.Seconds() / l.passed.Seconds()
	t.busy += (busy - t.busy) * min(1, l.passed.Seconds()/loadOver.Seconds())
	if busy < 0.75*float64(workers) || l.waiting == 0 {
		t.looks, t.span, t.done = 0, 0, 0
		return
	}
	t.looks++
	t.span += l.passed
	t.done += l.done
}

// measured reports whether what the present number gets done is known.
func (t *tide) measured(workers int) bool {
	return t.span > 0 && t.done >= uint64(max(enoughDone, 2*workers))
}

// speed is how many commands a second the present number gets done.
func (t *tide) speed() float64 { return float64(t.done) / t.span.Seconds() }

// wanted is how many workers the queues ask for.
func (c *backlog) wanted(l *unitLook, workers int) int {
	n := max(l.work/c.law.Target.Seconds(), l.fill*float64(workers))
	if l.unknown {
		n = max(n, float64(workers))
	}
	return int(math.Ceil(min(max(n, 0), math.MaxInt32)))
}

// judge holds the present number of workers against the one before, if it grew, and reports whether it takes the
// growth back.
func (c *backlog) judge(u *unit, t *tide, l *unitLook, d *controller.Decisions) bool {
	switch {
	case t.proven == 0:
		return false
	case t.proven >= u.workers || l.now-t.began >= trialEnds: // somebody else changed it, or it cannot be told
		t.proven = 0
		return false
	case !t.measured(u.workers):
		return false
	}
	promised := float64(u.workers)/float64(t.proven) - 1
	gained := t.speed()/t.rate - 1
	switch {
	case gained >= promised/plainly || t.looks >= enoughLooks && gained >= promised/worthwhile:
		t.proven, t.refusal, t.ceiling = 0, 0, 0
		return false
	case t.looks < enoughLooks:
		return false
	}
	before := max(t.proven, u.least)
	t.refusal = min(max(2*t.refusal, leastRefusal), mostRefusal)
	t.ceiling, t.until, t.proven = before, l.now+t.refusal, 0
	t.changed(l.now)
	u.scale(d, before, fmt.Sprintf("%d workers got %.0f%% more done than %d: no more than that for %v",
		u.workers, 100*gained, before, t.refusal))
	return true
}

// grow gives the unit the workers that its queues ask for, and reports whether it did.
func (c *backlog) grow(u *unit, t *tide, l *unitLook, wanted int, d *controller.Decisions) bool {
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
		return false // first see what the last growth was good for, or what there is to gain on
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

// bound has the journal say that the unit would grow if stages ahead did not bound it.
func (c *backlog) bound(u *unit, t *tide, l *unitLook, d *controller.Decisions) {
	if st := l.bound; st != nil {
		f := c.flows.of(st.Name)
		b := unitLook{work: float64(st.QueueLen) * f.service(), fill: 2 * float64(st.QueueLen) / float64(max(st.QueueCap, 1))}
		if c.wanted(&b, u.workers) > u.workers {
			u.keep(&t.held, l.now, d, st, "queue", st.QueueLen)
		}
	}
}

// reason tells what waits.
func (c *backlog) reason(l *unitLook, workers int) string {
	if l.work/c.law.Target.Seconds() >= l.fill*float64(workers) {
		return fmt.Sprintf("queue %d, work for %v, target %v", l.waiting, seconds(l.work), c.law.Target)
	}
	return fmt.Sprintf("queue %d, %.0f%% of its capacity", l.waiting, 50*l.fill)
}

// seconds is a duration that reads well.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second)).Round(time.Millisecond)
}

// shrink takes workers that were not needed for long.
func (c *backlog) shrink(u *unit, t *tide, l *unitLook, wanted int, d *controller.Decisions) {
	needed := max(wanted, int(math.Ceil(min(t.busy/c.law.Utilization, math.MaxInt32))), 1)
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

// changed begins to measure anew: the number of workers is another one from now on.
func (t *tide) changed(now time.Duration) {
	t.looks, t.span, t.done = 0, 0, 0
	t.needs.since, t.needs.most = now, 0
}
