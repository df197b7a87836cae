package controller

import (
	"fmt"
	"time"
)

// Change is one knob that is to be turned: who wants it, what, and why. A journal may also hold a number of workers
// that stays as it is for a reason, with equal Before and After; see [Decisions.Keep].
type Change struct {
	At     time.Duration // since the pipeline started
	Policy string
	Group  string // whose controller it is, if a group's; empty: the pipeline's
	// Stage is whose knob it is: a stage's, the [Entry]'s, or [NoStage] for a pool
	// that is not a stage's own. StageName is the stage's or the pool's name, or
	// "entry".
	Stage     StageID
	StageName string
	What      Knob
	// Before and After are of the type that the knob's values have, see [Knob].
	Before, After any
	Why           string
}

// String returns the change as a line of a log.
func (c Change) String() string {
	of, policy := "stage", c.Policy
	if c.Group != "" {
		policy = fmt.Sprintf("%s for group %q", c.Policy, c.Group)
	}
	if n, ok := c.After.(int); ok && c.Before == c.After {
		if c.Stage == NoStage {
			of = "pool"
		}
		return fmt.Sprintf("%v %s: %s %q: %s stay %d: %s", c.At, policy, of, c.StageName, c.What, n, c.Why)
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

// UnknownStageError is the fault of a policy that wanted something of a stage
// that is not in the snapshot.
type UnknownStageError struct {
	Policy string
	Stage  StageID
}

// Error names the policy and the stage.
func (e *UnknownStageError) Error() string {
	return fmt.Sprintf("controller: policy %q: decision for unknown stage %d", e.Policy, e.Stage)
}

// UnknownPoolError is the fault of a policy that wanted something of a pool that
// is not in the snapshot and that it did not make.
type UnknownPoolError struct {
	Policy string
	Pool   string
}

// Error names the policy and the pool.
func (e *UnknownPoolError) Error() string {
	return fmt.Sprintf("controller: policy %q: decision for unknown pool %q", e.Policy, e.Pool)
}

// ValueError is the fault of a policy that wanted what a knob cannot be turned to.
type ValueError struct {
	Policy  string
	Knob    Knob
	Name    string // the stage or pool
	Problem string
}

// Error names all four.
func (e *ValueError) Error() string {
	return fmt.Sprintf("controller: policy %q: %s of %q: %s", e.Policy, e.Knob, e.Name, e.Problem)
}
