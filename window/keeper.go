package window

import (
	"container/list"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/states"
	"github.com/golda-dev/golda/stage"
)

// traits are the rules of a collector that no type is part of.
type traits struct {
	sums bool // only the first command of a window is held
	last bool // only the last command of a window is held
	// the first command of a key is passed on at once, and the window collects
	// the commands that arrive until the time is over
	leads bool
	fail  bool // the commands of a window that is not full fail

	gathers bool // keys are tickets, and a window is closed when nothing else of its ticket is on its way
}

// keeper is the part of a collector that does not know the types of its keys,
// values and commands. The compiler makes the code of a generic type for each
// of these anew, and the code of a keeper once.
type keeper struct {
	traits

	mu      sync.Mutex // guards all fields below, and all windows and places
	order   list.List  // of the open windows, the oldest first, without those in periods
	periods list.List  // of the windows of a Throttle without commands, the oldest first
	held    int        // places in open windows
	ending  []ending   // groups that unlock ends
}

// hold is the part of a window that does not know its types.
type hold struct {
	since   time.Time // when it was made
	last    time.Time // when the last command came
	bytes   int
	timer   *time.Timer // nil if no time closes it
	list    *list.List  // order or periods
	element *list.Element
	places  []*place
	group   command.Group // of the commands that the result is made of, and that do not travel with it

	released time.Time // when it is closed in a drain; the zero time if that is not decided

	busy    bool     // a user's function looks at its value
	blocked []func() // wakes handlers that wait until it is not busy
	closing Cause    // it is closed as soon as it is not busy
	closed  bool     // it is not open any more
	sent    bool     // its result is being passed on

	// the window of the same key that was closed earlier and whose result is
	// not passed on yet; nil if there is none
	before *hold
	gone   bool   // the result is passed on, or lost
	next   func() // wakes the handler that waits until the result is passed on; nil if there is none
}

// unlock releases the lock and then ends the groups in s.ending. They must not
// end under the lock, because their tickets may call collectors and sources.
func (s *keeper) unlock() {
	ends := s.ending
	s.ending = nil
	s.mu.Unlock()
	for i := range ends {
		ends[i].group.End(ends[i].err)
	}
}

// endGroupLocked ends the group of a window, whose result does not leave.
func (s *keeper) endGroupLocked(w *hold, err error) {
	if !w.group.IsEmpty() {
		s.ending = append(s.ending, ending{w.group, err})
	}
	w.group = command.Group{}
}

// endLocked gives places a state and wakes their handlers.
func (s *keeper) endLocked(places []*place, as state, err error) {
	for _, at := range places {
		at.state, at.err = as, err
		if at.wake != nil {
			at.wake()
			at.wake = nil
		}
	}
}

// waitIdle releases the lock, waits until a window is not busy, and locks
// again.
func (s *keeper) waitIdle(c behaviour.Suspender, w *hold) error {
	s.unlock()
	defer s.mu.Lock()
	return c.Suspend(func(wake func()) {
		s.mu.Lock()
		defer s.unlock()
		if w.busy && !w.closed {
			w.blocked = append(w.blocked, wake)
		} else {
			wake()
		}
	})
}

// holdsAll reports whether all commands of a window are held.
func (s *keeper) holdsAll() bool { return !s.sums && !s.last }

// partial returns why a window is closed that is not full any more.
func (s *keeper) partial() Cause {
	if s.gathers {
		return Short
	}
	return Early
}

// endRestLocked ends the commands of a window behind the first one, whose
// result was passed on or has failed. Commands that are still held get the
// error from their handlers. Commands that have ended before get it by their
// tickets.
func (s *keeper) endRestLocked(w *hold, err error) {
	switch {
	case err == nil:
		w.group = command.Group{} // the result has it
		s.endLocked(w.places[1:], done, nil)
	case s.holdsAll():
		s.endGroupLocked(w, nil)
		s.endLocked(w.places[1:], failed, err)
	default:
		s.endGroupLocked(w, err)
	}
}

