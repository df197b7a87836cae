package simulator

import (
	"errors"
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// process runs all stages of the model, with a controller of its own.
type process struct {
	run      *run
	id       int32
	state    state
	began    time.Duration
	lived    time.Duration // if it is gone
	stations []*station
	cpu      cpu
	member   member // of the fleet
	door     door

	controller controller.Controller // nil: there is no policy
	windows    steer.Windows
	times      steer.Times
	rate       tokens // for the commands of all sources
	watches    bool   // the controller wants to see the times of commands
	decisions  controller.Decisions
	seen       controller.Snapshot
	every      time.Duration
	gen        uint32 // of the next tick
}

type state uint8

const (
	starting state = iota
	running
	leaving // it takes no more messages
	gone
)

// start adds a process. It does nothing until it begins.
func (r *run) start() *process {
	p := &process{run: r, id: int32(len(r.processes))}
	r.processes = append(r.processes, p)
	return p
}

// begin has a process run.
func (p *process) begin() {
	r := p.run
	p.state, p.began = running, r.now
	p.cpu = cpu{cores: float64(r.model.CPUs), process: p.id, at: r.now, seen: r.now}
	for _, n := range r.nodes {
		s := &station{node: n, run: r, process: p, capacity: n.Capacity, workers: n.Workers, since: r.now}
		s.queue.lanes, s.moved = make([]lane, n.Lanes), make([]uint64, len(r.nodes))
		p.stations = append(p.stations, s)
	}
	if r.model.Policy != nil {
		p.controller = r.model.Policy.New()
		p.ask(controller.Event{Kind: controller.EventStart, Stage: controller.NoStage})
	}
}

// end removes a process; its counts stay.
func (p *process) end() {
	for i, s := range p.stations {
		p.run.nodes[i].gone.add(s)
	}
	*p = process{run: p.run, id: p.id, state: gone, lived: p.run.now - p.began, gen: p.gen + 1, cpu: cpu{gen: p.cpu.gen + 1}}
}

// notify has the controller learn soon that a queue is full.
func (p *process) notify(stage int) {
	if p.controller != nil {
		p.run.calendar.enter(event{at: p.run.now, kind: tick, id: p.id, gen: fullQueue | uint32(stage)})
	}
}

// fullQueue marks an event that is no tick, but that the queue of a stage is
// full.
const fullQueue = 1 << 31

// tick calls the controller.
func (p *process) tick(e *event) {
	switch {
	case p.controller == nil:
	case e.gen&fullQueue != 0:
		p.ask(controller.Event{Kind: controller.EventQueueFull, Stage: controller.StageID(e.gen &^ fullQueue)})
	case e.gen == p.gen:
		p.schedule()
		p.ask(controller.Event{Kind: controller.EventTick, Stage: controller.NoStage})
	}
}

// schedule enters the next tick.
func (p *process) schedule() {
	p.gen = (p.gen + 1) &^ fullQueue
	if p.every > 0 {
		p.run.calendar.enter(event{at: p.run.now + p.every, kind: tick, id: p.id, gen: p.gen})
	}
}

// ask shows the controller the process, and applies its decisions.
func (p *process) ask(ev controller.Event) {
	p.look(ev)
	if err := controller.Ask(p.controller, ev, &p.seen, &p.decisions); err != nil {
		p.run.fault = err
		return
	}
	if every := p.decisions.Interval(); every > 0 {
		p.every = min(every, longest)
		p.schedule()
	}
	if on, ok := p.decisions.WantsTimes(); ok {
		p.watches = on
	}
	name := p.run.model.Policy.Name()
	changes, faults := controller.Settle(name, &p.seen, &p.decisions)
	if len(faults) > 0 {
		p.run.fault = errors.Join(faults...)
		return
	}
	for _, c := range changes {
		if c.What == controller.KnobShed {
			p.doorOf(c.Stage).set(c.After.(controller.Shed))
		} else if !p.apply(c) {
			p.run.fault = fault(true, "policy %q changes %s, which is not simulated: of %s", name, c.What, c.StageName)
			return
		}
		switch {
		case p.id != 0:
		case c.Varies:
			p.run.journal.Amend(c)
		default:
			p.run.journal.Add(c)
		}
	}
}

// doorOf returns the door of a stage, or of the process.
func (p *process) doorOf(stage controller.StageID) *door {
	if stage == controller.Entry {
		return &p.door
	}
	return &p.stations[stage].door
}

// apply applies a decision, and reports false if it is not simulated. Messages
// of a Fleet cannot be refused.
func (p *process) apply(c controller.Change) bool {
	switch {
	case c.What == controller.KnobRate && p.run.fleet != nil:
		return false
	case c.Stage >= 0:
		return p.stations[c.Stage].apply(c)
	case c.Stage == controller.Entry && c.What == controller.KnobRate:
		p.rate.set(c.After.(controller.Rate), p.run.now)
		p.seen.Entry.Rate = c.After.(controller.Rate)
		return true
	default:
		return false
	}
}

// look fills the snapshot in.
func (p *process) look(ev controller.Event) {
	s := &p.seen
	s.At, s.CPUs = p.run.now-p.began, p.run.model.CPUs
	s.CPUUsage = p.cpu.usage(p.run.now)
	if s.CPUs == 0 {
		s.CPUs = math.MaxInt32 // handlers have as many as they need
	}
	s.Stages = s.Stages[:0]
	s.Pools = s.Pools[:0]
	s.InFlight = 0
	s.Entry.Shed, s.Priorities = p.door.shed, p.door.seen
	for i, st := range p.stations {
		s.Stages = append(s.Stages, st.stats())
		s.InFlight += st.queue.n + st.busy + st.blocked + st.kept
		own := &s.Stages[i]
		s.Pools = append(s.Pools, controller.PoolStats{
			Name: st.Name, Own: true, Stages: []controller.StageID{own.ID}, Busy: own.Busy, Blocked: own.Blocked,
			Workers: own.Workers, MinWorkers: own.MinWorkers, MaxWorkers: own.MaxWorkers,
		})
	}
	p.windows.Fill(s)
	if p.watches && ev.Kind == controller.EventTick {
		for i, st := range p.stations {
			p.times.Fill(&s.Stages[i], &st.waits, &st.works)
		}
	}
}

// stats returns the stage as policies see it.
func (s *station) stats() controller.StageStats {
	s.touch()
	oldest := time.Duration(0)
	if s.queue.ready.Len() > 0 {
		oldest = s.run.now - s.run.commands[*s.queue.ready.At(0)].since
	}
	s.before, s.inflows = s.before[:0], s.inflows[:0]
	for from, n := range s.moved {
		if n > 0 {
			s.before, s.inflows = append(s.before, controller.StageID(from)), append(s.inflows, n)
		}
	}
	return controller.StageStats{
		ID: controller.StageID(s.id), Name: s.Name, Rank: s.rank, Cyclic: s.cyclic, Next: s.next, Before: s.before, Inflows: s.inflows,
		QueueLen: s.queue.ready.Len(), QueueCap: s.capacity, OldestWait: oldest, InHand: s.busy + s.blocked,
		Workers: s.workers, MinWorkers: s.Workers, MaxWorkers: s.Most, Busy: s.busy, Blocked: s.blocked,
		Needs: s.Workers, Pool: s.Name, Instances: s.Most, FreeInstances: max(s.Most-s.busy-s.blocked, 0),
		Discipline: s.queue.discipline(), Sojourn: s.sojourn, Batch: controller.Batch{Max: 1}, Enabled: true, Blocking: !s.Computes || s.Blocking, Quality: 1, Admission: controller.Admission{Limit: s.limit, Shed: s.door.shed, Rate: s.rate.rate},
		Total: s.totals, Submitters: s.waiters.Len(), Priorities: s.door.seen,
	}
}

// cpu is the CPUs of a process. The handlers that compute share them evenly.
type cpu struct {
	cores    float64
	process  int32
	jobs     calendar // by the work after which they are done
	work     float64  // that each job has got, in nanoseconds
	at       time.Duration
	used     float64 // share of the CPUs, multiplied by nanoseconds
	seen     time.Duration
	then     float64 // used when it was seen
	last     float64 // the usage that was returned last
	gen      uint32  // of the next completion
	finished []int32
}

// add begins a job.
func (c *cpu) add(r *run, id int32, d time.Duration) {
	c.advance(r.now)
	c.jobs.enter(event{at: time.Duration(c.work) + d, id: id, gen: r.commands[id].gen})
	c.schedule(r)
}

// advance gives the jobs the work that was done up to now.
func (c *cpu) advance(now time.Duration) {
	if n := float64(len(c.jobs.events)); n > 0 {
		passed := float64(now - c.at)
		c.work += float64(passed * min(1, c.cores/n))
		c.used += float64(passed * min(1, n/c.cores))
	}
	c.at = now
}

// schedule enters the next completion.
func (c *cpu) schedule(r *run) {
	c.gen++
	if n := float64(len(c.jobs.events)); n > 0 {
		left := max(float64(c.jobs.events[0].at)-c.work, 0) * max(1, n/c.cores)
		r.calendar.enter(event{at: r.now + limited(math.Ceil(left)), kind: computed, id: c.process, gen: c.gen})
	}
}

// complete ends the jobs that have all their work.
func (c *cpu) complete(r *run) {
	c.advance(r.now)
	c.finished = c.finished[:0]
	for len(c.jobs.events) > 0 && float64(c.jobs.events[0].at) <= c.work+1 {
		c.finished = append(c.finished, c.jobs.next().id)
	}
	station := func(id int32) *station { return r.commands[id].station }
	for _, id := range c.finished {
		station(id).finish(id)
	}
	c.schedule(r)
}

// usage returns the share of the CPUs that was used in the last second or less;
// 0 if it is not known.
func (c *cpu) usage(now time.Duration) float64 {
	passed := now - c.seen
	if c.cores == 0 || passed < 10*time.Millisecond {
		return c.last
	}
	c.advance(now)
	c.last = max((c.used-c.then)/float64(passed), 1e-3) // 0 means that it is not known
	if passed >= time.Second {
		c.then, c.seen = c.used, now
	}
	return c.last
}

// time returns how much time of the CPUs was used.
func (c *cpu) time(now time.Duration) time.Duration {
	if c.cores == 0 {
		return 0
	}
	c.advance(now)
	return time.Duration(c.used * c.cores)
}
