package lab

import (
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/pipeline"
)

// sample is the state of a pipeline at one instant of a run.
type sample struct {
	at        time.Duration // since the start of the run
	queued    int           // commands in all queues
	workers   int           // of all stages and pools
	inFlight  uint64
	cpu       time.Duration // that the process has used
	machine   time.Duration // that all processes of the machine have used
	decisions int           // of the policy so far
}

// watch samples a pipeline until it is stopped.
type watch struct {
	pipeline *pipeline.Pipeline
	begin    time.Time
	samples  []sample
	fault    error

	decisions int
	seen      time.Duration // up to when decisions were counted
	machine   time.Duration
	quit      chan struct{}
	ended     sync.WaitGroup
}

// The time between two samples is a part of the length of a run, in these
// bounds.
const (
	samples      = 400
	leastBetween = 5 * time.Millisecond
	mostBetween  = time.Second
	seldom       = 8 // the number of samples between two readings of the journal, which holds 256 changes, and of the machine's clock
)

func startWatch(p *pipeline.Pipeline, begin time.Time, length time.Duration) *watch {
	w := &watch{pipeline: p, begin: begin, quit: make(chan struct{})}
	w.seen = -1
	w.sample()
	w.ended.Go(func() {
		tick := time.NewTicker(min(max(length/samples, leastBetween), mostBetween))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.sample()
			case <-w.quit:
				return
			}
		}
	})
	return w
}

// sample adds a sample. All accounts of a snapshot are read at one instant, so
// they must add up at any time.
func (w *watch) sample() {
	s := w.pipeline.Snapshot()
	if !s.Balanced() && w.fault == nil {
		w.fault = fault(true, "the accounts of the pipeline do not add up: %s", s.Law())
	}
	if len(w.samples)%seldom == 0 {
		w.count()
		w.machine, _, _ = cputime.Machine()
	}
	now := sample{at: time.Since(w.begin), inFlight: s.InFlight, decisions: w.decisions, machine: w.machine}
	for _, st := range s.Stages {
		now.queued += st.Queue.Queued
		now.workers += st.Workers.Live
	}
	for _, pool := range s.Pools {
		now.workers += pool.Workers
	}
	now.cpu, _ = cputime.Used()
	w.samples = append(w.samples, now)
}

// count counts the changes that were added to the journal since it was called
// last. Entries that explain why a number of workers stays are none.
func (w *watch) count() {
	last := w.seen
	for _, c := range w.pipeline.Journal() {
		if c.At <= w.seen {
			continue
		}
		last = max(last, c.At)
		if n, ok := c.After.(int); !ok || c.Before != n {
			w.decisions++
		}
	}
	w.seen = last
}

// stop ends the goroutine, adds a last sample and returns the fault that a
// sample has shown.
func (w *watch) stop() error {
	close(w.quit)
	w.ended.Wait()
	w.count()
	w.sample()
	return w.fault
}

// integral returns the integral of a number over a span, in seconds. Between
// two samples the number is as in the first.
func integral(all []sample, over span, of func(sample) int) float64 {
	sum := 0.0
	for i, s := range all {
		until := over.until
		if i+1 < len(all) {
			until = min(until, all[i+1].at)
		}
		if from := max(s.at, over.from); until > from {
			sum += float64(of(s)) * (until - from).Seconds()
		}
	}
	return sum
}

// sampleAt returns the last sample up to a time, or the first one.
func sampleAt(all []sample, at time.Duration) (found sample) {
	for i, s := range all {
		if i > 0 && s.at > at {
			break
		}
		found = s
	}
	return found
}
