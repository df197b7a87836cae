package scheduler

import "github.com/golda-dev/golda/internal/ring"

// queue holds the ready entries, first come, first served; but timers that are
// due get every second turn until none is left. So neither a source that floods
// the line nor timers that are always due can block the other.
type queue struct {
	line ring.Ring[entry] // in the order of arrival
	due  ring.Ring[entry] // timers that are due, in the order of their times

	dueLast bool // the last turn was a timer's
}

func (q *queue) Len() int { return q.line.Len() + q.due.Len() }

// Pop removes the next entry and returns it. It panics if the queue is empty.
func (q *queue) Pop() entry {
	q.dueLast = q.due.Len() > 0 && (!q.dueLast || q.line.Len() == 0)
	if q.dueLast {
		return q.due.Pop()
	}
	return q.line.Pop()
}
