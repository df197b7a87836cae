package gate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/stage/reason"
)

// errMany refuses a command that may not wait until less is in flight.
var errMany = errors.New("as many are in flight as may be")

// errShut refuses a command whose inbox was closed while it waited.
var errShut = errors.New("closed")

// Entry is the entry of a pipeline: the rules for all its stages, and a bound
// of the commands in flight. The zero Entry lets all commands in.
type Entry struct {
	Rules

	bound   atomic.Int64 // see Bound
	waiting atomic.Int32 // callers that wait

	mu       sync.Mutex    // guards all below
	changed  chan struct{} // closed when a command has ended; nil if no caller waits on it
	entering int           // commands that were let in and are not in an inbox yet
}

// Flight counts the commands of a pipeline, inbox by inbox and not at one
// instant: a limit is for memory and for time, and commands on their way may
// exceed it.
type Flight struct {
	InFlight func() int
	Held     func() int // commands in flight that guards hold back
}

// Bound bounds the commands in flight for the sake of loops, whether guards
// hold them back or not; 0 is no bound.
func (e *Entry) Bound(n int) { e.bound.Store(int64(n)) }

// Any reports whether there is anything to check.
func (e *Entry) Any() bool { return e.Rules.Any() || e.bound.Load() > 0 }

// limit is how many commands may be in flight, 0 for any number.
func (e *Entry) limit() int {
	limit := int(e.bound.Load())
	if most := e.Limit(); most > 0 && (limit == 0 || most < limit) {
		limit = most
	}
	return limit
}

// Enter waits, if the caller may wait, until the pipeline is below its limit.
// Entered says that the command was let in and counts as in flight until
// [Entry.Entered] is called. Otherwise there is no limit, or Enter returns why
// the command is refused; the error is the context's if that has ended.
func (e *Entry) Enter(ctx context.Context, at Door, f Flight) (entered bool, why reason.Reason, err error) {
	switch {
	case e.limit() == 0:
		return false, "", nil
	case e.try(f):
		return true, "", nil
	case !at.MayWait(ctx):
		return false, reason.Full, errMany
	}
	return e.wait(ctx, at, f)
}

// wait is Enter for a caller that has to wait.
func (e *Entry) wait(ctx context.Context, at Door, f Flight) (entered bool, why reason.Reason, err error) {
	e.waiting.Add(1)
	defer e.waiting.Add(-1)
	for {
		changed := e.change()
		if e.try(f) {
			return true, "", nil
		}
		if !at.IsOpen() {
			return false, reason.Closed, errShut
		}
		if err := at.Wait(ctx, changed); err != nil {
			return false, reason.Cancelled, err
		}
	}
}

// try lets one more command in, if the limit allows it.
func (e *Entry) try(f Flight) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if limit := e.limit(); limit > 0 {
		// Commands that guards hold back may wait for a command that is not let
		// in yet: a limit that counted them could stand still for good.
		n := f.InFlight() + e.entering
		if n >= limit && (e.isBound(n) || n-f.Held() >= limit) {
			return false
		}
	}
	e.entering++
	return true
}

// isBound reports whether n commands are as many as may be in flight for the
// sake of loops.
func (e *Entry) isBound(n int) bool {
	bound := int(e.bound.Load())
	return bound > 0 && n >= bound
}

// Entered notes that a command that was let in is in its inbox, or was refused
// there.
func (e *Entry) Entered() {
	e.mu.Lock()
	e.entering--
	e.mu.Unlock()
	e.Notify()
}

// Waited reports whether callers wait at the entry.
func (e *Entry) Waited() bool { return e.waiting.Load() > 0 }

// Notify has the callers that wait look again: a command has ended, or the
// rules have changed.
func (e *Entry) Notify() {
	if !e.Waited() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// change returns a channel that is closed by the next Notify.
func (e *Entry) change() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}
