package queue

import (
	"errors"
	"math"
	"reflect"
	"time"
)

// Dated is a command that knows its deadline.
type Dated interface {
	// Deadline returns the zero time for a command without a deadline. It is
	// called once, before the command is queued.
	Deadline() time.Time
}

// Deadline returns the command with the earliest deadline, and of commands with
// equal deadlines the oldest: the earliest due date rule of Jackson,
// "Scheduling a Production Line to Minimize Maximum Tardiness" (UCLA, 1955),
// which Liu and Layland made known to programmers (J. ACM 20:1, 1973). If one
// worker can meet all deadlines of the waiting commands in any order, it meets
// them in this one.
//
// Commands without a deadline come after all others. A deadline that has passed
// is still a deadline, and the most urgent: no command is dropped. To drop
// commands that are too late, also give the stage stage.ExpiresAt.
//
// A command reports its deadline by [Dated]; other commands have none. For
// commands that cannot have methods see [DeadlineOf].
type Deadline struct {
	of      func(cmd any) time.Time // nil: call the command's method
	takes   reflect.Type            // the argument type of the function of
	nothing bool                    // the function was nil
}

// DeadlineOf returns a [Deadline] for which f returns the deadline of a
// command. It is called once for each command, by several goroutines at once. A
// command that is not a C has no deadline. pipeline.New refuses a stage none of
// whose commands can be a C.
func DeadlineOf[C any](f func(cmd C) time.Time) Deadline {
	return Deadline{takes: reflect.TypeFor[C](), nothing: f == nil, of: func(cmd any) time.Time {
		c, ok := cmd.(C)
		if !ok {
			return time.Time{}
		}
		return f(c)
	}}
}

// Name returns "deadline".
func (Deadline) Name() string { return "deadline" }

// Check returns an error if the function of [DeadlineOf] is nil.
func (d Deadline) Check() error {
	if d.nothing {
		return errors.New("queue: DeadlineOf: the function is nil")
	}
	return nil
}

// Key returns the key for the command's deadline.
func (d Deadline) Key(cmd any) Key {
	if d.of != nil {
		return until(d.of(cmd))
	}
	if c, ok := cmd.(Dated); ok {
		return until(c.Deadline())
	}
	return 0
}

func (d Deadline) typed() reflect.Type { return d.takes }

func (Deadline) plan() plan { return plan{build: ranked} }

// The range in which deadlines differ by nanoseconds: from 1970 to 2262. An
// earlier deadline counts as the first instant and is the most urgent. A later
// one counts as the last instant and is still before commands without a
// deadline.
var (
	firstDay = time.Unix(0, 0)
	lastDay  = time.Unix(0, math.MaxInt64-1)
)

// until counts a deadline back from the end of the range, so that 0 means no
// deadline.
func until(deadline time.Time) Key {
	switch {
	case deadline.IsZero():
		return 0
	case deadline.Before(firstDay):
		deadline = firstDay
	case deadline.After(lastDay):
		deadline = lastDay
	}
	return Key(deadline.UnixNano() - math.MaxInt64)
}
