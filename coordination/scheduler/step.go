package scheduler

import (
	"math"
	"time"
)

// patience says how long a step may wait for an entry: not at all, until a
// time, or, as Loop does, until a condition holds.
type patience struct {
	deadline time.Time
	until    func() bool
}

// newPatience converts a limit of the user, which may be as long as for ever.
func newPatience(limit time.Duration) patience {
	if limit <= 0 {
		return patience{}
	}
	return patience{deadline: time.Now().Add(min(limit, math.MaxInt64/2))}
}

// left returns the remaining waiting time.
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

// forever is a wait without a limit of its own.
const forever time.Duration = math.MaxInt64

// step processes one ready entry, if there is one within its patience. It
// checks the sources when the line is empty, even if timers are due, since
// timers may be due all the time.
func (s *Scheduler) step(p patience) bool {
	for s.ready.line.Len() > 0 || s.observe(p) {
		if s.do(s.take()) {
			return true
		}
	}
	return false
}

// observe checks for new entries until there are some. It is the only place
// where the scheduler waits.
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

// collect makes due timers and the entries of the inbox ready.
func (s *Scheduler) collect() {
	s.fire()
	s.inbox.empty(&s.ready.line)
}

// wait waits for a notification, the next timer, or the given time.
func (s *Scheduler) wait(left time.Duration) {
	if s.timers.Len() > 0 {
		left = min(left, time.Until(s.timers.next()))
	}
	var alarm <-chan time.Time
	if left < forever {
		alarm = s.setAlarm(left)
	}
	select {
	case <-s.inbox.wakeup:
	case <-alarm:
	}
}

// setAlarm sets the one timer that a scheduler has.
func (s *Scheduler) setAlarm(d time.Duration) <-chan time.Time {
	if s.alarm == nil {
		s.alarm = time.NewTimer(d)
	} else {
		s.alarm.Reset(d) // since Go 1.23 Reset drops an old tick
	}
	return s.alarm.C
}

// atRest reports to a waiting Loop that it need not wait.
func (s *Scheduler) atRest() bool { return s.quit.Load() || s.idle() }

// idle reports whether nothing is ready and nothing can become ready: every
// source is held back by its own events, there is no timer, and each task waits
// for another one.
func (s *Scheduler) idle() bool {
	if s.ready.Len() > 0 || s.timers.Len() > 0 || s.live > s.blocked || !s.inbox.isEmpty() {
		return false
	}
	for e := s.open.Front(); e != nil; e = e.Next() {
		if !e.Value.(*Registration).stalled() {
			return false
		}
	}
	return true
}

// take removes the next entry, or with Rand a random one.
func (s *Scheduler) take() entry {
	if s.cfg.Rand == nil {
		s.fire() // so that a timer does not wait until the line is empty
		return s.ready.Pop()
	}
	s.collect() // otherwise an entry that is woken now could never come before older ones
	for s.ready.due.Len() > 0 {
		s.ready.line.Push(s.ready.due.Pop()) // the random choice uses one line
	}
	return s.takeAt(s.first(s.cfg.Rand.IntN(s.ready.Len())))
}

// first returns the index of the oldest entry of the same source, so that its
// events keep their order.
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

// takeAt removes the entry at index i; the others keep their order.
func (s *Scheduler) takeAt(i int) entry {
	e := *s.ready.line.At(i)
	for ; i > 0; i-- {
		*s.ready.line.At(i) = *s.ready.line.At(i - 1)
	}
	s.ready.line.Pop()
	return e
}
