package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
	"github.com/golda-dev/golda/supervisor"
)

// The promises that a run checks.
const (
	Law        stagetest.Promise = oracle.Law        // the accounts balance, in motion and at rest
	OneEnd     stagetest.Promise = oracle.OneEnd     // no command is lost, ends twice, or gets another's answer
	Order      stagetest.Promise = oracle.Order      // with one worker, first in, first out, commands stay in order
	Progress   stagetest.Promise = oracle.Progress   // commands in flight go on, and control operations are carried out
	Goroutines stagetest.Promise = oracle.Goroutines // no goroutine is left after the stop
	Instances  stagetest.Promise = oracle.Instances  // instances are started and stopped once, and used by one worker at a time
	Crashes    stagetest.Promise = oracle.Crashes    // only handlers with a fault crash
	Survival   stagetest.Promise = oracle.Survival   // the pipeline does not give up while its limits are kept
	Checks     stagetest.Promise = oracle.Checks     // New accepts only pipelines that run, and names the parts that it refuses
	States     stagetest.Promise = oracle.States     // a state that survives its instance has the changes of the commands that have ended
)

// Action is an action that is done to a pipeline while it runs. A kill stops an
// actor from outside, without its supervisor's knowledge, as a bug in the code
// of an actor might.
type Action uint8

// The actions.
const (
	KillWorker      Action = iota // stop a worker's actor from outside
	KillSupervisor                // stop the actor of a stage
	KillControlLoop               // stop the actor of the control loop
	KillPool                      // stop the supervisor of a shared pool, or of a stage that was added
	KillFeed                      // stop an actor of a feed
	Swap                          // run the pipeline by another policy
	Rescale                       // change numbers of workers, batches and instances at random
	Pause                         // pause a stage until the next Resume
	Resume                        // end all pauses
	AddStage                      // add a further stage, and submit to it
	RemoveStage                   // remove the oldest added stage
	RetryLetters                  // retry the dead letters in quarantine
	Drain                         // close admission and wait until all commands have ended
	Upgrade                       // run another version of a stage's behaviour
	DrainStage                    // empty one stage, until the next Reopen
	Reopen                        // reopen the drained stages, and all if the pipeline was drained, too
	Rewire                        // have a flow with a Route lead to some of its targets, in another order, and pick them otherwise
	KillProcess                   // stop a process that handlers call: of a node with Visits
	actions
)

var actionNames = [actions]string{
	"kill worker", "kill stage supervisor", "kill control loop", "kill pool", "kill feed", "swap", "rescale", "pause",
	"resume", "add stage", "remove stage", "retry letters", "drain",
	"upgrade", "drain stage", "reopen", "rewire", "kill process",
}

