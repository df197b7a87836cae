package simulator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

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

	commands []command
	messages []message
	freed    struct{ commands, messages []int32 }
	moves    []move // scratch
	keys     *rand.Rand
	chance   *rand.Rand // of doors

	arrived, done, lost, refused, redelivered uint64
	refusedOf                                 []uint64 // by source
	latency                                   Latency
	recent                                    Latency // since the last point
	inSystem                                  float64 // messages in flight, multiplied by seconds
	since                                     time.Duration
	inFlight                                  int
	before                                    *baseline
	series                                    []Point
	journal                                   steer.Journal // of the first process
}

// command is a command in a process.
type command struct {
	gen     uint32
	message int32
	at      time.Duration // when it arrived at its stage
	since   time.Duration // when it was queued, and then when its handler began
	station *station      // that handles it
}

// message is a message that a source has submitted, with all commands emitted
// for it.
type message struct {
	gen     uint32 // changes when it ends, and when its process is killed
	live    bool
	shed    bool  // one of its commands was
	left    int32 // commands that have not ended
	key     uint32
	source  int32
	arrived time.Duration
	process *process // nil: it is in the server
}

func newRun(m *Model) *run {
	r := &run{model: m, nodes: nodes(m), keys: stream(m, -1), chance: stream(m, math.MaxInt), refusedOf: make([]uint64, len(m.Sources))}
	r.calendar.enter(event{at: m.Warmup, kind: warm})
	if m.Fleet != nil {
		r.fleet = newFleet(r)
	} else {
		r.start().begin()
	}
	for i, s := range m.Sources {
		r.sources = append(r.sources, source{load: s.Load, to: m.index(s.To), random: stream(m, -2-i)})
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
		if c := &r.commands[e.id]; c.gen == e.gen {
			c.station.finish(e.id)
		}
	case computed:
		if p := r.processes[e.id]; p.cpu.gen == e.gen {
			p.cpu.complete(r)
		}
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

// source submits messages to a stage.
type source struct {
	load   Load
	to     int
	random *rand.Rand
	upTo   time.Duration // up to when the rate was drawn from
	rate   float64       // from a slice before upTo
	part   float64       // of a nanosecond, by which the last arrival was later than its event
}

// slice is how long a rate lasts.
const slice = 100 * time.Millisecond

// draw enters the next arrival of a source: the time at which the integral of
// the rate has grown by an exponential number.
func (r *run) draw(id int32) {
	s, at := &r.sources[id], r.now
	part, left := s.part, s.random.ExpFloat64()
	for at <= r.model.Length {
		if at >= s.upTo {
			s.rate = s.load(s.upTo)
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
	r.arrived++
	r.count(1)
	msg := r.newMessage()
	r.messages[msg].source = id
	if r.fleet != nil {
		r.fleet.publish(msg)
	} else {
		r.enter(msg, r.processes[0], r.sources[id].to)
	}
	r.draw(id)
}

// enter submits a message to a stage of a process.
func (r *run) enter(msg int32, p *process, to int) {
	m := &r.messages[msg]
	m.process, m.left = p, 1
	s, priority := p.stations[to], r.model.Sources[m.source].Priority
	if p.door.refuses(priority, r.chance) || s.door.refuses(priority, r.chance) {
		s.totals.Rejected++
		r.refuse(msg)
		return
	}
	s.submit(r.newCommand(msg))
}

// count counts messages in flight.
func (r *run) count(change int) {
	r.inSystem += float64(r.inFlight) * (r.now - r.since).Seconds()
	r.since = r.now
	r.inFlight += change
}

func (r *run) newMessage() (id int32) {
	if n := len(r.freed.messages); n > 0 {
		id, r.freed.messages = r.freed.messages[n-1], r.freed.messages[:n-1]
	} else {
		id = int32(len(r.messages))
		r.messages = append(r.messages, message{})
	}
	r.messages[id] = message{gen: r.messages[id].gen, live: true, arrived: r.now, key: r.keys.Uint32()}
	return id
}

func (r *run) newCommand(msg int32) (id int32) {
	if n := len(r.freed.commands); n > 0 {
		id, r.freed.commands = r.freed.commands[n-1], r.freed.commands[:n-1]
	} else {
		id = int32(len(r.commands))
		r.commands = append(r.commands, command{})
	}
	r.commands[id] = command{gen: r.commands[id].gen, message: msg, at: r.now}
	return id
}

// child returns a further command of the same message.
func (r *run) child(of int32) int32 {
	msg := r.commands[of].message
	r.messages[msg].left++
	return r.newCommand(msg)
}

func (r *run) keyOf(command int32) uint32 { return r.messages[r.commands[command].message].key }

// drop ends a command, and its message if it was the last one.
func (r *run) drop(id int32) {
	msg := r.commands[id].message
	r.free(id)
	m := &r.messages[msg]
	if m.left--; m.left > 0 {
		return
	}
	if m.shed {
		r.lost++
	} else {
		r.done++
		r.latency.record(r, m.arrived, r.now)
		r.recent.add(r.now - m.arrived)
	}
	if r.fleet != nil {
		r.fleet.acknowledge(msg)
	}
	r.end(msg)
}

// shed ends a command without an answer.
func (r *run) shed(id int32) {
	r.messages[r.commands[id].message].shed = true
	r.drop(id)
}

// refuse ends a message that was not accepted.
func (r *run) refuse(msg int32) {
	r.refused++
	r.refusedOf[r.messages[msg].source]++
	r.end(msg)
}

// free makes a command void.
func (r *run) free(id int32) {
	r.commands[id] = command{gen: r.commands[id].gen + 1, message: -1}
	r.freed.commands = append(r.freed.commands, id)
}

// end ends a message.
func (r *run) end(msg int32) {
	m := &r.messages[msg]
	r.count(-1)
	*m = message{gen: m.gen + 1}
	r.freed.messages = append(r.freed.messages, msg)
}
