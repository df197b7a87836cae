package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Hill finds the number of workers with which a stage of blocking handlers gets
// most done: hill climbing, after Hellerstein, Morrison and Eilebrecht,
// "Applying control theory in the real world: experience with building a
// controller for the .NET thread pool" (FeBID 2009), as implemented in .NET. It
// needs no model of what the handlers wait for.
//
// # The law
//
// The number of workers follows a square wave: two samples high, two samples
// low. If more workers get more done, the throughput follows the wave; noise
// and changes of the load do not. So the law takes from the last eight periods
// the component of this period (Goertzel), of the throughput and of the number
// of workers, both as a share of their means, and moves by
//
//	ratio = (component of the throughput - 0.15 · component of the workers) / component of the workers
//	move  = sign(ratio) · (min(|ratio|, 1) · confidence)² · 4 workers a second
//
// where a ratio of less than 0.15 is not worth the workers. Confidence is the
// component of the workers, by three times the noise; it is at most 1. The noise
// is the throughput's component of the neighbouring periods. The wave is as high
// as the noise requires, one worker at least and twenty at most.
//
// A sample ends at a tick if so many commands were done that one more or less
// for each worker is no error above 15 %. Ticks come at random times up to
// Interval, so that the wave does not beat with what has a period by itself.
//
// Hill samples only while commands wait, or all workers are busy: otherwise the
// load decides about the throughput and not the workers. Meanwhile the number
// of workers stays; if fewer were enough for 30 s, a quarter of the workers
// goes, but not more than keeps the rest busy for 70 % of their time. While the
// process uses more than 95 % of the CPUs the number does not grow. If no
// command at all was done for half a second while some waited, the stage gets
// one worker more: its handlers may wait for each other. A stage that is bound
// by stages ahead keeps its workers.
//
// # Blocking stages only
//
// Hill changes the workers of stages with stage.Blocking, and of groups of only
// such stages. All others keep theirs, for it owns the knob: give the stages
// that need it a controller of their own,
//
//	pipeline.ControlFor("fetch", policy.Hill{})
//
// and the rest has the policy of the pipeline.
//
// # What it protects, and its weak spots
//
// Hill protects the throughput of a stage whose best number of workers is not
// known and changes: a disk, a remote service, a mix of both. It is slow, some
// workers a second at best, and slower where fewer than a hundred commands a
// second are done. It never rests: the wave itself costs a little throughput.
// It looks for throughput and not for short waits, and knows nothing of other
// stages: two stages that climb while they call one database see each other's
// waves. [Limit] bounds the calls of a dependency by its response time, with a
// fixed number of workers.
type Hill struct {
	Interval time.Duration // the longest time between two ticks; default 200 ms
	Seed     uint64        // of the random times
}

// The constants of the law, as in .NET.
const (
	wavePeriod  = 4 // samples
	waveHistory = 8 // periods
	wavelets    = wavePeriod * waveHistory
	mostWave    = 20 // workers
	hillBias    = 0.15
	signalNoise = 3  // how many times the noise the signal is to be
	mostMove    = 20 // workers in a sample
	moveRate    = 4  // workers a second
	sampleError = 0.15
	noiseWeight = 0.01
	highCPU     = 0.95
	starvation  = 500 * time.Millisecond
	hillIdle    = 30 * time.Second
	hillBusy    = 0.7 // how busy the workers may be that are left when some go
	mostPause   = 4   // the shortest time between two ticks is Interval divided by that
)

// Name returns "hill".
func (Hill) Name() string { return "hill" }

// Check returns all faults of the parameters.
func (p Hill) Check() error {
	return errors.Join(fault("hill", p.Interval < 0, "Interval %v is negative", p.Interval))
}

// Claims returns the number of workers: Hill decides nothing else.
func (Hill) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns a controller with an empty memory.
func (p Hill) New() controller.Controller {
	return &hill{
		every: cmp.Or(p.Interval, 200*time.Millisecond), random: rand.New(rand.NewPCG(p.Seed, 0)), climbs: make(memory[climb]), tallies: make(memory[progress]),
	}
}

// hill is Hill's memory of one run.
type hill struct {
	every   time.Duration
	random  *rand.Rand
	climbs  memory[climb]
	tallies memory[progress]
	units   units
}

