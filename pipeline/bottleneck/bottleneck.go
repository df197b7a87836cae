// Package bottleneck says which stage limits a pipeline, and why.
//
// [Of] compares two snapshots. It is a function of their numbers alone: it may
// be asked about a recording, about the last second, and about a minute ago.
//
//	before := p.Snapshot()
//	time.Sleep(10 * time.Second)
//	fmt.Println(bottleneck.Of(before, p.Snapshot()))
//
// # How it judges
//
// A stage whose workers wait for free slots in a next stage is never the
// bottleneck: that next stage is, or one behind it. Of the others the stage is
// chosen that is nearest to its limit. A limit is named only if commands wait
// for it, in the queue, in a caller or in a worker of a stage before. Flink's
// web page finds back-pressure in the same way.
package bottleneck

import (
	"fmt"
	"math"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Limit is the kind of limit that a stage is at.
type Limit string

// The limits, with the remedy.
const (
	// None: no command waits for long. Commands arrive more slowly than the
	// stages handle them.
	None Limit = "none"
	// Workers: all workers are in handlers, which wait for something outside or
	// for one another. More workers help; see stage.Workers.
	Workers Limit = "workers"
	// CPU: all workers are in handlers, and the process uses all of its
	// processors. Only less work helps, or another machine.
	CPU Limit = "cpu"
	// Instances: the stage allows no more commands at once; see stage.Instances
	// and stage.Fair.
	Instances Limit = "instances"
	// Keys: workers are idle while commands wait, since commands of one key are
	// handled one after another; see stage.Keyed.
	Keys Limit = "keys"
	// Guards: guards hold commands back; see stage.Guard.
	Guards Limit = "guards"
	// Rate: commands wait for permits; see stage.Rate and stage.RateBy.
	Rate Limit = "rate"
	// Paused: an operator has paused the stage.
	Paused Limit = "paused"
	// Crashes: the stage pauses, because its handlers crash one after another.
	Crashes Limit = "crashes"
)

// Verdict names the stage that limits a pipeline in an interval, and its limit.
type Verdict struct {
	Stage string // empty for None
	Limit Limit
	// Use is how near the stage was to its limit, from 0 to 1. For Workers and
	// CPU it is the part of its workers' time that was spent in handlers.
	Use float64
	// Gain is by which factor one more worker would raise the throughput, until
	// the next stage is at its limit: 1.33 of a fourth worker beside three. It
	// is 1 if a worker would not help.
	Gain float64
	// Blocks are the stages whose workers wait for the bottleneck, nearest
	// first.
	Blocks []string
}

// String returns the verdict as a sentence.
func (v Verdict) String() string {
	if v.Limit == None {
		return "no stage limits the pipeline: commands arrive more slowly than the stages handle them"
	}
	text := fmt.Sprintf("stage %q limits the pipeline by its %s (%.0f %% used)", v.Stage, v.Limit, v.Use*100)
	switch v.Limit {
	case CPU:
		text = fmt.Sprintf("stage %q limits the pipeline by the processors (%.0f %% used)", v.Stage, v.Use*100)
	case Paused:
		text = fmt.Sprintf("stage %q limits the pipeline: it is paused", v.Stage)
	case Crashes:
		text = fmt.Sprintf("stage %q limits the pipeline: it pauses between crashes", v.Stage)
	}
	if v.Gain > 1 {
		text += fmt.Sprintf("; one more worker would bring %.0f %%", (v.Gain-1)*100)
	}
	return text
}

const (
	saturated = 0.8  // a stage at this part of its limit is limited by it
	blocked   = 0.3  // a stage whose workers wait this part of their time for a next stage is limited there
	equal     = 0.02 // parts that differ by less are equal
	noWorker  = 1    // the Gain if a worker would not help
)

// Of returns the verdict about the time between two snapshots of a pipeline. Stages
// that are in only one of them are left out.
func Of(earlier, later pipeline.Snapshot) Verdict {
	interval := later.At.Sub(earlier.At)
	if interval <= 0 {
		return Verdict{Limit: None, Gain: noWorker}
	}
	known := map[string]*stage.Snapshot{}
	for i := range earlier.Stages {
		known[earlier.Stages[i].Name] = &earlier.Stages[i]
	}
	pools := map[string]int{} // workers of shared pools
	for _, p := range later.Pools {
		pools[p.Name] = p.Workers
	}
	var all []observed
	for i := range later.Stages {
		st := &later.Stages[i]
		if old := known[st.Name]; old != nil {
			all = append(all, observe(old, st, interval, pools[st.Pool]))
		}
	}
	cpu := 0.0
	if later.Processors > 0 {
		cpu = (later.CPU - earlier.CPU).Seconds() / (interval.Seconds() * float64(later.Processors))
	}
	return judge(all, cpu)
}

// judge chooses the stage that is nearest to its limit, of equals the one
// behind, since commands leave the pipeline through it.
func judge(all []observed, cpu float64) Verdict {
	v := Verdict{Limit: None, Gain: noWorker}
	var worst *observed
	for i := range all {
		o := &all[i]
		limit, use := o.limit()
		if limit == None || worst != nil && !nearer(all, worst, v.Use, o, use) {
			continue
		}
		worst, v.Stage, v.Limit, v.Use = o, o.Name, limit, use
	}
	if worst == nil {
		return v
	}
	v.Blocks = blockedBy(all, worst.Name)
	if v.Limit != Workers {
		return v
	}
	if cpu >= saturated {
		v.Limit = CPU
		return v
	}
	v.Gain = (worst.workers + 1) / worst.workers
	for i := range all { // the next one to reach its limit
		if o := &all[i]; o != worst && o.use > 0 {
			v.Gain = min(v.Gain, max(v.Use/o.use, noWorker))
		}
	}
	return v
}

// nearer reports whether a stage is nearer to its limit than the worst so far.
func nearer(all []observed, worst *observed, worstUse float64, o *observed, use float64) bool {
	switch ahead, back := reaches(all, worst.Name, o.Name), reaches(all, o.Name, worst.Name); {
	case math.Abs(use-worstUse) > equal:
		return use > worstUse
	case ahead != back:
		return ahead
	default:
		return o.Queue.Oldest > worst.Queue.Oldest
	}
}

// observed is a stage in an interval.
type observed struct {
	*stage.Snapshot
	workers float64 // the mean number of them
	use     float64 // the part of their time in handlers
	blocked float64 // the part of their time that they waited for a next stage
	paced   float64 // the part of the interval in which commands waited for the rate alone
}

func observe(old, st *stage.Snapshot, interval time.Duration, shared int) observed {
	c, b := &st.Counts, &old.Counts
	busy, waits := c.BusyTime-b.BusyTime, c.BlockedTime-b.BlockedTime
	o := observed{Snapshot: st, paced: part(c.RateWait-b.RateWait, interval)}
	total := busy + waits + c.IdleTime - b.IdleTime
	if shared > 0 { // workers of a shared pool are anywhere while they do not work here
		total = max(total, time.Duration(shared)*interval)
	}
	o.workers = float64(total) / float64(interval)
	o.use, o.blocked = part(busy, total), part(waits, total)
	return o
}

func part(d, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return min(max(float64(d)/float64(of), 0), 1)
}

// limit returns the limit of a stage, and how near the stage is to it.
func (o *observed) limit() (limit Limit, use float64) {
	q := &o.Queue
	free := int(o.workers+0.5) - o.Workers.Busy - o.Workers.Blocked
	switch waiting := q.Queued > 0 || q.Senders > 0 || q.Submitters > 0; {
	case !waiting || o.blocked >= blocked:
		return None, 0
	case o.Paused:
		return Paused, 1
	case o.paced >= saturated:
		return Rate, o.paced
	case q.Queued > 0 && 2*q.Held >= q.Queued:
		return Guards, float64(q.Held) / float64(q.Queued)
	case o.use >= saturated && q.Suspended == 0:
		return Workers, o.use
	case o.Workers.CrashStreak > 1 && o.Workers.Busy == 0:
		return Crashes, 1
	case o.Workers.Instances > 0 && max(o.Workers.Busy, q.Suspended) >= o.Workers.Instances:
		return Instances, 1
	case free > 0 && (o.Workers.Keys > 0 || q.FairKeys > 0) && o.use*o.workers >= saturated:
		return Keys, min(o.use*o.workers, 1) // of one key, one command is in progress at a time
	default:
		return None, 0
	}
}

// blockedBy returns the stages that wait for a stage, directly or through other
// stages, nearest first.
func blockedBy(all []observed, name string) (names []string) {
	for _, o := range before(all, name, func(o *observed) bool { return o.blocked >= blocked }) {
		names = append(names, o.Name)
	}
	return names
}

// reaches reports whether edges lead from one stage to another.
func reaches(all []observed, from, to string) bool {
	for _, o := range before(all, to, func(*observed) bool { return true }) {
		if o.Name == from {
			return true
		}
	}
	return false
}

// before returns the matching stages from which edges lead to a stage, directly
// or through other matching stages, nearest first.
func before(all []observed, name string, match func(*observed) bool) (found []*observed) {
	seen := map[string]bool{name: true}
	for next := []string{name}; len(next) > 0; next = next[1:] {
		for i := range all {
			o := &all[i]
			if !seen[o.Name] && match(o) && o.leadsTo(next[0]) {
				seen[o.Name] = true
				found, next = append(found, o), append(next, o.Name)
			}
		}
	}
	return found
}

func (o *observed) leadsTo(name string) bool {
	for i := range o.Edges {
		if o.Edges[i].To == name {
			return true
		}
	}
	return false
}
