package simulator

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
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
	pools    []*pool // shared ones, in the order in which they were made
	pipeline *inbox.Pipeline
	entry    controller.Admission
	cpu      cpu
	member   member // of the fleet

	controller controller.Controller // nil: there is no policy
	windows    steer.Windows
	times      steer.Times
	watches    bool                 // the controller wants to see the times of commands
	rounds     bool                 // the controller wants to know of the ends of rounds
	visits     int                  // after how many visits it wants to know of them; 0: never
	calls      [calls]time.Duration // when the controller was last called for a round or for visits, or will be
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
	p.build()
	if r.model.Policy != nil {
		p.controller = r.model.Policy.New()
		p.ask(controller.Event{Kind: controller.EventStart, Stage: controller.NoStage})
	}
}

// build makes the stations and pools of a process.
func (p *process) build() {
	r := p.run
	p.pipeline = &inbox.Pipeline{
		Name: "model", Clock: r.clock, AfterFunc: p.afterFunc, Chance: r.chance.Float64, Reach: p.reach,
		Ended: func(e inbox.Ending) { r.shed(e.Cmd.(*task)) },
		Full:  func(in *inbox.Inbox) { p.notify(in.Place) },
		RoundEnd: func(*inbox.SharedPool) {
			if p.rounds {
				p.call(roundEnd)
			}
		},
		Visited: func(*inbox.SharedPool) { p.call(visited) },
		InFlight: func() (n int) {
			for _, s := range p.stations {
				n += s.inbox.Load()
			}
			return n
		},
		Held: func() int { return 0 },
	}
	for _, n := range r.nodes {
		p.stations = append(p.stations, p.newStation(n))
	}
	for _, s := range p.stations {
		for _, to := range s.next {
			s.inbox.Settings().Ahead(p.stations[to].inbox)
		}
		if s.set.admission != (controller.Admission{}) {
			s.inbox.Settings().SetAdmission(s.set.admission)
		}
		s.inbox.Settings().Adjust(func(k *inbox.Knobs) { k.Priority = s.Priority })
	}
	for _, x := range r.model.Pools {
		made := p.newPool(x.Name, x.Workers, x.Most)
		made.model, made.plan = true, r.model.planOf(&x)
		made.SetDispatch(x.Dispatch)
		made.SetPlan(made.plan)
		made.scale(x.Workers)
	}
	for _, s := range p.stations {
		if s.Pool != "" {
			p.bind(s, s.Pool)
		} else {
			s.scale(s.Workers)
		}
	}
}

// reach returns the edge from one stage to another.
func (p *process) reach(from, to *inbox.Inbox) (inbox.Edge, bool) {
	n := p.run.nodes[from.Place]
	for _, e := range slices.Concat(n.emit, n.forward) {
		if e.to == to.Place {
			return inbox.Edge{Back: e.back, Moved: new(atomic.Uint64)}, true
		}
	}
	return inbox.Edge{}, false
}

