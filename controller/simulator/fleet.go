package simulator

import (
	"math"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/ring"
)

// fleet is the server with the stream of messages, and the autoscaler that
// starts and ends processes.
type fleet struct {
	*Fleet

	run     *run
	entry   int           // the stage that the stream feeds
	free    time.Duration // when the server has done its work
	idle    time.Duration // how long it had nothing to do, before that
	stream  durable       // of messages that may be delivered
	stored  int           // messages that are published and not done
	asking  ring.Ring[asking]
	desired []int // processes at the start, and by poll, of the last polls
}

// member is a process as the fleet sees it.
type member struct {
	inFlight int           // messages
	wanted   int           // messages that it asked for, and that have not been given to it
	asked    time.Duration // when it asked last
	again    bool          // it will ask again
	done     uint64        // messages
	readings ring.Ring[reading]
}

// asking is a process that waits for a number of messages.
type asking struct {
	process *process
	n       int
}

// smallPull is how often a process asks for few messages.
const smallPull = 10 * time.Millisecond

// How processes are measured, as package adapter/nats/fleet does.
const (
	beats     = 2 * time.Second
	readings  = 15
	settled   = 2    // readings back from which the number of workers has not grown
	saturated = 0.75 // of the workers are busy: then the policy would have added some if that paid
)

// reading has the measurements of a process at one instant.
type reading struct {
	at      time.Duration
	done    uint64
	busy    []time.Duration // of stages
	workers []int           // of stages
	cpu     time.Duration   // that handlers have used
}

func newFleet(r *run) *fleet {
	f := &fleet{Fleet: r.model.Fleet, run: r, entry: r.model.index(r.model.Sources[0].To)}
	r.fleet = f
	f.desired = []int{f.Processes}
	f.stream.lanes = make([]lane, f.Partitions)
	for range f.Processes {
		f.begin(r.start())
	}
	for i, l := range f.Losses {
		r.calendar.enter(event{at: l.At, kind: loss, id: int32(i)})
	}
	if f.Scale != nil {
		r.calendar.enter(event{at: f.Scale.Poll, kind: poll})
		r.calendar.enter(event{at: beats, kind: beat})
	}
	return f
}

func (f *fleet) happen(e *event) {
	switch e.kind {
	case published:
		f.stream.push(e.id, f.run.messages[e.id].key)
		f.deliver()
	case delivered:
		if m := &f.run.messages[e.id]; m.gen == e.gen {
			f.run.enter(e.id, m.process, f.entry)
		}
	case asks:
		p := f.run.processes[e.id]
		p.member.again = false
		f.ask(p)
	case asked:
		f.asking.Push(asking{f.run.processes[e.id], int(e.gen)})
		f.deliver()
	case acknowledged:
		f.take(e.gen)
	case left:
		f.run.processes[e.id].end()
	case started:
		if p := f.run.processes[e.id]; p.state == starting {
			f.begin(p)
		}
	case redeliver:
		f.stream.ready.PushFront([]int32{e.id})
		f.deliver()
	case loss:
		f.lose(f.Losses[e.id].Share)
	case beat:
		f.measure()
		f.run.calendar.enter(event{at: f.run.now + beats, kind: beat})
	case poll:
		f.scale()
		f.run.calendar.enter(event{at: f.run.now + f.Scale.Poll, kind: poll})
	default:
	}
}

// publish gives a message to the server. The server takes one after the other.
func (f *fleet) publish(msg int32) {
	r := f.run
	if f.Limit > 0 && f.stored >= f.Limit {
		r.refuse(msg)
		return
	}
	f.stored++
	f.idle += max(r.now-f.free, 0)
	f.free = min(max(f.free, r.now)+f.Hop, 2*longest) // beyond the end of any run
	r.calendar.enter(event{at: f.free, kind: published, id: msg})
}

