package control

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// loopActor is the shell around the policies: it takes a snapshot, asks, applies the answer and writes it down, one event
// after another. It asks for the next tick of a policy when the last one is done, so ticks never pile up.
type loopActor struct {
	loop    *Loop
	ready   func(error)
	active  []*activePolicy
	check   *time.Timer // for starving stages
	waiting map[string]waits
}

// waits is what the last check saw of a stage that has work.
type waits struct {
	visits  uint64
	starved bool // and the policies were notified
}

// tick asks a policy again.
type tick struct{ of *activePolicy }

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has ended.
func (tick) IgnoreDeadLetterLogging() {}

// requestsReady informs the actor that there are requests.
type requestsReady struct{}

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has ended.
func (requestsReady) IgnoreDeadLetterLogging() {}

// starvedAfter is how long a stage with work must wait for a worker before controller.EventStarved.
const starvedAfter = time.Second

// checkDue makes the actor check whether stages starve.
type checkDue struct{}

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has ended.
func (checkDue) IgnoreDeadLetterLogging() {}

// Receive handles a message to the loop.
func (a *loopActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case tick:
		if slices.Contains(a.active, m.of) {
			a.ask(m.of, controller.Event{Kind: controller.EventTick, Stage: controller.NoStage}, a.view(m.of))
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
		}
	}
}

// change changes the desired state, and asks all policies again.
func (a *loopActor) change(do func(*State)) {
	do(a.loop.state)
	for _, p := range a.active {
		a.consult(p, controller.Event{Kind: controller.EventTopology, Stage: controller.NoStage}, a.view(p))
	}
	a.loop.reconcile(true)
	for _, p := range a.active {
		a.reschedule(p)
	}
}

// handleEvents notifies the policies of events. The policies see one snapshot for all events, until one of them decides
// something: a snapshot takes the longer the more stages there are, and in a long line all of them may become full at once.
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
				seen[p] = a.loop.snapshot()
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

// checkStarving notifies the policies of stages that starve: stages of shared pools that have work, and that no worker has
// visited since the last check.
func (a *loopActor) checkStarving() {
	r := a.loop.Pipeline.Read()
	for i, c := range r.Stages {
		name, accounts := c.Name(), r.of(c)
		if accounts.Pool == nil || accounts.Queued == 0 || accounts.Out > 0 || accounts.Knobs.Paused {
			delete(a.waiting, name)
			continue
		}
		before, known := a.waiting[name]
		starves := known && before.visits == accounts.Visits
		if starves && !before.starved {
			for _, p := range a.active {
				if a.governor(name) == p.group {
					s := a.view(p)
					a.ask(p, controller.Event{Kind: controller.EventStarved, Stage: p.visible(controller.StageID(i))}, s)
				}
			}
		}
		a.waiting[name] = waits{accounts.Visits, starves}
	}
	a.check.Reset(starvedAfter)
}

// scheduleTick starts the time until the next tick of a policy. A policy that has never said when gets none.
func (a *loopActor) scheduleTick(p *activePolicy) {
	if p.every == 0 {
		return
	}
	l := a.loop
	if p.next == nil {
		p.next = time.AfterFunc(p.every, func() { l.send(tick{p}) })
		return
	}
	p.next.Reset(p.every)
}

// reschedule restarts the time until the next tick if the policy has just said when that is.
func (a *loopActor) reschedule(p *activePolicy) {
	if p.decisions.Interval() > 0 {
		a.scheduleTick(p)
	}
}
