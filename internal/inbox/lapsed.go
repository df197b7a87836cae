package inbox

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// A command that waits has lapsed if it would end unhandled when its turn came:
// its caller's context has ended, the deadline that it was submitted with has
// passed, or it has waited for longer than the stage's TTL. A worker that takes
// the command finds that. But its turn may be far away, or never be reached:
// guards hold the command back, or the handler of its key is suspended, or a
// rate is low, or the workers are stuck. So the inbox looks by itself: every
// now and then while commands wait that may lapse, and when one more command
// finds no free slot. It ends lapsed commands as a worker does, with the same
// counts, error and letter.
//
// There is no timer for each command, and no index: a look goes through the
// queue. Contexts may be the user's, so they are asked without the lock. That
// is why a look takes the lock twice: to learn the origins of the commands that
// wait, and to end the commands whose origins have ended. Looks take a
// twentieth of the time at most, or one in a second.
//
// Commands in a worker's batch have left the queue, and are not looked at.

// Lapsed returns nil if commands of an origin may be started, [ErrExpired] if
// the deadline that they were submitted with has passed, or why their caller's
// context has ended. It may call the user's code.
func Lapsed(o *command.Origin) error {
	if expired, err := o.Lapsed(); !expired {
		return err
	}
	return ErrExpired
}

// lockFor takes the lock for n arriving commands. If there are fewer free slots
// it first ends commands that have lapsed.
func (in *Inbox) lockFor(n int) {
	in.mu.Lock()
	if in.state.lapsing.watched && in.state.looksFor(n) {
		in.mu.Unlock()
		in.endLapsed()
		in.mu.Lock()
	}
}

// endLapsed ends the commands that have lapsed and wait: for their turn, or for
// their next try. It does nothing if another goroutine is about it.
func (in *Inbox) endLapsed() {
	in.mu.Lock()
	if in.state.lapsing.looking {
		in.mu.Unlock()
		return
	}
	began := in.state.now()
	in.state.lapsing.looking, in.state.lapsing.watched = true, false
	origins := in.state.origins()
	in.mu.Unlock()
	lapsed := map[*command.Origin]error{}
	defer func() { // also if a context ends the goroutine
		pl := in.Pipeline()
		pl.settling.Add(1)
		defer pl.settling.Add(-1)
		var fx effects
		in.mu.Lock()
		in.state.endLapsed(lapsed, &fx)
		in.state.lapsing.looking = false
		in.state.watchAgain(time.Duration(in.state.now() - began))
		in.unlock(&fx)
	}()
	for _, o := range origins {
		if err := lapsedUnlessItPanics(o); err != nil {
			lapsed[o] = err
		}
	}
}

// origins returns the origins that may have ended of the commands that wait.
// Neighbours often have the same.
func (s *state) origins() (all []*command.Origin) {
	s.count(func(e *command.Envelope) bool {
		if e.From.MayEnd() && (len(all) == 0 || all[len(all)-1] != e.From) {
			all = append(all, e.From)
		}
		return false
	})
	return all
}

// lapsedUnlessItPanics leaves a command whose context panics to the worker that
// takes it: the command crashes there.
func lapsedUnlessItPanics(o *command.Origin) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	return Lapsed(o)
}

// endLapsed takes out the commands that have lapsed, and books their ends.
func (s *state) endLapsed(lapsed map[*command.Origin]error, fx *effects) {
	if len(lapsed) == 0 && s.ttl() == 0 {
		return
	}
	now, ttl := s.now(), s.ttl()
	givenUp := func(e *command.Envelope) bool { return lapsed[e.From] != nil }
	tooOld := func(e *command.Envelope) bool {
		waited, known := e.Waited(now)
		return ttl > 0 && known && waited > ttl
	}
	es := s.queue.line.Remove(func(e *command.Envelope) bool { return givenUp(e) || tooOld(e) })
	s.breakPacks(es)
	es = append(es, s.removePostponed(func(e *command.Envelope) bool { return givenUp(e) || tooOld(e) })...)
	if len(es) == 0 {
		return
	}
	var expired []command.Envelope
	for _, e := range es {
		if err := lapsed[e.From]; err == nil || err == ErrExpired { //nolint:errorlint // Lapsed returns this very error
			expired = append(expired, e)
		} else {
			s.counts.Errors++
			fx.fail(e, err)
		}
	}
	s.shed(expired, reason.Expired, ErrExpired, fx)
	s.changed(fx)
	s.checkQuiet(fx)
	s.lookAtEntries(fx)
}

// breakPacks books that commands were removed from their packs. The remaining
// commands of these packs are tried one by one.
func (s *state) breakPacks(removed []command.Envelope) {
	packed := s.queue.packed
	s.queue.unpack(removed...)
	if s.queue.packed == packed {
		return
	}
	s.queue.line.Count(func(e *command.Envelope) bool {
		e.SetPack(min(e.Pack(), 1))
		return false
	})
}

// removePostponed removes and returns the commands for which match returns true
// among the commands that wait for their next try. If results of later commands
// wait for them, a worker ends them.
func (s *state) removePostponed(match func(*command.Envelope) bool) (es []command.Envelope) {
	if s.queue.line.Awaited() {
		return nil
	}
	kept := s.delayed.heap[:0]
	for i := range s.delayed.heap {
		d := s.delayed.heap[i]
		if !match(&d.e) {
			kept = append(kept, d)
			continue
		}
		es = append(es, d.e)
		s.queue.line.Release(d.p.rank)
	}
	clear(s.delayed.heap[len(kept):])
	s.delayed.heap = kept
	heap.Init(&s.delayed)
	for w := s.waiters.first; w != nil; {
		next := w.after
		if w.retry && match(&w.e) {
			s.waiters.leave(w)
			es = append(es, w.e)
		}
		w = next
	}
	return es
}

// watchAgain sets the alarm for the next look, if commands wait that may lapse.
// The last look took so long.
func (s *state) watchAgain(took time.Duration) {
	pause := min(lookShare*took, longestPause)
	s.lapsing.next = s.now() + int64(max(pause, lookPause))
	mayLapse := func(e *command.Envelope) bool { return s.ttl() > 0 || e.From.MayEnd() }
	if !s.lapsing.watched && s.count(mayLapse) > 0 {
		s.lapsing.watched = true
		s.setAlarm(lapseAlarm, max(pause, lookEvery))
	}
}

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
		in.endLapsed()
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
	if left := s.streak.RestLeft(s.now()); left > 0 {
		s.setAlarm(restAlarm, left)
		return
	}
	s.visits.resting = false
	s.callWorker(fx)
}
