package control

import (
	"runtime"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
)

// snapshot returns the whole pipeline as policies see it: its accounts as they
// are, its knobs as they are desired.
func (l *Loop) snapshot(r Reading) *controller.Snapshot {
	cpus := runtime.GOMAXPROCS(0)
	s := &controller.Snapshot{
		At: time.Duration(l.Host.Now()), CPUs: cpus, CPUUsage: l.cpu.usage(cpus),
		InFlight: r.InFlight, Entry: l.state.entry, Priorities: l.Host.Priorities(),
		Stages: make([]controller.StageStats, 0, len(r.Stages)),
	}
	if l.state.machine {
		s.MachineUsage = l.machine.machine()
	}
	for _, c := range r.Stages {
		st, accounts := l.state.stages[c.Name()], r.of(c)
		if st == nil { // it has just been added, and the state does not have it yet
			st = &stageState{options: c, pool: c.Name(), knobs: accounts.Knobs}
		}
		s.Stages = append(s.Stages, statsOf(c, st, accounts))
	}
	situate(s.Stages, r.Stages, l.Pipeline.Shape(), l.Pipeline.Edges())
	s.Pools = l.poolStats(s)
	return s
}

// statsOf returns one stage as policies see it.
func statsOf(c *engine.Core, st *stageState, accounts *inbox.Accounts) controller.StageStats {
	s := controller.StageStats{
		Name:     c.Name(),
		QueueLen: accounts.Due, OldestWait: accounts.Queue.Oldest, Submitters: accounts.Queue.Submitters,
		Priorities: c.Inbox().Settings().Priorities(),
		InHand:     accounts.InBatches, Busy: accounts.Workers.Busy, Blocked: accounts.Workers.Blocked, Stalled: accounts.Pool != nil && accounts.Stalled,
		Needs:         min(c.Spec().Asked(), st.knobs.Instances),
		FreeInstances: max(st.knobs.Instances-accounts.Out, 0),
		Paused:        st.knobs.Paused, Blocking: c.Spec().Blocking(),
		Total: countersOf(accounts),
	}
	st.show(&s)
	if c.Suspends() {
		s.FreeInstances = max(st.knobs.Instances-accounts.Queue.InHand, 0)
	}
	if st.own() {
		s.Workers = st.workers
		s.MinWorkers, s.MaxWorkers = c.Bounds()
	}
	return s
}

func countersOf(a *inbox.Accounts) controller.Counters {
	return controller.Counters{
		Accepted: a.Counts.Accepted, OK: a.Counts.OK, Forwarded: a.Counts.Forwarded,
		Errors: a.Counts.Errors, Crashes: a.Counts.Crashes, Shed: a.Counts.Shed,
		DeadLettered: a.Counts.DeadLettered, Rejected: a.Counts.Rejected,
		Busy: a.Counts.BusyTime, Blocked: a.Counts.BlockedTime, Idle: a.Counts.IdleTime,
		Visits: a.Counts.Visits, EmptyVisits: a.Counts.EmptyVisits,
	}
}

// situate fills in where the stages are in the graph.
func situate(stats []controller.StageStats, stages []*engine.Core, shape *graph.Shape, edges []graph.Edge) {
	ids := make(map[int]controller.StageID, len(stats))
	for i, c := range stages {
		ids[c.Inbox().Place] = controller.StageID(i)
	}
	for i, c := range stages {
		st, place := &stats[i], c.Inbox().Place
		st.ID = controller.StageID(i)
		if place >= len(shape.Rank) {
			continue
		}
		st.Rank, st.Cyclic = shape.Rank[place], shape.Cyclic[place]
		for _, to := range shape.Next(place) {
			if id, ok := ids[to]; ok {
				st.Next = append(st.Next, id)
			}
		}
	}
	for _, e := range edges {
		from, here := ids[e.From]
		if to, known := ids[e.To]; here && known {
			st := &stats[to]
			st.Before, st.Inflows = append(st.Before, from), append(st.Inflows, e.Moved)
		}
	}
}

// poolStats returns the pools as policies see them: the stages' own, and then
// the shared ones.
func (l *Loop) poolStats(seen *controller.Snapshot) []controller.PoolStats {
	pools := make([]controller.PoolStats, 0, len(seen.Stages)+len(l.state.order))
	members := map[string][]controller.StageID{}
	busy := map[string]int{}
	for i := range seen.Stages {
		st := &seen.Stages[i]
		members[st.Pool] = append(members[st.Pool], st.ID)
		busy[st.Pool] += st.Busy
	}
	for i := range seen.Stages {
		st := &seen.Stages[i]
		own := controller.PoolStats{
			Name: st.Name, Own: true, Stages: members[st.Name],
			Workers: st.Workers, MinWorkers: st.MinWorkers, MaxWorkers: st.MaxWorkers,
		}
		if known := l.state.stages[st.Name]; known != nil {
			own.Dispatch, own.Plan = known.dispatch, known.plan
		}
		if len(own.Stages) > 0 {
			own.Busy, own.Blocked = st.Busy, st.Blocked
		}
		pools = append(pools, own)
	}
	for _, name := range l.state.order {
		p := l.state.pools[name]
		stats := controller.PoolStats{
			Name: name, Group: p.group, Stages: members[name], Dispatch: p.dispatch, Plan: p.plan,
			Workers: p.workers, MinWorkers: p.fewest, MaxWorkers: p.most, Busy: busy[name],
		}
		if running := l.running.pools[name]; running != nil {
			counts := running.Shared().Accounts()
			stats.Rounds, stats.Visits, stats.EmptyVisits = counts.Rounds, counts.Visits, counts.Empties
		}
		pools = append(pools, stats)
	}
	return pools
}
