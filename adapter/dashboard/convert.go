package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/bottleneck"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

func sortBy[T any](all []T, key func(*T) int64) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
}

// snapshotOf returns a snapshot as the API has it.
func snapshotOf(s pipeline.Snapshot) api.Snapshot {
	out := api.Snapshot{
		At: s.At, Pipeline: s.Pipeline, Policy: s.Policy, CPUNs: int64(s.CPU), Processors: s.Processors,
		Accepted: s.Accepted, Replied: s.Replied, Failed: s.Failed, Shed: s.Shed, DeadLettered: s.DeadLettered,
		InFlight: s.InFlight, Answered: s.Answered,
		Order: make([]string, len(s.Stages)), Stages: make(map[string]api.Stage, len(s.Stages)),
		Pools: make(map[string]api.Pool, len(s.Pools)), Feeds: make(map[string]api.Feed, len(s.Feeds)),
	}
	for i := range s.Stages {
		out.Order[i] = s.Stages[i].Name
		out.Stages[s.Stages[i].Name] = stageOf(&s.Stages[i])
	}
	for _, p := range s.Pools {
		out.Pools[p.Name] = api.Pool{
			Policy: p.Policy, Stages: notNil(p.Stages), Dispatch: p.Dispatch.String(), Plan: p.Plan, Workers: p.Workers, Busy: p.Busy,
			Idle: p.Idle, Most: p.Most, Rounds: p.Rounds, Visits: p.Visits, EmptyVisits: p.EmptyVisits,
		}
	}
	for i := range s.Feeds {
		out.Feeds[s.Feeds[i].Name] = feedOf(&s.Feeds[i])
	}
	return out
}

func stageOf(st *stage.Snapshot) api.Stage {
	out := api.Stage{
		Process: st.Process, Version: st.Version, Pool: st.Pool, Paused: st.Paused, Draining: st.Draining, Drained: st.Drained,
		Queue: queueOf(&st.Queue), Workers: workersOf(&st.Workers), Counts: countsOf(&st.Counts),
		Reasons: reasonsOf(st.Reasons.Rejected, st.Reasons.Shed, st.Reasons.DeadLettered),
		Wait:    durationsOf(&st.Latency.Wait), Service: durationsOf(&st.Latency.Service),
		Edges: make([]api.Edge, len(st.Edges)),
	}
	for i, e := range st.Edges {
		out.Edges[i] = api.Edge{To: e.To, Port: e.Port, Back: e.Back, Moved: e.Moved}
	}
	return out
}

func queueOf(q *stats.Queue) api.Queue {
	return api.Queue{
		Length: q.Queued, Capacity: q.Capacity, OldestNs: int64(q.Oldest), Held: q.Held, InHand: q.InHand, Suspended: q.Suspended,
		Delayed: q.Delayed, KeyCapacity: q.KeyCapacity, Reserved: q.Reserved, Carried: q.Carried, Waiting: q.Waiting,
		Submitters: q.Submitters, Senders: q.Senders, RateKeys: q.RateKeys, FairKeys: q.FairKeys, FairMost: q.FairMost,
		ParkedKeys: q.ParkedKeys,
	}
}

func workersOf(w *stats.Workers) api.Workers {
	return api.Workers{
		Live: w.Live, Busy: w.Busy, Blocked: w.Blocked, Idle: w.Idle, Least: w.Min, Most: w.Max, Peak: w.Most, Instances: w.Instances,
		Keys: w.Keys, KeptStates: w.KeptStates, CrashStreak: w.CrashStreak, Stuck: w.Abandoned,
	}
}

func countsOf(c *stats.Counts) api.Counts {
	return api.Counts{
		Accepted: c.Accepted, Submitted: c.Submitted, Received: c.Received, Rejected: c.Rejected, OK: c.OK, Forwarded: c.Forwarded,
		Errors: c.Errors, Shed: c.Shed, DeadLettered: c.DeadLettered, Emitted: c.Emitted, Crashes: c.Crashes, Stuck: c.Stuck,
		Retries: c.Retries, RetriesRefused: c.RetriesRefused, Restarts: c.Restarts, Passivated: c.Passivated, Visits: c.Visits,
		EmptyVisits: c.EmptyVisits, BusyNs: int64(c.BusyTime), BlockedNs: int64(c.BlockedTime), IdleNs: int64(c.IdleTime),
		RateWaitNs: int64(c.RateWait),
	}
}