// progress is what a stage had done at the last tick.
type progress struct {
	seen  bool
	total controller.Counters
}

// climb is the memory of a unit.
type climb struct {
	seen    bool
	last    time.Duration // time of the last tick
	workers int           // as they were set last
	setting float64       // the number of workers below the wave

	span time.Duration // of the sample that is being taken
	done float64

	n          int // samples that were ever taken
	throughput [wavelets]float64
	counts     [wavelets]float64
	noise      float64 // of the throughput, on average

	idle struct {
		on    bool
		since time.Duration
		most  int
	}
	held held
}

// Control sets the interval, and takes a sample of each unit at each tick.
func (c *hill) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.pause(d)
	case controller.EventTick:
		us := c.units.of(s)
		for i := range us {
			c.inspect(&us[i], s, d)
		}
		c.tallies.forget(s)
		c.climbs.forgetUnits(us)
		c.units.done()
		c.pause(d)
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// pause sets the time until the next tick.
func (c *hill) pause(d *controller.Decisions) {
	least := c.every / mostPause
	d.Every(least + time.Duration(c.random.Int64N(int64(c.every-least)+1)))
}

// inspect looks at a unit, and moves its workers.
func (c *hill) inspect(u *unit, s *controller.Snapshot, d *controller.Decisions) {
	t := c.climbs.of(u.name)
	passed := s.At - t.last
	done, busy, waits, bound := c.count(u)
	fresh := !t.seen || passed <= 0
	t.seen, t.last = true, s.At
	if u.restore(d) || u.paused() || !blocking(u) || fresh || t.workers != u.workers {
		t.force(u.workers) // also if another controller has changed the number
		return
	}
	load := busy.Seconds() / (passed.Seconds() * float64(max(u.workers, 1)))
	if bound != nil {
		t.force(u.workers)
		if bound.QueueLen > 0 && u.workers < u.most {
			u.keep(&t.held, s.At, d, bound, "queue", bound.QueueLen)
		}
		return
	}
	if !waits && load < busyShare {
		t.rest(u, s.At, whole(busy.Seconds()/passed.Seconds()/hillBusy), d)
		return
	}
	t.idle.on = false
	t.span += passed
	t.done += done
	crowded := s.CPUUsage > highCPU
	switch {
	case t.done == 0 && t.span >= starvation:
		t.starve(u, crowded, d)
	case t.done == 0 || t.n > 0 && float64(u.workers-1)/t.done >= sampleError:
	default:
		t.move(u, crowded, d)
	}
}

// blocking reports whether all stages of a unit have handlers that wait.
func blocking(u *unit) bool {
	for _, st := range u.stages {
		if !st.Blocking {
			return false
		}
	}
	return true
}

// count returns what the stages of a unit have done since the last tick.
func (c *hill) count(u *unit) (done float64, busy time.Duration, waits bool, bound *controller.StageStats) {
	for _, st := range u.stages {
		p := c.tallies.of(st.Name)
		if p.seen {
			now := st.Total.Sub(p.total)
			done += float64(now.Handled())
			busy += max(now.Busy, 0) + max(now.Blocked, 0)
		}
		*p = progress{seen: true, total: st.Total}
		waits = waits || st.QueueLen > 0
		if st.Bound {
			bound = st
		}
	}
	return done, busy, waits, bound
}

// force starts anew from a number of workers.
func (t *climb) force(workers int) {
	*t = climb{seen: true, last: t.last, workers: workers, setting: float64(workers), noise: t.noise, held: t.held}
}

// rest keeps the workers of a unit that has too little to do, or removes some
// if fewer have been enough for a while.
func (t *climb) rest(u *unit, now time.Duration, needed int, d *controller.Decisions) {
	idle := t.idle
	t.span, t.done = 0, 0
	if t.n > 0 || !idle.on {
		t.force(u.workers)
		idle.on, idle.since, idle.most = true, now, 0
	}
	idle.most = max(idle.most, needed)
	if t.idle = idle; now-idle.since < hillIdle {
		return
	}
	t.idle.since, t.idle.most = now, 0
	if n := max(idle.most, u.workers-max(1, u.workers/4), u.least, 1); n < u.workers {
		u.scale(d, n, fmt.Sprintf("at most %d needed for %v", idle.most, hillIdle))
		t.workers, t.setting = n, float64(n)
	}
}

