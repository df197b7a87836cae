package simulator

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
)

// Result has the measurements of a run. A command that a source submits is a
// message here, with all commands that are forwarded or emitted from it.
type Result struct {
	// At the end of each run
	//
	//	Arrived = Done + Shed + Failed + Refused + InFlight
	Arrived, Done, InFlight uint64
	Shed                    uint64 // messages of which a command was dropped, or was forwarded or emitted to a full stage that has Reject
	Failed                  uint64 // messages of which a command ended with an error
	Refused                 uint64 // messages for which there was no place in the first queue, or that a gate refused
	Redelivered             uint64 // messages of processes that were killed: their commands began again

	// From the end of the warm-up on.
	Throughput float64 // messages a second that were done
	InSystem   float64 // messages in flight, on average
	// Latency is of messages that arrived after the warm-up, from that instant
	// on. Those in flight at the end count with their age, so that an overload
	// shows.
	Latency   Latency
	Server    float64 // share of its time for which the server of the Fleet was busy
	Processes float64 // that ran, on average
	Stages    []StageResult
	Sources   []SourceResult

	Series  []Point
	Journal []controller.Change // the last changes of the policy in the first process
}

// StageResult is a stage in all processes together. Counts are of the whole
// run; all else begins with the end of the warm-up.
type StageResult struct {
	Name        string
	Accepted    uint64 // commands that were not shed, each delivery of a message counted
	Handled     uint64
	Refused     uint64  // commands that found the queue full, if it has Reject, or that a gate refused
	Retries     uint64  // tries after the first one of a command
	Throughput  float64 // commands a second that were handled
	Utilization float64 // share of the workers' time in which they ran handlers
	Workers     float64 // on average
	Busy        float64 // workers that ran handlers, on average
	Blocked     float64 // workers that waited for a stage ahead, on average
	Queue       float64 // commands that waited in the queue, on average
	Wait        Latency // of commands, until a worker began
	Latency     Latency // of commands, until its handler returned
}

// SourceResult is the messages of one source in the whole run, but for the
// Latency, which begins with the end of the warm-up.
type SourceResult struct {
	Arrived, Done, InFlight, Refused uint64
	InTime                           uint64  // of Done, before their client gave up
	TimedOut                         uint64  // for which their client waited no longer
	Latency                          Latency // of Done
}

// Point is a point of the series.
type Point struct {
	At        time.Duration
	Processes int // that run
	Workers   int // of all stages and processes
	InFlight  int // messages, also in the server
	Done      uint64
	// P99 and Longest are of the messages that were done since the last point.
	// While none is done both are 0, however long messages wait.
	P99, Longest time.Duration
}

// Latency is how long something took: a histogram whose quantiles are at most 1
// % too high. The zero Latency is empty.
type Latency struct {
	count   uint64
	sum     float64 // nanoseconds
	most    time.Duration
	buckets []uint64
}

// Buckets are 1 ns wide below 256 ns; above, each doubling has 128 buckets.
const fine = 7

// add counts a duration.
func (l *Latency) add(d time.Duration) {
	i := int(d)
	if high := bits.Len64(uint64(d)) - 1; high > fine {
		i = (high-fine)<<fine + int(d>>(high-fine))
	}
	for i >= len(l.buckets) {
		l.buckets = append(l.buckets, make([]uint64, i+1-len(l.buckets))...)
	}
	l.buckets[i]++
	l.count++
	l.sum += float64(d)
	l.most = max(l.most, d)
}

// record counts a duration that began after the warm-up.
func (l *Latency) record(r *run, from, to time.Duration) {
	if from >= r.model.Warmup {
		l.add(to - from)
	}
}

// reset empties the histogram.
func (l *Latency) reset() {
	clear(l.buckets)
	l.count, l.sum, l.most = 0, 0, 0
}

// Count returns how many durations were counted.
func (l *Latency) Count() uint64 { return l.count }

// Mean returns the mean, or 0 if there is none.
func (l *Latency) Mean() time.Duration { return time.Duration(l.sum / float64(max(l.count, 1))) }

// Longest returns the longest duration.
func (l *Latency) Longest() time.Duration { return l.most }

// Quantile returns the duration that a share of q, from 0 to 1, does not
// exceed.
func (l *Latency) Quantile(q float64) time.Duration {
	rank, seen := uint64(math.Ceil(q*float64(l.count))), uint64(0)
	for i, n := range l.buckets {
		if seen += n; seen >= rank && n > 0 {
			return min(highest(i), l.most)
		}
	}
	return l.most
}

// Within returns how many durations were at most d, with an error of at most a
// bucket.
func (l *Latency) Within(d time.Duration) (n uint64) {
	for i, of := range l.buckets {
		if highest(i) > d {
			break
		}
		n += of
	}
	return n
}

// highest returns the longest duration of a bucket.
func highest(i int) time.Duration {
	high := i >> fine
	if high <= 1 {
		return time.Duration(i)
	}
	low := i&(1<<fine-1) | 1<<fine
	return time.Duration(low+1)<<(high-1) - 1
}

