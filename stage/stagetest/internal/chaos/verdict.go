package chaos

import (
	"errors"
	"slices"
	"strings"

	"github.com/golda-dev/golda/stage/stagetest"
)

// VerdictError is all promises that a run did not keep.
type VerdictError []*stagetest.BreachError

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

// Promises returns the names of the broken promises in one line, which is the
// same for two runs that break the same promises.
func (v VerdictError) Promises() string {
	names := make([]string, 0, len(v))
	for _, b := range v {
		names = append(names, string(b.Promise))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// breaches returns the breaches that a watchdog has found.
func breaches(found error) (all VerdictError) {
	if joined, ok := found.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if b, ok := errors.AsType[*stagetest.BreachError](err); ok {
				all = append(all, b)
			}
		}
	}
	return all
}
