package pipeline

import (
	"cmp"
	"runtime"
	"sync"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/internal/room"
)

// desk is where the controller sits: it outlives the actor that does the work,
// so that a crash of that loses nothing.
type desk struct {
	p *Pipeline

	mu      sync.Mutex // guards journal
	journal *controller.Journal
}

func (d *desk) open(p *Pipeline) {
	d.p = p
	d.journal = controller.NewJournal(0)
}

func (d *desk) entries() []controller.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal.Entries()
}

func (d *desk) spawn(by act.Spawner, name string, ready func(error)) (*act.PID, error) {
	return act.Spawn(by, name, act.NewMailbox(nil), func() act.Actor {
		return &clerk{desk: d, ready: ready, controller: d.p.set.policy.New()}
	})
}

// clerk is the controller's actor: the shell around a pure policy. It looks,
// asks, applies and writes down, one event after the other. It asks for its next
// tick when it is done with the last, so ticks never pile up.
type clerk struct {
	desk       *desk
	ready      func(error)
	controller controller.Controller
	windows    controller.Windows
	decisions  controller.Decisions
	every      time.Duration
	next       *time.Timer
}

// afterPanic is when a policy is asked again that panicked before it had said when.
const afterPanic = time.Second

type tick struct{}

// IgnoreDeadLetterLogging marks a message that may come too late.
func (tick) IgnoreDeadLetterLogging() {}

// Receive handles a message to the controller.
func (c *clerk) Receive(ctx act.Context) {
	switch ctx.Message().(type) {
	case *act.Started:
		c.ask(controller.EventStart)
		c.ready(nil)
		c.sleep(ctx)
	case tick:
		c.ask(controller.EventTick)
		c.sleep(ctx)
	case *act.Stopping:
		if c.next != nil {
			c.next.Stop()
		}
		c.ask(controller.EventStop)
	}
}

// sleep asks for the next tick; a policy that never said when is not asked
// again.
func (c *clerk) sleep(ctx act.Context) {
	if c.every == 0 {
		return
	}
	system, self := ctx.ActorSystem(), ctx.Self()
	c.next = time.AfterFunc(c.every, func() { system.Root.Send(self, tick{}) })
}

// ask shows the policy the state of the pipeline and does what it decides. A
// policy that panics is logged, and what it decided last stays in force.
func (c *clerk) ask(kind controller.EventKind) {
	p := c.desk.p
	s := p.view()
	c.windows.Fill(s)
	if err := controller.Ask(c.controller, controller.Event{Kind: kind}, s, &c.decisions); err != nil {
		p.set.log.Error("policy panicked; its last decisions stay",
			"policy", p.set.policy.Name(), "error", err)
		c.every = cmp.Or(c.every, afterPanic)
		return
	}
	if kind == controller.EventStop {
		return
	}
	if every := c.decisions.Interval(); every > 0 {
		c.every = every
	}
	changes, faults := controller.Settle(p.set.policy.Name(), s, &c.decisions)
	for _, err := range faults {
		p.set.log.Error("policy made a decision that means nothing", "error", err)
	}
	c.apply(changes)
}

// apply does what was decided and writes it down.
func (c *clerk) apply(changes []controller.Change) {
	p := c.desk.p
	for _, ch := range changes {
		p.stages[ch.Stage].Scale(ch.After)
		p.set.log.Info("scaled", "stage", ch.StageName, "policy", ch.Policy,
			"before", ch.Before, "after", ch.After, "why", ch.Why)
	}
	c.desk.mu.Lock()
	defer c.desk.mu.Unlock()
	c.desk.journal.Add(changes...)
}

// view is the pipeline as a policy sees it.
func (p *Pipeline) view() *controller.Snapshot {
	sheets := room.Snapshot(p.rooms)
	s := &controller.Snapshot{At: time.Duration(p.host.Now()), CPUs: runtime.GOMAXPROCS(0)}
	for i, c := range p.stages {
		fewest, most := c.Bounds()
		sheet := &sheets[i]
		s.Stages = append(s.Stages, controller.StageStats{
			ID: controller.StageID(i), Name: c.Name(),
			QueueLen: sheet.Queued, QueueCap: sheet.Capacity, InHand: sheet.InHand, Busy: sheet.Busy,
			Workers: c.Want(), MinWorkers: fewest, MaxWorkers: most,
			Total: controller.Counters{
				Accepted: sheet.Submitted + sheet.Received, OK: sheet.OK, Forwarded: sheet.Forwarded,
				Errors: sheet.Errors, Crashes: sheet.Crashes, Shed: room.Sum(sheet.Shed),
				DeadLettered: room.Sum(sheet.Dead), Rejected: room.Sum(sheet.Rejected),
			},
		})
	}
	return s
}
