package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// SharedPool is the name of the pool that the policies of visits make. If a
// stage or a group has that name, the pool is "shared 2", or the next free
// name.
const SharedPool = "shared"

// gathering decides how the stages of a pipeline share workers.
//
// Every stage is bound to the one shared pool, with four exceptions. A stage of
// a declared group stays with the group, which is served by the same law. A
// stage whose handlers wait keeps its own workers, since it would block the
// workers of all other stages. A stage whose options ask for more workers than
// the shared pool has keeps its own, since it would be slower by the
// difference. And a paused stage is left out until it is resumed.
type gathering struct {
	dispatch controller.Dispatch
	workers  int // the configured number, of every pool; 0: not configured
	usual    int // number of workers of the shared pool if none is configured; 0: one for each CPU
}

// commons is the shared pool.
type commons struct {
	name    string
	workers int
}

// commons returns the shared pool as it should be.
func (g gathering) commons(s *controller.Snapshot) commons {
	return commons{freeName(s), cmp.Or(g.workers, g.usual, max(1, s.CPUs))}
}

// gather decides which pool's workers visit each stage, and how they choose.
func (g gathering) gather(s *controller.Snapshot, shared commons, d *controller.Decisions) {
	for _, pool := range poolsOf(nil, s, shared) {
		stages := stagesOf(nil, s, pool, shared)
		g.staff(s, pool, shared, d)
		controller.KnobDispatch.SetPool(d, pool, g.dispatch, fmt.Sprintf("for its %d stages", len(stages)))
		if pool != shared.name {
			continue // its stages are there already
		}
		for _, id := range stages {
			controller.KnobPool.Set(d, id, pool, fmt.Sprintf("one of %d stages that share workers", len(stages)))
		}
	}
}

// staff sets the number of workers of a pool. A group keeps its own number,
// unless one is configured.
func (g gathering) staff(s *controller.Snapshot, pool string, shared commons, d *controller.Decisions) {
	switch {
	case g.workers > 0:
		controller.KnobWorkers.SetPool(d, pool, g.workers, fmt.Sprintf("%d workers are configured", g.workers))
	case pool != shared.name:
		return
	case g.usual > 0:
		controller.KnobWorkers.SetPool(d, pool, g.usual, fmt.Sprintf("%d workers, as in the preset", g.usual))
	default:
		controller.KnobWorkers.SetPool(d, pool, max(1, s.CPUs), fmt.Sprintf("one for each of %d CPUs", s.CPUs))
	}
}

// home returns the pool whose workers should visit a stage, or "" for a stage
// that the policies of visits leave alone.
func home(s *controller.Snapshot, stage int, shared commons) string {
	st := &s.Stages[stage]
	if st.Paused {
		return ""
	}
	if p := s.Pool(st.Pool); p != nil && p.Group {
		return p.Name
	}
	if st.Blocking || shared.tooSmall(st) {
		return ""
	}
	return shared.name
}

// tooSmall reports whether a stage outside the shared pool asks for more
// workers than that pool has. A stage that is already in the pool stays there
// until the stages are gathered again.
func (c commons) tooSmall(st *controller.StageStats) bool {
	return st.Pool != c.name && st.Needs > c.workers
}

// explain notes, once for each stage, why it keeps its own workers although
// others share.
func (c *visits) explain(s *controller.Snapshot, d *controller.Decisions) {
	for i := range s.Stages {
		st := &s.Stages[i]
		if home(s, i, c.shared) != "" || st.Paused || st.Blocking || slices.Contains(c.apart, st.Name) {
			continue
		}
		c.apart = append(c.apart, st.Name)
		d.Keep(controller.StageID(i), "", fmt.Sprintf("it keeps its own, as its options ask for at least %d and pool %q has %d",
			st.Needs, c.shared.name, c.shared.workers))
	}
}

// poolsOf appends the pools that are the home of a stage.
func poolsOf(to []string, s *controller.Snapshot, shared commons) []string {
	for i := range s.Stages {
		if pool := home(s, i, shared); pool != "" && !slices.Contains(to, pool) {
			to = append(to, pool)
		}
	}
	return to
}

// stagesOf appends the stages whose home is the pool.
func stagesOf(to []controller.StageID, s *controller.Snapshot, pool string, shared commons) []controller.StageID {
	for i := range s.Stages {
		if home(s, i, shared) == pool {
			to = append(to, controller.StageID(i))
		}
	}
	return to
}

// freeName returns SharedPool, or the first variation of it that is not taken.
func freeName(s *controller.Snapshot) string {
	name := SharedPool
	for n := 2; taken(s, name); n++ {
		name = fmt.Sprintf("%s %d", SharedPool, n)
	}
	return name
}

func taken(s *controller.Snapshot, name string) bool {
	if p := s.Pool(name); p != nil && (p.Own || p.Group) || slices.Contains(s.Taken, name) {
		return true
	}
	return slices.ContainsFunc(s.Stages, func(st controller.StageStats) bool { return st.Name == name })
}

// levels appends the rank of each stage, with one rank for all the stages of a
// loop: the lowest of theirs. In a loop no stage is behind the others.
func levels(to []int, s *controller.Snapshot) []int {
	for i := range s.Stages {
		to = append(to, s.Stages[i].Rank)
	}
	even(s, to, func(a, b int) int { return min(a, b) })
	return to
}

// even gives the stages of each loop the same value, by applying choose to two
// at a time. The snapshot does not say which stages form a loop, but cyclic
// stages that follow each other are of one loop, or of loops that touch.
func even[N int | time.Duration](s *controller.Snapshot, values []N, choose func(a, b N) N) {
	for changed := true; changed; {
		changed = false
		for i := range s.Stages {
			for _, next := range s.Stages[i].Next {
				if !s.Stages[i].Cyclic || !isStage(s, next) || !s.Stages[next].Cyclic || values[i] == values[next] {
					continue
				}
				v := choose(values[i], values[next])
				values[i], values[next], changed = v, v, true
			}
		}
	}
}

func isStage(s *controller.Snapshot, id controller.StageID) bool {
	return id >= 0 && int(id) < len(s.Stages)
}

// frozen returns a copy of a draft that may be given away.
func frozen(draft *controller.VisitPlan) *controller.VisitPlan {
	p := *draft
	p.Order = slices.Clone(draft.Order)
	p.Bounds = nil
	if len(draft.Bounds) > 0 {
		p.Bounds = maps.Clone(draft.Bounds)
	}
	return &p
}
