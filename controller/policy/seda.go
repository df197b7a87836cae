package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// SEDA adds a worker to a stage whose queue is long and removes one from a
// stage that is idle: the thread pool controller of Welsh, Culler and Brewer,
// "SEDA: An Architecture for Well-Conditioned, Scalable Internet Services"
// (SOSP 2001).
//
// A stage is hot when at least Threshold commands have been waiting at Samples
// consecutive ticks: it gets one worker more. It is idle when its queue was
// empty and a worker was free at every tick for as long as Idle: it gets one
// less, and the time is measured again from then. Both stay within the stage's
// bounds, and at least Cooldown passes between two changes of one stage. Each
// stage is judged by itself, except for stages that share a pool: then the pool
// gets one worker more or one less, and it is hot when any of its stages is
// hot, and idle when all their queues are empty. A paused stage is left alone.
//
// The other half of the paper, how many commands a worker takes at once, is
// [Batching].
//
// A stage with waiting commands is not idle, and an idle one is not hot; in
// between the law leaves a stage alone. A load that varies around the threshold
// adds workers until it no longer reaches the threshold, and never removes one.
//
// # Threshold and capacity
//
// As with [ERLDA], a threshold that a queue cannot reach would disable the
// policy: Threshold is limited to half of the stage's capacity, rounded up. A
// full queue is hot at any capacity.
//
// With any preset, a stage is not hot while it is bound by stages ahead:
// another worker would only wait with the others. The journal says so when this
// starts; see [controller.StageStats].
//
// # Presets
//
// [Cruz] is the listing in section 4.2 of the dissertation of Cruz (2015).
// Every two seconds a stage with more than 50 commands waiting or in hand gets
// one worker more, and any other stage gets one less. It counts no samples and
// has no cooldown, so a load around 50 makes it oscillate, and a stage with 49
// waiting commands loses a worker. It ignores Idle. The listing's stages have
// stage.Workers(2, 10), stage.Instances(10) and stage.Capacity(100).
//
// The listing's queues discard new events beyond 100, "until there are less
// than 100 accumulated events". So with this preset a gate refuses commands
// that are submitted to a stage while 100 commands wait there, whatever the
// stage.Overflow of the stage: the submitter gets an error that is
// stage.ErrPolicy, and a feed submits the command again later. Gates do not see
// commands that other stages forward: a stage that must discard these has
// stage.Overflow(overflow.DropNewest) and stage.Capacity(100).
//
// [Welsh] is Sandstorm, the program of the paper, with its defaults: it samples
// every two seconds, adds one worker for 1000 waiting commands, but only at
// every fourth tick, and removes one after one second of idleness. In Sandstorm
// a thread measures its own idleness; here the stage's is measured, in steps of
// one tick. Sandstorm's stages have stage.Workers(1, 20).
//
// A preset keeps its threshold as long as the queue can reach it, that is, up
// to the full capacity.
//
//	            Threshold  Samples  Interval  Cooldown  Idle
//	no preset          64        2       1 s       2 s   5 s
//	Cruz               51        1       2 s      none     -
//	Welsh            1000        1       2 s      none   1 s
type SEDA struct {
	Preset    Preset        // [Cruz], [Welsh] or none; sets the defaults of the other fields as listed above
	Threshold int           // a stage with this many waiting commands is hot
	Samples   int           // how many consecutive ticks must agree that it is hot
	Interval  time.Duration // between two ticks
	Cooldown  time.Duration // between two changes of one stage, or [NoCooldown]
	Idle      time.Duration // a stage that is idle for that long loses a worker
}

// welshAdds is the number of ticks between which Sandstorm adds threads.
const welshAdds = 4

// Name returns "seda", with the preset if there is one: "seda:cruz".
func (p SEDA) Name() string { return p.Preset.name("seda") }

