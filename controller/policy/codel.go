package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// CoDel drops commands that have waited for long while a queue does not become
// empty: controlled delay, by Nichols and Jacobson, "Controlling Queue Delay"
// (ACM Queue 10:5, 2012), in the form that Facebook's servers have it, with
// adaptive LIFO: Maurer, "Fail at Scale" (ACM Queue 13:8, 2015), and its
// implementation in folly.
//
// It protects the time that a command waits, in bursts and overload of any
// size, and needs to know neither the capacity nor the load. The work goes to
// commands whose callers still wait for the answer: an overloaded queue in the
// order of arrival serves only the ones that have waited for longest.
//
// # The law
//
// A queue is overloaded in an interval if no command that was taken from it had
// waited for Target or less: a burst is worked off now and then, a standing queue
// never is. While a queue is overloaded, a command that has waited for more than
// twice the Target when its turn comes is dropped, and the newest command goes
// first. When no interval has been overloaded for a second, the oldest goes first
// again.
//
// While the newest goes first, the wait of the commands that are taken says
// nothing. Then the queue is overloaded if its oldest command has waited for
// more than Target at the end of the interval.
//
// As RFC 8289 asks for slow links, the target is not less than the time of one
// command in its handler (rounded up, to Target times a power of two), and is
// longer by stage.Linger. folly lets the first command of an interval pass,
// since it decides with the command; here the bound changes between two
// commands.
//
// The controller of a pipeline bounds the stages that commands enter from
// outside (rank 0): to drop a command later wastes the work of the stages before
// that. The controller of a group, or of one stage (pipeline.ControlFor), bounds
// all stages that it governs.
//
// # Dropped commands
//
// A dropped command ends as one whose stage.TTL is over: it is shed as expired,
// is counted under that reason, leaves a letter, and its caller gets
// stage.ErrExpired.
//
// # Weak spots
//
// It drops, so it is not for work that must be done however late: not for
// batches of a night, nor for an inlet whose expired messages are not kept. The
// order of commands changes; FIFO keeps it. Where few commands are taken in an
// interval, the least of their waits is a poor measure. The option stage.TTL of a
// stage that a durable inlet feeds counts the wait since a message was published,
// and CoDel with it.
type CoDel struct {
	Target   time.Duration // the wait that every command may have; default 5 ms
	Interval time.Duration // in which one command must have waited for less; default 100 ms
	FIFO     bool          // keep the order of the queue
}

// mostIdle is the part (1/n) of their time for which workers may have been idle
// in an interval in which the queue was never empty.
const mostIdle = 20

// calmAfter is how long no interval must have been overloaded before the oldest
// command goes first again.
const calmAfter = time.Second

// Name returns "codel".
func (CoDel) Name() string { return "codel" }

// Check returns all faults of the parameters.
func (p CoDel) Check() error {
	return errors.Join(
		fault("codel", p.Target < 0, "Target %v is negative", p.Target),
		fault("codel", p.Interval < 0, "Interval %v is negative", p.Interval),
	)
}

// Claims returns the bound of the wait, and the order unless FIFO is set.
func (p CoDel) Claims() []controller.Knob {
	if p.FIFO {
		return []controller.Knob{controller.KnobSojourn}
	}
	return []controller.Knob{controller.KnobSojourn, controller.KnobDiscipline}
}

// New returns a controller with an empty memory.
func (p CoDel) New() controller.Controller {
	return &codel{
		law:    CoDel{cmp.Or(p.Target, 5*time.Millisecond), cmp.Or(p.Interval, 100*time.Millisecond), p.FIFO},
		queues: make(memory[standing]),
	}
}

// codel is CoDel's memory of one run.
type codel struct {
	law    CoDel
	queues memory[standing]
}

// standing is the memory of a queue.
type standing struct {
	work   time.Duration // of a command in its handler, on average
	turned bool          // CoDel has made the newest go first
	stood  time.Duration // when the queue was last overloaded
}

// Control asks for ticks at the start and judges every queue at each of them.
func (c *codel) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		d.Every(c.law.Interval)
		d.WatchTimes(true)
	case controller.EventTick:
		for i := range s.Stages {
			if st := &s.Stages[i]; s.Group != "" || st.Rank == 0 {
				c.judge(st, controller.StageID(i), s.At, d)
			}
		}
		c.queues.forget(s)
	default: // the others change nothing
	}
}

// judge bounds the wait in a queue, or no longer does.
func (c *codel) judge(st *controller.StageStats, id controller.StageID, now time.Duration, d *controller.Decisions) {
	q := c.queues.of(st.Name)
	switch {
	case st.Work.Count == 0:
	case q.work == 0:
		q.work = st.Work.Mean
	default:
		q.work += (st.Work.Mean - q.work) / 4
	}
	target := c.target(st, q)
	over := !st.Paused && q.overloaded(st, target)
	switch {
	case over && st.Sojourn != 2*target:
		controller.KnobSojourn.Set(d, id, 2*target, q.reason(st, target))
	case !over && st.Sojourn != 0:
		controller.KnobSojourn.Set(d, id, 0, q.reason(st, target))
	}
	if over {
		q.stood = now
	}
	switch {
	case c.law.FIFO:
	case over && st.Discipline == oldestFirst:
		q.turned = true
		controller.KnobDiscipline.Set(d, id, newestFirst, "the oldest commands are too late")
	case q.turned && now-q.stood >= calmAfter:
		q.turned = false
		controller.KnobDiscipline.Set(d, id, oldestFirst, fmt.Sprintf("no overload for %v", now-q.stood))
	}
}

// The disciplines of stage/queue that CoDel uses.
const (
	oldestFirst = "fifo"
	newestFirst = "lifo"
)

// target returns the wait that is no overload.
func (c *codel) target(st *controller.StageStats, q *standing) time.Duration {
	target := c.law.Target
	for target < q.work && target < time.Hour {
		target *= 2
	}
	return target + min(max(st.Batch.Linger, 0), time.Hour)
}

// overloaded reports whether no command had waited for the target or less.
func (q *standing) overloaded(st *controller.StageStats, target time.Duration) bool {
	w := st.Window
	switch {
	case q.turned:
		return st.QueueLen > 0 && st.OldestWait > target && w.Idle <= (w.Busy+w.Blocked+w.Idle)/mostIdle
	case st.Wait.Count == 0:
		return st.QueueLen > 0 && st.OldestWait > target
	default:
		return st.Wait.Least > target
	}
}

// reason describes the queue, for the journal.
func (q *standing) reason(st *controller.StageStats, target time.Duration) string {
	if st.Wait.Count == 0 || q.turned {
		return fmt.Sprintf("%d wait, the oldest for %v, target %v", st.QueueLen, st.OldestWait.Round(10*time.Microsecond), target)
	}
	return fmt.Sprintf("all of %d commands waited for %v or more, target %v", st.Wait.Count, st.Wait.Least.Round(10*time.Microsecond), target)
}
