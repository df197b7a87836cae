package policy

import (
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
)

// load is Objective's knowledge of the stages: their capacity, and how long
// commands take.
type load struct {
	stages memory[timing]
	units  units

	passed   float64 // seconds since the last measure
	done     float64 // commands that were answered, of late
	capacity float64 // a second; 0: it is not known
	grown    float64 // the capacity with the workers that there may soon be
	narrow   struct {
		name    string
		workers int
	} // the pool that limits it

	cpu struct { // the capacity of the CPUs
		capacity     float64 // a second; 0: it is not known
		done, passed float64 // since it was last computed
	}

	mean, tail float64 // seconds in handlers, on the longest path
	response   float64 // the percentile of the response time, in seconds
	inFlight   float64
	visits     float64 // commands in scope for each command that is answered
}

// timing is the memory of a stage.
type timing struct {
	seen          bool
	total         controller.Counters
	busy, handled float64 // seconds and commands, of late
	work, wait    spread
}

// spread is the mean and the 90th percentile of a time, in seconds.
type spread struct{ mean, p90 float64 }

// follow smooths the last measure.
func (x *spread) follow(mean, p90 time.Duration, weight float64) {
	if *x == (spread{}) {
		weight = 1
	}
	x.mean += (max(mean, 0).Seconds() - x.mean) * weight
	x.p90 += (max(p90, mean, 0).Seconds() - x.p90) * weight
}

// beyond returns by how much a percentile is above the mean, extrapolated as
// that of an exponential time.
func (x *spread) beyond(percentile float64) float64 {
	return (-math.Log(1-percentile/100) - 1) / (math.Ln10 - 1) * max(x.p90-x.mean, 0)
}

// measure updates all by a snapshot.
func (l *load) measure(s *controller.Snapshot, ways *paths, m *demand, passed time.Duration, aim Objective) {
	l.passed = passed.Seconds()
	keep := math.Exp2(-passed.Seconds() / demandOver.Seconds())
	ended := m.done
	for i := range s.Stages {
		ended -= l.stages.of(s.Stages[i].Name).measure(&s.Stages[i], keep)
	}
	l.stages.forget(s)
	m.done = max(ended, 0)
	l.done = l.done*keep + m.done
	l.measureCPU(s, m.done)
	l.size(s)
	l.time(s, ways, aim)
}

// measure updates the memory of a stage, and returns how many commands have
// ended there without an answer.
func (t *timing) measure(st *controller.StageStats, keep float64) (lost float64) {
	now := st.Total.Sub(t.total)
	t.total = st.Total
	if !t.seen { // it is not known in what time this was counted
		t.seen, now = true, controller.Counters{}
	}
	t.busy = t.busy*keep + max(now.Busy, 0).Seconds()
	t.handled = t.handled*keep + float64(now.Handled())
	weight := 1 - keep
	if st.Work.Count > 0 {
		t.work.follow(st.Work.Mean, st.Work.P90, weight)
	}
	switch {
	case st.Wait.Count > 0:
		t.wait.follow(st.Wait.Mean, st.Wait.P90, weight)
	case st.QueueLen > 0:
		t.wait.follow(st.OldestWait, st.OldestWait, weight)
	default:
		t.wait.follow(0, 0, weight)
	}
	return float64(now.Shed) + float64(now.DeadLettered)
}

// measureCPU estimates the capacity of the CPUs, from the commands done and how
// busy they were. Handlers that wait are no load for them.
func (l *load) measureCPU(s *controller.Snapshot, done float64) {
	l.cpu.done += done
	l.cpu.passed += l.passed
	if l.cpu.passed < usageOver.Seconds() {
		return
	}
	rate := l.cpu.done / l.cpu.passed
	l.cpu.done, l.cpu.passed = 0, 0
	if s.CPUUsage < leastUsage || rate == 0 {
		l.cpu.capacity = 0
		return
	}
	l.cpu.capacity = max(rate/min(s.CPUUsage, 1), l.cpu.capacity*(1-1.0/leastWait))
}

// size computes the capacity.
func (l *load) size(s *controller.Snapshot) {
	if l.done < fewestDone {
		return // the known capacity remains
	}
	least, grown := math.Inf(1), math.Inf(1)
	us := l.units.of(s)
	for i := range us {
		u, busy := &us[i], 0.0
		if u.paused() || u.workers <= 0 {
			continue
		}
		for _, st := range u.stages {
			busy += l.stages.of(st.Name).busy
		}
		if busy <= 0 {
			continue
		}
		can := float64(u.workers) * l.done / busy
		if can < least {
			least = can
			l.narrow.name, l.narrow.workers = u.name, u.workers
		}
		grown = min(grown, can*float64(max(min(2*u.workers, u.most), u.workers))/float64(u.workers))
	}
	l.units.done()
	if l.cpu.capacity > 0 && l.cpu.capacity < least {
		least, l.narrow.name = l.cpu.capacity, "the CPUs"
		grown = min(grown, least)
	}
	if !math.IsInf(least, 1) {
		l.capacity, l.grown = least, max(grown, least)
	}
}

// time computes the times of the stages in scope. What a time has beyond its
// mean is independent from stage to stage, so the squares are added.
func (l *load) time(s *controller.Snapshot, ways *paths, aim Objective) {
	l.inFlight, l.visits = float64(s.InFlight), 1
	in := func(st *controller.StageStats) bool { return aim.Stage == "" || st.Name == aim.Stage }
	sum := func(of func(t *timing) float64) float64 {
		return ways.longest(s, func(st *controller.StageStats) float64 {
			if !in(st) {
				return 0
			}
			return of(l.stages.of(st.Name))
		})
	}
	squared := func(x *spread) float64 { return x.beyond(aim.Percentile) * x.beyond(aim.Percentile) }
	l.mean = sum(func(t *timing) float64 { return t.work.mean })
	l.tail = l.mean + math.Sqrt(sum(func(t *timing) float64 { return squared(&t.work) }))
	l.response = sum(func(t *timing) float64 { return t.work.mean + t.wait.mean }) +
		math.Sqrt(sum(func(t *timing) float64 { return squared(&t.work) + squared(&t.wait) }))
	if aim.Stage == "" {
		return
	}
	for i := range s.Stages {
		if st := &s.Stages[i]; in(st) && l.done > 0 {
			l.visits = l.stages.of(st.Name).handled / l.done
			l.inFlight = float64(stageNow(st).inFlight)
		}
	}
}
