package stagetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/goid"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Watchdog takes snapshots of a pipeline again and again while it runs. Every
// snapshot must be balanced and no count may go back. As long as commands are
// in flight and no stage is paused, the pipeline must make progress within the
// patience. While commands wait for their next try no progress is due, unless
// handlers wait in a circle for other stages. Batches that linger and handlers
// that sleep are not known to the watchdog: they need more patience. In a
// bubble of testing/synctest, where they take no time, the patience is real
// time. The watchdog works while the test is blocked, too: Broken is closed at
// once.
type Watchdog struct {
	p         *pipeline.Pipeline
	patience  time.Duration
	every     time.Duration // the pause between two snapshots
	longest   time.Duration // what the pause grows to as long as nothing happens
	now       func() time.Time
	over      chan struct{}
	rest      chan struct{}
	found     chan struct{}
	once      sync.Once
	snapshots int
	broken    []error // each a BreachError
}

// Watch starts a watchdog for a running pipeline. The caller must call
// [Watchdog.Stop].
func Watch(p *pipeline.Pipeline, patience time.Duration) *Watchdog {
	return watch(p, patience, snapshotEvery)
}

func watch(p *pipeline.Pipeline, patience, every time.Duration) *Watchdog {
	w := &Watchdog{
		p: p, patience: patience, every: every, longest: every,
		over: make(chan struct{}), rest: make(chan struct{}), found: make(chan struct{}), now: time.Now,
	}
	if goid.InBubble() {
		w.now, w.longest = realNow, time.Hour // a wait of hours takes a few snapshots
	}
	go w.watch()
	return w
}

// Broken returns a channel that is closed when a promise was broken;
// [Watchdog.Stop] returns which.
func (w *Watchdog) Broken() <-chan struct{} { return w.found }

// Stop ends the watch and returns the breaches, joined, each a [BreachError],
// or nil if there were none. It may be called more than once.
func (w *Watchdog) Stop() error {
	w.once.Do(func() { close(w.over) })
	<-w.rest
	return errors.Join(w.broken...)
}

// Snapshots waits for the end of the watch and returns how many snapshots were
// checked.
func (w *Watchdog) Snapshots() int {
	<-w.rest
	return w.snapshots
}

const (
	// snapshotEvery is the pause between two snapshots.
	snapshotEvery = time.Millisecond
	// longestPause limits how much of the time between two snapshots counts: if
	// it was much longer, the whole process was stopped, for example in a
	// debugger.
	longestPause = 100 * time.Millisecond
)

func (w *Watchdog) watch() {
	defer close(w.rest)
	var last pipeline.Snapshot
	var still time.Duration   // time without progress
	var delayed time.Duration // time without progress in which commands waited for their next try
	before := w.now()
	pause := w.every
	for {
		s := w.p.Snapshot()
		w.snapshots++
		now := w.now()
		passed := min(max(now.Sub(before), 0), longestPause)
		before = now
		retries := retrying(s)
		switch {
		case s.InFlight == 0 || pausedAnywhere(s) || progress(s) != progress(last):
			still, delayed = 0, 0
		case len(retries) > 0:
			still, delayed = 0, delayed+passed
		default:
			still += passed
		}
		if progress(s) != progress(last) {
			pause = w.every
		}
		b := compare(last, s)
		if b == nil && still > w.patience {
			b = w.stall(still+delayed, s, w.p.Handlers())
		}
		if b == nil && delayed > w.patience && len(retries) > 0 {
			if handlers := w.p.Handlers(); circle(notWaitingFor(retries, handlers)) != nil {
				b = w.stall(delayed, s, handlers)
			}
			delayed = 0 // Handlers stops the world, so it is called once in the patience
		}
		if b != nil {
			w.broken = append(w.broken, b)
			close(w.found)
			return
		}
		last = s
		next := time.NewTimer(pause)
		select {
		case <-w.over:
			next.Stop()
			return
		case <-next.C:
		}
		pause = min(2*pause, w.longest)
	}
}

// stall returns the breach of a pipeline that has made no progress for some
// time: for how long, which stages hold commands, which handlers wait for which
// stages, and the stacks of all goroutines.
func (w *Watchdog) stall(d time.Duration, s pipeline.Snapshot, handlers []stage.Stuck) *BreachError {
	return &BreachError{oracle.Progress, fmt.Sprintf("nothing has happened for %v with %d commands in flight\n%s\n%s\n%s",
		d.Round(time.Millisecond), s.InFlight, Diagnose(s), waits(handlers), oracle.Stacks())}
}

// retrying returns the names of the stages whose commands wait for a time at
// which they are tried again. At a stage with a full queue they may wait for a
// free slot instead, so it is left out.
func retrying(s pipeline.Snapshot) (names []string) {
	for _, st := range s.Stages {
		if st.Queue.Delayed > 0 && st.Queue.Queued < st.Queue.Capacity {
			names = append(names, st.Name)
		}
	}
	return names
}

// notWaitingFor returns the handlers that wait for none of the stages.
func notWaitingFor(stages []string, handlers []stage.Stuck) []stage.Stuck {
	return slices.DeleteFunc(slices.Clone(handlers), func(h stage.Stuck) bool { return slices.Contains(stages, h.Awaited) })
}

// compare returns the breach of a promise that a snapshot and its predecessor
// show, or nil.
func compare(last, s pipeline.Snapshot) *BreachError {
	switch {
	case !s.Balanced():
		return &BreachError{oracle.Law, "in motion: " + s.Law() + "\n" + Diagnose(s)}
	case s.InFlight > 1<<40:
		return &BreachError{oracle.Law, "in flight is below zero: " + s.Law()}
	case s.Accepted < last.Accepted, s.Replied < last.Replied, s.Failed < last.Failed, s.Shed < last.Shed,
		s.DeadLettered < last.DeadLettered:
		return &BreachError{oracle.Law, "a count went back: " + last.Law() + ", then " + s.Law()}
	}
	return nil
}

func pausedAnywhere(s pipeline.Snapshot) bool {
	for _, st := range s.Stages {
		if st.Paused {
			return true
		}
	}
	return false
}

// progress changes whenever a command makes progress. Visits are left out: a
// worker that finds nothing makes no progress.
func progress(s pipeline.Snapshot) (sum uint64) {
	sum = s.Accepted + s.Replied + s.Failed + s.Shed + s.DeadLettered
	for _, st := range s.Stages {
		c := &st.Counts
		sum += c.Forwarded + c.Received + c.Emitted + c.Retries + c.Crashes
	}
	return sum
}

// Diagnose describes where a pipeline's commands are, and what may block them:
// a line for each stage that has any, for which callers or workers of other
// stages wait, or that is drained, and one for commands between the stages.
func Diagnose(s pipeline.Snapshot) string { return oracle.Diagnose(s) }
