package lab

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/golda-dev/golda/internal/cputime"
)

// Run is the measurements of one run of one candidate. Requests of the warm-up
// are not counted. Times of requests count from when they should have been
// sent.
type Run struct {
	Seed     uint64        `json:"seed"`
	Sent     int           `json:"sent"`
	Answered int           `json:"answered"`
	Good     int           `json:"good"`    // answered within the deadline
	Refused  int           `json:"refused"` // there was too much to do
	Dropped  int           `json:"dropped"` // of the refused ones: after they were admitted
	Failed   int           `json:"failed"`
	Late     time.Duration `json:"late_ns"` // of the generator: 99 of 100 requests were sent no later
	Points   []Point       `json:"points"`  // of the whole run, the warm-up included

	figures map[string]float64      // by name
	latency *hdrhistogram.Histogram // of answered requests, in nanoseconds
}

// Point is one of the fifty parts of a run.
type Point struct {
	At       time.Duration `json:"at_ns"`     // the end of the part
	Sent     float64       `json:"sent"`      // requests a second
	Answered float64       `json:"answered"`  // answers a second
	P50      time.Duration `json:"p50_ns"`    // of the answered requests that should have been sent in the part; 0: there are none
	P99      time.Duration `json:"p99_ns"`    // of the same requests
	Queued   float64       `json:"queued"`    // commands in all queues, on average
	Workers  float64       `json:"workers"`   // of all stages and pools, on average
	InFlight float64       `json:"in_flight"` // commands, on average
}

// points is how many points a run has.
const points = 50

// A histogram holds times from a nanosecond to a day, with three digits.
const (
	longestLatency = int64(mostLength)
	digits         = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longestLatency, digits) }

// result returns the measurements of a run that went well.
func (t *trial) result(late time.Duration) *Run {
	over := span{t.experiment.Warmup, t.experiment.Length}
	r := &Run{Seed: t.seed, Late: late, latency: newHistogram()}
	t.each(func(request Request, _ answer) bool { return over.holds(request.At) }, func(_ Request, a answer) { r.add(a, t.experiment.Deadline) })
	seconds, sent := (over.until - over.from).Seconds(), float64(r.Sent)
	first, last := sampleAt(t.watch.samples, over.from), sampleAt(t.watch.samples, over.until)
	r.figures = map[string]float64{
		throughput:    float64(t.answeredWithin(over)) / seconds,
		goodput:       float64(r.Good) / seconds,
		burstGoodput:  t.burstGoodput(over),
		goodShare:     100 * float64(r.Good) / sent,
		inTime:        100 * float64(r.Good) / float64(r.Answered), // NaN without an answer
		refusedShare:  100 * float64(r.Refused) / sent,
		droppedShare:  100 * float64(r.Dropped) / sent,
		failedShare:   100 * float64(r.Failed) / sent,
		p50:           r.quantile(50),
		p99:           r.quantile(99),
		p999:          r.quantile(99.9),
		longest:       r.quantile(100),
		inVain:        t.inVain(over),
		recovery:      t.recovery(),
		workerSeconds: integral(t.watch.samples, over, func(s sample) int { return s.workers }),
		cpuSeconds:    (last.cpu - first.cpu).Seconds(),
		otherLoad:     othersShare(first, last),
		fairness:      t.fairness(over),
		decisions:     float64(last.decisions-first.decisions) / (over.until - over.from).Minutes(),
		mostInside:    float64(t.mostInFlight(over)),
	}
	r.Points = t.points()
	return r
}

// othersShare returns the share of all CPUs that other processes have used
// between two samples, as a percentage, or NaN if the system does not say.
func othersShare(first, last sample) float64 {
	_, cpus, known := cputime.Machine()
	if !known || last.at <= first.at {
		return math.NaN()
	}
	others := (last.machine - first.machine) - (last.cpu - first.cpu)
	return 100 * max(0, min(1, others.Seconds()/(last.at-first.at).Seconds()/float64(cpus)))
}

// each calls f for the requests that match, in the order of their times.
func (t *trial) each(match func(Request, answer) bool, f func(Request, answer)) {
	for i, a := range t.generator.answers {
		if match(t.generator.requests[i], a) {
			f(t.generator.requests[i], a)
		}
	}
}