// waitTurn waits until the earlier result of the same key is passed on. The
// order of wakes is not enough: a handler that was stopped may resume later
// than a handler that was woken after it. If the handler itself is stopped, it
// does not wait.
func (s *keeper) waitTurn(c behaviour.Suspender, w *hold) {
	s.mu.Lock()
	before := w.before
	w.before = nil
	turn := before == nil || before.gone
	s.mu.Unlock()
	if turn {
		return
	}
	_ = c.Suspend(func(wake func()) {
		s.mu.Lock()
		defer s.unlock()
		if before.gone {
			wake()
		} else {
			before.next = wake
		}
	})
}

// isHeld reports whether a command holds the window.
func (w *hold) isHeld() bool {
	return slices.ContainsFunc(w.places, func(at *place) bool { return at.state == waits })
}

// join has the tickets of the places in a state wait for the result of the
// window, which travels with the command of another ticket.
func (w *hold) join(places []*place, in state, first *command.Ticket) {
	for _, at := range places {
		if at.state == in {
			w.group.Add(at.from, first)
		}
	}
}

// unblock wakes the handlers that wait until a window is not busy.
func (w *hold) unblock() {
	for _, wake := range w.blocked {
		wake()
	}
	w.blocked = nil
}

// move makes a window the last of another list.
func (w *hold) move(to *list.List) {
	if w.list != to {
		w.list.Remove(w.element)
		w.list, w.element = to, to.PushBack(w.element.Value)
	}
}

// due returns when a window is closed, as far as is known. The zero time is
// never.
func (w *hold) due(limit, every, idle time.Duration) (due time.Time) {
	at := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	if limit > 0 {
		at(w.since.Add(limit))
	}
	if every > 0 {
		at(w.since.Truncate(every).Add(every))
	}
	if idle > 0 {
		at(w.last.Add(idle))
	}
	if !w.released.IsZero() {
		at(w.released)
	}
	return due
}

// passOn makes all commands of a window end together with the commands that are
// made from its result. The command of c carries the result.
func (w *hold) passOn(c behaviour.Suspender) {
	if run, ok := c.Value(link.EmitterKey{}).(interface{ PassOn(of *command.Group) }); ok {
		run.PassOn(&w.group)
	}
}

// suspend suspends a handler while its place has a state. It returns the state
// from before, and the error of the suspension if that is the same.
func (s *keeper) suspend(c behaviour.Suspender, at *place, present state) (has state, err error) {
	s.mu.Lock()
	has = at.state
	s.mu.Unlock()
	if has != present {
		return has, nil
	}
	return has, c.Suspend(func(wake func()) {
		s.mu.Lock()
		defer s.unlock()
		if at.state == present {
			at.wake = wake
		} else {
			wake()
		}
	})
}

// fixed returns the options of a collector's stage that holds so many commands.
func (t *traits) fixed(held int) []stage.Option {
	opts := []stage.Option{stage.Workers(1, 1), stage.Blocking(), stage.Instances(min(max(held, 0), mostHeld) + spare)}
	if t.sums {
		opts = append(opts, stage.Retry(stage.RetryPolicy{}))
	}
	return opts
}

// unsavable returns why windows with keys and values of these types cannot be
// saved.
func (t *traits) unsavable(key, value reflect.Type) string {
	if t.gathers {
		return "its groups are of tickets, which end with the process"
	}
	for _, why := range []string{states.Keyless(key), states.Lossy(key), states.Lossy(value)} {
		if why != "" {
			return "its windows cannot be saved: " + why
		}
	}
	return ""
}

// stateType describes the types in a saved state.
func (t *traits) stateType(key, value reflect.Type) string {
	form := "windows"
	switch {
	case t.sums:
		form = "sums"
	case t.leads:
		form = "throttled commands"
	case t.last:
		form = "debounced commands"
	}
	return fmt.Sprintf("%s of %s by %s", form, states.Describe(value), states.Describe(key))
}
