package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Batching looks for the smallest batch with which a stage gets as much done as with
// a large one: the batching controller of Welsh, Culler and Brewer, "SEDA: An
// Architecture for Well-Conditioned, Scalable Internet Services" (SOSP 2001), as
// their program has it (Sandstorm, AggThrottle). Large batches make for throughput,
// small ones for short waits.
//
// Each stage begins with the largest batch, Max. At every look the throughput,
// commands handled in a second, is smoothed: 0.7 of what it was and 0.3 of what
// it is. At every Act-th look a step is made. While batches shrink, each step
// divides by 1.2, until the throughput is down to 90 % of the best or less; then
// they grow, each step multiplying by 1.2, until it is back at 98 %, and they
// shrink again. Who has grown to Max without getting there has another best
// now: the present throughput. And a load that is quite another, less than 20 % of the
// best, or twice as much, makes the stage begin again with Max.
//
// A batch is never less than Min nor more than Max. What the stage lingers for is
// left as it is, and a stage that is paused is left alone. Batching claims nothing but
// the batches, so it may stand beside a policy of workers:
//
//	pipeline.Control(policy.SEDA{}, policy.Batching{})
//
// # Rounding
//
// A batch is a whole number. Growing is rounded up here, so a batch of one grows to
// two. Sandstorm cuts off: 4 · 1.2 is 4, and a batch that has shrunk to four or
// fewer never grows again.
//
// # Presets
//
// [Welsh] is Sandstorm with its defaults, and it cuts off. With its least batch, 8,
// that does no harm; with a smaller Min it shows.
//
//	            Interval  Act  Min                  Max
//	no preset        1 s    5    1  as the stage has it
//	Welsh            1 s    5    8                 1000
type Batching struct {
	Preset   Preset        // [Welsh] or none; the rest defaults to the line above
	Interval time.Duration // between two looks
	Act      int           // a step is made at every so-manieth look
	Min, Max int           // the least and the most commands of a batch
}

// The shares of the best throughput at which Batching turns.
const (
	lowWater      = 0.90
	highWater     = 0.98
	veryLowWater  = 0.20
	veryHighWater = 2.00
)

// smoothed is how much of a throughput that was shows in that which is.
const smoothed = 0.7

// mostBatch is the largest batch that a stage takes.
const mostBatch = 1 << 16

// Name is "batching", with the preset if there is one: "batching:welsh".
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

// New returns a controller that has seen nothing yet.
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
	last      time.Duration // when it looked
	throttles memory[throttle]
}

// throttle is what is remembered of a stage.
type throttle struct {
	most       int // zero: the stage was not seen before
	seen       controller.Counters
	looks      int
	throughput float64 // smoothed, in commands a second
	best       float64
	grows      bool // else it shrinks
}

// Control gives every stage its largest batch at the start and looks at each on
// every tick.
func (c *batching) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart && ev.Kind != controller.EventTick {
		return // the end asks for nothing, and what comes later is not known here
	}
	if ev.Kind == controller.EventStart {
		d.Every(c.law.Interval)
	}
	for i := range s.Stages {
		c.look(&s.Stages[i], s.At-c.last, d)
	}
	c.last = s.At
	c.throttles.forget(s)
}

func (c *batching) look(st *controller.StageStats, passed time.Duration, d *controller.Decisions) {
	t := c.throttles.of(st.Name)
	since := st.Total.Sub(t.seen)
	t.seen = st.Total
	switch {
	case st.Paused:
	case t.most == 0:
		c.begin(st, t, d)
	case passed > 0:
		t.smooth(float64(since.Handled()) / passed.Seconds())
		if t.looks++; t.looks%c.law.Act == 0 {
			c.act(st, t, d)
		}
	}
}

// begin gives a stage the largest batch, if it is known.
func (c *batching) begin(st *controller.StageStats, t *throttle, d *controller.Decisions) {
	if most := cmp.Or(c.law.Max, st.Batch.Max); most > 0 {
		t.most = min(max(most, c.law.Min), mostBatch)
		c.set(st, t.most, "begins with the largest", d)
	}
}

func (c *batching) set(st *controller.StageStats, batch int, why string, d *controller.Decisions) {
	if batch != st.Batch.Max {
		d.Batch(st.ID, batch, st.Batch.Linger, why)
	}
}

func (t *throttle) smooth(throughput float64) {
	t.throughput = smoothed*t.throughput + (1-smoothed)*throughput
}

// act makes one step. What it is measured by is said as it was before the step.
func (c *batching) act(st *controller.StageStats, t *throttle, d *controller.Decisions) {
	best := t.best
	batch, because := c.law.step(t, st.Batch.Max)
	if batch != st.Batch.Max {
		c.set(st, batch, fmt.Sprintf("throughput %.1f/s %v of %.1f/s, the best", t.throughput, because, best), d)
	}
}

// water is where the throughput stands.
type water struct {
	sign  string
	share float64
}

// String is "<= 90%".
func (w water) String() string { return fmt.Sprintf("%s %.0f%%", w.sign, 100*w.share) }

// step returns the next batch after this one.
func (p Batching) step(t *throttle, batch int) (next int, because water) {
	batch = max(min(batch, t.most), p.Min)
	because, anew := t.anew()
	if anew {
		batch, t.grows = t.most, false
	}
	if t.grows {
		next, w := p.growing(t, batch)
		return next, cmp.Or(because, w)
	}
	next, w := p.shrinking(t, batch)
	return next, cmp.Or(because, w)
}

// anew tells whether the load is quite another.
func (t *throttle) anew() (because water, anew bool) {
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

// grown is 1.2 times a batch, rounded up, or cut off as it was in Sandstorm.
func (p Batching) grown(batch int) int {
	if p.Preset == Welsh {
		return batch + batch/5
	}
	return batch + (batch+4)/5
}

// shrunk is a batch divided by 1.2, cut off.
func shrunk(batch int) int { return batch - (batch+5)/6 }
