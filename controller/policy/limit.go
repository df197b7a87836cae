package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Limit bounds how many commands are in flight at a stage that waits for
// something outside, and finds the bound by itself: adaptive concurrency by the
// gradient of the response time, as Gradient2 of Netflix has it ("Performance
// Under Load", Netflix Technology Blog, 2018), with the correlations of the
// adaptive limiter of failsafe-go.
//
// It protects a dependency, such as a database, from more calls than it works
// off, and the calls from waiting there. Beyond the limit commands wait, or are
// refused, as if the queue of the stage were full: see stage.Overflow.
//
// The controller of a pipeline limits the stages with stage.Blocking; the
// controller of a group, or of one stage (pipeline.ControlFor), limits all
// stages that it governs. With Entry it limits the whole pipeline instead: the
// commands that were submitted and have not ended. Limit changes only the limit,
// and goes with a policy of workers. A stage needs as many workers as calls may
// be under way at once: a command that waits for a worker counts as in flight.
//
// # The law
//
// At each tick, every Interval if ten commands or more have ended since the
// last one, the response time is the mean time of a command in the queue and
// the handler. Its average over some 600 ticks is the usual one. Then
//
//	gradient = 1.5 · usual / response time, from 0.5 to 1
//	limit    = 0.8 · limit + 0.2 · (gradient · limit + min(4, limit / 4))
//
// from Least to Most. So a response time up to half above the usual one lets the
// limit grow. It stays as it is while less than half of it is used. Gradient2
// adds 4 whatever the limit is, so that it never falls below 8; here small limits
// grow by a quarter, and a dependency that bears one call at a time is found.
//
// # Drift
//
// The usual response time is an average, and under an overload that lasts it
// rises until the overload is usual: a limiter by the gradient alone grows to
// its maximum within the hour. So Limit correlates the commands in flight, over
// the last 50 ticks, with what they got done and how long they took. If more in
// flight took longer (a correlation above 0.5) and no more got done (below
// 0.3), the stage is congested: the limit falls by log10(limit), and the response
// time does not count as usual.
//
// # Weak spots
//
// Commands of very different cost, or in large batches, look like congestion. A
// dependency that fails fast looks quick. A handler that suspends is measured
// only until it suspends. Where fewer than ten commands a tick end it takes
// several ticks to learn anything.
type Limit struct {
	Entry    bool          // limit the whole pipeline, and not its stages
	Least    int           // the lowest limit; default 1
	Initial  int           // the limit at the start; default 20
	Most     int           // the highest limit; default 200
	Interval time.Duration // between two ticks; default 1 s
}

// The constants of the law.
const (
	tolerated     = 1.5              // by this factor a response time may exceed the usual one
	leastGradient = 0.5              // the limit falls by a tenth a tick at most
	smoothing     = 0.2              // weight of the wanted limit
	headroom      = 4.0              // commands that a limit may grow by, before smoothing
	usualTicks    = 600              // over which the usual response time is averaged
	firstTicks    = 10               // which it is the plain mean of
	fewestEnded   = 10               // commands of a sample
	longestSample = 30 * time.Second // after which fewer will do
	samplesKept   = 50               // for the correlations
	fewestSamples = 10               // without which nothing is correlated
	takeLonger    = 0.5              // a congested stage correlates with the response time by more
	getMoreDone   = 0.3              // and with the throughput by less
	full          = 0.8              // share of the limit that is in use when it is the limit that congests
)

// Name returns "limit".
func (Limit) Name() string { return "limit" }

