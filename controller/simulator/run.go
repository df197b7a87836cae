package simulator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/internal/steer"
)

// Run simulates a model and returns the measurements. The same model gives the
// same result, whatever the load of the machine. It starts no goroutine and
// reads no clock. Run returns the faults that [Model.Check] finds, the fault of
// a policy, or the error of ctx if that ends before.
func Run(ctx context.Context, m Model) (*Result, error) {
	if ctx == nil {
		return nil, fault(true, "the context is nil")
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	m = m.withDefaults()
	r := newRun(&m)
	for n := 0; r.fault == nil; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("simulator: stopped at %v of %v: %w", r.now, m.Length, context.Cause(ctx))
		}
		if len(r.calendar.events) == 0 || r.calendar.events[0].at > m.Length {
			break
		}
		e := r.calendar.next()
		r.now = e.at
		r.happen(&e)
		r.settle()
	}
	if r.fault != nil {
		return nil, r.fault
	}
	r.now = m.Length
	return r.result(), nil
}

// run is one run of a model.
type run struct {
	model     *Model
	now       time.Duration
	calendar  calendar
	nodes     []*node
	sources   []source
	processes []*process // in the order of their start, ended ones included
	fleet     *fleet     // nil: there is one process
	fault     error

	workers  []*worker // that ever were
	woken    ring.Ring[*worker]
	dirty    []*station // of whose queues the lengths may have changed
	timers   []*timer
	messages []message
	spare    []*task // commands that have ended
	freed    []int32 // messages
	keys     *rand.Rand
	chance   *rand.Rand // of gates and retries

	arrived, done, lost, failed, refused, redelivered uint64
	of                                                []SourceResult // by source
	latency                                           Latency
	recent                                            Latency // since the last point
	inSystem                                          float64 // messages in flight, multiplied by seconds
	since                                             time.Duration
	inFlight                                          int
	before                                            *baseline
	series                                            []Point
	journal                                           steer.Journal // of the first process
}

// task is a command in a process.
type task struct {
	message  int32
	source   int32
	priority int32
	weight   int32
	key      uint32
	at       time.Duration // when it arrived at its stage
	expires  time.Duration // 0: never
}

// Priority returns the priority of its source.
func (t *task) Priority() int { return int(t.priority) }

// Deadline returns when its client gives up.
func (t *task) Deadline() time.Time {
	if t.expires == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t.expires))
}

// message is a message that a source has submitted, with all commands emitted
// for it.
type message struct {
	gen     uint32 // changes when it ends, and when its process is killed
	live    bool
	shed    bool  // one of its commands was
	failed  bool  // one of its commands ended with an error
	left    int32 // commands that have not ended
	tries   int32 // of the client, before
	key     uint32
	source  int32
	arrived time.Duration
	expires time.Duration // when stages end it unhandled; 0: never
	process *process      // nil: it is in the server
}

func newRun(m *Model) *run {
	r := &run{model: m, nodes: nodes(m), keys: stream(m, -1), chance: stream(m, math.MaxInt), of: make([]SourceResult, len(m.Sources))}
	r.calendar.enter(event{at: m.Warmup, kind: warm})
	if m.Fleet != nil {
		r.fleet = newFleet(r)
	} else {
		r.start().begin()
	}
	r.settle()
	for i := range m.Sources {
		r.sources = append(r.sources, source{Source: &m.Sources[i], to: m.index(m.Sources[i].To), random: stream(m, -2-i)})
		r.draw(int32(i))
	}
	r.calendar.enter(event{at: m.Every, kind: look})
	return r
}

// happen changes the state of the run as an event says.
func (r *run) happen(e *event) {
	switch e.kind {
	case arrival:
		r.arrive(e.id)
	case finished:
		if w := r.workers[e.id]; w.gen == e.gen && !w.gone {
			w.computed()
		}
	case computed:
		if p := r.processes[e.id]; p.cpu.gen == e.gen {
			p.cpu.complete(r)
		}
	case alarm:
		r.timers[e.id].fire(e.gen)
	case gaveUp:
		if m := &r.messages[e.id]; m.gen == e.gen && m.live {
			r.of[m.source].TimedOut++
			r.sendAgain(e.id)
		}
	case again:
		r.submit(e.id)
	case tick:
		r.processes[e.id].tick(e)
	case look:
		r.point()
		r.calendar.enter(event{at: r.now + r.model.Every, kind: look})
	case warm:
		r.before = r.collect()
	default:
		r.fleet.happen(e)
	}
}

