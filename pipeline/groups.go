package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/logs"
)

// A group may have a controller of its own, see [ControlFor] and [Pipeline.UseFor]; the pipeline's controller governs all stages
// that are left. A controller is shown the stages and the pools that it governs, as if there were no others, and may turn the knobs
// of those only. So no knob has two owners, and a policy needs to know nothing of this.

// ErrNoSuchGroup tells that the pipeline has no group of that name.
var ErrNoSuchGroup = errors.New("not a group of this pipeline")

// governs reports whether a group has a controller of its own.
func (a *loopActor) governs(group string) bool {
	return group != "" && slices.ContainsFunc(a.offices, func(o *activePolicy) bool { return o.group == group })
}

// governor returns the group whose own controller governs a stage; "" stands for the pipeline's controller.
func (a *loopActor) governor(stage string) string {
	if st := a.loop.now.stages[stage]; st != nil && a.governs(st.group) {
		return st.group
	}
	return ""
}

// governorOf returns the group whose own controller governs a pool; "" stands for the pipeline's controller.
func (a *loopActor) governorOf(pool string) string {
	now := a.loop.now
	if p := now.pools[pool]; p != nil {
		if p.group && a.governs(pool) {
			return pool
		}
		return ""
	}
	return a.governor(pool)
}

// concerns reports whether an event is of a stage or a pool that the office's controller governs.
func (a *loopActor) concerns(o *activePolicy, n loopEvent) bool {
	if n.room != nil {
		return a.governor(n.room.Name()) == o.group
	}
	return a.governorOf(n.pool) == o.group
}

// view is the pipeline as the policy sees it now.
func (a *loopActor) view(o *activePolicy) *controller.Snapshot { return a.narrow(o, a.loop.p.view()) }

// narrow fills in the windows of a snapshot and returns the part that the office's controller governs. The windows are filled
// first, because what is told of a stage there depends on the stages ahead of it, whichever controller governs those.
func (a *loopActor) narrow(o *activePolicy, s *controller.Snapshot) *controller.Snapshot {
	o.windows.Fill(s)
	o.ids = nil
	if !slices.ContainsFunc(a.offices, func(o *activePolicy) bool { return o.group != "" }) {
		return s
	}
	o.ids = make([]controller.StageID, 0, len(s.Stages))
	places := make([]controller.StageID, len(s.Stages))
	for i := range s.Stages {
		places[i] = controller.NoStage
		if a.governor(s.Stages[i].Name) == o.group {
			places[i] = controller.StageID(len(o.ids))
			o.ids = append(o.ids, controller.StageID(i))
		}
	}
	return a.part(o, s, places)
}

// part copies what the office's controller governs out of a snapshot, with the places that the stages have in the copy.
func (a *loopActor) part(o *activePolicy, s *controller.Snapshot, places []controller.StageID) *controller.Snapshot {
	n := *s
	n.Group, n.Stages, n.Pools = o.group, make([]controller.StageStats, 0, len(o.ids)), nil
	for _, id := range o.ids {
		st := s.Stages[id]
		st.ID, st.Next = places[id], ahead(s, id, places)
		n.Stages = append(n.Stages, st)
	}
	for _, p := range s.Pools {
		if a.governorOf(p.Name) != o.group {
			n.Taken = append(n.Taken, p.Name)
			continue
		}
		p.Stages = renumberAll(p.Stages, places)
		p.Plan = renumbered(p.Plan, places)
		n.Pools = append(n.Pools, p)
	}
	if o.group != "" {
		n.Entry, n.InFlight = controller.Admission{}, 0
		for i := range n.Stages {
			n.InFlight += n.Stages[i].QueueLen + n.Stages[i].InHand
		}
	}
	return &n
}