// starve adds a worker to a unit that does nothing though commands wait.
func (t *climb) starve(u *unit, crowded bool, d *controller.Decisions) {
	span := t.span
	t.span = 0
	if n := u.workers + 1; !crowded && n <= t.most(u) {
		u.scale(d, n, fmt.Sprintf("no command was done for %v", span.Round(time.Millisecond)))
		d.Vary(u.stage, u.name)
		t.force(n)
	}
}

// most returns the highest number of workers for which there are instances.
func (t *climb) most(u *unit) int {
	instances := 0
	for _, st := range u.stages {
		if st.Instances <= 0 {
			return u.most
		}
		instances += min(st.Instances, math.MaxInt32)
	}
	return max(min(u.most, instances), u.least)
}

// move ends a sample, and sets the workers for the next one.
func (t *climb) move(u *unit, crowded bool, d *controller.Decisions) {
	seconds, at := t.span.Seconds(), t.n%wavelets
	t.throughput[at], t.counts[at] = t.done/seconds, float64(u.workers)
	t.n++
	t.span, t.done = 0, 0
	ratio, confidence := t.slope()
	step := min(max(ratio, -1), 1) * min(confidence, 1)
	step = min(step*math.Abs(step)*moveRate*seconds, mostMove)
	if crowded {
		step = min(step, 0)
	}
	most := float64(t.most(u))
	wave := math.Floor(min(max(0.5+t.setting*t.noise*signalNoise*2, 1), mostWave))
	t.setting = max(min(t.setting+step, most-wave), float64(max(u.least, 1)))
	n := int(t.setting)
	if t.n/(wavePeriod/2)%2 == 1 {
		n = min(int(t.setting+wave), int(most))
	}
	if n = max(n, u.least, 1); n == u.workers {
		return
	}
	why := fmt.Sprintf("%.4g/s with %d; %.2f more for each more, confidence %.2f: around %.1f", t.throughput[at], u.workers, ratio+hillBias, min(confidence, 1), t.setting)
	u.scale(d, n, why)
	d.Vary(u.stage, u.name)
	t.workers = n
}

// slope returns how much the throughput follows the number of workers, less the
// bias, and how sure that is.
func (t *climb) slope() (ratio, confidence float64) {
	n := min(t.n-1, wavelets) / wavePeriod * wavePeriod
	if n <= wavePeriod {
		return 0, 0
	}
	done, workers := t.mean(&t.throughput, n), t.mean(&t.counts, n)
	if !(done > 0 && workers > 0) {
		return 0, 0
	}
	periods := float64(n) / wavePeriod
	noise := cmplx.Abs(t.component(&t.throughput, n, float64(n)/(periods+1))) / done
	if below := float64(n) / (periods - 1); below <= float64(n) {
		noise = max(noise, cmplx.Abs(t.component(&t.throughput, n, below))/done)
	}
	if t.noise == 0 {
		t.noise = noise
	}
	t.noise += noiseWeight * (noise - t.noise)
	ofDone, ofWorkers := t.component(&t.throughput, n, wavePeriod)/complex(done, 0), t.component(&t.counts, n, wavePeriod)/complex(workers, 0)
	if cmplx.Abs(ofWorkers) == 0 {
		return 0, 0
	}
	ratio, confidence = real(ofDone/ofWorkers)-hillBias, 1
	if noise = max(noise, t.noise); noise > 0 {
		confidence = cmplx.Abs(ofWorkers) / noise / signalNoise
	}
	return ratio, confidence
}

// mean returns the mean of the last n samples.
func (t *climb) mean(samples *[wavelets]float64, n int) (sum float64) {
	for i := range n {
		sum += samples[(t.n-n+i)%wavelets]
	}
	return sum / float64(n)
}

// component returns the component of a period in the last n samples: the
// algorithm of Goertzel.
func (t *climb) component(samples *[wavelets]float64, n int, period float64) complex128 {
	sin, cos := math.Sincos(2 * math.Pi / period)
	var one, two float64
	for i := range n {
		one, two = 2*cos*one-two+samples[(t.n-n+i)%wavelets], one
	}
	return complex(one-two*cos, two*sin) / complex(float64(n), 0)
}
