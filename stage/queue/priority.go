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
// more important ones keep coming, unless [Priority.Every] guarantees them a
// part.
type Priority struct {
	of      func(cmd any) int // nil: call the command's method
	takes   reflect.Type      // the argument type of the function of
	nothing bool              // the function was nil
	every   int               // of so many commands that are taken, one is the oldest; 0: none is
}

// Every returns the discipline with a guaranteed part for commands of low
// priority: one of every n commands that are taken is the command that has
// waited for longest, whatever its priority. If more important commands fill
// the stage for good, the others have a part of one in n, in the order of their
// arrival, and the important ones have the rest. If k of the commands that
// waited when a command came still wait, it is taken among the next n(k+1) at
// the latest. So no command starves, and of a class that is not overloaded few
// notice.
//
//	stage.Discipline(queue.Priority{}.Every(10))
//
// The number must be at least 2; 0 guarantees nothing, which is the default. A
// switch of the discipline, as a policy may make it, begins to count anew.
func (d Priority) Every(n int) Priority {
	d.every = n
	return d
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

// Check returns an error if the function of [PriorityOf] is nil, or if the
// number of [Priority.Every] is below 2 and not 0.
func (d Priority) Check() error {
	var nothing error
	if d.nothing {
		nothing = errors.New("queue: PriorityOf: the function is nil")
	}
	return errors.Join(nothing, fault("Priority", d.every < 0 || d.every == 1,
		"Every(%d): of so many commands one is the oldest, so it must be at least 2; for the order of arrival use FIFO", d.every))
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

func (d Priority) plan() plan { return plan{build: ranked, every: d.every} }

// sooner negates a priority. The lowest int has no opposite, so it gets the
// same key as the one above it.
func sooner(priority int) Key { return -Key(max(priority, -math.MaxInt)) }
