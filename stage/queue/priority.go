package queue

import (
	"math"
	"reflect"
)

// Prioritized is a command that knows how important it is.
type Prioritized interface {
	// Priority is higher for what is to come first, and 0 for what is neither
	// important nor the opposite. It is asked once, when the command comes to the queue.
	Priority() int
}

// Priority gives out the command of the highest priority, and of those that have
// the same the one that came first: the head-of-the-line discipline of Cobham, "Priority
// Assignment in Waiting Line Problems" (Operations Research 2:1, 1954). A command in a worker's
// hand is not interrupted, nor is one that was taken in the same batch moved.
//
// A command tells its priority by [Prioritized]; one that does not has 0. For
// commands that cannot have methods see [PriorityOf].
//
// Nobody grows more important by waiting: what matters little waits for as long as
// what matters more keeps coming.
type Priority struct {
	of    func(cmd any) int // nil: the command is asked
	takes reflect.Type      // what of takes
}

// PriorityOf is a [Priority] for which f says how important a command is. It is called
// once for each, by several goroutines at once. A command that is no C has priority 0; a stage
// none of whose commands can be one is refused by pipeline.New.
func PriorityOf[C any](f func(cmd C) int) Priority {
	return Priority{takes: reflect.TypeFor[C](), of: func(cmd any) int {
		c, ok := cmd.(C)
		if !ok {
			return 0
		}
		return f(c)
	}}
}

// Name is "priority".
func (Priority) Name() string { return "priority" }

// Check finds nothing: there are no parameters.
func (Priority) Check() error { return nil }

// Key asks for the command's priority.
func (d Priority) Key(cmd any) Key {
	if d.of != nil {
		return sooner(d.of(cmd))
	}
	if c, ok := cmd.(Prioritized); ok {
		return sooner(c.Priority())
	}
	return 0
}

func (d Priority) typed() reflect.Type { return d.takes }

func (Priority) plan() plan { return plan{build: ranked} }

// sooner turns a priority round. The lowest of all, which has no opposite, is last
// with the one above it.
func sooner(priority int) Key { return -Key(max(priority, -math.MaxInt)) }
