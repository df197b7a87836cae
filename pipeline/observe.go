package pipeline

import (
	"runtime"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// view is the pipeline as a policy sees it: its accounts as they are, its knobs as
// they are meant to be.
func (p *Pipeline) view() *controller.Snapshot {
	r, sheets := p.readAccounts(inbox.Counts)
	shape := p.graph.form()
	l := &p.control
	cpus := runtime.GOMAXPROCS(0)
	s := &controller.Snapshot{
		At: time.Duration(p.host.Now()), CPUs: cpus, CPUUsage: l.cpu.usage(cpus),
		InFlight: int(inFlight(sheets)), Entry: l.now.entry,
		Stages: make([]controller.StageStats, 0, len(r.stages)),
	}
	for i, c := range r.stages {
		st, sheet := l.now.stages[c.Name()], r.of(sheets, i)
		if st == nil { // it has just come, and the control loop has not heard
			st = &stageState{core: c, pool: c.Name(), knobs: sheet.Knobs}
		}
		s.Stages = append(s.Stages, statsOf(c, st, sheet))
	}
	situate(s.Stages, r, shape)
	s.Pools = l.now.poolStats(s)
	return s
}

// statsOf is one stage as a policy sees it.
func statsOf(c *engine.Core, st *stageState, sheet *inbox.Accounts) controller.StageStats {
	s := controller.StageStats{
		Name:     c.Name(),
		QueueLen: sheet.Due, QueueCap: st.knobs.Capacity, OldestWait: sheet.Oldest,
		InHand: sheet.Held, Busy: sheet.Busy, Blocked: sheet.Blocked, Stalled: sheet.Crew != nil && sheet.Stalled,
		Needs: min(c.Asked(), st.knobs.Instances),
		Pool:  st.pool, Instances: st.knobs.Instances, FreeInstances: max(st.knobs.Instances-sheet.Out, 0),
		Priority: st.knobs.Priority, Discipline: st.discipline,
		Batch:   controller.Batch{Max: st.knobs.Batch, Linger: st.knobs.Linger},
		Enabled: !st.knobs.Disabled, Paused: st.knobs.Paused, Blocking: c.Blocking(),
		Quality: st.knobs.Quality, Admission: st.admits(),
		Total: countersOf(sheet),
	}
	if c.Suspends() {
		s.FreeInstances = max(st.knobs.Instances-sheet.InHand, 0)
	}
	if st.own() {
		s.Workers = st.workers
		s.MinWorkers, s.MaxWorkers = c.Bounds()
	}
	return s
}

func countersOf(sheet *inbox.Accounts) controller.Counters {
	return controller.Counters{
		Accepted: sheet.Submitted + sheet.Received, OK: sheet.OK, Forwarded: sheet.Forwarded,
		Errors: sheet.Errors, Crashes: sheet.Crashes, Shed: inbox.Sum(sheet.Shed),
		DeadLettered: inbox.Sum(sheet.Dead), Rejected: inbox.Sum(sheet.Rejected),
		Busy: sheet.BusyTime, Blocked: sheet.BlockedTime, Idle: sheet.IdleTime,
		Visits: sheet.Visits, EmptyVisits: sheet.Empties,
	}
}

// situate tells each stage where it is in the graph.
func situate(stages []controller.StageStats, r *stageSet, shape *shape) {
	ids := make(map[int]controller.StageID, len(stages))
	for i, c := range r.stages {
		ids[c.Inbox().Place] = controller.StageID(i)
	}
	for i, c := range r.stages {
		st, place := &stages[i], c.Inbox().Place
		st.ID = controller.StageID(i)
		if place >= len(shape.rank) {
			continue
		}
		st.Rank, st.Cyclic = shape.rank[place], shape.cyclic[place]
		for _, to := range shape.next(place) {
			if id, ok := ids[to]; ok {
				st.Next = append(st.Next, id)
			}
		}
	}
}

// poolStats are the pools as a policy sees them.
func (d *desiredState) poolStats(seen *controller.Snapshot) []controller.PoolStats {
	pools := make([]controller.PoolStats, 0, len(seen.Stages)+len(d.order))
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
		if known := d.stages[st.Name]; known != nil {
			own.Dispatch, own.Plan = known.dispatch, known.plan
		}
		if len(own.Stages) > 0 {
			own.Busy, own.Blocked = st.Busy, st.Blocked
		}
		pools = append(pools, own)
	}
	for _, name := range d.order {
		p := d.pools[name]
		stats := controller.PoolStats{
			Name: name, Group: p.group, Stages: members[name], Dispatch: p.dispatch, Plan: p.plan,
			Workers: p.workers, MinWorkers: p.fewest, MaxWorkers: p.most, Busy: busy[name],
		}
		if p.pool != nil {
			sheet := p.pool.Shared().Accounts()
			stats.Rounds, stats.Visits, stats.EmptyVisits = sheet.Rounds, sheet.Visits, sheet.Empties
		}
		pools = append(pools, stats)
	}
	return pools
}
