package stage

import (
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/stats"
)

// Snapshot is the state of a stage at one instant.
//
// Each command that a stage accepted has ended there, was forwarded from there,
// or is there. With the fields of Counts and Queue:
//
//	Accepted = OK + Forwarded + Errors + Shed + DeadLettered + Queued + InHand + Delayed
type Snapshot struct {
	Name string
	// Process is the process that runs the stage, empty if it is this one; see
	// pipeline.RunsHere. In the snapshot of a stage that runs elsewhere the
	// commands are those on their way there, and OK counts the commands that
	// cannot be lost any more.
	Process string
	Version string // version of the behaviour that new commands go to, as it returns it
	// Pool is the name of the pool whose workers visit the stage: its own,
	// which has the stage's name, or a shared one.
	Pool string

	Paused   bool // nothing is taken from the queue
	Draining bool // the entry is closed, because the stage is being drained or has been
	Drained  bool // the stage has been drained, and has no command

	Queue   stats.Queue   // its commands and slots, now
	Workers stats.Workers // its workers and instances, now
	Counts  stats.Counts  // its totals, which only grow
	Reasons stats.Reasons // some totals by reason
	Latency stats.Latency // time of commands in the queue and in handlers

	// Edges are the ways to next stages: the ports, and without a Port the ways
	// that handlers have taken without declaring them. Back says that the edge
	// closes a loop. Moved is how many commands were handed over along it; it
	// is read just after the rest of the snapshot.
	Edges []struct {
		To, Port string
		Back     bool
		Moved    uint64
	}

	Methods []stats.Method // methods of a stage with a [Guard], by name
}

// Balanced reports whether the stage's law holds.
func (s Snapshot) Balanced() bool {
	c := &s.Counts
	return c.Accepted == c.Submitted+c.Received && c.Accepted == c.Ended()+uint64(s.Queue.Load())
}

func snapshotOf(c *engine.Core, s *inbox.Accounts) Snapshot {
	snap := Snapshot{
		Name: c.Name(), Process: c.Process(), Version: c.Version(), Pool: poolName(c, s),
		Paused: s.Knobs.Paused, Draining: s.Draining, Drained: s.Drained,
		Queue: s.Queue, Workers: s.Workers, Counts: s.Counts, Reasons: s.Reasons,
		Latency: stats.Latency{Wait: s.Wait.Durations(), Service: s.Work.Durations()},
		Methods: methodSnapshots(s.Guards),
	}
	snap.Workers.Min, snap.Workers.Max = c.Bounds()
	return snap
}

func poolName(c *engine.Core, s *inbox.Accounts) string {
	if s.Pool != nil {
		return s.Pool.Name()
	}
	return c.Name()
}

// Stuck is a handler that had not returned when a report was made.
//
//	Stage     string        // the stage's name
//	For       time.Duration // how long its worker has been at its present batch
//	Command   string        // the type of command that the stage takes
//	At        string        // the innermost call of the user's code, see [stacks.Place]; empty if the stack was not found
//	Suspended bool          // the handler is suspended: it holds no worker
//	Waits     string        // what the handler waits for, if that is a stage: a free slot, or the answer to a command
//	Awaited   string        // the name of that stage
//	Stack     []byte        // the stack of its goroutine
//
// The handler is stuck at At, or was merely there at that instant.
type Stuck = engine.Stuck
