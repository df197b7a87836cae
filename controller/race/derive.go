package race

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/stats"
)

// find returns a stage of a snapshot, nil if it is missing.
func find(s *pipeline.Snapshot, name string) *stage.Snapshot {
	if i := slices.IndexFunc(s.Stages, func(st stage.Snapshot) bool { return st.Name == name }); i >= 0 {
		return &s.Stages[i]
	}
	return nil
}

// serve adds the times of handlers, each somewhere in its bucket.
func (w *watch) serve(name string, d stats.Durations) {
	all := w.rec.Services[name]
	begin := len(all)
	for _, b := range d.Buckets {
		width := time.Duration(1) // of the bucket: there are eight for each doubling
		if high := bits.Len64(uint64(b.UpTo)); high > 3 {
			width = 1 << (high - 4)
		}
		for range b.Count {
			all = append(all, b.UpTo-time.Duration(w.random.Int64N(int64(width))))
		}
	}
	fresh := all[begin:]
	w.random.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	if len(all) > 0 {
		w.rec.Services[name] = all
	}
}

// model returns the model of the pipeline, without a policy. Groups have
// controllers of their own.
func (w *watch) model(groups []string) simulator.Model {
	for _, set := range w.of.Setups() {
		w.setups[set.Name] = set
	}
	m := simulator.Model{CPUs: w.last.Processors}
	for _, group := range groups {
		w.miss("%q has a controller of its own, and is under the policy of the pipeline in the model", group)
	}
	for i := range w.last.Stages {
		st := &w.last.Stages[i]
		old, set := find(&w.first, st.Name), w.setups[st.Name]
		switch {
		case st.Process != "":
			w.miss("stage %q runs in process %q: commands end before it", st.Name, st.Process)
			delete(w.rec.entries, st.Name)
		case old == nil || set.Name == "":
			w.miss("stage %q was added or removed while the pipeline was recorded", st.Name)
			delete(w.rec.entries, st.Name)
		default:
			m.Stages = append(m.Stages, w.stage(st, &set, since(&st.Counts, &old.Counts)))
			w.share(&m, &set)
		}
	}
	for i := range m.Stages {
		st := &m.Stages[i]
		w.lead(&m, st, find(&w.last, st.Name), find(&w.first, st.Name))
		if len(w.rec.entries[st.Name]) > 0 {
			m.Sources = append(m.Sources, simulator.Source{To: st.Name})
		}
	}
	w.compute()
	return m
}

// share adds the pool of a stage's group.
func (w *watch) share(m *simulator.Model, set *link.Setup) {
	if set.Group == "" || slices.ContainsFunc(m.Pools, func(x simulator.Pool) bool { return x.Name == set.Group }) {
		return
	}
	m.Pools = append(m.Pools, simulator.Pool{Name: set.Group, Workers: max(set.Fewest, 1), Most: max(set.Most, set.Fewest, 1)})
}

// since returns the counts between two snapshots that the model needs.
func since(now, then *stats.Counts) stats.Counts {
	return stats.Counts{
		OK: now.OK - then.OK, Forwarded: now.Forwarded - then.Forwarded, Errors: now.Errors - then.Errors, Emitted: now.Emitted - then.Emitted,
		Retries: now.Retries - then.Retries, BusyTime: now.BusyTime - then.BusyTime, Accepted: now.Accepted - then.Accepted,
	}
}

// stage returns the model of a stage, without its edges.
func (w *watch) stage(st *stage.Snapshot, set *link.Setup, n stats.Counts) simulator.Stage {
	w.handled[st.Name] = float64(n.Handled()) / w.rec.lasted.Seconds()
	out := simulator.Stage{
		Name: st.Name, Service: simulator.Constant(0), Computes: !set.Blocking,
		Workers: min(max(st.Workers.Min, 1), controller.MostWorkers), Capacity: set.Capacity, Batch: set.Batch,
		Instances: min(max(set.Instances, 1), math.MaxInt32), Pool: set.Group, TTL: set.TTL, Reject: set.Refuses,
		Rate: controller.Rate{PerSecond: set.PerSecond, Burst: set.Burst},
	}
	out.Most = min(max(st.Workers.Max, out.Workers), controller.MostWorkers)
	if tries := n.Handled() + n.Retries; tries > 0 {
		out.Fails = float64(n.Errors+n.Retries) / float64(tries)
		out.Retry = simulator.Retry{Attempts: set.Attempts, Pause: set.Pause, Longest: set.LongestGap, Jitter: set.Jitter, Budget: set.Budget}
		w.correct(st.Name, n.BusyTime/time.Duration(tries))
	}
	if set.Keyed {
		out.Lanes = min(max(st.Workers.Keys, 1), 1<<20)
		w.miss("the keys of stage %q have different loads: in the model each of %d keys has the same", st.Name, out.Lanes)
	}
	switch d := set.Discipline.(type) {
	case nil, queue.FIFO:
	case queue.LIFO, queue.AdaptiveLIFO:
		if !set.Keyed {
			out.Discipline = d.(queue.Discipline)
		}
	case queue.Discipline:
		w.miss("stage %q takes its commands by %s: in the model it takes the oldest one", st.Name, d.Name())
	}
	w.limits(st, set, n)
	return out
}

