package stagetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Watchdog takes snapshots of a pipeline again and again while it runs. Every snapshot must be balanced and no count
// may go back. As long as commands are in flight and no stage is paused, the pipeline must make progress within the
// patience. The watchdog works while the test is blocked, too: Bitten is closed at once.
type Watchdog struct {
	p        *pipeline.Pipeline
	patience time.Duration
	over     chan struct{}
	rest     chan struct{}
	bitten   chan struct{}
	once     sync.Once
	looks    int
	broken   VerdictError
}

// Watch starts a watchdog for a running pipeline. The caller must call [Watchdog.Stop].
func Watch(p *pipeline.Pipeline, patience time.Duration) *Watchdog {
	w := &Watchdog{
		p: p, patience: patience,
		over: make(chan struct{}), rest: make(chan struct{}), bitten: make(chan struct{}),
	}
	go w.watch()
	return w
}

// Bitten returns a channel that is closed when a promise was broken; [Watchdog.Stop] returns which.
func (w *Watchdog) Bitten() <-chan struct{} { return w.bitten }

// Stop ends the watch and returns the breaches, a [VerdictError], or nil if there were none. It may be called more than
// once.
func (w *Watchdog) Stop() error {
	w.once.Do(func() { close(w.over) })
	<-w.rest
	return w.broken.orNil()
}

// Looks waits for the end of the watch and returns how many snapshots were checked.
func (w *Watchdog) Looks() int {
	<-w.rest
	return w.looks
}

const (
	// lookEvery is the pause between two snapshots.
	lookEvery = time.Millisecond
	// longestLook limits how much of the time between two snapshots counts: if it was much longer, the whole process
	// was stopped, for example in a debugger.
	longestLook = 100 * time.Millisecond
)

func (w *Watchdog) watch() {
	defer close(w.rest)
	var last pipeline.Snapshot
	var still time.Duration // time without progress
	before := time.Now()
	pause := time.NewTicker(lookEvery)
	defer pause.Stop()
	for {
		s := w.p.Snapshot()
		w.looks++
		now := time.Now()
		still += min(now.Sub(before), longestLook)
		before = now
		if s.InFlight == 0 || pausedAnywhere(s) || progress(s) != progress(last) {
			still = 0
		}
		b := compare(last, s)
		if b == nil && still > w.patience {
			b = &BreachError{Progress, (&StallError{For: still, Snapshot: s, Waits: waits(w.p.Handlers()), Goroutines: dump()}).Error()}
		}
		if b != nil {
			w.broken = append(w.broken, b)
			close(w.bitten)
			return
		}
		last = s
		select {
		case <-w.over:
			return
		case <-pause.C:
		}
	}
}

// compare returns what is wrong with a snapshot and its predecessor.
func compare(last, s pipeline.Snapshot) *BreachError {
	switch {
	case !s.Balanced():
		return &BreachError{Law, "in motion: " + s.Law() + "\n" + Diagnose(s)}
	case s.InFlight > 1<<40:
		return &BreachError{Law, "in flight is below zero: " + s.Law()}
	case s.Accepted < last.Accepted, s.Replied < last.Replied, s.Failed < last.Failed, s.Shed < last.Shed,
		s.DeadLettered < last.DeadLettered:
		return &BreachError{Law, "a count went back: " + last.Law() + ", then " + s.Law()}
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

// progress changes whenever a command makes progress. Visits are left out: a worker that finds nothing makes no
// progress.
func progress(s pipeline.Snapshot) (sum uint64) {
	sum = s.Accepted + s.Replied + s.Failed + s.Shed + s.DeadLettered
	for _, st := range s.Stages {
		sum += st.Forwarded + st.Received + st.Emitted + st.Retries + st.Crashes
	}
	return sum
}

// StallError means that nothing happened although commands were in flight.
type StallError struct {
	For        time.Duration
	Snapshot   pipeline.Snapshot
	Waits      string // which handlers wait for which stages, a line for each place where they do
	Goroutines string // the stacks of all goroutines
}

// Error returns for how long, which stages hold commands, which handlers wait for which stages, and the stacks of all
// goroutines.
func (e *StallError) Error() string {
	return fmt.Sprintf("nothing has happened for %v with %d commands in flight\n%s\n%s\n%s",
		e.For.Round(time.Millisecond), e.Snapshot.InFlight, Diagnose(e.Snapshot), e.Waits, e.Goroutines)
}

// Diagnose describes where a pipeline's commands are, and what may block them: a line for each stage that has any or is
// drained, and one for commands between the stages.
func Diagnose(s pipeline.Snapshot) string {
	var lines []string
	here := 0
	for _, st := range s.Stages {
		n := st.Queued + st.InHand + st.Delayed
		here += n
		if n == 0 && st.Balanced() && !(st.Draining && s.InFlight > 0) {
			continue
		}
		lines = append(lines, diagnose(st, poolOf(s, st)))
	}
	if between := int(s.InFlight) - here; between != 0 {
		lines = append(lines, fmt.Sprintf("  %d between two stages, or at one that was removed", between))
	}
	if len(lines) == 0 {
		return "  nothing is in flight"
	}
	return strings.Join(lines, "\n")
}

// poolOf returns the pool that serves a stage: its own workers or a shared pool.
func poolOf(s pipeline.Snapshot, st stage.Snapshot) pipeline.Pool {
	for _, p := range s.Pools {
		if p.Name == st.Pool {
			return p
		}
	}
	return pipeline.Pool{Name: st.Pool, Workers: st.Workers, Busy: st.Busy}
}

func diagnose(st stage.Snapshot, p pipeline.Pool) string {
	var line strings.Builder
	fmt.Fprintf(&line, "  stage %q: %d queued of %d, %d in hand, %d waiting for a retry; %d workers of pool %q, %d busy",
		st.Name, st.Queued, st.Capacity, st.InHand, st.Delayed, p.Workers, p.Name, p.Busy)
	for _, note := range []struct {
		is   bool
		says string
	}{
		{st.Paused, "paused"},
		{st.Draining && !st.Drained, "draining"},
		{st.Drained, "drained"},
		{st.Queued >= st.Capacity, "full"},
		{st.Queued > 0 && p.Workers == 0, "no worker takes them"},
		{p.Busy > 0 && p.Busy == p.Workers, "all workers are in handlers"},
		{st.Abandoned > 0, fmt.Sprintf("%d handlers abandoned", st.Abandoned)},
		{!st.Balanced(), "its accounts do not add up"},
	} {
		if note.is {
			line.WriteString("; " + note.says)
		}
	}
	return line.String()
}

// mostDump limits a dump of all goroutines.
const mostDump = 4 << 20

// dump returns the stacks of all goroutines.
func dump() string {
	buf := make([]byte, mostDump)
	return string(buf[:runtime.Stack(buf, true)])
}