// String returns the action in words.
func (a Action) String() string {
	if a < actions {
		return actionNames[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// Disturbance is an action in a plan: its kind, its time, and its stage.
type Disturbance struct {
	At     int    // when this percentage of the commands has been submitted
	Action Action // the action
	Stage  int    // the stage that it applies to, if it applies to one
	Policy string // for Swap, the policy's name
	Group  int    // for Swap, the index in Graph.Groups, counted from one, of the group that gets the policy; 0 is the pipeline
}

// String returns the disturbance as text.
func (d Disturbance) String() string {
	switch d.Action {
	case Swap:
		if d.Group > 0 {
			return fmt.Sprintf("%d%%: swap %s to %s", d.At, groupName(d.Group), d.Policy)
		}
		return fmt.Sprintf("%d%%: swap to %s", d.At, d.Policy)
	case Pause, Upgrade, DrainStage, Rewire:
		return fmt.Sprintf("%d%%: %s %s", d.At, d.Action, name(d.Stage))
	default:
		return fmt.Sprintf("%d%%: %s", d.At, d.Action)
	}
}

// Ending is how a plan stops its pipeline.
type Ending uint8

// The endings.
const (
	Softly    Ending = iota // Stop without a time limit
	Drained                 // Drain, then Stop
	Hard                    // Stop with no time at all
	Soon                    // Stop with a few milliseconds
	Twice                   // several concurrent calls of Stop
	Exhausted               // Run returns because all feeds are exhausted
	endings
)

var endingNames = [endings]string{"softly", "drained", "hard", "soon", "twice at once", "when the feeds are exhausted"}

// String returns the ending in words.
func (e Ending) String() string {
	if e < endings {
		return endingNames[e]
	}
	return fmt.Sprintf("ending(%d)", uint8(e))
}

// Plan is a pipeline, its load and the actions that are done to it, as a value.
// [Plans] draws plans at random; [Plan.Run] runs them.
type Plan struct {
	Seed   uint64 // selects the faults of handlers and the paths of commands
	Graph  Graph
	Policy string
	// Control is a custom policy. It replaces the policy that Policy names. A
	// Swap to its name restores it.
	Control controller.Policy
	// GroupPolicies are the names of the groups' initial policies, by their
	// index in Graph.Groups. The pipeline's controller controls a group whose
	// name is missing or empty.
	GroupPolicies []string
	Strategy      supervisor.Strategy
	Commands      int
	Submitters    int
	Feeds         []Feed // commands come from them, too
	// Resumes has the pipeline made again when it has stopped, as in the next
	// process: its feeds with checkpoints go on where the last ones were saved,
	// until they are exhausted.
	Resumes      bool
	Hasty        bool // some submitters wait for a free slot for a few milliseconds only, and some commands have such a deadline
	Quiet        bool // some commands are submitted without a ticket
	Disturbances []Disturbance
	End          Ending
	// Fragile makes stages give up after a few crashes in a row, and the
	// pipeline with them. Otherwise the pipeline must survive the plan.
	Fragile bool
	// Ordered means that the graph is a line in which commands must stay in
	// order.
	Ordered bool
	// Fans lets emitted commands be emitted again, so that loops fan out.
	Fans bool
	// Middleware is around the handlers of all stages, outside of the middleware
	// of the nodes.
	Middleware Middleware
	// MaxInFlight is the pipeline's limit of commands in flight; 0 means its
	// default.
	MaxInFlight int
	// Patience is how long the pipeline may make no progress while commands are
	// in flight; 0 means 20 s. It is long because a busy machine is not a
	// deadlock.
	Patience time.Duration
}

// String returns the plan as text.
func (p Plan) String() string {
	var b strings.Builder
	pol := p.Policy
	if p.Control != nil {
		pol = p.Control.Name()
	}
	fmt.Fprintf(&b, "seed %d, policy %s, %s, %d commands by %d submitters", p.Seed, pol, p.Strategy, p.Commands, p.Submitters)
	for _, flag := range []struct {
		is   bool
		name string
	}{{p.Hasty, "hasty"}, {p.Quiet, "quiet"}, {p.Fragile, "fragile"}, {p.Ordered, "ordered"}, {p.Fans, "fans"}, {p.Resumes, "resumes"}} {
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
	if p.Middleware != (Middleware{}) {
		fmt.Fprintf(&b, ", %s", p.Middleware)
	}
	fmt.Fprintf(&b, "\n%s", p.Graph)
	for i, f := range p.Feeds {
		fmt.Fprintf(&b, "\n  %s: %s", feedName(i), f)
	}
	b.WriteString("\ndisturbances:")
	for _, d := range p.Disturbances {
		fmt.Fprintf(&b, " [%s]", d)
	}
	fmt.Fprintf(&b, " [end %s]", p.End)
	return b.String()
}

// restart returns the restart policy of the plan's stages.
func (p Plan) restart() stage.RestartPolicy {
	if p.Fragile {
		return stage.RestartPolicy{Limit: 2, Backoff: 10 * time.Microsecond, Max: time.Millisecond}
	}
	return stage.RestartPolicy{Limit: 1 << 20, Backoff: 10 * time.Microsecond, Max: time.Millisecond}
}

// intensity returns how many restarts of stages the plan's pipeline makes in a
// second.
func (p Plan) intensity() int {
	if p.Fragile {
		return 1
	}
	return 1000
}