// add counts a request.
func (r *Run) add(a answer, deadline time.Duration) {
	r.Sent++
	switch a.kind {
	case refused:
		r.Refused++
	case dropped:
		r.Refused++
		r.Dropped++
	case failed:
		r.Failed++
	case answered:
		r.Answered++
		if a.good(deadline) {
			r.Good++
		}
		_ = r.latency.RecordValue(min(max(int64(a.latent), 1), longestLatency)) // such a value has a place
	}
}

func (a answer) good(deadline time.Duration) bool { return a.kind == answered && a.latent <= deadline }

// quantile returns a latency in milliseconds. Without an answer it is infinite.
func (r *Run) quantile(percent float64) float64 {
	if r.Answered == 0 {
		return math.Inf(1)
	}
	return float64(r.latency.ValueAtPercentile(percent)) / 1e6
}

// answeredWithin returns how many requests were answered in a span, whenever
// they were sent.
func (t *trial) answeredWithin(over span) (n int) {
	t.each(func(r Request, a answer) bool {
		return a.kind == answered && over.holds(r.At+a.latent)
	}, func(Request, answer) { n++ })
	return n
}

// burstGoodput returns the answers within the deadline a second during the
// bursts, or NaN if there is none.
func (t *trial) burstGoodput(over span) float64 {
	good, seconds := 0, 0.0
	for _, b := range t.bursts {
		b = span{max(b.from, over.from), min(b.until, over.until)}
		seconds += max(b.until-b.from, 0).Seconds()
		t.each(func(r Request, a answer) bool {
			return a.good(t.experiment.Deadline) && b.holds(r.At+a.latent)
		}, func(Request, answer) { good++ })
	}
	return float64(good) / seconds
}

// inVain returns the time that 99 of 100 requests without an answer took, in
// milliseconds; 0 if all were answered.
func (t *trial) inVain(over span) float64 {
	var all []time.Duration
	t.each(func(r Request, a answer) bool { return a.kind != answered && over.holds(r.At) }, func(_ Request, a answer) { all = append(all, a.latent) })
	slices.Sort(all)
	return quantile(all, 0.99).Seconds() * 1e3
}

func (s span) holds(at time.Duration) bool { return at >= s.from && at < s.until }

// fairness returns Jain's index over the shares of good answers that the
// classes have, or NaN with fewer than two classes.
func (t *trial) fairness(over span) float64 {
	sent, good := map[string]float64{}, map[string]float64{}
	t.each(func(r Request, _ answer) bool { return over.holds(r.At) }, func(r Request, a answer) {
		sent[r.Class]++
		if a.good(t.experiment.Deadline) {
			good[r.Class]++
		}
	})
	if len(sent) < 2 {
		return math.NaN()
	}
	var shares []float64
	for _, class := range slices.Sorted(maps.Keys(sent)) {
		shares = append(shares, good[class]/sent[class])
	}
	return jain(shares)
}

func (t *trial) mostInFlight(over span) (most uint64) {
	for _, s := range t.watch.samples {
		if over.holds(s.at) {
			most = max(most, s.inFlight)
		}
	}
	return most
}

// points returns the run in fifty parts.
func (t *trial) points() []Point {
	length := t.experiment.Length
	all := make([]Point, points)
	latencies := make([][]time.Duration, points)
	part := func(at time.Duration) int { return int(int64(at) * points / int64(length)) }
	t.each(func(Request, answer) bool { return true }, func(r Request, a answer) {
		all[part(r.At)].Sent++
		if a.kind != answered {
			return
		}
		latencies[part(r.At)] = append(latencies[part(r.At)], a.latent)
		if end := r.At + a.latent; end < length {
			all[part(end)].Answered++
		}
	})
	for i := range all {
		p := &all[i]
		over := span{length * time.Duration(i) / points, length * time.Duration(i+1) / points}
		seconds := (over.until - over.from).Seconds()
		p.At = over.until
		p.Sent, p.Answered = p.Sent/seconds, p.Answered/seconds
		slices.Sort(latencies[i])
		p.P50, p.P99 = quantile(latencies[i], 0.5), quantile(latencies[i], 0.99)
		p.Queued = integral(t.watch.samples, over, func(s sample) int { return s.queued }) / seconds
		p.Workers = integral(t.watch.samples, over, func(s sample) int { return s.workers }) / seconds
		p.InFlight = integral(t.watch.samples, over, func(s sample) int { return int(s.inFlight) }) / seconds
	}
	return all
}
