package dashboard

import (
	"cmp"
	"maps"
	"slices"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

func sortText[T any](all []T, key func(*T) string) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
}

// totals returns the totals of a snapshot: its queues and workers are gone.
func totals(s api.Snapshot) api.Snapshot {
	stages := make(map[string]api.Stage, len(s.Stages))
	for name, st := range s.Stages {
		if st.Process == "" {
			st.Queue, st.Workers, st.Paused, st.Draining, st.Drained = api.Queue{}, api.Workers{}, false, false, false
			stages[name] = st
		}
	}
	s.Stages, s.Pools, s.Feeds, s.InFlight, s.Processors = stages, nil, nil, 0, 0
	return s
}

// sumOf adds the snapshots of processes. Stages that a process knows only as
// running elsewhere are left out: the other process has them.
func sumOf(all []api.Snapshot) api.Snapshot {
	sum := api.Snapshot{Order: []string{}, Stages: map[string]api.Stage{}, Pools: map[string]api.Pool{}, Feeds: map[string]api.Feed{}}
	policies := map[string]bool{}
	for i := range all {
		s := &all[i]
		if s.Policy != "" {
			policies[s.Policy] = true
		}
		sum.CPUNs += s.CPUNs
		sum.Processors += s.Processors
		sum.Accepted += s.Accepted
		sum.Replied += s.Replied
		sum.Failed += s.Failed
		sum.Shed += s.Shed
		sum.DeadLettered += s.DeadLettered
		sum.InFlight += s.InFlight
		sum.Answered += s.Answered
		for _, name := range s.Order {
			st, ok := s.Stages[name]
			if !ok || st.Process != "" {
				continue
			}
			if old, there := sum.Stages[name]; there {
				st = sumStage(&old, &st)
			} else {
				sum.Order = append(sum.Order, name)
			}
			sum.Stages[name] = st
		}
		for name, p := range s.Pools {
			sum.Pools[name] = sumPool(sum.Pools[name], p)
		}
		for name, f := range s.Feeds {
			sum.Feeds[name] = sumFeed(sum.Feeds[name], f)
		}
	}
	slices.Sort(sum.Order) // processes may have other stages, and come in any order
	for i, p := range slices.Sorted(maps.Keys(policies)) {
		if i > 0 {
			sum.Policy += ", "
		}
		sum.Policy += p
	}
	return sum
}

func sumStage(a, b *api.Stage) api.Stage {
	return api.Stage{
		Version: cmp.Or(a.Version, b.Version), Pool: cmp.Or(a.Pool, b.Pool),
		// A process that is drained does not make the stage so: the others run it.
		Paused: a.Paused && b.Paused, Draining: a.Draining && b.Draining, Drained: a.Drained && b.Drained,
		Queue: sumQueue(&a.Queue, &b.Queue), Workers: sumWorkers(&a.Workers, &b.Workers), Counts: sumCounts(&a.Counts, &b.Counts),
		Reasons: sumReasons(a.Reasons, b.Reasons), Wait: sumDurations(&a.Wait, &b.Wait), Service: sumDurations(&a.Service, &b.Service),
		Edges: sumEdges(a.Edges, b.Edges),
	}
}

func sumQueue(a, b *api.Queue) api.Queue {
	return api.Queue{
		Length: a.Length + b.Length, Capacity: a.Capacity + b.Capacity, OldestNs: max(a.OldestNs, b.OldestNs), Held: a.Held + b.Held,
		InHand: a.InHand + b.InHand, Suspended: a.Suspended + b.Suspended, Delayed: a.Delayed + b.Delayed,
		KeyCapacity: max(a.KeyCapacity, b.KeyCapacity), Reserved: a.Reserved + b.Reserved, Carried: a.Carried + b.Carried,
		Waiting: a.Waiting + b.Waiting, Submitters: a.Submitters + b.Submitters, Senders: a.Senders + b.Senders,
		RateKeys: a.RateKeys + b.RateKeys, FairKeys: a.FairKeys + b.FairKeys, FairMost: max(a.FairMost, b.FairMost),
		ParkedKeys: a.ParkedKeys + b.ParkedKeys,
	}
}

func sumWorkers(a, b *api.Workers) api.Workers {
	return api.Workers{
		Live: a.Live + b.Live, Busy: a.Busy + b.Busy, Blocked: a.Blocked + b.Blocked, Idle: a.Idle + b.Idle, Least: a.Least + b.Least,
		Most: a.Most + b.Most, Peak: a.Peak + b.Peak, Instances: a.Instances + b.Instances, Keys: a.Keys + b.Keys,
		KeptStates: a.KeptStates + b.KeptStates, CrashStreak: max(a.CrashStreak, b.CrashStreak), Stuck: a.Stuck + b.Stuck,
	}
}

