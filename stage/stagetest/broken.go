package stagetest

import (
	"fmt"
	"slices"
	"strings"
)

// Promise is one of Golda's promises that a trial checks, such as "law" or "progress". Package chaos has a constant for each.
type Promise string

// BreachError is a promise that was not kept.
type BreachError struct {
	Promise Promise
	Detail  string
}

// Error returns the promise and the detail.
func (b *BreachError) Error() string { return fmt.Sprintf("%s: %s", b.Promise, b.Detail) }

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
