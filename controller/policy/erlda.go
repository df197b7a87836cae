package policy

import (
	"cmp"
	"errors"
	"time"

	"github.com/golda-dev/golda/controller"
)

// The defaults of [ERLDA].
const (
	DefaultInterval = time.Second
	DefaultCooldown = 2 * time.Second
	DefaultUp       = 100
	DefaultDown     = 10
	DefaultSamples  = 1
)

// NoCooldown is the Cooldown of a policy without pauses: it may act on every
// tick. It has a name because zero means the default.
const NoCooldown time.Duration = -1

// ERLDA adds a worker to a stage whose queue is long and removes one from a
// stage whose queue is short: the controller of Areias and Neto (2025), section
// 3.3, as it was intended.
//
// A stage is hot when more than Up commands have been waiting for Samples
// consecutive ticks, and cold when fewer than Down have. A hot stage gets one
// worker more and a cold one gets one less, within the stage's bounds and not
// before Cooldown has passed since the last change; then the counting of
// samples starts again. Each stage is judged by itself, except for stages that
// share a pool: then the pool gets one worker more or one less, and it is hot
// when any of its stages is hot, and cold when all are cold. A paused stage is
// left alone.
//
// # Thresholds and capacity
//
// A threshold that a queue cannot reach would disable the policy. The original
// refused commands at 50 waiting and added workers at 100. Here Up is limited
// to half of the stage's capacity, and Down to that Up, but to no less than
// one:
//
//	up   = min(Up, capacity/2)
//	down = min(Down, max(1, up))
//
// So a stage with a capacity of one command is hot when the command is there
// and cold when it is not. A full queue is hot at any capacity, an empty one is
// cold, and no length is both.
//
// # Samples
//
// One sample is the default, as in the code of ERLDA: under a constant queue of
// 120, ticks of one second and a start at ten workers, the workers are 11, 11,
// 12, 12, 13 and so on, and only the cooldown sets the pace. The price is that
// one short burst at the moment of a tick adds a worker. With Samples: 3 the
// same load gives 10, 10, 11, 11, 11, 12, and a burst must last.
//
// # Stages ahead
//
// A stage is not hot while it is bound by stages ahead: another worker would
// only wait with the others. The journal says so when this starts; see
// [controller.StageStats]. The original had no bounded queue between stages.
//
// # Outside the bounds
//
// A stage whose number of workers is outside its bounds is brought back at
// once, even during a cooldown, since this is not a reaction to load. The
// minimum number of workers is the stage's own; the policy has no other. (In
// the original it was 10 where workers were counted and 1 where they were
// removed.)
//
// # Presets
//
// [Areias] is the article's controller, which checks the queues every 5
// seconds; the program that was published with it does so every second. The
// article leaves the thresholds, the number of workers that a tick adds and a
// cooldown open: here they have the program's values, whose cooldown is shorter
// than a tick of 5 seconds, so that every tick may act.
//
// # Thresholds of one stage
//
// In ERLDA each stage has a controller of its own. pipeline.ControlFor gives a
// stage, or a group, a controller with other thresholds than the rest.
type ERLDA struct {
	Preset   Preset        // [Areias] or none
	Interval time.Duration // between two ticks; default 1 s, with [Areias] 5 s
	Cooldown time.Duration // between two actions on one stage; default 2 s, or [NoCooldown]
	Up, Down int           // more waiting than Up is hot, fewer than Down is cold; default 100 and 10
	Samples  int           // how many consecutive ticks must agree; default 1
}

// Name returns "erlda", with the preset if there is one: "erlda:areias".
func (p ERLDA) Name() string { return p.Preset.name("erlda") }

// Check returns all faults of the parameters.
func (p ERLDA) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("erlda", p.Preset != "" && p.Preset != Areias, "unknown Preset %q; known is %s", p.Preset, Areias),
		fault("erlda", l.Interval < 0, "Interval %v is negative", l.Interval),
		fault("erlda", l.Cooldown < 0 && l.Cooldown != NoCooldown,
			"Cooldown %v is negative; use NoCooldown for none", l.Cooldown),
		fault("erlda", l.Up < 0, "Up %d is negative", l.Up),
		fault("erlda", l.Down < 0, "Down %d is negative", l.Down),
		fault("erlda", l.Up <= l.Down, "Up %d is not more than Down %d%s", l.Up, l.Down, p.ofDefaults()),
		fault("erlda", l.Samples < 0, "Samples %d is negative", l.Samples),
	)
}

