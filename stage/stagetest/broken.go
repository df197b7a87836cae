package stagetest

import (
	"fmt"
	"slices"
	"strings"
)

// Promise is one of the things that Golda promises and a trial watches.
type Promise string

// The promises.
const (
	Law        Promise = "law"        // the accounts add up, in motion and at rest
	OneEnd     Promise = "one end"    // no command is lost, none ends twice, none with another's answer
	Order      Promise = "order"      // one worker, first in, first out: commands stay in order
	Progress   Promise = "progress"   // what is in flight goes on, and orders are carried out
	Goroutines Promise = "goroutines" // nobody is left after the stop
	Instances  Promise = "instances"  // started and stopped once, used by one worker at a time
	Crashes    Promise = "crashes"    // nothing crashes but what was made to
	Survival   Promise = "survival"   // the pipeline does not give up while its limits are kept
	Checks     Promise = "checks"     // what New takes runs, and what it refuses it names
)

// BreachError is a promise that was not kept.
type BreachError struct {
	Promise Promise
	Story   string
}

// Error tells the promise and the story.
func (b *BreachError) Error() string { return fmt.Sprintf("%s: %s", b.Promise, b.Story) }

// VerdictError is all promises that a run did not keep.
type VerdictError []*BreachError

// Error tells all of them.
func (v VerdictError) Error() string {
	lines := make([]string, len(v))
	for i, b := range v {
		lines[i] = b.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the promises that were broken.
func (v VerdictError) Unwrap() []error {
	all := make([]error, len(v))
	for i, b := range v {
		all[i] = b
	}
	return all
}

// Promises names them in a line that is the same in two runs that break the same.
func (v VerdictError) Promises() string {
	names := make([]string, 0, len(v))
	for _, b := range v {
		names = append(names, string(b.Promise))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// orNil is nil if nothing was broken.
func (v VerdictError) orNil() error {
	if len(v) == 0 {
		return nil
	}
	return v
}
