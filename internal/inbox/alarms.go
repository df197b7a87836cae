package inbox

import (
	"container/heap"
	"time"
)

// arm arms the timers that a transition has set. The lock is held.
func (t *timers) arm(in *Inbox) {
	if t.set == 0 {
		return
	}
	for a := range alarms {
		switch x := &t.all[a]; {
		case t.set&(1<<a) == 0:
		case x.timer == nil:
			x.timer = in.Pipeline().afterFunc(x.after, func() { in.fire(a) })
		default:
			x.timer.Reset(x.after)
		}
	}
	t.set = 0
}

// fire runs the transition of an alarm.
func (in *Inbox) fire(a alarm) {
	if a == lapseAlarm {
		in.EndLapsed()
		return
	}
	var fx effects
	in.mu.Lock()
	switch a {
	case retryAlarm:
		in.state.retriesDue(&fx)
	case lingerAlarm:
		in.state.callWorker(&fx)
	case restAlarm:
		in.state.restOver(&fx)
	case soleAlarm:
		in.state.checkSole(&fx)
	case rateAlarm:
		in.state.pace.rate.Alarmed()
		in.state.callWorker(&fx)
	case keyAlarm:
		in.state.queue.rates.Alarmed()
		in.state.callWorker(&fx)
	case lapseAlarm, alarms:
	}
	in.unlock(&fx)
}

// checkSole calls another worker if the one to which the queue was left has
// completed nothing.
func (s *state) checkSole(fx *effects) {
	s.sole.watched = false
	s.sole.over = s.counts.Handled() == s.sole.done
	s.callWorker(fx)
	s.sole.over = false
}

// retriesDue queues the commands whose next try is due.
func (s *state) retriesDue(fx *effects) {
	now := s.now()
	for len(s.delayed.heap) > 0 && s.delayed.heap[0].at <= now {
		d := heap.Pop(&s.delayed).(due)
		s.requeueRetry(&d.e, d.p)
	}
	if len(s.delayed.heap) > 0 {
		s.setAlarm(retryAlarm, time.Duration(s.delayed.heap[0].at-now))
	}
	s.changed(fx)
}

// restOver ends a rest, if it is over.
func (s *state) restOver(fx *effects) {
	if left := s.lastStreak().rested - s.now(); left > 0 {
		s.setAlarm(restAlarm, time.Duration(left))
		return
	}
	s.visits.resting = false
	s.callWorker(fx)
}
