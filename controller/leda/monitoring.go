package leda

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// MostTimers is how many timers a script may have.
const MostTimers = 1 << 10

// MinTimer is the shortest period of a timer.
const MinTimer = 5 * time.Millisecond

// MonitoringGroup has the methods that measure, and the methods that register
// callbacks.
type MonitoringGroup struct {
	// Machine makes GetCpuUsage return the use of the whole machine, as the
	// appendix has it. A script sets it.
	Machine bool

	l      *Leda
	timers []*timer
	zero   map[Stage]controller.Counters // the totals at the last ResetStatistics

	lastFocused func()
	changed     bool            // lastFocused was set or removed, and listen has not run since
	ended       map[Pool]uint64 // see round.go
}

// timer is a function with its period and its next due time.
type timer struct {
	f          func()
	every, due time.Duration
}

// AddTimer (A.3.1) calls a function periodically, for the first time after one
// interval. Each timer has an interval of its own. Missed calls are not made up
// for. An interval of less than [MinTimer] is refused with ErrNumber: in most
// cases it is a number of seconds without its unit.
//
// The appendix counts whole seconds and says, by mistake, that the number of
// the pool's threads is returned.
func (g *MonitoringGroup) AddTimer(f func(), every time.Duration) error {
	switch {
	case f == nil:
		return nothing("monitoring.addTimer")
	case len(g.timers) >= MostTimers:
		return fmt.Errorf("leda: monitoring.addTimer: there are %d timers already: %w", MostTimers, ErrNumber)
	case every < MinTimer:
		return fmt.Errorf("leda: monitoring.addTimer: %v: %w: a period is a time.Duration of at least %v; "+
			"for seconds, as in the appendix, multiply by time.Second", every, ErrNumber, MinTimer)
	}
	g.timers = append(g.timers, &timer{f, every, later(g.l.now.At, every)})
	return nil
}

// GetCpusCount (A.3.2) returns how many threads of the process can run at the
// same time: GOMAXPROCS.
func (g *MonitoringGroup) GetCpusCount() int { return g.l.now.CPUs }

// GetCpuUsage (A.3.3) returns the share of the CPUs that GetCpusCount counts
// which this process used, from 0 to 100, without the use by other processes of
// the machine. It covers the last second, or the time since a controller of the
// pipeline was last called if that is longer; it does not depend on how many
// controllers ask, or how often.
//
// With the field Machine it is the share of all CPUs of the machine that all
// processes used together, from the second call of the controller on. On
// systems other than Linux it is 0.
//
// LStage returned the mean since the start of the process, which is history,
// not load (L16).
func (g *MonitoringGroup) GetCpuUsage() int { //nolint:revive // the appendix writes it so
	share := g.l.now.CPUUsage
	if g.Machine {
		share = g.l.now.MachineUsage
	}
	if math.IsNaN(share) {
		return 0
	}
	return int(math.Round(100 * min(max(share, 0), 1)))
}

// GetQueueSize (A.3.4) returns how many commands wait in a stage's queue
// without an instance.
//
// In LEDA an event that arrives at a stage with a free instance is combined
// with it at once, and leaves the queue before a thread handles it (section
// 4.1). So GetQueueSize subtracts the number of free instances from the number
// of waiting commands ([controller.StageStats.QueueLen]), and
// GetFreeInstancesCount leaves those instances out, too. The sum of section
// 4.2, GetQueueSize + GetInstanceCount - GetFreeInstancesCount, is the number
// of waiting commands and busy instances.
func (g *MonitoringGroup) GetQueueSize(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int {
		return max(s.QueueLen, 0) - combined(s)
	})
}

// GetProcessedCount (A.3.5) returns how many commands a stage's handlers have
// answered, since the start or the last ResetStatistics.
//
// LStage counted before the handler ran, and so counted crashes, too (L11).
func (g *MonitoringGroup) GetProcessedCount(st Stage) int {
	return number(g.statistics(st).Handled())
}

// GetInputCount (A.3.6) returns how many commands a stage has accepted, since
// the start or the last ResetStatistics.
//
// LStage also counted commands that it then refused (L11).
func (g *MonitoringGroup) GetInputCount(st Stage) int {
	return number(g.statistics(st).Accepted)
}

// ResetStatistics (A.3.7) makes GetProcessedCount and GetInputCount count from
// now.
//
// The appendix sets the stage's only counters to 0, for all readers (L12). Here
// the counters are not changed; only this controller remembers their values.
func (g *MonitoringGroup) ResetStatistics(st Stage) error {
	id, err := g.l.find("monitoring.resetStatistics", st)
	if err != nil {
		return err
	}
	g.zero[st] = g.l.now.Stages[id].Total
	return nil
}

func (g *MonitoringGroup) statistics(st Stage) controller.Counters {
	return read(g.l, st, func(s *controller.StageStats) controller.Counters { return s.Total.Sub(g.zero[st]) })
}

// FireLastFocused (A.3.8) registers a function that is called when the first
// worker has visited the last stage of the visit order, whether or not it
// handled a command there. There is one such function; a later call replaces
// it.
//
// LStage called it from a worker's thread, on state that was shared with other
// threads, while all threads that reached the end waited, and counted a fast
// thread twice (L4). Here it is called like all callbacks, one at a time. It is
// called once for each order, and, while the order stays the same, when workers
// have visited its last stage again, about ten times a second. LStage called it
// only when a worker went past the end of the order, which no worker does while
// the visits of the last stage succeed and RestartAtIndex is set.
func (g *MonitoringGroup) FireLastFocused(f func()) error {
	if f == nil {
		return nothing("monitoring.fireLastFocused")
	}
	g.lastFocused, g.changed = f, true
	return nil
}

// DoNotFireLastFocused (A.3.9) removes the function of FireLastFocused.
func (g *MonitoringGroup) DoNotFireLastFocused() {
	g.lastFocused, g.changed = nil, true
	clear(g.ended)
}

// fire calls the timers that are due, the longest due first.
func (g *MonitoringGroup) fire(now time.Duration) {
	var due []*timer
	for _, t := range g.timers {
		if t.due <= now {
			due = append(due, t)
		}
	}
	slices.SortStableFunc(due, func(a, b *timer) int { return cmp.Compare(a.due, b.due) })
	for _, t := range due {
		t.advance(now)
		t.f()
	}
}

// advance keeps the timer's beat, unless whole intervals were missed: then a
// new beat starts now.
func (t *timer) advance(now time.Duration) {
	if t.due = later(t.due, t.every); t.due <= now {
		t.due = later(now, t.every)
	}
}

// later adds two times and saturates at the maximum.
func later(at, by time.Duration) time.Duration {
	if at > math.MaxInt64-by {
		return math.MaxInt64
	}
	return at + by
}

// number returns a counter as the type of the appendix's methods.
func number(n uint64) int { return int(min(n, math.MaxInt)) }
