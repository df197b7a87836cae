package controller

import (
	"cmp"
	"fmt"
	"time"
)

// WhatWorkers is the [Change.What] of a change in the number of workers.
const WhatWorkers = "workers"

// Change is one knob that is to be turned: who wants it, what, and why.
type Change struct {
	At            time.Duration // since the pipeline started
	Policy        string
	Stage         StageID
	StageName     string
	What          string // which knob: [WhatWorkers]
	Before, After int
	Why           string
}

// String returns the change as a line of a log.
func (c Change) String() string {
	return fmt.Sprintf("%v %s: stage %q: %s %d to %d: %s",
		c.At, c.Policy, c.StageName, c.What, c.Before, c.After, c.Why)
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

// Settle holds what a controller wants against what is, and returns what is to
// change, in the order in which it was first spoken of. It only tells; whoever
// calls it turns the knobs.
//
// A wish beyond a stage's bounds is held to them, and the change says so. A wish
// for what already is changes nothing. A wish for a stage that is not in the
// snapshot is an [*UnknownStageError]; the other wishes stand.
//
// Settle changes neither s nor d, so asking twice gives the same answer, and asking
// again once the changes are made gives none.
func Settle(policy string, s *Snapshot, d *Decisions) (changes []Change, faults []error) {
	for _, w := range d.wishes {
		if w.stage < 0 || int(w.stage) >= len(s.Stages) {
			faults = append(faults, &UnknownStageError{Policy: policy, Stage: w.stage})
			continue
		}
		st := &s.Stages[w.stage]
		n, why := hold(w, st)
		if n == st.Workers {
			continue
		}
		changes = append(changes, Change{
			At: s.At, Policy: policy, Stage: w.stage, StageName: st.Name,
			What: WhatWorkers, Before: st.Workers, After: n, Why: why,
		})
	}
	return changes, faults
}

// hold returns the nearest number that the stage's bounds allow. Where the
// bounds contradict each other the lower one wins: a stage with too many
// workers is slow, one with none is dead.
func hold(w wish, st *StageStats) (n int, why string) {
	why = cmp.Or(w.why, "no reason given")
	switch n = max(min(w.workers, st.MaxWorkers), st.MinWorkers); {
	case n < w.workers:
		why = fmt.Sprintf("%s (wanted %d, held to the most, %d)", why, w.workers, n)
	case n > w.workers:
		why = fmt.Sprintf("%s (wanted %d, held to the least, %d)", why, w.workers, n)
	}
	return n, why
}