// limits notes the properties of a stage that the model has not.
func (w *watch) limits(st *stage.Snapshot, set *link.Setup, n stats.Counts) {
	for _, text := range set.Special {
		w.miss("stage %q: %s", st.Name, text)
	}
	if st.Paused || st.Draining {
		w.miss("stage %q is paused or drained", st.Name)
	}
	if n.Handled() == 0 && st.Queue.Load() > 0 {
		w.miss("stage %q has completed no command while the pipeline was recorded: its handlers take no time in the model", st.Name)
	}
	if share := float64(w.waited[st.Name]) / float64(max(w.snapshots, 1)); share > differs {
		w.miss("callers waited at stage %q for %.0f%% of the time: with a policy that does more they would send more than was recorded", st.Name, 100*share)
	}
}

// correct scales the times of a stage to the mean that its workers' time says,
// which the buckets have roughly.
func (w *watch) correct(name string, mean time.Duration) {
	all := w.rec.Services[name]
	sum := 0.0
	for _, d := range all {
		sum += float64(d)
	}
	if sum == 0 {
		return
	}
	by := min(max(float64(mean)*float64(len(all))/sum, 0.8), 1.25) // at both ends of the recording handlers are counted in part
	for i, d := range all {
		all[i] = min(time.Duration(by*float64(d)), longest)
	}
}

// lead adds the edges of a stage, with their shares of its commands.
func (w *watch) lead(m *simulator.Model, out *simulator.Stage, st, old *stage.Snapshot) {
	n := since(&st.Counts, &old.Counts)
	if n.Handled() == 0 {
		return
	}
	type way struct {
		to    string
		moved float64
	}
	var ways []way
	sum := 0.0
	for _, e := range st.Edges {
		x := way{to: e.To, moved: float64(e.Moved)}
		for _, before := range old.Edges {
			if before.To == e.To && before.Port == e.Port {
				x.moved -= float64(before.Moved)
			}
		}
		sum += x.moved
		if x.moved > 0 && slices.ContainsFunc(m.Stages, func(st simulator.Stage) bool { return st.Name == e.To }) {
			ways = append(ways, x)
		}
	}
	made := float64(n.Forwarded + n.Emitted) // commands for other stages, of this pipeline and of others
	sum = max(sum, made)
	for _, x := range ways {
		for _, kind := range []struct {
			edges *[]simulator.Edge
			n     uint64
		}{{&out.Forward, n.Forwarded}, {&out.Emit, n.Emitted}} {
			if kind.n > 0 {
				*kind.edges = append(*kind.edges, simulator.Edge{To: x.to, Share: x.moved / sum * float64(kind.n) / float64(n.Handled())})
			}
		}
	}
}

// The shares of their times from which handlers count as computing, and up to
// which as waiting; and the usage of the CPUs from which handlers wait for
// these.
const (
	computesFrom, computesUpTo = 0.1, 0.9
	saturated                  = 0.9
)

// compute finds out for which share of their time handlers compute that do not
// say that they wait: the time of the CPUs, by the time of these handlers.
func (w *watch) compute() {
	busy := time.Duration(0)
	for name, set := range w.setups {
		st, old := find(&w.last, name), find(&w.first, name)
		if st != nil && old != nil && !set.Blocking {
			busy += st.Counts.BusyTime - old.Counts.BusyTime
		}
	}
	if busy <= 0 {
		return
	}
	used := w.last.CPU - w.first.CPU
	share := min(used.Seconds()/busy.Seconds(), 1)
	usage := used.Seconds() / (w.rec.lasted.Seconds() * float64(max(w.last.Processors, 1)))
	switch {
	case share < computesFrom:
		share = 0
	case share > computesUpTo && usage < saturated:
		share = 1
	}
	for name, set := range w.setups {
		switch {
		case set.Blocking:
		case usage >= saturated && share > 0: // the rest is the wait for a CPU, which the model has itself
			for i, d := range w.rec.Services[name] {
				w.rec.Services[name][i] = time.Duration(share * float64(d))
			}
		default:
			w.rec.computes[name] = share
		}
	}
}

// compare notes the stages that, under the present policy, handle another number
// of commands in the model than in the pipeline.
func (w *watch) compare(as *simulator.Result) {
	if as == nil {
		return
	}
	const wrong = 0.2
	for _, st := range as.Stages {
		is := w.handled[st.Name]
		if math.Abs(st.Throughput-is) > wrong*max(is, st.Throughput) && math.Abs(st.Throughput-is)*w.rec.lasted.Seconds() > 100 {
			w.miss("stage %q handled %.1f commands a second, and %.1f in the model: something else limits it", st.Name, is, cmp.Or(st.Throughput, 0))
		}
	}
}
