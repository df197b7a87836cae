package scheduler

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/internal/coro"
)

// timer is a time for which a sleeping task or a registration waits.
type timer struct {
	at    time.Time
	seq   uint64 // orders timers for the same time by when they were set
	place int    // index in the heap, -1 if it is not there
	wake  coro.Waker
	reg   *Registration
}

// timers orders timers by time. A scheduler keeps them itself, and not in the
// runtime, so that timers for the same time fire in the order in which they
// were set, in every run; and a thousand of them need no goroutine.
type timers struct {
	heap timerHeap
	seq  uint64
}

// Len returns how many timers are set.
func (q *timers) Len() int { return q.heap.Len() }

// next returns the time of the next timer.
func (q *timers) next() time.Time { return q.heap[0].at }

func (q *timers) add(at time.Time, w coro.Waker, r *Registration) *timer {
	t := &timer{at: at, wake: w, reg: r}
	q.set(t)
	return t
}

func (q *timers) set(t *timer) {
	q.seq++
	t.seq = q.seq
	heap.Push(&q.heap, t)
}

// remove removes a timer, if it is set.
func (q *timers) remove(t *timer) {
	if t != nil && t.place >= 0 {
		heap.Remove(&q.heap, t.place)
	}
}

// after makes a task sleep. It is called by the task, so it runs on the
// scheduler's goroutine.
func (s *Scheduler) after(d time.Duration, w coro.Waker) (cancel func()) {
	if d <= 0 {
		w.Wake()
		return func() {}
	}
	t := s.timers.add(time.Now().Add(d), w, nil)
	return func() { s.timers.remove(t) }
}

// fire makes the due timers ready.
func (s *Scheduler) fire() {
	if s.timers.Len() == 0 {
		return
	}
	for now := time.Now(); s.timers.Len() > 0 && !s.timers.next().After(now); {
		t := heap.Pop(&s.timers.heap).(*timer)
		switch {
		case t.reg != nil:
			s.tick(t, now)
		case t.wake.Claim():
			s.ready.due.Push(entry{task: t.wake.Task()})
		}
	}
}

// tick turns a registration's timer into an event and sets the timer again.
func (s *Scheduler) tick(t *timer, now time.Time) {
	r := t.reg
	if !r.full() {
		r.slots <- struct{}{}
		s.ready.due.Push(entry{reg: r, event: now})
	}
	at, again := r.source.(ticker).next(t.at, now)
	if !again {
		s.ready.due.Push(entry{reg: r, end: &ending{}})
		return
	}
	t.at = at
	s.timers.set(t)
}

// timerHeap implements heap.Interface.
type timerHeap []*timer

func (h *timerHeap) Len() int { return len(*h) }

func (h *timerHeap) Less(i, j int) bool {
	a, b := (*h)[i], (*h)[j]
	if a.at.Equal(b.at) {
		return a.seq < b.seq
	}
	return a.at.Before(b.at)
}

func (h *timerHeap) Swap(i, j int) {
	q := *h
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push adds a *timer at the end.
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.place = len(*h)
	*h = append(*h, t)
}

// Pop removes the last one.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	t.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
