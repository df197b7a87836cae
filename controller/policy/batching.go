package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Batching finds the smallest batch with which a stage gets as much done as
// with a large one: the batching controller of Welsh, Culler and Brewer, "SEDA:
// An Architecture for Well-Conditioned, Scalable Internet Services" (SOSP
// 2001), as implemented in their program (Sandstorm, AggThrottle). Large
// batches improve throughput, small ones shorten waits.
//
// Each stage starts with the largest batch, Max. At every tick the throughput,
// in commands handled a second, is smoothed: 0.7 of the old value and 0.3 of
// the new one. At every Act-th tick the law makes one step. While batches
// shrink, each step divides by 1.2, until the throughput is 90 % of the best or
// less. Then batches grow, each step multiplying by 1.2, until the throughput
// is back at 98 %, and they shrink again. A batch that has grown to Max without
// reaching 98 % gets a new best: the current throughput. And when the load
// changes a lot, to less than 20 % of the best or to twice the best, the stage
// starts again with Max.
//
// A batch is never less than Min nor more than Max. Batching does not change a
// stage's linger, and it leaves a paused stage alone. It claims only the
// batches, so it can be combined with a policy for workers:
//
//	pipeline.Control(policy.SEDA{}, policy.Batching{})
//
// # Rounding
//
// A batch is a whole number. Here growth is rounded up, so a batch of one grows
// to two. Sandstorm rounds down: 4 · 1.2 is 4, and a batch that has shrunk to
// four or fewer never grows again.
//
// # Presets
//
// [Welsh] is Sandstorm with its defaults, and rounds down. With its least
// batch, 8, this does no harm; with a smaller Min it shows.
//
//	            Interval  Act  Min                  Max
//	no preset        1 s    5    1  as the stage has it
//	Welsh            1 s    5    8                 1000
type Batching struct {
	Preset   Preset        // [Welsh] or none; sets the defaults of the other fields as listed above
	Interval time.Duration // between two ticks
	Act      int           // the law makes a step at every Act-th tick
	Min, Max int           // the least and the most commands of a batch
}

// The shares of the best throughput at which Batching changes direction.
const (
	lowWater      = 0.90
	highWater     = 0.98
	veryLowWater  = 0.20
	veryHighWater = 2.00
)

// smoothed is the weight of the old throughput in the smoothed one.
const smoothed = 0.7

// mostBatch is the largest batch of a stage.
const mostBatch = 1 << 16

// Name returns "batching", with the preset if there is one: "batching:welsh".
func (p Batching) Name() string { return p.Preset.name("batching") }

// Check returns all faults of the parameters.
func (p Batching) Check() error {
	l := p.withDefaults()
	return errors.Join(
		fault("batching", p.Preset != "" && p.Preset != Welsh, "unknown Preset %q; known is %s", p.Preset, Welsh),
		fault("batching", p.Interval < 0, "Interval %v is negative", p.Interval),
		fault("batching", p.Act < 0, "Act %d is negative", p.Act),
		fault("batching", p.Min < 0, "Min %d is negative", p.Min),
		fault("batching", p.Max < 0, "Max %d is negative", p.Max),
		fault("batching", max(p.Min, p.Max) > mostBatch, "a batch has at most %d commands", mostBatch),
		fault("batching", l.Max > 0 && l.Min > l.Max, "Min %d is more than Max %d", l.Min, l.Max),
	)
}

// Claims returns the batches, which are all that Batching decides.
func (Batching) Claims() []controller.Knob { return []controller.Knob{controller.KnobBatch} }

// New returns a controller with an empty memory.
func (p Batching) New() controller.Controller {
	return &batching{law: p.withDefaults(), throttles: make(memory[throttle])}
}

func (p Batching) withDefaults() Batching {
	d := Batching{Interval: time.Second, Act: 5, Min: 1} // Max is the stage's own
	if p.Preset == Welsh {
		d.Min, d.Max = 8, 1000
	}
	return Batching{
		Preset:   p.Preset,
		Interval: cmp.Or(p.Interval, d.Interval),
		Act:      cmp.Or(p.Act, d.Act),
		Min:      cmp.Or(p.Min, d.Min),
		Max:      cmp.Or(p.Max, d.Max),
	}
}

// batching is Batching's memory of one run.
type batching struct {
	law       Batching
	last      time.Duration // time of the last tick
	throttles memory[throttle]
}

