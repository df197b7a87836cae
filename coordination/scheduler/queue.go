package scheduler

import "github.com/golda-dev/golda/internal/ring"

// queue holds what is ready. What came first is next, but timers that are due have every second turn until none is
// left: neither a source that floods the line nor timers that are always due can stop the other.
type queue struct {
	line ring.Ring[entry] // in the order in which it came
	due  ring.Ring[entry] // of timers, in the order of their times

	dueLast bool // the last turn was a timer's
}

func (q *queue) Len() int { return q.line.Len() + q.due.Len() }

// Pop takes what is next. It panics if there is nothing.
func (q *queue) Pop() entry {
	q.dueLast = q.due.Len() > 0 && (!q.dueLast || q.line.Len() == 0)
	if q.dueLast {
		return q.due.Pop()
	}
	return q.line.Pop()
}
