package queue

import (
	"math"
	"reflect"
	"time"
)

// Dated is a command that knows by when it is to be done.
type Dated interface {
	// Deadline is zero for what has all the time in the world. It is asked once,
	// when the command comes to the queue.
	Deadline() time.Time
}

// Deadline gives out the command whose deadline is next, and of those that have the
// same the one that came first: the earliest due date rule of Jackson, "Scheduling a Production
// Line to Minimize Maximum Tardiness" (UCLA, 1955), which Liu and Layland made known to
// programmers (J. ACM 20:1, 1973). If one worker can meet all deadlines of what waits in any
// order, it meets them in this one.
//
// Those without a deadline come after all that have one. A deadline that has passed is
// still a deadline, and the most urgent: no command is let go. To shed what is too late, give the stage stage.ExpiresAt too.
//
// A command tells its deadline by [Dated]; one that does not has none. For commands
// that cannot have methods see [DeadlineOf].
type Deadline struct {
	of    func(cmd any) time.Time // nil: the command is asked
	takes reflect.Type            // what of takes
}

// DeadlineOf is a [Deadline] for which f says by when a command is to be done. It is called
// once for each, by several goroutines at once. A command that is no C has no deadline; a stage
// none of whose commands can be one is refused by pipeline.New.
func DeadlineOf[C any](f func(cmd C) time.Time) Deadline {
	return Deadline{takes: reflect.TypeFor[C](), of: func(cmd any) time.Time {
		c, ok := cmd.(C)
		if !ok {
			return time.Time{}
		}
		return f(c)
	}}
}

// Name is "deadline".
func (Deadline) Name() string { return "deadline" }

// Check finds nothing: there are no parameters.
func (Deadline) Check() error { return nil }

// Key asks for the command's deadline.
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

// The nanoseconds that are told apart, from 1970 to 2262. What is earlier is as urgent
// as can be, what is later has a deadline all the same.
var (
	firstDay = time.Unix(0, 0)
	lastDay  = time.Unix(0, math.MaxInt64-1)
)

// until counts a deadline back from the end of days, so that 0 is none.
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
