package supervisor

import (
	"fmt"
	"time"
)

// Strategy says which children are started afresh when one fails.
type Strategy uint8

// The strategies, under their OTP names.
const (
	// RestForOne restarts the child that failed and those started after it.
	// It is the default of a pipeline.
	RestForOne Strategy = iota
	// OneForOne restarts only the child that failed.
	OneForOne
	// OneForAll restarts all children.
	OneForAll
)

// String returns the OTP name.
func (s Strategy) String() string {
	switch s {
	case RestForOne:
		return "rest_for_one"
	case OneForOne:
		return "one_for_one"
	case OneForAll:
		return "one_for_all"
	default:
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
}

// affected returns the range of children that are restarted when child i of n
// fails.
func (s Strategy) affected(i, n int) (from, to int) {
	switch s {
	case OneForAll:
		return 0, n
	case RestForOne:
		return i, n
	default:
		return i, i + 1
	}
}

// Intensity is how many restarts a supervisor makes within a period before it
// gives up. The zero Intensity makes none: the first failure is the last.
type Intensity struct {
	Restarts int
	Within   time.Duration
}

// add is supervisor.erl's add_restart: it notes a restart, forgets those that
// are older than the period, and reports whether there are too many now.
func (in Intensity) add(restarts []time.Time, now time.Time) ([]time.Time, bool) {
	kept := restarts[:0:0]
	for _, at := range restarts {
		if now.Sub(at) <= in.Within {
			kept = append(kept, at)
		}
	}
	kept = append(kept, now)
	return kept, len(kept) > in.Restarts
}

// EscalationError tells that a supervisor gave up.
type EscalationError struct {
	Supervisor string
	Child      string // whose failure was one too many
	Restarts   int    // made within the period before that
	Within     time.Duration
	Reason     error // why the child failed
}

// Error tells the whole story in a line.
func (e *EscalationError) Error() string {
	if e.Restarts == 0 {
		return fmt.Sprintf("%s: %q failed: %v", e.Supervisor, e.Child, e.Reason)
	}
	return fmt.Sprintf("%s: %q failed after %d restarts within %v: %v",
		e.Supervisor, e.Child, e.Restarts, e.Within, e.Reason)
}

// Unwrap returns why the child failed.
func (e *EscalationError) Unwrap() error { return e.Reason }