// deliver gives messages to the processes that ask, one to each in turn.
func (f *fleet) deliver() {
	for f.asking.Len() > 0 && f.stream.ready.Len() > 0 {
		a := f.asking.Pop()
		if a.process.state != running {
			continue
		}
		msg := f.stream.ready.Pop()
		if a.n--; a.n > 0 {
			f.asking.Push(a)
		}
		a.process.member.wanted--
		a.process.member.inFlight++
		m := &f.run.messages[msg]
		m.process = a.process
		f.run.calendar.enter(event{at: f.run.now + f.Delay, kind: delivered, id: msg, gen: m.gen})
		f.ask(a.process)
	}
}

// ask has a process ask for as many messages as it has places for, but for few
// seldom, and not while it has asked for others, as the receiver of package
// adapter/nats does.
func (f *fleet) ask(p *process) {
	m, now := &p.member, f.run.now
	free := f.InFlight - m.inFlight - m.wanted
	switch soon := m.asked + smallPull; {
	case p.state != running || free <= 0 || m.wanted > f.InFlight/2:
	case free < f.InFlight/4 && m.wanted > 0:
	case free < f.InFlight/4 && now < soon:
		if !m.again {
			m.again = true
			f.run.calendar.enter(event{at: soon, kind: asks, id: p.id})
		}
	default:
		m.asked = now
		m.wanted += free
		f.run.calendar.enter(event{at: now + f.Delay, kind: asked, id: p.id, gen: uint32(free)})
	}
}

// busy returns for how long the server was busy up to now.
func (f *fleet) busy() time.Duration { return f.run.now - f.idle - max(f.run.now-f.free, 0) }

// acknowledge has the server learn that a message is done.
func (f *fleet) acknowledge(msg int32) {
	m := &f.run.messages[msg]
	if f.Delay > 0 {
		f.run.calendar.enter(event{at: f.run.now + f.Delay, kind: acknowledged, gen: m.key})
	} else {
		f.take(m.key)
	}
	p := m.process
	p.member.inFlight--
	p.member.done++
	if p.state == leaving && p.member.inFlight == 0 {
		f.run.calendar.enter(event{at: f.run.now, kind: left, id: p.id})
	}
	f.ask(p)
}

// take takes a message that is done out of the stream.
func (f *fleet) take(key uint32) {
	f.stored--
	f.stream.release(key)
	f.deliver()
}

// begin has a process take messages.
func (f *fleet) begin(p *process) {
	p.begin()
	p.member.asked = f.run.now - smallPull
	f.ask(p)
}

// leave has a process end its commands and take no more.
func (f *fleet) leave(p *process) {
	p.state = leaving
	if p.member.inFlight == 0 {
		p.end()
	}
}

// lose kills a share of the running processes, the oldest ones. Their messages
// are delivered again, and other processes are started.
func (f *fleet) lose(share float64) {
	alive := f.in(running)
	for _, p := range alive[:int(math.Round(share*float64(len(alive))))] {
		f.kill(p)
		f.starts(f.run.start())
	}
}

func (f *fleet) kill(p *process) {
	r := f.run
	for id := range r.messages {
		if m := &r.messages[id]; m.live && m.process == p {
			m.gen++
			m.process, m.left, m.shed = nil, 0, false
			r.redelivered++
			r.calendar.enter(event{at: r.now + f.AckWait, kind: redeliver, id: int32(id)})
		}
	}
	p.end()
}

// starts has a process begin when it has started.
func (f *fleet) starts(p *process) {
	f.run.calendar.enter(event{at: f.run.now + f.Startup, kind: started, id: p.id})
}

// in returns the processes in a state, the oldest one first.
func (f *fleet) in(s state) (all []*process) {
	for _, p := range f.run.processes {
		if p.state == s {
			all = append(all, p)
		}
	}
	return all
}

// measure reads the running processes.
func (f *fleet) measure() {
	for _, p := range f.in(running) {
		m := &p.member
		if m.readings.Len() == readings {
			m.readings.Pop()
		}
		m.readings.Push(p.read())
	}
}

func (p *process) read() reading {
	r := reading{at: p.run.now, done: p.member.done, cpu: p.cpu.time(p.run.now)}
	accounts := inbox.Counts(p.inboxes())
	for i, s := range p.stations {
		r.busy, r.workers = append(r.busy, accounts[i].Counts.BusyTime), append(r.workers, s.want)
	}
	return r
}

