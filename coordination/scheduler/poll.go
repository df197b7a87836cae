package scheduler

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
)

// Poller is a source that must be polled, for a limited time. The goroutine
// that runs Step or Loop polls it, so nothing else runs meanwhile: a Poll that
// exceeds its limit holds up everything. Poll should wait until it has an event
// or the limit has passed. A limit of 0 asks only for an event that is there
// now.
type Poller interface {
	// Poll returns an event and true, or false if there was none. An error ends
	// the registration; io.EOF means that there are no more events.
	Poll(limit time.Duration) (event any, ok bool, err error)
}

// poll polls all pollers, one after the other, within the budget in total. It
// spends the remaining time waiting for other sources.
func (s *Scheduler) poll(budget time.Duration) {
	if len(s.pollers) == 0 {
		return
	}
	var end time.Time
	if budget > 0 {
		end = time.Now().Add(budget)
	}
	asked := slices.Clone(s.pollers) // a poller that fails is removed from s.pollers
	for i, r := range asked {
		share := time.Duration(0)
		if budget > 0 {
			share = max(0, time.Until(end)) / time.Duration(len(asked)-i)
		}
		s.pollOne(r, share)
	}
	if budget > 0 && s.ready.Len() == 0 {
		if rest := time.Until(end); rest > 0 {
			s.wait(rest)
		}
	}
}

// pollOne polls one poller, unless that has reached its backlog.
func (s *Scheduler) pollOne(r *Registration, limit time.Duration) {
	if r.full() {
		return
	}
	event, ok, err := pollSafely(r.source.(Poller), limit)
	if ok {
		r.slots <- struct{}{}
		s.ready.line.Push(entry{reg: r, event: event})
	}
	if err != nil {
		s.removePoller(r)
		s.ready.line.Push(entry{reg: r, end: &ending{err}})
	}
}

// pollSafely turns a panic of the poller into an error.
func pollSafely(p Poller, limit time.Duration) (event any, ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &coroutine.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return p.Poll(limit)
}

func (s *Scheduler) removePoller(r *Registration) {
	if i := slices.Index(s.pollers, r); i >= 0 {
		s.pollers = slices.Delete(s.pollers, i, i+1)
	}
}
