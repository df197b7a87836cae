package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// SharedPool is the name of the pool that the policies of visits make; where a stage
// or a group has that name, it is "shared 2", or the next that is free.
const SharedPool = "shared"

// gathering says how the stages of a pipeline come to share workers.
//
// Every stage goes to the one shared pool, but for those that keep what they have: a
// stage of a declared group stays with the group, which is served by the same law; a
// stage whose handlers wait keeps its own workers, for it would hold those of all
// others; a stage whose options ask for more workers than the shared pool has keeps its own, for
// it would be slower by the difference; and a paused one is left out until it is resumed.
type gathering struct {
	dispatch controller.Dispatch
	workers  int // as was asked for, of every pool; 0: nothing was
	usual    int // of the shared pool if nothing was asked for; 0: one for each CPU
}

// commons is the shared pool.
type commons struct {
	name    string
	workers int
}

// commons is the shared pool as it is to be.
func (g gathering) commons(s *controller.Snapshot) commons {
	return commons{freeName(s), cmp.Or(g.workers, g.usual, max(1, s.CPUs))}
}

// gather says whose workers visit each stage, and how those choose.
func (g gathering) gather(s *controller.Snapshot, shared commons, d *controller.Decisions) {
	for _, pool := range poolsOf(nil, s, shared) {
		stages := stagesOf(nil, s, pool, shared)
		g.staff(s, pool, shared, d)
		d.Dispatch(pool, g.dispatch, fmt.Sprintf("for all %d stages there", len(stages)))
		if pool != shared.name {
			continue // its stages are there already
		}
		for _, id := range stages {
			d.Bind(id, pool, fmt.Sprintf("one of %d stages that share workers", len(stages)))
		}
	}
}

// staff says how many workers a pool has. A group has its own number, unless one was
// asked for.
func (g gathering) staff(s *controller.Snapshot, pool string, shared commons, d *controller.Decisions) {
	switch {
	case g.workers > 0:
		d.Pool(pool, g.workers, fmt.Sprintf("%d workers were asked for", g.workers))
	case pool != shared.name:
		return
	case g.usual > 0:
		d.Pool(pool, g.usual, fmt.Sprintf("%d workers, as the preset has", g.usual))
	default:
		d.Pool(pool, max(1, s.CPUs), fmt.Sprintf("one for each of %d CPUs", s.CPUs))
	}
}

// home is the pool whose workers are to visit a stage, and empty for a stage that the
// policies of visits leave alone.
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

// tooSmall reports whether a stage that is not in the shared pool asks for more workers than that has. One that is there
// stays until stages are gathered anew.
func (c commons) tooSmall(st *controller.StageStats) bool {
	return st.Pool != c.name && st.Needs > c.workers
}

// explain says once for each stage why it keeps its own workers though others share.
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

// poolsOf appends the pools that stages have for a home.
func poolsOf(to []string, s *controller.Snapshot, shared commons) []string {
	for i := range s.Stages {
		if pool := home(s, i, shared); pool != "" && !slices.Contains(to, pool) {
			to = append(to, pool)
		}
	}
	return to
}

// stagesOf appends the stages whose home a pool is.
func stagesOf(to []controller.StageID, s *controller.Snapshot, pool string, shared commons) []controller.StageID {
	for i := range s.Stages {
		if home(s, i, shared) == pool {
			to = append(to, controller.StageID(i))
		}
	}
	return to
}

// freeName is SharedPool, or the first variation of it that nobody else has.
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

// levels appends the rank of each stage, with one rank for all the stages of a loop:
// the least of theirs. In a loop nobody is behind the others.
func levels(to []int, s *controller.Snapshot) []int {
	for i := range s.Stages {
		to = append(to, s.Stages[i].Rank)
	}
	even(s, to, func(a, b int) int { return min(a, b) })
	return to
}

// even gives the stages of each loop the same value, choosing from two at a time.
// Which stages are of one loop is not told, but cyclic ones that follow each other
// are, or lie in loops that touch.
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

// frozen is a copy of a draft that may be given away.
func frozen(draft *controller.VisitPlan) *controller.VisitPlan {
	p := *draft
	p.Order = slices.Clone(draft.Order)
	p.Bounds = nil
	if len(draft.Bounds) > 0 {
		p.Bounds = maps.Clone(draft.Bounds)
	}
	return &p
}