func durationsOf(d *stats.Durations) api.Durations {
	out := api.Durations{
		Count: d.Count, SumNs: int64(d.Sum() * float64(time.Second)), P50Ns: int64(d.P50), P99Ns: int64(d.P99),
		Buckets: make([]api.Bucket, len(d.Buckets)),
	}
	for i, b := range d.Buckets {
		out.Buckets[i] = api.Bucket{UpToNs: int64(b.UpTo), Count: b.Count}
		out.MaxNs = int64(b.UpTo)
	}
	return out
}

func feedOf(f *pipeline.FeedSnapshot) api.Feed {
	out := api.Feed{
		To: f.Stage, State: f.State, Running: f.State == "running", Read: f.Submitted, Refused: f.Refused, Restarts: f.Restarts,
		Position: f.Position, Total: f.Total, Checkpoint: f.Checkpoint,
	}
	switch f.State {
	case "exhausted", "stopped", "gave up":
		out.Ended = true
	}
	if f.Err != nil {
		out.Error = plain.Text(f.Err)
	}
	return out
}

// notNil returns an empty list for nil, which JSON would write as null.
func notNil[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// verdictOf returns the limit of a pipeline between two snapshots.
func verdictOf(earlier, later *api.Snapshot) api.Verdict {
	v := bottleneck.Of(native(earlier), native(later))
	text := v.String()
	if v.Limit == bottleneck.None && later.Accepted == 0 { // the pipeline may not have started
		text = "no command has been submitted yet"
	}
	return api.Verdict{
		Stage: v.Stage, Limit: string(v.Limit), Use: v.Use, Gain: v.Gain, Blocks: notNil(v.Blocks), Text: text,
		OverNs: int64(later.At.Sub(earlier.At)),
	}
}

// native returns the part of a snapshot that a verdict is about.
func native(s *api.Snapshot) pipeline.Snapshot {
	out := pipeline.Snapshot{At: s.At, CPU: time.Duration(s.CPUNs), Processors: s.Processors, Stages: make([]stage.Snapshot, 0, len(s.Order))}
	for name, p := range s.Pools {
		out.Pools = append(out.Pools, pipeline.Pool{Name: name, Workers: p.Workers})
	}
	for _, name := range s.Order {
		out.Stages = append(out.Stages, nativeStage(name, s.Stages[name]))
	}
	return out
}

func nativeStage(name string, st api.Stage) stage.Snapshot {
	q, w, c := &st.Queue, &st.Workers, &st.Counts
	out := stage.Snapshot{
		Name: name, Process: st.Process, Pool: st.Pool, Paused: st.Paused, Draining: st.Draining, Drained: st.Drained,
		Queue: stats.Queue{
			Queued: q.Length, Held: q.Held, Oldest: time.Duration(q.OldestNs), InHand: q.InHand, Suspended: q.Suspended, Delayed: q.Delayed,
			Capacity: q.Capacity, KeyCapacity: q.KeyCapacity, Reserved: q.Reserved, Carried: q.Carried, Waiting: q.Waiting,
			Submitters: q.Submitters, Senders: q.Senders, RateKeys: q.RateKeys, FairKeys: q.FairKeys, FairMost: q.FairMost,
			ParkedKeys: q.ParkedKeys,
		},
		Workers: stats.Workers{
			Live: w.Live, Busy: w.Busy, Blocked: w.Blocked, Idle: w.Idle, Min: w.Least, Max: w.Most, Most: w.Peak, Instances: w.Instances,
			Keys: w.Keys, KeptStates: w.KeptStates, CrashStreak: w.CrashStreak, Abandoned: w.Stuck,
		},
		Counts: stats.Counts{
			Accepted: c.Accepted, Rejected: c.Rejected, OK: c.OK, Forwarded: c.Forwarded, Errors: c.Errors, Shed: c.Shed,
			DeadLettered: c.DeadLettered, Crashes: c.Crashes, BusyTime: time.Duration(c.BusyNs), BlockedTime: time.Duration(c.BlockedNs),
			IdleTime: time.Duration(c.IdleNs), RateWait: time.Duration(c.RateWaitNs),
		},
	}
	for _, e := range st.Edges {
		out.Edges = append(out.Edges, struct {
			To, Port string
			Back     bool
			Moved    uint64
		}{e.To, e.Port, e.Back, e.Moved})
	}
	return out
}
