package stagetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// Deed is something that is done to a pipeline while it runs.
type Deed uint8

// The deeds.
const (
	KillWorker  Deed = iota // stop a worker's actor from outside
	KillKeeper              // stop a stage's actor
	KillClerk               // stop the controllers' actor
	KillPools               // stop the supervisor of shared pools
	KillPool                // stop one pool's keeper
	Swap                    // have another policy run the pipeline
	Rescale                 // have numbers of workers, batches and instances change by chance
	Pause                   // have a stage take nothing, until the next Resume
	Resume                  // end all pauses
	AddStage                // take a further stage in, and submit to it
	RemoveStage             // take the stage that was added first out again
	TryLetters              // try the letters in quarantine again
	Drain                   // close the doors and wait until all has ended
	Upgrade                 // have a stage run another version of its behaviour
	Canary                  // have a part of a stage's commands go to another version, on trial
	EndTrial                // promote the last canary, or roll it back
	DrainStage              // empty one stage, until the next Reopen
	Reopen                  // open again what was emptied
	deeds
)

var deedNames = [deeds]string{
	"kill worker", "kill keeper", "kill clerk", "kill pools", "kill pool", "swap", "rescale",
	"pause", "resume", "add stage", "remove stage", "try letters", "drain",
	"upgrade", "canary", "end trial", "drain stage", "reopen",
}

// String returns the deed in words.
func (d Deed) String() string {
	if d < deeds {
		return deedNames[d]
	}
	return fmt.Sprintf("deed(%d)", uint8(d))
}

// Blow is one deed of a storm.
type Blow struct {
	At     int    // when so many of a hundred commands have been submitted
	Deed   Deed   // what is done
	Stage  int    // to which stage, if it is done to one
	Policy string // for Swap, the policy's name
	Group  int    // for Swap, whose controller: in Graph.Groups, counted from one; 0: the pipeline's
}

// String writes the blow out.
func (b Blow) String() string {
	switch b.Deed {
	case Swap:
		if b.Group > 0 {
			return fmt.Sprintf("%d%%: swap %s to %s", b.At, groupName(b.Group), b.Policy)
		}
		return fmt.Sprintf("%d%%: swap to %s", b.At, b.Policy)
	case Pause, Upgrade, Canary, DrainStage:
		return fmt.Sprintf("%d%%: %s %s", b.At, b.Deed, name(b.Stage))
	default:
		return fmt.Sprintf("%d%%: %s", b.At, b.Deed)
	}
}

// Ending is how a plan stops its pipeline.
type Ending uint8

// The endings.
const (
	Softly  Ending = iota // Stop, with all the time that it takes
	Drained               // Drain, then Stop
	Hard                  // Stop, with no time at all
	Soon                  // Stop, with a few milliseconds
	Twice                 // several calls of Stop at once
	endings
)

var endingNames = [endings]string{"softly", "drained", "hard", "soon", "twice at once"}

// String returns the ending in a word or two.
func (e Ending) String() string {
	if e < endings {
		return endingNames[e]
	}
	return fmt.Sprintf("ending(%d)", uint8(e))
}

// Plan is a pipeline, the work it is given and all that is done to it, as a value.
// [Plans] draws them by chance; [Plan.Run] runs them.
type Plan struct {
	Seed   uint64 // of handlers' fates and of the ways that commands take
	Graph  Graph
	Policy string
	// Control is a policy of your own, which takes the place of the one that Policy names. A
	// Swap to its name comes back to it.
	Control controller.Policy
	// GroupPolicies are the names of the policies that groups begin with, by their places in Graph.Groups; a group without
	// one, or with an empty one, is governed by the pipeline's controller.
	GroupPolicies []string
	Strategy      supervisor.Strategy
	Commands      int
	Submitters    int
	Hasty         bool // some submitters wait for room a few milliseconds only
	Quiet         bool // some commands are submitted with nobody to wait for the answer
	Storm         []Blow
	End           Ending
	// Fragile has stages give up after a few crashes in a row, and the pipeline with
	// them; otherwise it must survive the plan.
	Fragile bool
	// Ordered says that the graph is a line in which commands must stay in order.
	Ordered bool
	// Fans has commands that were emitted be emitted again, so that loops fan out.
	Fans bool
	// MaxInFlight is the pipeline's bound on the commands in flight; 0 means its default.
	MaxInFlight int
	// Patience is how long nothing may happen while something is in flight; 0 means
	// 20 s. A machine that has much else to do is no deadlock.
	Patience time.Duration
}

// String writes the plan out, for people.
func (p Plan) String() string {
	var b strings.Builder
	law := p.Policy
	if p.Control != nil {
		law = p.Control.Name()
	}
	fmt.Fprintf(&b, "seed %d, policy %s, %s, %d commands by %d submitters", p.Seed, law, p.Strategy, p.Commands, p.Submitters)
	for _, flag := range []struct {
		is   bool
		name string
	}{{p.Hasty, "hasty"}, {p.Quiet, "quiet"}, {p.Fragile, "fragile"}, {p.Ordered, "ordered"}, {p.Fans, "fans"}} {
		if flag.is {
			b.WriteString(", " + flag.name)
		}
	}
	for i, name := range p.GroupPolicies {
		if name != "" {
			fmt.Fprintf(&b, ", policy %s for %s", name, groupName(i+1))
		}
	}
	if p.MaxInFlight > 0 {
		fmt.Fprintf(&b, ", at most %d in flight", p.MaxInFlight)
	}
	fmt.Fprintf(&b, "\n%s\nstorm:", p.Graph)
	for _, blow := range p.Storm {
		fmt.Fprintf(&b, " [%s]", blow)
	}
	fmt.Fprintf(&b, " [end %s]", p.End)
	return b.String()
}

// GoString is [Plan.String]: rapid prints it.
func (p Plan) GoString() string { return "\n" + p.String() }

// restart is how the plan's stages go on when they only crash.
func (p Plan) restart() stage.RestartPolicy {
	if p.Fragile {
		return stage.RestartPolicy{Limit: 2, Backoff: 10 * time.Microsecond, Max: time.Millisecond}
	}
	return stage.RestartPolicy{Limit: 1 << 20, Backoff: 10 * time.Microsecond, Max: time.Millisecond}
}

// intensity is how many restarts of stages the plan's pipeline makes in a second.
func (p Plan) intensity() int {
	if p.Fragile {
		return 1
	}
	return 1000
}