// Claims returns the number of workers: ERLDA decides nothing else.
func (ERLDA) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller with an empty memory.
func (p ERLDA) New() controller.Controller {
	return &erlda{law: p.withDefaults(), watched: make(memory[watch])}
}

// intervalOfTheArticle is the time between two ticks in section 3.3.
const intervalOfTheArticle = 5 * time.Second

func (p ERLDA) withDefaults() ERLDA {
	interval := DefaultInterval
	if p.Preset == Areias {
		interval = intervalOfTheArticle
	}
	return ERLDA{
		Preset:   p.Preset,
		Interval: cmp.Or(p.Interval, interval),
		Cooldown: cmp.Or(p.Cooldown, DefaultCooldown),
		Up:       cmp.Or(p.Up, DefaultUp),
		Down:     cmp.Or(p.Down, DefaultDown),
		Samples:  cmp.Or(p.Samples, DefaultSamples),
	}
}

// ofDefaults says which of the two thresholds is the default, if only the other
// one was set.
func (p ERLDA) ofDefaults() string {
	switch {
	case p.Up == 0:
		return "; Up is the default"
	case p.Down == 0:
		return "; Down is the default"
	default:
		return ""
	}
}

// thresholds returns the thresholds for a stage with the given capacity: more
// than up is hot, less than down is cold.
func (p ERLDA) thresholds(capacity int) (up, down int) {
	up = p.Up
	if capacity > 0 {
		up = min(up, capacity/2)
	}
	return up, min(p.Down, max(1, up))
}

// erlda is ERLDA's memory of one run.
type erlda struct {
	law     ERLDA
	watched memory[watch]
	units   units
}

// watch is the memory of a unit.
type watch struct {
	hot, cold int           // consecutive samples
	acted     bool          // false: never, and last is not set
	last      time.Duration // time of the last change
	held      held
}

// Control asks for ticks at the start and inspects every unit at each of them.
func (c *erlda) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
	case controller.EventTick:
		us := c.units.of(s)
		for i := range us {
			c.inspect(&us[i], s.At, d)
		}
		c.watched.forgetUnits(us)
		c.units.done()
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

func (c *erlda) inspect(u *unit, now time.Duration, d *controller.Decisions) {
	w := c.watched.of(u.name)
	if u.restore(d) {
		return
	}
	if u.paused() {
		w.count(false, false)
		return
	}
	hottest, bound := u.hottest(waiting, c.law.up)
	leastCold := u.longest(waiting, c.law.down)
	down := c.law.down(leastCold)
	hot := hottest != nil && hottest.QueueLen > c.law.up(hottest)
	w.count(hot, leastCold.QueueLen < down)
	if !hot && bound != nil && bound.QueueLen > c.law.up(bound) && u.workers < u.most {
		u.keep(&w.held, now, d, bound, "queue", bound.QueueLen)
	}
	if !w.rested(now, c.law.Cooldown) {
		return
	}
	switch {
	case w.hot >= c.law.Samples && u.workers < u.most:
		u.scale(d, u.workers+1, why("queue", hottest.QueueLen, ">", c.law.up(hottest), w.hot))
		w.act(now)
	case w.cold >= c.law.Samples && u.workers > u.least:
		u.scale(d, u.workers-1, why("queue", leastCold.QueueLen, "<", down, w.cold))
		w.act(now)
	}
}

func waiting(st *controller.StageStats) int { return st.QueueLen }

func (p ERLDA) up(st *controller.StageStats) int {
	up, _ := p.thresholds(st.QueueCap)
	return up
}

func (p ERLDA) down(st *controller.StageStats) int {
	_, down := p.thresholds(st.QueueCap)
	return down
}

func (w *watch) count(hot, cold bool) {
	w.hot = streak(w.hot, hot)
	w.cold = streak(w.cold, cold)
}

// rested reports whether the cooldown is over. It is over if the number was
// never changed. The flag is needed: a zero last is an ordinary time, and on a
// clock that starts far below zero, as Erlang's does, a cooldown from it would
// never be over.
func (w *watch) rested(now, cooldown time.Duration) bool {
	return !w.acted || now-w.last >= cooldown
}

func (w *watch) act(now time.Duration) {
	*w = watch{acted: true, last: now, held: w.held}
}
