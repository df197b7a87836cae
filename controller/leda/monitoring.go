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

// MonitoringGroup are the methods that look, and those that say when to be called.
type MonitoringGroup struct {
	l      *Leda
	timers []*timer
	zero   map[Stage]controller.Counters // where a stage's statistics begin

	lastFocused func()
	unsaid      bool            // whether there is such a function
	ended       map[Pool]uint64 // see round.go
}

// timer is a function and when it is due next.
type timer struct {
	f          func()
	every, due time.Duration
}

// AddTimer (A.3.1) has a function called again and again, for the first time after one
// interval. Several timers may have several intervals. One that was missed is not made up for. An interval
// of less than [MinTimer] is refused with ErrNumber: mostly it is a number of seconds that lacks its unit.
//
// The appendix counts whole seconds and, by a slip, says that the number of the
// pool's threads is returned.
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

// GetCpusCount (A.3.2) tells how many threads of the process can run at the same time: GOMAXPROCS.
func (g *MonitoringGroup) GetCpusCount() int { return g.l.now.CPUs }

// GetCpuUsage (A.3.3) tells the share of the CPUs that GetCpusCount counts which this process used, from 0 to 100;
// what other processes of the machine used is not in it. It is of the last second, or of the time since a controller of the pipeline
// was last called if that is longer; how many ask, and how often, does not change it.
//
// LStage told the mean since the start of the process, and so history, not load (L16).
func (g *MonitoringGroup) GetCpuUsage() int { //nolint:revive // the appendix writes it so
	share := g.l.now.CPUUsage
	if math.IsNaN(share) {
		return 0
	}
	return int(math.Round(100 * min(max(share, 0), 1)))
}

// GetQueueSize (A.3.4) returns how many commands wait in a stage's queue without an
// instance.
//
// In LEDA an event that comes to a stage with a free instance is combined with it at
// once, and leaves the queue before a thread handles it (section 4.1). So of the commands that
// wait ([controller.StageStats.QueueLen]) as many are left out here as there are free
// instances, and GetFreeInstancesCount leaves those instances out. The sum of
// section 4.2, GetQueueSize + GetInstanceCount - GetFreeInstancesCount, is the number
// of commands that wait and of instances at work.
func (g *MonitoringGroup) GetQueueSize(st Stage) int {
	return read(g.l, st, func(s *controller.StageStats) int {
		return max(s.QueueLen, 0) - combined(s)
	})
}

// GetProcessedCount (A.3.5) tells how many commands a stage's handlers have answered,
// since the start or the last ResetStatistics.
//
// LStage counted before the handler ran, and so crashes, too (L11).
func (g *MonitoringGroup) GetProcessedCount(st Stage) int {
	return number(g.statistics(st).Handled())
}

// GetInputCount (A.3.6) tells how many commands a stage has accepted, since the start
// or the last ResetStatistics.
//
// LStage counted those that it then refused, too (L11).
func (g *MonitoringGroup) GetInputCount(st Stage) int {
	return number(g.statistics(st).Accepted)
}

// ResetStatistics (A.3.7) has GetProcessedCount and GetInputCount count from here.
//
// The seed sets the stage's only counters to 0, for all who look (L12). Here the
// counters go on, and this controller alone remembers where it began.
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

// FireLastFocused (A.3.8) has a function called when the first worker has visited the
// last stage of the visit order, whether or not it handled something there. There is
// one such function; the later wins.
//
// LStage called it from a worker's thread, on a state that it shared with others, while
// all that came to the end waited, and counted a fast thread twice (L4). Here it is
// called as everything is, one at a time. It is called once for each order, and, while
// the order stays, when workers have visited its last stage again, some ten times a
// second. LStage called it only where a worker went past the end of the order, which
// none does while the last stage's visits succeed and RestartAtIndex is set.
func (g *MonitoringGroup) FireLastFocused(f func()) error {
	if f == nil {
		return nothing("monitoring.fireLastFocused")
	}
	g.lastFocused, g.unsaid = f, true
	return nil
}

// DoNotFireLastFocused (A.3.9) has no function called for that.
func (g *MonitoringGroup) DoNotFireLastFocused() {
	g.lastFocused, g.unsaid = nil, true
	clear(g.ended)
}

// ring calls the timers that are due, the longest due first.
func (g *MonitoringGroup) ring(now time.Duration) {
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

// advance keeps the beat, unless whole intervals were missed: then it begins anew.
func (t *timer) advance(now time.Duration) {
	if t.due = later(t.due, t.every); t.due <= now {
		t.due = later(now, t.every)
	}
}

// later adds as far as there are times.
func later(at, by time.Duration) time.Duration {
	if at > math.MaxInt64-by {
		return math.MaxInt64
	}
	return at + by
}

// number is a counter as the seed's methods return it.
func number(n uint64) int { return int(min(n, math.MaxInt)) }