// baseline has the counts up to a time.
type baseline struct {
	done            uint64
	served          time.Duration // that the server was busy for
	inSystem, alive float64       // messages in flight and processes, multiplied by seconds
	stages          []totals
}

// totals are of a stage in several processes. Times are in seconds of all
// workers.
type totals struct {
	accepted, handled, refused, tried uint64
	busy, blocked, workers, queued    float64
}

// add adds the counts of a process.
func (t *totals) add(s *station, a *inbox.Accounts) {
	s.touch()
	c := counters(a)
	t.accepted += c.Accepted - c.Shed
	t.handled += s.handled
	t.refused += c.Rejected + c.Shed
	t.tried += a.Counts.Retries
	t.busy += c.Busy.Seconds()
	t.blocked += c.Blocked.Seconds()
	t.workers += (c.Busy + c.Blocked + c.Idle).Seconds()
	t.queued += s.queued
}

// collect returns the counts up to now.
func (r *run) collect() *baseline {
	r.count(0)
	b := &baseline{done: r.done, inSystem: r.inSystem}
	for _, n := range r.nodes {
		b.stages = append(b.stages, n.gone)
	}
	for _, p := range r.processes {
		for i, a := range inbox.Counts(p.inboxes()) {
			b.stages[i].add(p.stations[i], &a)
		}
		switch p.state {
		case running, leaving:
			b.alive += (r.now - p.began).Seconds()
		case gone:
			b.alive += p.lived.Seconds()
		default:
		}
	}
	if r.fleet != nil {
		b.served = r.fleet.busy()
	}
	return b
}

// result returns the result at the end.
func (r *run) result() *Result {
	now, since := r.collect(), r.before
	span := (r.model.Length - r.model.Warmup).Seconds()
	res := &Result{
		Arrived: r.arrived, Done: r.done, Shed: r.lost, Failed: r.failed, Refused: r.refused, Sources: r.of, Redelivered: r.redelivered,
		Throughput: float64(now.done-since.done) / span, InSystem: (now.inSystem - since.inSystem) / span,
		Latency: r.latency, Processes: (now.alive - since.alive) / span,
		Series: r.series, Journal: r.journal.Entries(),
	}
	for i := range r.messages {
		if m := &r.messages[i]; m.live {
			res.InFlight++
			res.Latency.record(r, m.arrived, r.now)
			res.Sources[m.source].InFlight++
		}
	}
	if r.fleet != nil {
		res.Server = (now.served - since.served).Seconds() / span
	}
	for i, n := range r.nodes {
		t, b := &now.stages[i], &since.stages[i]
		st := StageResult{
			Name: n.Name, Accepted: t.accepted, Handled: t.handled, Refused: t.refused, Retries: t.tried, Wait: n.wait, Latency: n.latency,
			Throughput: float64(t.handled-b.handled) / span, Workers: (t.workers - b.workers) / span,
			Busy: (t.busy - b.busy) / span, Blocked: (t.blocked - b.blocked) / span, Queue: (t.queued - b.queued) / span,
		}
		if st.Workers > 0 {
			st.Utilization = st.Busy / st.Workers
		}
		res.Stages = append(res.Stages, st)
	}
	return res
}

// point adds a point to the series.
func (r *run) point() {
	p := Point{At: r.now, InFlight: r.inFlight, Done: r.recent.count, P99: r.recent.Quantile(0.99), Longest: r.recent.most}
	for _, q := range r.processes {
		if q.state == running || q.state == leaving {
			p.Processes++
		}
		for _, s := range q.stations {
			p.Workers += s.want
		}
		for _, x := range q.pools {
			p.Workers += x.want
		}
	}
	r.recent.reset()
	r.series = append(r.series, p)
}

// String returns the result as a table, without the series.
func (r *Result) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%.0f a second done by %.1f processes; latency %v on average, %v for 99 of 100, %v at most\n",
		r.Throughput, r.Processes, short(r.Latency.Mean()), short(r.Latency.Quantile(0.99)), short(r.Latency.Longest()))
	rows := []byte("stage\tworkers\tbusy\tblocked\tqueue\twait\t99 of 100\n")
	for i := range r.Stages {
		st := &r.Stages[i]
		rows = fmt.Appendf(rows, "%s\t%.1f\t%.0f%%\t%.1f\t%.1f\t%v\t%v\n", st.Name, st.Workers, 100*st.Utilization, st.Blocked, st.Queue,
			short(st.Wait.Mean()), short(st.Wait.Quantile(0.99)))
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, err := w.Write(rows)
	if err = errors.Join(err, w.Flush()); err != nil {
		return err.Error() // a Buffer has none
	}
	fmt.Fprintf(&b, "arrived %d = done %d + shed %d + failed %d + refused %d + in flight %d; delivered again %d\n",
		r.Arrived, r.Done, r.Shed, r.Failed, r.Refused, r.InFlight, r.Redelivered)
	return b.String()
}

// short rounds a duration to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