// Check returns all faults of the parameters.
func (p Limit) Check() error {
	d := p.withDefaults()
	return errors.Join(
		fault("limit", p.Least < 0, "Least %d is negative", p.Least),
		fault("limit", p.Initial < 0, "Initial %d is negative", p.Initial),
		fault("limit", p.Most < 0, "Most %d is negative", p.Most),
		fault("limit", min(p.Least, p.Initial, p.Most) >= 0 && (d.Initial < d.Least || d.Most < d.Initial),
			"Least %d, Initial %d and Most %d are not in this order", d.Least, d.Initial, d.Most),
		fault("limit", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the limit: Limit decides nothing else.
func (Limit) Claims() []controller.Knob { return []controller.Knob{controller.KnobLimit} }

// New returns a controller with an empty memory.
func (p Limit) New() controller.Controller {
	return &limits{law: p.withDefaults(), of: make(memory[limit])}
}

// withDefaults fills the zero fields in. A default gives way to a bound that is
// set.
func (p Limit) withDefaults() Limit {
	p.Least = cmp.Or(p.Least, 1)
	p.Most = cmp.Or(p.Most, max(200, p.Least, p.Initial))
	p.Initial = cmp.Or(p.Initial, min(max(20, p.Least), p.Most))
	p.Interval = cmp.Or(p.Interval, time.Second)
	return p
}

// limits is Limit's memory of one run.
type limits struct {
	law   Limit
	of    memory[limit] // by the name of the stage; "" is the entry
	paths paths
}

// limit is the memory of a stage, or of the entry.
type limit struct {
	value   float64 // 0: it is not set yet
	seen    controller.Counters
	since   time.Duration // when the sample began
	waited  float64       // seconds, of the measured commands of the sample together
	waits   float64       // the number of these
	usual   average
	samples [samplesKept]sample
	n       int // samples that were ever taken
}

// sample is what one tick or several ones have measured.
type sample struct {
	inFlight float64 // on average, by Little's law
	present  float64 // in flight at the end
	response float64 // seconds
	done     float64 // a second
}

// average is a mean at first, and then an exponential one.
type average struct {
	value float64
	n     int
}

func (a *average) add(x float64) {
	if a.n < firstTicks {
		a.n++
		a.value += (x - a.value) / float64(a.n)
		return
	}
	a.value += (x - a.value) * 2 / (usualTicks + 1)
}

// Control sets the first limits, and follows the response times at each tick.
func (c *limits) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		d.WatchTimes(true)
		c.follow(s, d, false)
	case controller.EventTick:
		c.follow(s, d, true)
	case controller.EventTopology:
		c.follow(s, d, false)
	default: // the others change nothing
	}
}

// follow limits the stages, or the entry. Only a tick is a measurement.
func (c *limits) follow(s *controller.Snapshot, d *controller.Decisions, tick bool) {
	if c.law.Entry {
		if s.Group == "" {
			l := c.of.of("")
			c.limit(controller.Entry, l, s.Entry.Limit, l.sample(c.whole(s), s.At, tick), d)
		}
		return
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		if st.Paused || s.Group == "" && !st.Blocking {
			continue
		}
		l := c.of.of(st.Name)
		c.limit(controller.StageID(i), l, st.Admission.Limit, l.sample(stageNow(st), s.At, tick), d)
	}
	c.of.forget(s)
}

// limit follows a sample, if there is one, and sets the knob.
func (c *limits) limit(id controller.StageID, l *limit, now int, x sample, d *controller.Decisions) {
	first := l.value == 0
	if first {
		l.value = float64(c.law.Initial)
	}
	congested := false
	if x.done > 0 {
		congested = l.learn(x, c.law)
	}
	want := int(math.Round(l.value))
	if want == now {
		return
	}
	controller.KnobLimit.Set(d, id, want, l.reason(x, first, congested))
}

// reading is what a snapshot shows of a stage, or of the whole pipeline.
type reading struct {
	inFlight int
	total    controller.Counters // Handled and Busy matter
	waits    uint64              // measured since the last tick
	wait     time.Duration       // of these, on average
	path     float64             // seconds on the longest path; of the entry only
}

func stageNow(st *controller.StageStats) reading {
	held := max(st.InHand, st.Instances-st.FreeInstances, 0) // suspended commands hold instances only
	return reading{inFlight: max(st.QueueLen, 0) + min(held, math.MaxInt32), total: st.Total, waits: st.Wait.Count, wait: st.Wait.Mean}
}

// whole returns a reading of the pipeline: the commands that have ended there,
// and the time on the path that takes longest.
func (c *limits) whole(s *controller.Snapshot) reading {
	r := reading{inFlight: s.InFlight}
	for i := range s.Stages {
		r.total.OK += s.Stages[i].Total.OK
		r.total.Errors += s.Stages[i].Total.Errors
	}
	r.path = c.paths.longest(s, func(st *controller.StageStats) float64 { return (st.Wait.Mean + st.Work.Mean).Seconds() })
	return r
}

// sample returns a sample if one is complete, else one in which nothing is
// done.
func (l *limit) sample(r reading, now time.Duration, tick bool) (x sample) {
	switch {
	case l.value == 0: // samples begin here
		l.seen, l.since = r.total, now
		return sample{}
	case !tick || now <= l.since:
		return sample{}
	}
	l.waited += float64(r.waits) * r.wait.Seconds()
	l.waits += float64(r.waits)
	if r.path > 0 {
		l.waited, l.waits = l.waited+r.path, l.waits+1
	}
	window, passed := r.total.Sub(l.seen), now-l.since
	done := float64(window.Handled())
	if done == 0 || done < fewestEnded && passed < longestSample {
		return sample{}
	}
	response := window.Busy.Seconds()/done + l.waited/max(l.waits, 1)
	rate := done / passed.Seconds()
	*l = limit{value: l.value, seen: r.total, since: now, usual: l.usual, samples: l.samples, n: l.n}
	return sample{inFlight: rate * response, present: float64(r.inFlight), response: response, done: rate}
}

// learn changes the limit by a sample, and reports whether the stage is
// congested.
func (l *limit) learn(x sample, law Limit) (congested bool) {
	if !(x.response > 0) {
		return false
	}
	l.samples[l.n%samplesKept] = x
	l.n++
	inUse := max(x.inFlight, x.present)
	congested = inUse >= full*l.value && l.congested()
	if !congested {
		l.usual.add(x.response)
		if l.usual.value > 2*x.response {
			l.usual.value *= 0.95
		}
	}
	want := l.value
	switch {
	case congested:
		want = l.value - math.Log10(l.value+1)
	case inUse < l.value/2:
		return false
	default:
		gradient := min(max(tolerated*l.usual.value/x.response, leastGradient), 1)
		want = (1-smoothing)*l.value + smoothing*(gradient*l.value+min(headroom, l.value/4))
	}
	l.value = min(max(want, float64(law.Least)), float64(law.Most))
	return congested
}

// congested reports whether more commands in flight take longer, and no more of
// them are done.
func (l *limit) congested() bool {
	kept := l.samples[:min(l.n, samplesKept)]
	if len(kept) < fewestSamples {
		return false
	}
	inFlight := func(x *sample) float64 { return x.inFlight }
	longer := correlation(kept, inFlight, func(x *sample) float64 { return x.response })
	more := correlation(kept, inFlight, func(x *sample) float64 { return x.done })
	return longer > takeLonger && more < getMoreDone
}

// correlation returns Pearson's coefficient of two numbers of the samples, 0 if
// one of them is constant.
func correlation(of []sample, x, y func(*sample) float64) float64 {
	var meanX, meanY float64
	for i := range of {
		meanX += x(&of[i]) / float64(len(of))
		meanY += y(&of[i]) / float64(len(of))
	}
	var xx, yy, xy float64
	for i := range of {
		dx, dy := x(&of[i])-meanX, y(&of[i])-meanY
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if !(xx > 1e-12 && yy > 1e-12*meanY*meanY) {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// reason says why the limit is as it is, for the journal.
func (l *limit) reason(x sample, first, congested bool) string {
	switch {
	case first && x.done == 0:
		return fmt.Sprintf("it begins with %.0f", l.value)
	case congested:
		return fmt.Sprintf("more in flight take longer, and no more are done: %v at %.1f in flight, limit %.1f",
			precise(x.response), x.inFlight, l.value)
	default:
		return fmt.Sprintf("%v at %.1f in flight, usually %v: limit %.1f",
			precise(x.response), x.inFlight, precise(l.usual.value), l.value)
	}
}

// precise returns a duration with about three digits.
func precise(s float64) time.Duration {
	d := time.Duration(min(s, math.MaxInt32) * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
