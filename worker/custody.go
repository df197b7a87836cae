package worker

import "sync/atomic"

// custody says which goroutine ends the command of a run.
//
//	           the command is ended by                    next
//	held       the worker that runs it                    parked, when it suspends; lost, when the worker is given up
//	parked     the goroutine that resumes it next         held, by a worker; finished or abandoned
//	lost       the goroutine that gave its worker up
//	finished   the goroutine that ran it to its end,
//	           which is no worker: the stage has ended
//	abandoned  [Stage.AbandonAll]: a hard stop has
//	           waited for it for long enough
//
// What the handler of a run does that is lost or abandoned has no effect.
type custody int32

const (
	held custody = iota
	parked
	lost
	finished
	abandonedRun
)

// runCustody is a custody that goroutines compete to change.
type runCustody struct{ v atomic.Int32 }

func (c *runCustody) move(from, to custody) bool { return c.v.CompareAndSwap(int32(from), int32(to)) }

func (c *runCustody) is(one custody) bool { return custody(c.v.Load()) == one }

// gone reports whether another goroutine has ended the command of the run.
func (c *runCustody) gone() bool { return c.is(lost) || c.is(abandonedRun) }
