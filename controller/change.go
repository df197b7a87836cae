package controller

import (
	"fmt"
	"time"
)

// Change is the change of one knob: the policy that wants it, the values before
// and after, and the reason. A journal may also hold a Change with equal Before
// and After: a number of workers that stays the same for a reason; see
// [Decisions.Keep].
type Change struct {
	// Number is the number of the entry in its journal: later entries have
	// larger numbers. It is 0 outside of a journal.
	Number uint64
	At     time.Duration // since the pipeline started
	Policy string
	Group  string // the group or stage of the controller that decided; empty for the controller of the pipeline
	// Stage is the owner of the knob: a stage, the [Entry], or [NoStage] for a
	// pool that is not a stage's own. StageName is the name of the stage or
	// pool, or "entry".
	Stage     StageID
	StageName string
	What      Knob
	// Before and After have the type of the knob's values, see [Setting].
	Before, After any
	Why           string
	// Varies says that the knob is turned again and again, see
	// [Decisions.Vary]. Of such changes of one knob the journal keeps one entry
	// for as long as no others come in between.
	Varies bool
}

// Decided is how many times a knob was changed.
type Decided struct {
	Owner   string // as [Change.StageName] has it
	Knob    string // the name of the knob
	Changes uint64
}

// String returns the change as one line of a log.
func (c Change) String() string {
	of, policy := "stage", c.Policy
	if c.Group != "" {
		policy = fmt.Sprintf("%s for %q", c.Policy, c.Group)
	}
	if n := c.After; c.Stays() {
		if c.Stage == NoStage {
			of = "pool"
		}
		return fmt.Sprintf("%v %s: %s %q: %s stay %v: %s", c.At, policy, of, c.StageName, c.What, n, c.Why)
	}
	switch c.Stage {
	case NoStage:
		of = "pool"
	case Entry:
		return fmt.Sprintf("%v %s: entry: %s %v to %v: %s", c.At, policy, c.What, c.Before, c.After, c.Why)
	default:
	}
	return fmt.Sprintf("%v %s: %s %q: %s %v to %v: %s",
		c.At, policy, of, c.StageName, c.What, c.Before, c.After, c.Why)
}

// Stays reports whether the change is a number that stays the same for a reason,
// see [Decisions.Keep].
func (c Change) Stays() bool {
	_, ok := c.After.(int)
	return ok && c.Before == c.After
}

// decisionError is the fault of a policy that decided on a value that a knob
// cannot have, or made a decision about a stage or pool that is not in the
// snapshot.
type decisionError struct {
	Policy string
	Knob   Knob
	Stage  StageID // the stage that the decision is about, unless OfPool
	OfPool bool    // the decision is about a pool
	Name   string  // of the stage or pool; empty if there is no such stage
	// Problem says why the value is invalid. It is empty if there is no such
	// stage or pool.
	Problem string
}

// Error names the policy, the knob, the stage or pool, and the problem.
func (e *decisionError) Error() string {
	switch {
	case e.Problem != "":
		return fmt.Sprintf("controller: policy %q: %s of %q: %s", e.Policy, e.Knob, e.Name, e.Problem)
	case e.OfPool:
		return fmt.Sprintf("controller: policy %q: decision for unknown pool %q", e.Policy, e.Name)
	default:
		return fmt.Sprintf("controller: policy %q: decision for unknown stage %d", e.Policy, e.Stage)
	}
}