// settle has workers take their turns, and counts the commands that wait, when
// an event has happened.
func (r *run) settle() {
	r.serve()
	for _, s := range r.dirty {
		s.dirty = false
		if n := s.inbox.Len(); n != s.length {
			s.touch()
			s.length = n
		}
	}
	r.dirty = r.dirty[:0]
}

// source submits messages to a stage.
type source struct {
	*Source

	to       int
	next     int // of the arrivals
	stopped  bool
	inFlight int // messages
	random   *rand.Rand
	upTo     time.Duration // up to when the rate was drawn from
	rate     float64       // from a slice before upTo
	part     float64       // of a nanosecond, by which the last arrival was later than its event
}

// slice is how long a rate lasts.
const slice = 100 * time.Millisecond

// draw enters the next arrival of a source: the time at which the integral of
// the rate has grown by an exponential number.
func (r *run) draw(id int32) {
	s, at := &r.sources[id], r.now
	switch {
	case s.stopped:
		return
	case s.Load == nil:
		if s.next < len(s.Arrivals) {
			r.calendar.enter(event{at: s.Arrivals[s.next], kind: arrival, id: id})
			s.next++
		}
		return
	}
	part, left := s.part, s.random.ExpFloat64()
	for at <= r.model.Length {
		if at >= s.upTo {
			s.rate = s.Load(s.upTo)
			if math.IsNaN(s.rate) || s.rate > mostRate {
				r.fault = fault(true, "the source of stage %q has a rate of %v at %v; at most %v is possible",
					r.nodes[s.to].Name, s.rate, s.upTo, mostRate)
				return
			}
			s.upTo += slice
		}
		rest := float64(s.upTo-at) - part // nanoseconds
		if mean := max(s.rate, 0) * rest / 1e9; left >= mean {
			left -= mean
			at, part = s.upTo, 0
			continue
		}
		whole, fraction := math.Modf(part + left/s.rate*1e9)
		at, s.part = at+min(time.Duration(whole), s.upTo-at-1), fraction
		r.calendar.enter(event{at: at, kind: arrival, id: id})
		return
	}
}

// mostRate is the highest rate of a source.
const mostRate = 1e9

// arrive submits a message, and draws the next one.
func (r *run) arrive(id int32) {
	s := &r.sources[id]
	if s.Breaks > 0 && s.inFlight >= s.Breaks {
		s.stopped = true
		return
	}
	r.submit(r.newMessage(id))
	r.draw(id)
}

// submit has a client send a message, for the first time or again.
func (r *run) submit(msg int32) {
	m := &r.messages[msg]
	s := &r.sources[m.source]
	r.arrived++
	r.of[m.source].Arrived++
	r.count(1)
	s.inFlight++
	m.live, m.arrived = true, r.now
	if s.Timeout > 0 {
		r.calendar.enter(event{at: r.now + s.Timeout, kind: gaveUp, id: msg, gen: m.gen})
		if s.Expires {
			m.expires = r.now + s.Timeout
		}
	}
	if r.fleet != nil {
		r.fleet.publish(msg)
	} else {
		r.enter(msg, r.processes[0], s.to)
	}
}

// enter submits a message to a stage of a process.
func (r *run) enter(msg int32, p *process, to int) {
	m := &r.messages[msg]
	m.process, m.left = p, 1
	if c := r.newTask(msg); p.stations[to].offer(c) != nil {
		r.spare = append(r.spare, c)
		r.refuse(msg)
	}
}

// count counts messages in flight.
func (r *run) count(change int) {
	r.inSystem += float64(r.inFlight) * (r.now - r.since).Seconds()
	r.since = r.now
	r.inFlight += change
}

