package fleet

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
)

// The constants of a meter.
const (
	window    = 15   // readings over which rates are measured
	saturated = 0.75 // of the workers are busy: then the policy would have grown their number if it could
	settled   = 2    // readings back from which the number of workers has not grown
)

// reading has the measurements of one instant. Its totals only grow, unless a
// stage is replaced.
type reading struct {
	at      time.Time
	busy    map[string]time.Duration // of units
	workers map[string]int           // workers of units
	done    map[string]uint64        // messages of inlets
	units   []unit                   // without Busy
	loads   []inletLoad              // without Rate
	cpus    int                      // 0: cpu is not known
	cpu     time.Duration            // that the process has used
}

// read reads a pipeline and its inlets.
func read(p *pipeline.Pipeline, conn *nats.Conn, s *pipeline.Snapshot, now time.Time) reading {
	r := reading{at: now, busy: map[string]time.Duration{}, workers: map[string]int{}, done: map[string]uint64{}}
	if used, known := cputime.Used(); known {
		r.cpus, r.cpu = runtime.GOMAXPROCS(0), used
	}
	reach := reachable(here(p.Successors(), s))
	comes := map[string][]string{} // the inlets whose messages come to a stage
	for _, i := range conn.Inlets() {
		if i.Pipeline != "" && i.Pipeline != s.Pipeline {
			continue
		}
		r.loads = append(r.loads, inletLoad{Name: i.Name, Stage: i.Stage, Counts: i.Counts})
		r.done[i.Name] += i.Counts.Acknowledged + i.Counts.DeadLettered
		if i.Stage == "" {
			continue
		}
		for stage := range reach(i.Stage) {
			comes[stage] = append(comes[stage], i.Name)
		}
	}
	r.addUnits(s, comes)
	return r
}

// addUnits gathers the workers of the stages that run here.
func (r *reading) addUnits(s *pipeline.Snapshot, comes map[string][]string) {
	at := map[string]int{}
	for i := range s.Stages {
		st := &s.Stages[i]
		if st.Process != "" {
			continue
		}
		n, known := at[st.Pool]
		if !known {
			n = len(r.units)
			at[st.Pool] = n
			r.units = append(r.units, unit{Name: st.Pool})
		}
		u := &r.units[n]
		u.Workers, u.Most = u.Workers+st.Workers.Live, u.Most+st.Workers.Max
		for _, inlet := range comes[st.Name] {
			if !slices.Contains(u.Inlets, inlet) {
				u.Inlets = append(u.Inlets, inlet)
			}
		}
		r.busy[u.Name] += st.Counts.BusyTime
	}
	for _, pool := range s.Pools {
		if n, known := at[pool.Name]; known {
			r.units[n].Workers, r.units[n].Most = pool.Workers, max(pool.Workers, pool.Most)
		}
	}
	for _, u := range r.units {
		r.workers[u.Name] = u.Workers
	}
}

// here returns the edges that do not lead through stages of other processes.
// Commands from such a stage arrive by another inlet.
func here(to map[string][]string, s *pipeline.Snapshot) map[string][]string {
	for i := range s.Stages {
		if s.Stages[i].Process != "" {
			delete(to, s.Stages[i].Name)
		}
	}
	return to
}

// reachable returns a function for the stages that commands of a stage come to,
// with the stage itself.
func reachable(to map[string][]string) func(from string) map[string]bool {
	return func(from string) map[string]bool {
		seen := map[string]bool{from: true}
		for left := []string{from}; len(left) > 0; {
			next := left[0]
			left = left[1:]
			for _, stage := range to[next] {
				if !seen[stage] {
					seen[stage] = true
					left = append(left, stage)
				}
			}
		}
		return seen
	}
}

// meter measures rates over the last readings.
type meter struct{ last []reading }

// add adds a reading.
func (m *meter) add(r reading) {
	if len(m.last) == window {
		m.last = slices.Delete(m.last, 0, 1)
	}
	m.last = append(m.last, r)
}

// measure completes the units and loads of a reading with rates over the
// earlier readings.
func (m *meter) measure(r reading) (units []unit, loads []inletLoad) {
	units, loads = slices.Clone(r.units), slices.Clone(r.loads)
	if len(m.last) == 0 {
		return units, loads
	}
	first, recent := &m.last[0], &m.last[max(len(m.last)-settled, 0)]
	for i := range units {
		u := &units[i]
		u.Busy = first.busyUntil(&r, u.Name)
		if len(m.last) >= settled && recent.workers[u.Name] >= u.Workers && u.Workers > 0 &&
			recent.busyUntil(&r, u.Name) >= saturated*float64(u.Workers) {
			u.Most = min(u.Most, u.Workers)
		}
	}
	for i := range loads {
		l := &loads[i]
		if span := r.at.Sub(first.at).Seconds(); span > 0 && r.done[l.Name] > first.done[l.Name] {
			l.Rate = float64(r.done[l.Name]-first.done[l.Name]) / span
		}
	}
	return units, loads
}

// computing returns how many CPUs the handlers of messages were busy with up to
// a reading. The process may use others for something else: a handler uses at
// most one.
func (m *meter) computing(r reading, units []unit) cpus {
	if r.cpus == 0 || len(m.last) == 0 {
		return cpus{Most: r.cpus}
	}
	used, handlers := r.at.Sub(m.last[0].at).Seconds(), 0.0
	if used > 0 {
		used = max((r.cpu-m.last[0].cpu).Seconds()/used, 0)
	}
	for _, u := range units {
		if len(u.Inlets) > 0 {
			handlers += u.Busy
		}
	}
	return cpus{Most: r.cpus, Busy: min(used, handlers, float64(r.cpus))}
}

// busyUntil returns how many workers of a unit were busy from one reading to
// another, on average.
func (r *reading) busyUntil(later *reading, unit string) float64 {
	span, busy := later.at.Sub(r.at), later.busy[unit]-r.busy[unit]
	if span <= 0 || busy <= 0 {
		return 0
	}
	return busy.Seconds() / span.Seconds()
}

// stagesOf returns the names of the stages that run in a process.
func stagesOf(s *pipeline.Snapshot) []string {
	names := map[string]bool{}
	for i := range s.Stages {
		if s.Stages[i].Process == "" {
			names[s.Stages[i].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