func sumCounts(a, b *api.Counts) api.Counts {
	return api.Counts{
		Accepted: a.Accepted + b.Accepted, Submitted: a.Submitted + b.Submitted, Received: a.Received + b.Received,
		Rejected: a.Rejected + b.Rejected, OK: a.OK + b.OK, Forwarded: a.Forwarded + b.Forwarded, Errors: a.Errors + b.Errors,
		Shed: a.Shed + b.Shed, DeadLettered: a.DeadLettered + b.DeadLettered, Emitted: a.Emitted + b.Emitted, Crashes: a.Crashes + b.Crashes,
		Stuck: a.Stuck + b.Stuck, Retries: a.Retries + b.Retries, RetriesRefused: a.RetriesRefused + b.RetriesRefused,
		Restarts: a.Restarts + b.Restarts, Passivated: a.Passivated + b.Passivated, Visits: a.Visits + b.Visits,
		EmptyVisits: a.EmptyVisits + b.EmptyVisits, BusyNs: a.BusyNs + b.BusyNs, BlockedNs: a.BlockedNs + b.BlockedNs, IdleNs: a.IdleNs + b.IdleNs,
		RateWaitNs: a.RateWaitNs + b.RateWaitNs,
	}
}

func sumReasons(a, b map[string]uint64) map[string]uint64 {
	sum := maps.Clone(a)
	if sum == nil {
		sum = map[string]uint64{}
	}
	for why, n := range b {
		sum[why] += n
	}
	return sum
}

// sumDurations merges two histograms. The bounds of buckets are the same in all
// processes.
func sumDurations(a, b *api.Durations) api.Durations {
	sum := api.Durations{Count: a.Count + b.Count, SumNs: a.SumNs + b.SumNs, MaxNs: max(a.MaxNs, b.MaxNs), Buckets: []api.Bucket{}}
	counts := map[int64]uint64{}
	for _, d := range []*api.Durations{a, b} {
		for _, x := range d.Buckets {
			counts[x.UpToNs] += x.Count
		}
	}
	for _, bound := range slices.Sorted(maps.Keys(counts)) {
		sum.Buckets = append(sum.Buckets, api.Bucket{UpToNs: bound, Count: counts[bound]})
	}
	sum.P50Ns, sum.P99Ns = quantile(&sum, 0.5), quantile(&sum, 0.99)
	return sum
}

// quantile returns the bound of the bucket that has a quantile.
func quantile(d *api.Durations, q float64) int64 {
	left := uint64(q*float64(d.Count) + 0.5)
	for _, b := range d.Buckets {
		if b.Count >= left {
			return b.UpToNs
		}
		left -= b.Count
	}
	return d.MaxNs
}

func sumEdges(a, b []api.Edge) []api.Edge {
	sum := slices.Clone(a)
	for _, e := range b {
		i := slices.IndexFunc(sum, func(x api.Edge) bool { return x.To == e.To && x.Port == e.Port })
		if i < 0 {
			sum = append(sum, e)
			continue
		}
		sum[i].Moved += e.Moved
		sum[i].Back = sum[i].Back || e.Back
	}
	return notNil(sum)
}

func sumPool(a, b api.Pool) api.Pool {
	if a.Stages == nil {
		return b
	}
	return api.Pool{
		Policy: a.Policy, Stages: a.Stages, Dispatch: a.Dispatch, Plan: a.Plan, Workers: a.Workers + b.Workers, Busy: a.Busy + b.Busy,
		Idle: a.Idle + b.Idle, Most: a.Most + b.Most, Rounds: a.Rounds + b.Rounds, Visits: a.Visits + b.Visits,
		EmptyVisits: a.EmptyVisits + b.EmptyVisits,
	}
}

// sumFeed adds a feed of another process. It runs if it does in one of them.
func sumFeed(a, b api.Feed) api.Feed {
	if a.To == "" {
		return b
	}
	if b.Running && !a.Running {
		a.State, a.Running, a.Ended = b.State, true, false
	}
	a.Read, a.Refused, a.Restarts = a.Read+b.Read, a.Refused+b.Refused, a.Restarts+b.Restarts
	a.Error = cmp.Or(a.Error, b.Error)
	return a
}