// Check returns all faults of the parameters.
func (p SEDA) Check() error {
	return errors.Join(
		fault("seda", p.Preset != "" && p.Preset != Cruz && p.Preset != Welsh,
			"unknown Preset %q; known are %s, %s", p.Preset, Cruz, Welsh),
		fault("seda", p.Threshold < 0, "Threshold %d is negative", p.Threshold),
		fault("seda", p.Samples < 0, "Samples %d is negative", p.Samples),
		fault("seda", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("seda", p.Cooldown < 0 && p.Cooldown != NoCooldown,
			"Cooldown %v is negative; use NoCooldown for none", p.Cooldown),
		fault("seda", p.Idle < 0, "Idle %v is negative", p.Idle),
		fault("seda", p.Idle > 0 && p.Preset == Cruz,
			"Idle %v has no effect with the preset cruz, which removes workers by the threshold", p.Idle),
	)
}

// Claims returns the number of workers, and with the preset [Cruz] the gate.
func (p SEDA) Claims() []controller.Knob {
	if p.Preset == Cruz {
		return []controller.Knob{controller.KnobWorkers, controller.KnobGate}
	}
	return []controller.Knob{controller.KnobWorkers}
}

// New returns a controller with an empty memory.
func (p SEDA) New() controller.Controller {
	return &seda{law: p.withDefaults(), pools: make(memory[pool])}
}

func (p SEDA) withDefaults() SEDA {
	d := p.defaults()
	return SEDA{
		Preset:    p.Preset,
		Threshold: cmp.Or(p.Threshold, d.Threshold),
		Samples:   cmp.Or(p.Samples, d.Samples),
		Interval:  cmp.Or(p.Interval, d.Interval),
		Cooldown:  cmp.Or(p.Cooldown, d.Cooldown),
		Idle:      cmp.Or(p.Idle, d.Idle),
	}
}

func (p SEDA) defaults() SEDA {
	switch p.Preset {
	case Cruz:
		return SEDA{Threshold: 51, Samples: 1, Interval: 2 * time.Second, Cooldown: NoCooldown}
	case Welsh:
		return SEDA{Threshold: 1000, Samples: 1, Interval: 2 * time.Second, Cooldown: NoCooldown, Idle: time.Second}
	default:
		return SEDA{Threshold: 64, Samples: 2, Interval: time.Second, Cooldown: 2 * time.Second, Idle: 5 * time.Second}
	}
}

// threshold returns the threshold for a stage: that much or more is hot.
func (p SEDA) threshold(st *controller.StageStats) int {
	switch capacity := st.QueueCap; {
	case capacity <= 0:
		return p.Threshold
	case p.Preset == "":
		return min(p.Threshold, capacity-capacity/2)
	default:
		return min(p.Threshold, capacity)
	}
}

// load returns the number that is compared with the threshold.
func (p SEDA) load(st *controller.StageStats) int {
	if p.Preset == Cruz {
		return st.QueueLen + st.InHand // the instances that are not free
	}
	return st.QueueLen
}

// what is the name of the load in reasons: events or queue.
func (p SEDA) what() string {
	if p.Preset == Cruz {
		return "events"
	}
	return "queue"
}

// seda is SEDA's memory of one run.
type seda struct {
	law   SEDA
	ticks int
	pools memory[pool]
	units units
}

// pool is the memory of a unit.
type pool struct {
	hot   int // consecutive samples
	idle  bool
	since time.Duration // when it was first seen idle, or last lost a worker for being idle
	acted bool          // false: never, and last is not set
	last  time.Duration // time of the last change
	held  held
}

// Control asks for ticks at the start and inspects every unit at each of them.
func (c *seda) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		c.discard(s, d)
	case controller.EventTopology:
		c.discard(s, d)
	case controller.EventTick:
		c.ticks++
		us := c.units.of(s)
		for i := range us {
			c.inspect(&us[i], s.At, d)
		}
		c.pools.forgetUnits(us)
		c.units.done()
	default: // the others change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// cruzCapacity is how many events the queues of the listing of Cruz hold.
const cruzCapacity = 100

// errDiscarded is why a discarding gate refuses.
var errDiscarded = fmt.Errorf("%d commands wait: new ones are discarded", cruzCapacity)

// discarding is the gate of a stage that discards new commands. All are equal.
type discarding struct{}

// Admit refuses a command if the queue has as many as in the listing.
func (discarding) Admit(_ any, queued, _ int) error {
	if queued >= cruzCapacity {
		return errDiscarded
	}
	return nil
}

// discard gives the stages the gate of the listing of Cruz.
func (c *seda) discard(s *controller.Snapshot, d *controller.Decisions) {
	if c.law.Preset != Cruz {
		return
	}
	for i := range s.Stages {
		if !s.Stages[i].Paused {
			controller.KnobGate.Set(d, controller.StageID(i), discarding{}, "the queues of the listing discard beyond 100")
		}
	}
}

func (c *seda) inspect(u *unit, now time.Duration, d *controller.Decisions) {
	p := c.pools.of(u.name)
	if u.restore(d) {
		return
	}
	if u.paused() {
		p.hot, p.idle = 0, false
		return
	}
	hottest, bound := u.hottest(c.law.load, c.law.threshold)
	load, threshold := c.above(hottest)
	p.hot = streak(p.hot, load >= threshold)
	p.rest(now, u.empty() && u.free() > 0)
	if waiting, most := c.above(bound); p.hot == 0 && waiting >= most {
		if u.workers < u.most {
			u.keep(&p.held, now, d, bound, c.law.what(), waiting)
		}
		return // nor is it cold
	}
	if p.acted && now-p.last < c.law.Cooldown {
		return
	}
	switch {
	case c.adds(p) && u.workers < u.most:
		u.scale(d, u.workers+1, why(c.law.what(), load, ">=", threshold, p.hot))
	case u.workers <= max(1, u.least):
		return
	case c.law.Preset == Cruz && p.hot == 0:
		u.scale(d, u.workers-1, why(c.law.what(), load, "<", threshold, 1))
	case c.law.Preset != Cruz && p.idle && now-p.since >= c.law.Idle:
		u.scale(d, u.workers-1, fmt.Sprintf("%d of %d workers idle for %v", u.free(), u.workers, now-p.since))
	default:
		return
	}
	p.act(now)
}

// above returns a stage's load and its threshold; for a nil stage it returns a
// load below the threshold.
func (c *seda) above(st *controller.StageStats) (load, threshold int) {
	if st == nil {
		return 0, 1
	}
	return c.law.load(st), c.law.threshold(st)
}

// adds reports whether a stage may get one worker more by its samples and
// ticks.
func (c *seda) adds(p *pool) bool {
	return p.hot >= c.law.Samples && (c.law.Preset != Welsh || c.ticks%welshAdds == 0)
}

// rest records whether the stage is idle, and since when.
func (p *pool) rest(now time.Duration, idle bool) {
	if idle && !p.idle {
		p.since = now
	}
	p.idle = idle
}

func (p *pool) act(now time.Duration) {
	p.hot, p.since = 0, now
	p.acted, p.last = true, now
}
