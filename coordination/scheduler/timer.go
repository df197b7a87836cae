package scheduler

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/internal/coro"
)

// timer is a time for which a sleeping task or a registration waits.
type timer struct {
	at    time.Time
	seq   uint64 // of two for the same time, who was first
	place int    // in the heap, -1 if it is not there
	wake  coro.Waker
	reg   *Registration
}

// timers are ordered by time. A scheduler keeps them itself, rather than with the
// runtime, so that those for the same time come in the order in which they were set, in
// every run; and a thousand of them need no goroutine.
type timers struct {
	heap timerHeap
	seq  uint64
}

// Len returns how many are set.
func (q *timers) Len() int { return q.heap.Len() }

// next returns the time of the next one.
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

// remove takes a timer out, if it is there.
func (q *timers) remove(t *timer) {
	if t != nil && t.place >= 0 {
		heap.Remove(&q.heap, t.place)
	}
}

// after has a task sleep. It is called by the task, so by who steps.
func (s *Scheduler) after(d time.Duration, w coro.Waker) (cancel func()) {
	if d <= 0 {
		w.Wake()
		return func() {}
	}
	t := s.timers.add(time.Now().Add(d), w, nil)
	return func() { s.timers.remove(t) }
}

// fire makes ready the timers that are due.
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

// tick makes an event of a registration's timer and sets it again.
func (s *Scheduler) tick(t *timer, now time.Time) {
	r := t.reg
	if !r.full() {
		r.room <- struct{}{}
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

// timerHeap is what container/heap asks for.
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

// Pop takes the one at the end.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	t.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
