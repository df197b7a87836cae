package scheduler

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
)

// Poller is a source that can only be asked, for a limited time. It is asked by
// whoever steps, so nothing else happens meanwhile: a Poll that exceeds its limit holds
// up all. It should wait for as long as the limit, or until it has an event. A
// limit of 0 asks what is there now.
type Poller interface {
	// Poll returns an event and true, or false if there was none. An error ends the
	// registration; io.EOF means that there is no more.
	Poll(limit time.Duration) (event any, ok bool, err error)
}

// poll asks the pollers, one after the other, within the budget in all. Time that
// they leave is waited for the others.
func (s *Scheduler) poll(budget time.Duration) {
	if len(s.pollers) == 0 {
		return
	}
	var end time.Time
	if budget > 0 {
		end = time.Now().Add(budget)
	}
	asked := slices.Clone(s.pollers) // one that fails leaves
	for i, r := range asked {
		share := time.Duration(0)
		if budget > 0 {
			share = max(0, time.Until(end)) / time.Duration(len(asked)-i)
		}
		s.ask(r, share)
	}
	if budget > 0 && s.ready.Len() == 0 {
		if rest := time.Until(end); rest > 0 {
			s.wait(rest)
		}
	}
}

// ask asks one poller that is not at its bound.
func (s *Scheduler) ask(r *Registration, limit time.Duration) {
	if r.full() {
		return
	}
	event, ok, err := pollSafely(r.source.(Poller), limit)
	if ok {
		r.room <- struct{}{}
		s.ready.line.Push(entry{reg: r, event: event})
	}
	if err != nil {
		s.removePoller(r)
		s.ready.line.Push(entry{reg: r, end: &ending{err}})
	}
}

// pollSafely makes an error of a panic.
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