func (r *run) newMessage(source int32) (id int32) {
	if n := len(r.freed); n > 0 {
		id, r.freed = r.freed[n-1], r.freed[:n-1]
	} else {
		id = int32(len(r.messages))
		r.messages = append(r.messages, message{})
	}
	r.messages[id] = message{gen: r.messages[id].gen, source: source, key: r.keys.Uint32()}
	return id
}

// newTask returns a command of a message.
func (r *run) newTask(msg int32) (c *task) {
	if n := len(r.spare); n > 0 {
		c, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		c = new(task)
	}
	m := &r.messages[msg]
	s := r.sources[m.source].Source
	*c = task{message: msg, source: m.source, priority: int32(s.Priority), weight: int32(s.Weight), key: m.key, at: r.now, expires: m.expires}
	if c.expires == 0 && s.Timeout > 0 {
		c.expires = m.arrived + s.Timeout
	}
	return c
}

// child returns a further command of the same message.
func (r *run) child(of *task) *task {
	r.messages[of.message].left++
	return r.newTask(of.message)
}

// drop ends a command, and its message if it was the last one.
func (r *run) drop(c *task) {
	msg := c.message
	r.spare = append(r.spare, c)
	m := &r.messages[msg]
	if m.left--; m.left > 0 {
		return
	}
	of := &r.of[m.source]
	switch {
	case m.shed:
		r.lost++
	case m.failed:
		r.failed++
	default:
		r.done++
		of.Done++
		r.latency.record(r, m.arrived, r.now)
		of.Latency.record(r, m.arrived, r.now)
		r.recent.add(r.now - m.arrived)
		if limit := r.sources[m.source].Timeout; limit == 0 || r.now-m.arrived <= limit {
			of.InTime++
		}
	}
	if r.fleet != nil {
		r.fleet.acknowledge(msg)
	}
	r.end(msg)
}

// shed ends a command without an answer.
func (r *run) shed(c *task) {
	r.messages[c.message].shed = true
	r.drop(c)
}

// refuse ends a message that was not accepted.
func (r *run) refuse(msg int32) {
	r.refused++
	r.of[r.messages[msg].source].Refused++
	r.sendAgain(msg)
	r.end(msg)
}

// sendAgain has the client of a message send it once more after its pause, as a
// message of its own, if it has not done so as often as it does.
func (r *run) sendAgain(msg int32) {
	source, tries := r.messages[msg].source, r.messages[msg].tries
	s := r.sources[source].Source
	if int(tries) >= s.Retries {
		return
	}
	fresh := r.newMessage(source)
	r.messages[fresh].tries = tries + 1
	r.calendar.enter(event{at: r.now + s.Pause, kind: again, id: fresh})
}

// end ends a message.
func (r *run) end(msg int32) {
	m := &r.messages[msg]
	r.count(-1)
	r.sources[m.source].inFlight--
	m.live = false
	m.gen++
	r.freed = append(r.freed, msg)
}

// clock is the clock of the pipelines. It is never zero.
func (r *run) clock() int64 { return r.clockAt(r.now) }

func (r *run) clockAt(t time.Duration) int64 { return int64(t + time.Second) }

// timer is a timer of an inbox.
type timer struct {
	process *process
	id      int32
	gen     uint32
	f       func()
}

// afterFunc sets a timer in virtual time.
func (p *process) afterFunc(d time.Duration, f func()) inbox.Timer {
	t := &timer{process: p, id: int32(len(p.run.timers)), f: f}
	p.run.timers = append(p.run.timers, t)
	t.Reset(d)
	return t
}

// Reset sets the timer anew.
func (t *timer) Reset(d time.Duration) bool {
	t.gen++
	t.process.run.calendar.enter(event{at: t.process.run.now + d, kind: alarm, id: t.id, gen: t.gen})
	return true
}

// Stop stops the timer.
func (t *timer) Stop() bool {
	t.gen++
	return true
}

func (t *timer) fire(gen uint32) {
	if t.gen == gen && t.process.state != gone {
		t.f()
		for _, s := range t.process.stations {
			s.changed()
		}
	}
}
