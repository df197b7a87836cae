package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// SEDA adds a worker to a stage whose queue is long and retires one from a stage
// that has nothing to do: the thread pool controller of Welsh, Culler and Brewer,
// "SEDA: An Architecture for Well-Conditioned, Scalable Internet Services" (SOSP
// 2001).
//
// A stage is hot when at least Threshold commands have been waiting at Samples
// looks in a row: it gets one worker more. It is idle when its queue was empty and
// a worker was free at every look for as long as Idle: it gets one less, and the
// time is measured anew. Both stay within the stage's bounds, and at least Cooldown
// passes between two actions on one stage. Each stage is judged for itself, but for
// those that share a pool: it is the pool that gets one worker more or one less, and
// it is hot when any of its stages is, and idle when nothing waits at any. A stage that
// is paused is left alone.
//
// How many commands a worker takes at once is the other half of the paper:
// [Batching].
//
// What waits is not idle, and what is idle is not hot: between the two the law
// leaves a stage alone. A load that plays around the threshold adds workers
// until it no longer does, and never takes one away.
//
// # Threshold and capacity
//
// As with [ERLDA], a threshold that a queue cannot reach is a policy that cannot
// act: Threshold counts as half of the stage's capacity, rounded up, where it is
// more than that. A full queue is hot at any capacity.
//
// A stage is not hot while stages ahead bound it, with whatever preset: another worker would only wait with the others.
// The journal says so when that begins; see [controller.StageStats].
//
// # Presets
//
// [Cruz] is the listing in section 4.2 of the dissertation of Cruz (2015). Every two
// seconds, where more than 50 commands wait or are in hand, there is one worker more,
// and in any other case one less. Nothing is counted and nothing rests, so a load
// around 50 makes it swing, and 49 commands that wait for a worker cost one. Idle
// means nothing to it. The listing's stages have stage.Workers(2, 10) and
// stage.Capacity(100).
//
// [Welsh] is Sandstorm, the program of the paper, with its defaults: it looks
// every two seconds, adds one for 1000 waiting, but at every fourth look only, and
// retires after one second of idleness. There a thread measures its own idleness; here
// the stage's is measured, one step for each look. Sandstorm's stages have
// stage.Workers(1, 20).
//
// A preset keeps its threshold wherever a queue can reach it, that is, up to the
// whole capacity.
//
//	            Threshold  Samples  Interval  Cooldown  Idle
//	no preset          64        2       1 s       2 s   5 s
//	Cruz               51        1       2 s      none     -
//	Welsh            1000        1       2 s      none   1 s
type SEDA struct {
	Preset    Preset        // [Cruz], [Welsh] or none; the rest defaults to the line above
	Threshold int           // this many waiting are hot
	Samples   int           // how many looks in a row must agree that it is hot
	Interval  time.Duration // between two looks
	Cooldown  time.Duration // between two actions on one stage, or [NoCooldown]
	Idle      time.Duration // with nothing to do for that long, a worker goes
}

// welshAdds is at which looks Sandstorm adds threads: every fourth.
const welshAdds = 4

// Name is "seda", with the preset if there is one: "seda:cruz".
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
			"Cooldown %v is negative; for none say NoCooldown", p.Cooldown),
		fault("seda", p.Idle < 0, "Idle %v is negative", p.Idle),
		fault("seda", p.Idle > 0 && p.Preset == Cruz,
			"Idle %v means nothing to the preset cruz, which retires by the threshold", p.Idle),
	)
}

// Claims returns the number of workers, which is all that SEDA decides.
func (SEDA) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller that has seen nothing yet.
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

// threshold returns the law's threshold for a stage: hot is that much or more.
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

// load is what is held against the threshold.
func (p SEDA) load(st *controller.StageStats) int {
	if p.Preset == Cruz {
		return st.QueueLen + st.InHand // the instances that are not free
	}
	return st.QueueLen
}

// what is the name of the load.
func (p SEDA) what() string {
	if p.Preset == Cruz {
		return "events"
	}
	return "queue"
}

// seda is SEDA's memory of one run.
type seda struct {
	law   SEDA
	looks int
	pools memory[pool]
	units units
}

// pool is what is remembered of a unit.
type pool struct {
	hot   int // samples in a row
	idle  bool
	since time.Duration // when it was first seen idle, or lost a worker for it
	acted bool          // false: never; last says nothing yet
	last  time.Duration // when it was acted upon
	held  held
}

// Control asks for ticks at the start and looks at every unit on each of them.
func (c *seda) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
	case controller.EventTick:
		c.looks++
		us := c.units.of(s)
		for i := range us {
			c.look(&us[i], s.At, d)
		}
		c.pools.forgetUnits(us)
		c.units.done()
	default: // the end asks for nothing, and what comes later is not known here
	}
}

func (c *seda) look(u *unit, now time.Duration, d *controller.Decisions) {
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
		return // it is not cold either
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

// above returns a stage's load and the threshold that it is held against; of no stage a load below it.
func (c *seda) above(st *controller.StageStats) (load, threshold int) {
	if st == nil {
		return 0, 1
	}
	return c.law.load(st), c.law.threshold(st)
}

// adds tells whether a stage may get one more, for all that the law knows of it.
func (c *seda) adds(p *pool) bool {
	return p.hot >= c.law.Samples && (c.law.Preset != Welsh || c.looks%welshAdds == 0)
}

// rest notes whether the stage has nothing to do, and since when.
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
