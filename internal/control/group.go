package control

import (
	"fmt"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// A group may have a controller of its own; the pipeline's controller governs
// all other stages. A stage that is in no group is a group of one, whose pool
// is the stage's own. A controller is shown the stages and pools that it
// governs, as if there were no others, and may turn only their knobs. So no
// knob has two owners, and a policy needs to know nothing of groups.

// narrow copies the part of a snapshot that the controller of a group governs,
// and returns which stages are in it: their numbers in the whole snapshot, by
// their numbers in the part. The governors return the group of the controller
// that governs a stage, and a pool.
func narrow(
	s *controller.Snapshot, group string, governor, poolGovernor func(name string) string,
) (part *controller.Snapshot, ids []controller.StageID) {
	ids = make([]controller.StageID, 0, len(s.Stages))
	inPart := make([]controller.StageID, len(s.Stages))
	for i := range s.Stages {
		inPart[i] = controller.NoStage
		if governor(s.Stages[i].Name) == group {
			inPart[i] = controller.StageID(len(ids))
			ids = append(ids, controller.StageID(i))
		}
	}
	n := *s
	n.Group, n.Stages, n.Pools = group, make([]controller.StageStats, 0, len(ids)), nil
	for _, id := range ids {
		st := s.Stages[id]
		st.ID, st.Next = inPart[id], ahead(s, id, inPart)
		st.Before, st.Inflows = inflows(st.Before, st.Inflows, inPart)
		n.Stages = append(n.Stages, st)
	}
	for _, p := range s.Pools {
		if poolGovernor(p.Name) != group {
			n.Taken = append(n.Taken, p.Name)
			continue
		}
		p.Stages = renumberAll(p.Stages, inPart)
		p.Plan = renumber(p.Plan, inPart)
		n.Pools = append(n.Pools, p)
	}
	if group != "" {
		n.Entry, n.Priorities, n.InFlight = controller.Admission{}, nil, 0
		for i := range n.Stages {
			n.InFlight += n.Stages[i].QueueLen + n.Stages[i].InHand
		}
	}
	return &n, ids
}

// ahead returns the stages of a part that the edges from a stage lead to,
// directly or past stages that are not in the part.
func ahead(s *controller.Snapshot, from controller.StageID, inPart []controller.StageID) (next []controller.StageID) {
	var passed map[controller.StageID]bool
	var walk func(from controller.StageID)
	walk = func(from controller.StageID) {
		for _, to := range s.Stages[from].Next {
			if at := inPart[to]; at != controller.NoStage {
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

// inflows returns the inflows of a stage from the stages of a part.
func inflows(before []controller.StageID, n []uint64, inPart []controller.StageID) (from []controller.StageID, part []uint64) {
	for i, id := range before {
		if at := inPart[id]; at != controller.NoStage {
			from, part = append(from, at), append(part, n[i])
		}
	}
	return from, part
}

// renumber returns a plan with other numbers for its stages: to has the new
// number at the index of the old one. Stages without a new number, or whose old
// number is out of range, are left out.
func renumber(plan *controller.VisitPlan, to []controller.StageID) *controller.VisitPlan {
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

// foreign names the part of a pipeline that a change is about, if the
// controller that was shown the snapshot does not govern that part; else it
// returns "".
func foreign(s *controller.Snapshot, ch controller.Change) string {
	pool := ""
	switch {
	case ch.Stage == controller.Entry && s.Group != "":
		return "the entry of the pipeline"
	case ch.Stage == controller.NoStage:
		pool = ch.StageName
	case ch.What == controller.KnobPool:
		pool = ch.After.(string)
	}
	if slices.Contains(s.Taken, pool) || pool != "" && s.Group != "" && s.Pool(pool) == nil {
		return fmt.Sprintf("pool %q", pool)
	}
	return ""
}
