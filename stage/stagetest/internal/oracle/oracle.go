// Package oracle is shared by packages stagetest, disturb and chaos: it has the
// names of promises, the check of a pipeline at rest, and the actor system of
// their pipelines.
package oracle

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The promises. Package chaos documents them, and gives them their type.
const (
	Law        = "law"
	OneEnd     = "one end"
	Order      = "order"
	Progress   = "progress"
	Goroutines = "goroutines"
	Instances  = "instances"
	Crashes    = "crashes"
	Survival   = "survival"
	Checks     = "checks"
	States     = "states"
)

// System returns the actor system of all pipelines of the test kit. They share
// one because a system costs three megabytes.
var System = sync.OnceValue(func() *actor.System { return actor.NewSystem(slog.New(slog.DiscardHandler)) })

var numbers atomic.Uint64

// Number returns a number that makes the name of a pipeline unique, so that its
// actors can be told apart.
func Number() uint64 { return numbers.Add(1) }

// Mix maps numbers that are close to each other to numbers that are far apart
// (the finalizer of splitmix64, Steele, Lea and Flood 2014).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// mostStacks limits the stacks of all goroutines.
const mostStacks = 4 << 20

// Stacks returns the stacks of all goroutines.
func Stacks() string {
	buf := make([]byte, mostStacks)
	return string(buf[:runtime.Stack(buf, true)])
}

// AtRest checks the accounts of a pipeline that should be empty. It returns the
// broken promise and how it was broken, or two empty strings.
func AtRest(s pipeline.Snapshot) (promise, detail string) {
	switch {
	case !s.Balanced():
		return Law, "at rest: " + s.Law() + "\n" + Diagnose(s)
	case s.InFlight != 0:
		return OneEnd, fmt.Sprintf("lost: %d in flight at rest\n%s", s.InFlight, Diagnose(s))
	default:
		return "", ""
	}
}

// Diagnose describes where a pipeline's commands are, and the reasons that may
// block them: a line for each stage that has any, for which callers or workers
// wait, or that is drained, and one for commands between the stages.
func Diagnose(s pipeline.Snapshot) string {
	var lines []string
	here := 0
	for _, st := range s.Stages {
		n := st.Queue.Load()
		here += n
		if n+st.Queue.Submitters+st.Queue.Senders == 0 && st.Balanced() && !(st.Draining && s.InFlight > 0) {
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

// poolOf returns the pool that serves a stage: its own workers or a shared
// pool.
func poolOf(s pipeline.Snapshot, st stage.Snapshot) pipeline.Pool {
	for _, p := range s.Pools {
		if p.Name == st.Pool {
			return p
		}
	}
	return pipeline.Pool{Name: st.Pool, Workers: st.Workers.Live, Busy: st.Workers.Busy}
}

func diagnose(st stage.Snapshot, p pipeline.Pool) string {
	var line strings.Builder
	fmt.Fprintf(&line, "  stage %q: %d queued of %d, %d in hand, %d waiting for a retry; %d workers of pool %q, %d busy",
		st.Name, st.Queue.Queued, st.Queue.Capacity, st.Queue.InHand, st.Queue.Delayed, p.Workers, p.Name, p.Busy)
	for _, note := range []struct {
		is   bool
		says string
	}{
		{st.Paused, "paused"},
		{st.Draining && !st.Drained, "draining"},
		{st.Drained, "drained"},
		{st.Queue.Queued >= st.Queue.Capacity, "full"},
		{st.Queue.Carried > 0, fmt.Sprintf("handled, and not handed over: %d", st.Queue.Carried)},
		{st.Queue.Reserved > 0, fmt.Sprintf("slots promised to workers of other stages: %d", st.Queue.Reserved)},
		{st.Queue.Submitters > 0, fmt.Sprintf("callers that wait for a free slot: %d", st.Queue.Submitters)},
		{st.Queue.Senders > 0, fmt.Sprintf("workers of other stages that wait to hand over: %d", st.Queue.Senders)},
		{st.Queue.Suspended > 0, fmt.Sprintf("suspended handlers: %d", st.Queue.Suspended)},
		{st.Queue.Queued > 0 && p.Workers == 0, "no worker takes them"},
		{p.Busy > 0 && p.Busy == p.Workers, "all workers are in handlers"},
		{st.Workers.Abandoned > 0, fmt.Sprintf("%d handlers abandoned", st.Workers.Abandoned)},
		{!st.Balanced(), "its accounts do not add up"},
	} {
		if note.is {
			line.WriteString("; " + note.says)
		}
	}
	return line.String()
}
