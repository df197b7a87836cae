package control

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// loopActor is the shell around the policies: it takes a snapshot, asks,
// applies the answer and writes it down, one event after another. It asks for
// the next tick of a policy when the last one is done, so ticks never pile up.
type loopActor struct {
	loop    *Loop
	ready   func(error)
	active  []*activePolicy
	check   *time.Timer // for starving stages
	waiting map[string]waits
}

// waits is the result of the last check of a stage that has work.
type waits struct {
	visits  uint64
	starved bool // and the policies were notified
}

// activePolicy is a policy at work.
type activePolicy struct {
	group      string // the group or stage whose controller has the policy, "" for the pipeline's
	policy     controller.Policy
	controller controller.Controller
	claims     []controller.Knob // the knobs that it may turn; nil: all
	windows    steer.Windows
	times      steer.Times
	ids        []controller.StageID // the stages that its last snapshot shows; nil: all
	decisions  controller.Decisions
	every      time.Duration // between two ticks
	next       *time.Timer
	rounds     bool // it wants to be notified of the ends of rounds
	watches    bool // it wants to see the times of commands
	visits     int  // it wants to be notified after this number of visits; 0: never
}

// governs reports whether a group has a controller of its own.
func (a *loopActor) governs(group string) bool {
	return group != "" && slices.ContainsFunc(a.active, func(p *activePolicy) bool { return p.group == group })
}

// governor returns the group whose own controller governs a stage; "" stands
// for the pipeline's controller.
func (a *loopActor) governor(stage string) string { return a.loop.state.governor(stage, a.governs) }

// poolGovernor returns the group whose own controller governs a pool; "" stands
// for the pipeline's controller.
func (a *loopActor) poolGovernor(pool string) string {
	return a.loop.state.poolGovernor(pool, a.governs)
}

// concerns reports whether an event is of a stage or a pool that the policy's
// controller governs.
func (a *loopActor) concerns(p *activePolicy, e Event) bool {
	if e.Inbox != nil {
		return a.governor(e.Inbox.Name()) == p.group
	}
	return a.poolGovernor(e.Pool) == p.group
}

// view returns the pipeline as the policy sees it now.
func (a *loopActor) view(p *activePolicy) *controller.Snapshot {
	return a.narrow(p, a.loop.snapshot(a.loop.Pipeline.Read(false)))
}

// viewAtTick is view for a tick, with the times of commands if the policy wants
// to see them.
func (a *loopActor) viewAtTick(p *activePolicy) *controller.Snapshot {
	if !p.watches {
		return a.view(p)
	}
	r := a.loop.Pipeline.Read(true)
	s := a.loop.snapshot(r)
	for i, c := range r.Stages {
		p.times.Fill(&s.Stages[i], &r.of(c).Wait, &r.of(c).Work)
	}
	p.times.Forget(s)
	return a.narrow(p, s)
}

// narrow fills in the windows of a snapshot and returns the part of it that the
// policy's controller governs. The windows come first, because they relate a
// stage to the stages ahead of it, whichever controller governs those.
func (a *loopActor) narrow(p *activePolicy, s *controller.Snapshot) *controller.Snapshot {
	p.windows.Fill(s)
	p.ids = nil
	if !slices.ContainsFunc(a.active, func(p *activePolicy) bool { return p.group != "" }) {
		return s
	}
	part, ids := narrow(s, p.group, a.governor, a.poolGovernor)
	p.ids = ids
	return part
}

// visible returns the number that a stage has in the policy's last snapshot.
func (p *activePolicy) visible(id controller.StageID) controller.StageID {
	if p.ids == nil {
		return id
	}
	return controller.StageID(slices.Index(p.ids, id)) // -1 is NoStage
}

// widen returns a change with the numbers that stages have in the whole
// pipeline.
func (p *activePolicy) widen(ch controller.Change) controller.Change {
	ch.Group = p.group
	if p.ids == nil {
		return ch
	}
	if ch.Stage >= 0 {
		ch.Stage = p.ids[ch.Stage]
	}
	for _, value := range []*any{&ch.Before, &ch.After} {
		if plan, ok := (*value).(*controller.VisitPlan); ok {
			*value = renumber(plan, p.ids)
		}
	}
	return ch
}