// scale does an autoscaler's work of one poll.
func (f *fleet) scale() {
	ready, coming := f.in(running), f.in(starting)
	have, want := len(ready)+len(coming), 0.0
	for i := range f.run.nodes {
		_, n := f.Scale.Law.Wanted(f.lag(i, ready))
		want = max(want, n)
	}
	if f.run.model.CPUs > 0 {
		_, n := f.Scale.Law.Wanted(f.computing(ready))
		want = max(want, n)
	}
	now := int(math.Ceil(want))
	if math.Abs(float64(now-have)) <= tolerance*float64(have) {
		now = have
	}
	now = min(max(now, f.Scale.Least), max(2*have, have+mostAdded))
	f.desired = append(f.desired, now)
	f.desired = f.desired[max(len(f.desired)-int(f.Scale.Down/f.Scale.Poll)-1, 0):]
	n := min(slices.Max(f.desired), f.Scale.Most)
	for range n - have {
		f.starts(f.run.start())
	}
	for have > n && len(ready) > 0 && len(coming) == 0 {
		f.leave(ready[len(ready)-1])
		ready, have = ready[:len(ready)-1], have-1
	}
}

const (
	mostAdded = 4   // processes that an autoscaler may add at once, however few there are
	tolerance = 0.1 // share of the processes by which their number may be wrong before it is changed
)

// lag describes a stage in all processes.
func (f *fleet) lag(stage int, ready []*process) policy.Lag {
	l := policy.Lag{Pending: uint64(f.stored), Processes: len(ready)}
	if f.Limit > 0 {
		l.Fill = float64(f.stored) / float64(f.Limit)
	}
	for _, p := range ready {
		now, most, known := p.read(), p.stations[stage].Most, &p.member.readings
		l.Workers += now.workers[stage]
		if known.Len() >= settled {
			recent := known.At(known.Len() - settled)
			if now.workers[stage] <= recent.workers[stage] && now.busySince(recent, stage) >= saturated*float64(now.workers[stage]) {
				most = now.workers[stage]
			}
		}
		l.Most += most
		if known.Len() > 0 {
			first := known.At(0)
			l.Busy += now.busySince(first, stage)
			l.Rate += float64(now.done-first.done) / max((now.at-first.at).Seconds(), 1e-9)
		}
	}
	return l
}

// computing describes the CPUs in all processes. They have no queue of their
// own: waiting commands are counted for the stages.
func (f *fleet) computing(ready []*process) policy.Lag {
	cpus := len(ready) * f.run.model.CPUs
	l := policy.Lag{Processes: len(ready), Workers: cpus, Most: cpus}
	for _, p := range ready {
		if known := &p.member.readings; known.Len() > 0 {
			now, first := p.read(), known.At(0)
			l.Busy += (now.cpu - first.cpu).Seconds() / max((now.at-first.at).Seconds(), 1e-9)
		}
	}
	return l
}

// busySince returns how many workers of a stage were busy since an earlier
// reading, on average.
func (r *reading) busySince(earlier *reading, stage int) float64 {
	return (r.busy[stage] - earlier.busy[stage]).Seconds() / max((r.at-earlier.at).Seconds(), 1e-9)
}

// durable is the messages that the server has. The messages of one partition are
// given out one after the other, if there are partitions.
type durable struct {
	ready ring.Ring[int32]
	lanes []lane
}

type lane struct {
	taken   bool // a message of it is ready, or a process has it
	waiting ring.Ring[int32]
}

// push adds a message.
func (l *durable) push(id int32, key uint32) {
	if at := l.lane(key); at != nil {
		if at.taken {
			at.waiting.Push(id)
			return
		}
		at.taken = true
	}
	l.ready.Push(id)
}

// release ends the turn of a message that was given out: the next one of its
// partition is ready.
func (l *durable) release(key uint32) {
	at := l.lane(key)
	switch {
	case at == nil:
	case at.waiting.Len() > 0:
		l.ready.Push(at.waiting.Pop())
	default:
		at.taken = false
	}
}

func (l *durable) lane(key uint32) *lane {
	if len(l.lanes) == 0 {
		return nil
	}
	return &l.lanes[key%uint32(len(l.lanes))]
}
