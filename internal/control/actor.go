package control

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// starvedAfter is how long a stage with work must wait for a worker before
// controller.EventStarved.
const starvedAfter = time.Second

// checkDue makes the actor check whether stages starve or stall.
type checkDue struct{}

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has
// ended.
func (checkDue) IgnoreDeadLetterLogging() {}

// Receive handles a message to the loop.
func (a *loopActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case tick:
		if slices.Contains(a.active, m.of) {
			a.ask(m.of, controller.Event{Kind: controller.EventTick, Stage: controller.NoStage}, a.viewAtTick(m.of))
			a.scheduleTick(m.of)
		}
	case eventsReady:
		a.handleEvents(m.queue.take())
	case checkDue:
		a.checkStarving()
	case requestsReady:
		a.handleRequests()
	case *actor.Stopping:
		a.stop()
	}
}

// start takes over the loop, and starts the policies unless [Loop.Prepare] has.
func (a *loopActor) start(ctx actor.Context) {
	l := a.loop
	l.pid.Store(ctx.Self())
	var err error
	if a.active == nil {
		err = a.startPolicies(true)
	}
	a.ready(err)
	for _, p := range a.active {
		a.scheduleTick(p)
	}
	a.waiting = map[string]waits{}
	a.check = time.AfterFunc(starvedAfter, func() { l.send(checkDue{}) })
	a.handleRequests()
	l.slow.resend() // for events from before the start, or that a previous actor was sent a message for
	l.fast.resend()
}

func (a *loopActor) stop() {
	if a.check != nil {
		a.check.Stop()
	}
	a.stopPolicies(func(*activePolicy) bool { return true })
}

// handleRequests carries out all requests.
func (a *loopActor) handleRequests() {
	for _, m := range a.loop.takeRequests() {
		switch m := m.(type) {
		case use:
			m.done <- a.use(m.group, m.policies)
		case change:
			a.change(m.do)
			m.done <- nil
		case operation:
			m.done <- a.operate(m)
		}
	}
}

// change changes the desired state, stops the policies of stages that were
// removed, and asks all other policies again.
func (a *loopActor) change(do func(*State)) {
	do(a.loop.state)
	a.stopPolicies(func(p *activePolicy) bool { return p.group != "" && !a.loop.state.hasGroup(p.group) })
	a.loop.mu.Lock()
	a.loop.dropPoliciesLocked()
	a.loop.mu.Unlock()
	for _, p := range a.active {
		a.consult(p, controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage}, a.view(p))
	}
	a.loop.reconcile(true)
	for _, p := range a.active {
		a.reschedule(p)
	}
}

// operate carries out an operation, writes it into the journal unless that is
// done, and asks all policies again.
func (a *loopActor) operate(m operation) error {
	ch, err := m.do(a, m.who)
	if err != nil {
		return err
	}
	if ch.Number == 0 {
		ch.At, ch.Policy = time.Duration(a.loop.Host.Now()), m.who
		ch.Number = a.loop.write(ch)
		a.change(func(*State) {})
	}
	*m.entry = ch.Number
	return nil
}

// handleEvents notifies the policies of events. The policies see one snapshot
// for all events, until one of them decides something: a snapshot takes the
// longer the more stages there are, and in a long line all of them may become
// full at once.
func (a *loopActor) handleEvents(list []Event) {
	seen := map[*activePolicy]*controller.Snapshot{}
	for _, e := range list {
		for _, p := range a.active {
			if e.Kind == controller.EventRoundEnd && !p.rounds || e.Kind == controller.EventVisits && p.visits == 0 {
				continue
			}
			if !a.concerns(p, e) {
				continue
			}
			if seen[p] == nil {
				seen[p] = a.loop.snapshot(a.loop.Pipeline.Read(false))
			}
			s := a.narrow(p, seen[p]) // a second time for the same snapshot: nothing was counted in between
			ev := controller.Event{Kind: e.Kind, Stage: p.visible(idOf(a.loop.Pipeline.Stages(), e.Inbox)), Pool: e.Pool}
			if a.ask(p, ev, s) {
				clear(seen)
			}
		}
	}
}

// idOf returns the number that an inbox's stage has in a snapshot.
func idOf(stages []*engine.Core, of *inbox.Inbox) controller.StageID {
	for i, c := range stages {
		if c.Inbox() == of {
			return controller.StageID(i)
		}
	}
	return controller.NoStage
}

// checkStarving notifies the policies of stages that starve: stages of shared
// pools that have work, and that no worker has visited since the last check. It also
// looks for stalls.
func (a *loopActor) checkStarving() {
	r := a.loop.Pipeline.Read(false)
	for i, c := range r.Stages {
		name, accounts := c.Name(), r.of(c)
		if accounts.Pool == nil || accounts.Queue.Queued == 0 || accounts.Out > 0 || accounts.Knobs.Paused {
			delete(a.waiting, name)
			continue
		}
		before, known := a.waiting[name]
		starves := known && before.visits == accounts.Counts.Visits
		if starves && !before.starved {
			for _, p := range a.active {
				if a.governor(name) == p.group {
					s := a.view(p)
					a.ask(p, controller.Event{Kind: controller.EventStarved, Stage: p.visible(controller.StageID(i))}, s)
				}
			}
		}
		a.waiting[name] = waits{accounts.Counts.Visits, starves}
	}
	a.checkStalls(&r)
	a.check.Reset(starvedAfter)
}

// Prepare asks the policies for the first time, before the stages start, so
// that those start as the policies want them.
func (l *Loop) Prepare() error {
	a := &loopActor{loop: l}
	l.first = a
	return a.startPolicies(false)
}

// Spawn starts the loop's actor, as a child of the spawner. Ready is called
// when it has started.
func (l *Loop) Spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
		a := l.first
		if l.first = nil; a == nil {
			a = &loopActor{loop: l}
		}
		a.ready = ready
		return a
	})
}
