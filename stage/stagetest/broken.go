package stagetest

import (
	"fmt"
	"slices"
	"strings"
)

// Promise is one of Golda's promises that a trial checks.
type Promise string

// The promises.
const (
	Law        Promise = "law"        // the accounts balance, in motion and at rest
	OneEnd     Promise = "one end"    // no command is lost, ends twice, or gets another's answer
	Order      Promise = "order"      // with one worker, first in, first out, commands stay in order
	Progress   Promise = "progress"   // commands in flight go on, and control operations are carried out
	Goroutines Promise = "goroutines" // no goroutine is left after the stop
	Instances  Promise = "instances"  // instances are started and stopped once, and used by one worker at a time
	Crashes    Promise = "crashes"    // nothing crashes except what was made to
	Survival   Promise = "survival"   // the pipeline does not give up while its limits are kept
	Checks     Promise = "checks"     // New accepts only what runs, and names what it refuses
)

// BreachError is a promise that was not kept.
type BreachError struct {
	Promise Promise
	Story   string
}

// Error returns the promise and the story.
func (b *BreachError) Error() string { return fmt.Sprintf("%s: %s", b.Promise, b.Story) }

// VerdictError is all promises that a run did not keep.
type VerdictError []*BreachError

// Error returns all breaches, one a line.
func (v VerdictError) Error() string {
	lines := make([]string, len(v))
	for i, b := range v {
		lines[i] = b.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the breaches.
func (v VerdictError) Unwrap() []error {
	all := make([]error, len(v))
	for i, b := range v {
		all[i] = b
	}
	return all
}

// Promises returns the names of the broken promises in one line, which is the same for two runs that break the same
// promises.
func (v VerdictError) Promises() string {
	names := make([]string, 0, len(v))
	for _, b := range v {
		names = append(names, string(b.Promise))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// orNil returns nil if no promise was broken.
func (v VerdictError) orNil() error {
	if len(v) == 0 {
		return nil
	}
	return v
}
