package scheduler

import (
	"math"
	"time"
)

// patience says how long a step may wait for something to do: not at all, until a time,
// or, as Loop does, until it learns that it need not.
type patience struct {
	deadline time.Time
	until    func() bool
}

// newPatience is for what a user says, who may mean for ever.
func newPatience(limit time.Duration) patience {
	if limit <= 0 {
		return patience{}
	}
	return patience{deadline: time.Now().Add(min(limit, math.MaxInt64/2))}
}

// left returns how long may still be waited.
func (p patience) left() time.Duration {
	switch {
	case p.until != nil && !p.until():
		return forever
	case p.deadline.IsZero():
		return 0
	default:
		return time.Until(p.deadline)
	}
}

// forever is a wait that has no end of its own.
const forever time.Duration = math.MaxInt64

// step does one thing that is ready, if there is one within its patience. It looks at the sources when the line is
// empty, even if timers are due: those may be so all the time.
func (s *Scheduler) step(p patience) bool {
	for s.ready.line.Len() > 0 || s.observe(p) {
		if s.do(s.take()) {
			return true
		}
	}
	return false
}

// observe looks for new events until there are some. It is the only place where the
// scheduler waits.
func (s *Scheduler) observe(p patience) bool {
	if s.closed {
		return false
	}
	s.waits++
	for {
		s.collect()
		left := time.Duration(0)
		if s.ready.Len() == 0 {
			left = p.left()
		}
		switch {
		case left <= 0:
			s.poll(0)
			return s.ready.Len() > 0
		case len(s.pollers) > 0:
			s.poll(min(left, s.cfg.PollBudget))
		default:
			s.wait(left)
		}
	}
}

// collect makes ready the timers that are due and what has come in.
func (s *Scheduler) collect() {
	s.fire()
	s.inbox.empty(&s.ready.line)
}

// wait waits for the bell, the next timer, or the time given.
func (s *Scheduler) wait(left time.Duration) {
	if s.timers.Len() > 0 {
		left = min(left, time.Until(s.timers.next()))
	}
	var rings <-chan time.Time
	if left < forever {
		rings = s.wakeUpCall(left)
	}
	select {
	case <-s.inbox.bell:
	case <-rings:
	}
}

// wakeUpCall sets the one timer that a scheduler has.
func (s *Scheduler) wakeUpCall(d time.Duration) <-chan time.Time {
	if s.alarm == nil {
		s.alarm = time.NewTimer(d)
	} else {
		s.alarm.Reset(d) // since Go 1.23 no old ring is left behind
	}
	return s.alarm.C
}

// atRest tells a waiting Loop that it need not wait.
func (s *Scheduler) atRest() bool { return s.quit.Load() || s.idle() }

// idle reports that nothing is ready and nothing can become so: no source but those that
// are held back by their own events, no timer, and no task that waits for
// anything but another.
func (s *Scheduler) idle() bool {
	if s.ready.Len() > 0 || s.timers.Len() > 0 || s.live > s.blocked || !s.inbox.isEmpty() {
		return false
	}
	for e := s.open.Front(); e != nil; e = e.Next() {
		if !e.Value.(*Registration).hopeless() {
			return false
		}
	}
	return true
}

// take takes what is next, or any of what is ready, if chance shall say.
func (s *Scheduler) take() entry {
	if s.cfg.Rand == nil {
		s.fire() // a timer does not wait until the line is empty
		return s.ready.Pop()
	}
	s.collect() // or what is woken now could never come before what was ready already
	for s.ready.due.Len() > 0 {
		s.ready.line.Push(s.ready.due.Pop()) // chance knows one line
	}
	return s.takeAt(s.first(s.cfg.Rand.IntN(s.ready.Len())))
}

// first returns the place of the oldest entry of the same source, for its events keep
// their order.
func (s *Scheduler) first(i int) int {
	if r := s.ready.line.At(i).reg; r != nil {
		for j := range i {
			if s.ready.line.At(j).reg == r {
				return j
			}
		}
	}
	return i
}

// takeAt takes the entry at place i; the others keep their order.
func (s *Scheduler) takeAt(i int) entry {
	e := *s.ready.line.At(i)
	for ; i > 0; i-- {
		*s.ready.line.At(i) = *s.ready.line.At(i - 1)
	}
	s.ready.line.Pop()
	return e
}