// end removes a process; its counts stay.
func (p *process) end() {
	for _, w := range p.run.workers {
		if w.process == p {
			w.gone, w.gen = true, w.gen+1
		}
	}
	for i, a := range inbox.Counts(p.inboxes()) {
		p.run.nodes[i].gone.add(p.stations[i], &a)
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

// called marks an event for which the controller is called, beside fullQueue.
const called = 1 << 30

// The events of pools for which a controller is called.
const (
	roundEnd = iota
	visited
	calls
)

var kinds = [calls]controller.EventKind{controller.EventRoundEnd, controller.EventVisits}

// call has the controller called soon for an event of a pool, as seldom as in a
// pipeline: once in a millisecond.
func (p *process) call(what int) {
	now := p.run.now
	if p.controller == nil || p.calls[what] > now {
		return
	}
	p.calls[what] = max(p.calls[what]+time.Millisecond, now+1)
	p.run.calendar.enter(event{at: p.calls[what], kind: tick, id: p.id, gen: fullQueue | called | uint32(what)})
}

// tick calls the controller.
func (p *process) tick(e *event) {
	switch {
	case p.controller == nil:
	case e.gen&fullQueue != 0 && e.gen&called != 0:
		p.ask(controller.Event{Kind: kinds[e.gen&^(fullQueue|called)], Stage: controller.NoStage})
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
	if on, ok := p.decisions.WantsRoundEnd(); ok {
		p.rounds = on
	}
	if n, ok := p.decisions.WantsVisits(); ok {
		p.visits = n
	}
	name := p.run.model.Policy.Name()
	changes, faults := controller.Settle(name, &p.seen, &p.decisions)
	if len(faults) > 0 {
		p.run.fault = errors.Join(faults...)
		return
	}
	for _, ofPool := range []bool{true, false} { // a stage may be bound to a pool that is made here
		for _, c := range changes {
			if ofPool == (c.Stage == controller.NoStage) && !p.apply(c) {
				p.run.fault = fault(true, "policy %q changes %s, which is not simulated: of %s", name, c.What, c.StageName)
				return
			}
		}
	}
	for _, x := range p.pools {
		x.ReportVisits(p.visits)
	}
	for _, c := range changes {
		switch {
		case p.id != 0:
		case c.Varies:
			p.run.journal.Amend(c)
		default:
			p.run.journal.Add(c)
		}
	}
}

// apply applies a decision, and reports false if it is not simulated. Messages
// of a Fleet cannot be refused.
func (p *process) apply(c controller.Change) bool {
	switch {
	case c.Stage == controller.Entry:
		if p.run.fleet != nil || c.What == controller.KnobLimit && !p.run.model.refuses() {
			return false
		}
		admit(&p.entry, c)
		p.pipeline.SetAdmission(p.entry)
		return true
	case p.run.fleet != nil && (c.What == controller.KnobRate || c.What == controller.KnobShed || c.What == controller.KnobGate):
		return false
	case c.Stage < 0:
		return p.applyPool(c)
	}
	s := p.stations[c.Stage]
	switch c.What {
	case controller.KnobPool:
		p.bind(s, c.After.(string))
	case controller.KnobWorkers, controller.KnobDispatch, controller.KnobVisit:
		return p.applyPool(c)
	default:
		return s.apply(c)
	}
	return true
}

// inboxes returns the inboxes of the stages.
func (p *process) inboxes() []*inbox.Inbox {
	all := make([]*inbox.Inbox, len(p.stations))
	for i, s := range p.stations {
		all[i] = s.inbox
	}
	return all
}

// look fills the snapshot in.
func (p *process) look(ev controller.Event) {
	s := &p.seen
	s.At, s.CPUs = p.run.now-p.began, p.run.model.CPUs
	s.CPUUsage = p.cpu.usage(p.run.now)
	if s.CPUs == 0 {
		s.CPUs = math.MaxInt32 // handlers have as many as they need
	}
	s.Stages, s.InFlight = s.Stages[:0], 0
	s.Entry, s.Priorities = p.entry, p.pipeline.Priorities()
	read := inbox.Counts
	if p.watches {
		read = inbox.Snapshot
	}
	accounts := read(p.inboxes())
	for i, st := range p.stations {
		s.Stages = append(s.Stages, st.stats(&accounts[i]))
		s.InFlight += st.inbox.Load()
	}
	s.Pools = p.poolStats(s.Stages, s.Pools[:0])
	p.windows.Fill(s)
	if p.watches && ev.Kind == controller.EventTick {
		for i := range accounts {
			p.times.Fill(&s.Stages[i], &accounts[i].Wait, &accounts[i].Work)
		}
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

// add begins the job of a worker.
func (c *cpu) add(r *run, w *worker, d time.Duration) {
	c.advance(r.now)
	c.jobs.enter(event{at: time.Duration(c.work) + d, id: w.id, gen: w.gen})
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
	for _, id := range c.finished {
		r.workers[id].computed()
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
