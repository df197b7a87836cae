package tables

import (
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/cputime"
)

// clock measures time without the share of the CPUs that other processes use:
// on a machine with other work a second has less than a second for us. It
// passes as the wall clock does on an idle machine, and where the system does
// not say how busy it is. Its methods may be called by several goroutines.
type clock struct {
	mu      sync.Mutex
	begin   time.Time
	busy    time.Duration // of other processes, at the start
	used    time.Duration // CPU time of this process, at the start
	samples []sample
}

// sample is a time since the start, by the wall clock and by this one.
type sample struct{ wall, own time.Duration }

// between is the least time between two samples: the system counts in steps of
// 10 ms.
const between = 10 * time.Millisecond

// start starts the clock at a time shortly before now.
func (c *clock) start(begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin = begin
	c.busy, _ = others()
	c.used, _ = cputime.Used()
}

// sample notes how much time has passed, if it has not done so just now.
func (c *clock) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last()
	wall := time.Since(c.begin)
	if wall-last.wall < between {
		return
	}
	own := wall
	if busy, known := others(); known {
		own = wall - (busy-c.busy)/time.Duration(runtime.NumCPU())
	}
	c.samples = append(c.samples, sample{wall, min(max(own, last.own), last.own+wall-last.wall)})
}

// now returns the time of the wall clock since the start.
func (c *clock) now() time.Duration { return time.Since(c.begin) }

func (c *clock) last() sample {
	if len(c.samples) == 0 {
		return sample{}
	}
	return c.samples[len(c.samples)-1]
}

// at returns the time of this clock at a time of the wall clock.
func (c *clock) at(wall time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.samples), func(i int) bool { return c.samples[i].wall >= wall })
	before := sample{}
	if i > 0 {
		before = c.samples[i-1]
	}
	if i == len(c.samples) {
		return before.own + wall - before.wall
	}
	next := c.samples[i]
	part := float64(wall-before.wall) / float64(next.wall-before.wall)
	return before.own + time.Duration(part*float64(next.own-before.own))
}

// others returns how much CPU time all other processes have used.
func others() (busy time.Duration, known bool) {
	machine, _, known := cputime.Machine()
	own, same := cputime.Used()
	return machine - own, known && same
}

// cpu returns the CPU time that this process has used since the start, or a
// time in which all CPUs were its own if the system does not say.
func (c *clock) cpu() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used, known := cputime.Used(); known {
		return used - c.used
	}
	return time.Since(c.begin) * time.Duration(runtime.GOMAXPROCS(0))
}

// capacity returns how often a second all CPUs together can do something,
// beside the other work of the machine. It tries for a time.
func capacity(f func(), during time.Duration) float64 {
	var all sync.WaitGroup
	var done atomic.Int64
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for time.Since(begin) < during {
				f()
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds()
}
