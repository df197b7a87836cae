package stagetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Ends is how the commands of a stage have ended there, see [Ended].
type Ends struct {
	OK           uint64 // with a result
	Forwarded    uint64 // forwarded to another stage
	Errors       uint64 // with an error
	Shed         uint64 // dropped
	DeadLettered uint64 // without an answer
}

// String returns the counts in words, without zero counts.
func (e Ends) String() string {
	var words []string
	for _, w := range []struct {
		name string
		n    uint64
	}{
		{"OK", e.OK}, {"Forwarded", e.Forwarded}, {"Errors", e.Errors}, {"Shed", e.Shed}, {"DeadLettered", e.DeadLettered},
	} {
		if w.n > 0 {
			words = append(words, fmt.Sprintf("%s %d", w.name, w.n))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// exceeds reports whether a count of e is above the same count of o.
func (e Ends) exceeds(o Ends) bool {
	return e.OK > o.OK || e.Forwarded > o.Forwarded || e.Errors > o.Errors || e.Shed > o.Shed || e.DeadLettered > o.DeadLettered
}

// endsWait is how long Ended waits, and endsEvery how often it looks.
const (
	endsWait  = 10 * time.Second
	endsEvery = time.Millisecond
)

// Ended fails the test unless the commands of a stage have ended as wanted, and
// no others. It waits for commands that have not ended yet, for at most ten
// seconds, and no longer than there are commands in flight in the pipeline. A
// failure shows all accounts of the stage.
//
//	stagetest.Ended(t, p.Pipeline, "parse", stagetest.Ends{Forwarded: 98, Errors: 2})
func Ended(tb testing.TB, p *pipeline.Pipeline, name string, want Ends) {
	tb.Helper()
	for began := time.Now(); ; time.Sleep(endsEvery) {
		s := p.Snapshot()
		st, ok := stageOf(s, name)
		if !ok {
			tb.Errorf("stagetest: Ended: the pipeline has no stage %q; it has %q", name, names(s))
			return
		}
		got := endsOf(st)
		switch over := s.InFlight == 0 || time.Since(began) > endsWait; {
		case got == want && st.Queue.Load() == 0:
			return
		case over || got.exceeds(want):
			tb.Errorf("stage %q: %v; want %v\n%s", name, got, want, row(st))
			return
		}
	}
}

func stageOf(s pipeline.Snapshot, name string) (stage.Snapshot, bool) {
	for _, st := range s.Stages {
		if st.Name == name {
			return st, true
		}
	}
	return stage.Snapshot{}, false
}

func names(s pipeline.Snapshot) (all []string) {
	for _, st := range s.Stages {
		all = append(all, st.Name)
	}
	return all
}

func endsOf(st stage.Snapshot) Ends {
	c := &st.Counts
	return Ends{OK: c.OK, Forwarded: c.Forwarded, Errors: c.Errors, Shed: c.Shed, DeadLettered: c.DeadLettered}
}

// row returns the accounts of a stage.
func row(st stage.Snapshot) string {
	return fmt.Sprintf(`  accepted %d (submitted %d, received %d), rejected %d %v, emitted %d
  ended: ok %d, forwarded %d, errors %d, shed %d %v, dead-lettered %d %v
  here: %d queued of %d, %d in hand, of which %d suspended, %d waiting for a retry
  crashes %d, retries %d, stuck %d, workers restarted %d`,
		st.Counts.Accepted, st.Counts.Submitted, st.Counts.Received, st.Counts.Rejected, st.Reasons.Rejected, st.Counts.Emitted,
		st.Counts.OK, st.Counts.Forwarded, st.Counts.Errors, st.Counts.Shed, st.Reasons.Shed, st.Counts.DeadLettered, st.Reasons.DeadLettered,
		st.Queue.Queued, st.Queue.Capacity, st.Queue.InHand, st.Queue.Suspended, st.Queue.Delayed,
		st.Counts.Crashes, st.Counts.Retries, st.Counts.Stuck, st.Counts.Restarts)
}
