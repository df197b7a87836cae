package queue

import (
	"errors"
	"math"
	"reflect"
)

// Prioritized is a command that knows its priority.
type Prioritized interface {
	// Priority is higher for commands that must come out earlier, 0 for
	// ordinary commands, and negative for commands that may wait. It is called
	// once, before the command is queued.
	Priority() int
}

// Priority returns the command of the highest priority, and of commands with
// equal priority the oldest: the head-of-the-line discipline of Cobham,
// "Priority Assignment in Waiting Line Problems" (Operations Research 2:1,
// 1954). It does not interrupt a command that a worker processes, and does not
// reorder a batch that was already taken.
//
// A command reports its priority by [Prioritized]; other commands have priority 0. For commands that cannot have
// methods see [PriorityOf].
//
// Waiting does not raise a priority: unimportant commands wait for as long as
// more important ones keep coming.
type Priority struct {
	of      func(cmd any) int // nil: call the command's method
	takes   reflect.Type      // the argument type of the function of
	nothing bool              // the function was nil
}

// PriorityOf returns a [Priority] for which f returns the priority of a
// command. It is called once for each command, by several goroutines at once. A
// command that is not a C has priority 0. pipeline.New refuses a stage none of
// whose commands can be a C.
func PriorityOf[C any](f func(cmd C) int) Priority {
	return Priority{takes: reflect.TypeFor[C](), nothing: f == nil, of: func(cmd any) int {
		c, ok := cmd.(C)
		if !ok {
			return 0
		}
		return f(c)
	}}
}

// Name returns "priority".
func (Priority) Name() string { return "priority" }

// Check returns an error if the function of [PriorityOf] is nil.
func (d Priority) Check() error {
	if d.nothing {
		return errors.New("queue: PriorityOf: the function is nil")
	}
	return nil
}

// Key returns the key for the command's priority.
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

// sooner negates a priority. The lowest int has no opposite, so it gets the
// same key as the one above it.
func sooner(priority int) Key { return -Key(max(priority, -math.MaxInt)) }