// throttle is the memory of a stage.
type throttle struct {
	most       int // zero: the stage is new
	seen       controller.Counters
	ticks      int
	throughput float64 // smoothed, in commands a second
	best       float64
	grows      bool // else it shrinks
}

// Control gives every stage its largest batch at the start and inspects each
// stage at every tick.
func (c *batching) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart && ev.Kind != controller.EventTick {
		return // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
	if ev.Kind == controller.EventStart {
		d.Every(c.law.Interval)
	}
	for i := range s.Stages {
		c.inspect(&s.Stages[i], s.At-c.last, d)
	}
	c.last = s.At
	c.throttles.forget(s)
}

func (c *batching) inspect(st *controller.StageStats, passed time.Duration, d *controller.Decisions) {
	t := c.throttles.of(st.Name)
	since := st.Total.Sub(t.seen)
	t.seen = st.Total
	switch {
	case st.Paused:
	case t.most == 0:
		c.start(st, t, d)
	case passed > 0:
		t.smooth(float64(since.Handled()) / passed.Seconds())
		if t.ticks++; t.ticks%c.law.Act == 0 {
			c.act(st, t, d)
		}
	}
}

// start gives a stage the largest batch, if it is known.
func (c *batching) start(st *controller.StageStats, t *throttle, d *controller.Decisions) {
	if most := cmp.Or(c.law.Max, st.Batch.Max); most > 0 {
		t.most = min(max(most, c.law.Min), mostBatch)
		c.set(st, t.most, "starts with the largest", d)
	}
}

func (c *batching) set(st *controller.StageStats, batch int, why string, d *controller.Decisions) {
	if batch != st.Batch.Max {
		controller.KnobBatch.Set(d, st.ID, controller.Batch{Max: batch, Linger: st.Batch.Linger}, why)
	}
}

func (t *throttle) smooth(throughput float64) {
	t.throughput = smoothed*t.throughput + (1-smoothed)*throughput
}

// act makes one step. Its reason shows the best throughput as it was before the
// step.
func (c *batching) act(st *controller.StageStats, t *throttle, d *controller.Decisions) {
	best := t.best
	batch, because := c.law.step(t, st.Batch.Max)
	if batch != st.Batch.Max {
		c.set(st, batch, fmt.Sprintf("throughput %.1f/s %v of %.1f/s, the best", t.throughput, because, best), d)
	}
}

// water is a threshold that the throughput has crossed.
type water struct {
	sign  string
	share float64
}

// String returns, for example, "<= 90%".
func (w water) String() string { return fmt.Sprintf("%s %.0f%%", w.sign, 100*w.share) }

// step returns the next batch after this one.
func (p Batching) step(t *throttle, batch int) (next int, because water) {
	batch = max(min(batch, t.most), p.Min)
	because, changed := t.loadChanged()
	if changed {
		batch, t.grows = t.most, false
	}
	if t.grows {
		next, w := p.growing(t, batch)
		return next, cmp.Or(because, w)
	}
	next, w := p.shrinking(t, batch)
	return next, cmp.Or(because, w)
}

// loadChanged reports whether the load has changed a lot.
func (t *throttle) loadChanged() (because water, changed bool) {
	switch {
	case t.throughput < veryLowWater*t.best:
		return water{"<", veryLowWater}, true
	case t.throughput >= veryHighWater*t.best:
		return water{">=", veryHighWater}, true
	default:
		return water{}, false
	}
}

func (p Batching) shrinking(t *throttle, batch int) (next int, because water) {
	if t.throughput <= lowWater*t.best {
		t.grows = true
		return min(p.grown(batch), t.most), water{"<=", lowWater}
	}
	t.best = max(t.best, t.throughput)
	return max(shrunk(batch), p.Min), water{">", lowWater}
}

func (p Batching) growing(t *throttle, batch int) (next int, because water) {
	t.best = max(t.best, t.throughput)
	if t.throughput >= highWater*t.best {
		t.grows = false
		return max(shrunk(batch), p.Min), water{">=", highWater}
	}
	next = p.grown(batch)
	if next > t.most {
		t.grows, t.best = false, t.throughput
	}
	return min(next, t.most), water{"<", highWater}
}

// grown returns 1.2 times a batch, rounded up, or rounded down as in Sandstorm.
func (p Batching) grown(batch int) int {
	if p.Preset == Welsh {
		return batch + batch/5
	}
	return batch + (batch+4)/5
}

// shrunk returns a batch divided by 1.2, rounded down.
func shrunk(batch int) int { return batch - (batch+5)/6 }