// ahead returns the stages with a place that the ways ahead of a stage lead to, directly or past stages without one.
func ahead(s *controller.Snapshot, from controller.StageID, places []controller.StageID) (next []controller.StageID) {
	var passed map[controller.StageID]bool
	var walk func(from controller.StageID)
	walk = func(from controller.StageID) {
		for _, to := range s.Stages[from].Next {
			if at := places[to]; at != controller.NoStage {
				if !slices.Contains(next, at) {
					next = append(next, at)
				}
			} else if !passed[to] {
				if passed == nil {
					passed = map[controller.StageID]bool{}
				}
				passed[to] = true
				walk(to)
			}
		}
	}
	walk(from)
	return next
}

// renumbered is a plan with other numbers for its stages: to has the new one at the place of the old one. Stages without a new
// number, or with an old one that means nothing, are left out.
func renumbered(plan *controller.VisitPlan, to []controller.StageID) *controller.VisitPlan {
	if plan == nil {
		return nil
	}
	copied := *plan
	copied.Order, copied.Bounds = renumberAll(plan.Order, to), nil
	for id, n := range plan.Bounds {
		if at := numberIn(to, id); at != controller.NoStage {
			if copied.Bounds == nil {
				copied.Bounds = map[controller.StageID]int{}
			}
			copied.Bounds[at] = n
		}
	}
	return &copied
}

func renumberAll(ids, to []controller.StageID) (all []controller.StageID) {
	for _, id := range ids {
		if at := numberIn(to, id); at != controller.NoStage {
			all = append(all, at)
		}
	}
	return all
}

func numberIn(to []controller.StageID, id controller.StageID) controller.StageID {
	if id < 0 || int(id) >= len(to) {
		return controller.NoStage
	}
	return to[id]
}

// place is the number that an inbox's stage has in the office's last snapshot.
func (o *activePolicy) place(id controller.StageID) controller.StageID {
	if o.ids == nil {
		return id
	}
	return controller.StageID(slices.Index(o.ids, id)) // NoStage is -1, too
}

// widen is a change with the numbers that stages have in the whole pipeline.
func (o *activePolicy) widen(ch controller.Change) controller.Change {
	ch.Group = o.group
	if o.ids == nil {
		return ch
	}
	if ch.Stage >= 0 {
		ch.Stage = o.ids[ch.Stage]
	}
	for _, value := range []*any{&ch.Before, &ch.After} {
		if plan, ok := (*value).(*controller.VisitPlan); ok {
			*value = renumbered(plan, o.ids)
		}
	}
	return ch
}

// foreign returns whose knob a change is of, "" if the office's own controller may turn it.
func (o *activePolicy) foreign(s *controller.Snapshot, ch controller.Change) string {
	pool := ""
	switch {
	case ch.Stage == controller.Entry && o.group != "":
		return "the entry of the pipeline"
	case ch.Stage == controller.NoStage:
		pool = ch.StageName
	case ch.What == controller.KnobPool:
		pool = ch.After.(string)
	}
	if slices.Contains(s.Taken, pool) || pool != "" && o.group != "" && s.Pool(pool) == nil {
		return fmt.Sprintf("pool %q", pool)
	}
	return ""
}

// refuse logs that a policy decided about what its controller does not govern.
func (a *loopActor) refuse(o *activePolicy, ch controller.Change, whose string) {
	p := a.loop.p
	k := logs.Kind{Level: slog.LevelError, Message: "policy turned a knob of what another controller governs", Stage: ch.StageName}
	p.limiter.Log(k, func() []any {
		return []any{"of", whose, "policy", ch.Policy, "group", o.group, "knob", ch.What}
	})
}

// log is where faults of the office's policy are told.
func (o *activePolicy) log(p *Pipeline) *slog.Logger {
	if o.group == "" {
		return p.set.log
	}
	return p.set.log.With("group", o.group)
}

// groupPolicies are the policies that the controllers of groups have.
type groupPolicies map[string][]controller.Policy

// order returns the groups in a fixed order.
func (g groupPolicies) order() []string { return slices.Sorted(maps.Keys(g)) }

// hasGroup reports whether the pipeline declares a group.
func hasGroup(groups []grouping, name string) bool {
	return slices.ContainsFunc(groups, func(g grouping) bool { return g.name == name })
}
