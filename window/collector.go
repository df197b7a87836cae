package window

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

// rules are the settings that a constructor gives to a collector.
type rules[K comparable, V, C any] struct {
	key    func(ctx context.Context, cmd C) (K, error)
	add    func(value V, cmd C) V
	drop   func(value V, i int) V // takes a command out again; nil if values are not lists of commands
	whole  func(value V) bool     // nil: a count says it
	bounds Bounds[C]

	traits traits
}

// collector is the behaviour of all stages of this package. The handler of a
// command adds it to the open window of its key and then waits until the window
// is closed.
//
// A user's function is never called under the lock: the window is busy
// meanwhile. Handlers are woken under the lock, which they do not wait for at
// once, so that they go on in the order in which their windows were closed.
// With one worker no other handler finds a busy window, except after a handler
// that was given up.
type collector[K comparable, V, C any] struct {
	rules[K, V, C]
	keeper

	send func(ctx context.Context, w Window[K, V]) behaviour.Outcome

	// The lock of the keeper guards these, and all windows and places.

	open    map[K]*window[K, V]
	leaving map[K]*window[K, V] // by key, the window that was closed last, until its result is passed on
}

// window is a window that is open, or that is being passed on. In a Throttle it
// may have no commands.
type window[K comparable, V any] struct {
	Window[K, V]
	hold
}

// place is the entry of one command in a window. The handler of the command
// waits at it.
type place struct {
	from  *command.Origin
	state state
	size  int
	err   error  // if the state is failed
	wake  func() // nil if the handler has not suspended yet
}

// ticket returns the ticket of the command; nil if it has none.
func (at *place) ticket() *command.Ticket { return at.from.Ticket() }

// ending is a group that ends, since its result does not leave.
type ending struct {
	group command.Group
	err   error
}

// state says what the handler of a place does next.
type state int

const (
	waits   state = iota // until the window is closed
	carries              // the result of the window
	follows              // the place that carries: waits until that has passed the result on
	done
	failed
)

func newCollector[K comparable, V, C any](
	r rules[K, V, C], send func(context.Context, Window[K, V]) behaviour.Outcome,
) *collector[K, V, C] {
	return &collector[K, V, C]{rules: r, keeper: keeper{traits: r.traits}, send: send, open: map[K]*window[K, V]{}, leaving: map[K]*window[K, V]{}}
}

// HandleCommand calls HandleSuspending. The context of every handler of the
// stage can suspend.
func (s *collector[K, V, C]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	return behaviour.Coroutine[C](s.HandleSuspending).HandleCommand(ctx, cmd)
}

// HandleSuspending adds a command to its window and waits until the window is
// closed.
func (s *collector[K, V, C]) HandleSuspending(c behaviour.Suspender, cmd C) behaviour.Outcome {
	key, size, err := s.read(c, cmd)
	if err != nil {
		return behaviour.Error(err)
	}
	var w *window[K, V]
	var at *place
	for w == nil {
		if w, err = s.enter(c, key, size); err == nil {
			w, at, err = s.put(c, w, cmd, size)
		}
		if err != nil {
			return behaviour.Error(err)
		}
	}
	if at == nil {
		return behaviour.OK(nil)
	}
	return s.stay(c, w, at)
}

// read calls the user's functions for the command alone.
func (s *collector[K, V, C]) read(ctx context.Context, cmd C) (key K, size int, err error) {
	if key, err = s.key(ctx, cmd); err != nil {
		return key, 0, err
	}
	if key != key { //nolint:gocritic // a NaN, which no map finds again
		return key, 0, errors.New("window: the key of the command is not equal to itself")
	}
	if s.bounds.Size != nil {
		size = s.bounds.Size(cmd)
	}
	if size < 0 {
		return key, 0, fmt.Errorf("window: the size of the command is negative: %d", size)
	}
	return key, size, nil
}

// enter returns the window for a command, and makes it busy.
func (s *collector[K, V, C]) enter(c behaviour.Suspender, key K, size int) (*window[K, V], error) {
	s.mu.Lock()
	defer s.unlock()
	for {
		w := s.open[key]
		switch {
		case w == nil:
			w = s.newWindow(key)
		case w.busy:
			if err := s.waitIdle(c, &w.hold); err != nil {
				return nil, err
			}
			continue
		case s.bounds.Bytes > 0 && w.Count > 0 && w.bytes > s.bounds.Bytes-size:
			s.closeLocked(w, Full)
			w = s.newWindow(key)
		}
		w.busy = true
		s.watch(w)
		return w, nil
	}
}

func (s *collector[K, V, C]) newWindow(key K) *window[K, V] {
	w := &window[K, V]{Window: Window[K, V]{Key: key}, hold: hold{since: time.Now(), list: &s.order}}
	w.element = w.list.PushBack(w)
	s.open[key] = w
	return w
}

// beginLocked begins the period of a key, in which nothing is passed on.
func (s *collector[K, V, C]) beginLocked(w *window[K, V]) {
	w.move(&s.periods)
	s.armLocked(w)
}

// put adds a command to a busy window and ends the busy state. It returns the
// window and the place of the command in it; the place is nil if the command is
// done. The window is nil if it was closed meanwhile: then the caller must try
// another window.
func (s *collector[K, V, C]) put(c behaviour.Suspender, w *window[K, V], cmd C, size int) (*window[K, V], *place, error) {
	locked := false
	defer func() { // after a crash of a user's function, too
		if !locked {
			s.mu.Lock()
		}
		s.settleLocked(w)
		s.unlock()
	}()
	from := originOf(c)
	value := s.add(w.Value, cmd)
	whole := s.whole != nil && s.whole(value)
	s.mu.Lock()
	locked = true
	if c.Err() != nil { // its caller has left it, or its worker was given up and the command was charged
		return nil, nil, context.Cause(c)
	}
	if w.closed {
		return nil, nil, nil
	}
	now := time.Now()
	if s.leads && w.timer == nil {
		s.beginLocked(w)
		w, at := s.leadLocked(w.Key, value, from, now)
		return w, at, nil
	}
	at := s.addLocked(w, value, place{from: from, size: size}, now)
	b := &s.bounds
	if whole || b.Count > 0 && w.Count >= b.Count || b.Bytes > 0 && w.bytes >= b.Bytes {
		w.closing = Full
	}
	return w, at, nil
}

// addLocked books a command that was added to a window. It returns its place,
// or nil if the command is not held: then its ticket waits.
func (s *collector[K, V, C]) addLocked(w *window[K, V], value V, at place, now time.Time) *place {
	w.Value, w.last = value, now
	w.Count++
	w.bytes += at.size
	w.move(&s.order)
	if w.Count == 1 {
		w.Opened = now
	}
	if w.timer == nil {
		s.armLocked(w)
	}
	if s.sums && w.isHeld() {
		w.group.Add(at.from, w.places[0].ticket())
		return nil
	}
	if s.last {
		w.join(w.places, waits, at.ticket())
		s.endLocked(w.places, done, nil)
		s.held -= len(w.places)
		w.places = w.places[:0]
	}
	held := &place{from: at.from, size: at.size}
	w.places = append(w.places, held)
	s.held++
	return held
}

// leadLocked returns a command that goes on at once, as a closed window and its
// place.
func (s *collector[K, V, C]) leadLocked(key K, value V, from *command.Origin, now time.Time) (*window[K, V], *place) {
	at := &place{from: from, state: carries}
	w := &window[K, V]{
		Window: Window[K, V]{Key: key, Value: value, Count: 1, Opened: now, Why: Full},
		hold:   hold{places: []*place{at}, closed: true},
	}
	s.lineUpLocked(w)
	return w, at
}

// settleLocked marks a window as no longer busy, and does the work that was
// postponed while it was busy: it removes failed commands and closes the
// window.
func (s *collector[K, V, C]) settleLocked(w *window[K, V]) {
	w.busy = false
	w.unblock()
	s.sweepLocked(w)
	switch {
	case w.closed:
	case w.closing != "":
		s.closeLocked(w, w.closing)
	case w.Count == 0 && (!s.leads || w.timer == nil): // its first command was not added
		s.forgetLocked(w)
	default:
		s.completeLocked(w)
	}
	s.evictLocked()
}

// sweepLocked removes from a window the commands whose handlers were stopped.
func (s *collector[K, V, C]) sweepLocked(w *window[K, V]) {
	kept := w.places[:0]
	var left error
	for _, at := range w.places {
		if at.state != failed {
			kept = append(kept, at)
			continue
		}
		left = at.err
		s.held--
		w.bytes -= at.size
		if s.drop != nil {
			w.Value = s.drop(w.Value, len(kept))
			w.Count--
		}
	}
	clear(w.places[len(kept):])
	w.places = kept
	if s.last && len(kept) == 0 {
		var none V
		w.Value, w.Count = none, 0
		s.endGroupLocked(&w.hold, left)
		if s.leads && !w.closed {
			w.move(&s.periods)
		}
	}
}

// evictLocked closes the oldest windows while there are too many, or too many
// commands in them.
func (s *collector[K, V, C]) evictLocked() {
	for s.held > s.bounds.Held || s.order.Len() > s.bounds.Held {
		if !s.closeOldestLocked(&s.order) {
			return
		}
	}
	for s.periods.Len() > mostPeriods {
		if !s.closeOldestLocked(&s.periods) {
			return
		}
	}
}

// closeOldestLocked closes the first window of a list, unless it is busy: then
// it is settled soon.
func (s *collector[K, V, C]) closeOldestLocked(of *list.List) bool {
	oldest := of.Front().Value.(*window[K, V])
	if oldest.busy {
		return false
	}
	s.closeLocked(oldest, Early)
	return true
}

// closeLocked closes a window that is open, at once or as soon as it is not
// busy.
func (s *collector[K, V, C]) closeLocked(w *window[K, V], why Cause) {
	if w.busy {
		w.closing = why
		return
	}
	s.forgetLocked(w)
	if len(w.places) == 0 {
		return
	}
	w.Why = why
	s.held -= len(w.places)
	if s.fail && why != Full {
		s.endLocked(w.places, failed, ErrIncomplete)
		return
	}
	s.lineUpLocked(w)
	s.endLocked(w.places[:1], carries, nil)
	for _, at := range w.places[1:] {
		at.state = follows // its handler waits on
	}
	if s.leads && why == Due {
		s.beginLocked(s.newWindow(w.Key))
	}
}

// lineUpLocked makes the result of a closed window wait for the results of
// earlier windows of the same key.
func (s *collector[K, V, C]) lineUpLocked(w *window[K, V]) {
	if before := s.leaving[w.Key]; before != nil {
		w.before = &before.hold
	}
	s.leaving[w.Key] = w
}

// forgetLocked removes a window from the open windows.
func (s *collector[K, V, C]) forgetLocked(w *window[K, V]) {
	w.closed = true
	delete(s.open, w.Key)
	w.list.Remove(w.element)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// stay waits until the window of a place is closed. Then it passes on the
// result or ends the command, as the state of the place says.
func (s *collector[K, V, C]) stay(c behaviour.Suspender, w *window[K, V], at *place) behaviour.Outcome {
	state := s.wait(c, w, at, waits)
	if state == follows {
		state = s.wait(c, w, at, follows)
	}
	switch state {
	case carries:
		return s.carry(c, w)
	case failed:
		return behaviour.Error(at.err)
	default:
		return behaviour.OK(nil)
	}
}

// wait waits while a place has a state, and returns the next one.
func (s *collector[K, V, C]) wait(c behaviour.Suspender, w *window[K, V], at *place, present state) state {
	has, err := s.suspend(c, at, present)
	if has != present {
		return has
	}
	s.mu.Lock()
	defer s.unlock()
	switch {
	case err == nil || at.state != present:
	case present == follows:
		s.leaveClosedLocked(w, at, err)
	default:
		s.leaveLocked(w, at, err)
	}
	return at.state
}

// leaveLocked removes a command from its open window because its handler was
// stopped. The first command of an aggregate cannot leave: it takes the value
// with it.
func (s *collector[K, V, C]) leaveLocked(w *window[K, V], at *place, err error) {
	if s.sums && !w.busy {
		s.closeLocked(w, Early)
		return
	}
	at.state, at.err = failed, err
	if s.sums { // the function that adds hangs, and may do so for ever
		s.forgetLocked(w)
		w.unblock()
		s.held -= len(w.places)
		w.Why, w.places = Early, nil
		at.err = &LostError{Window: w.Window, Err: err, use: adding[K, V, C]{s, w}}
		s.endGroupLocked(&w.hold, at.err)
		return
	}
	if w.busy {
		return // it is swept out when the window is settled
	}
	s.sweepLocked(w)
	if w.Count == 0 && !s.leads {
		s.forgetLocked(w)
	}
}

// leaveClosedLocked removes a command from a closed window because its handler
// was stopped. If the result is on its way, it contains the command. The
// command fails all the same, because its handler can no longer learn whether
// the result is lost.
func (s *collector[K, V, C]) leaveClosedLocked(w *window[K, V], at *place, err error) {
	at.state, at.err = failed, err
	if w.sent {
		return
	}
	i := slices.Index(w.places, at)
	w.places = slices.Delete(w.places, i, i+1)
	w.Value = s.drop(w.Value, i)
	w.Count--
	if w.Why == Full {
		w.Why = s.partial()
	}
}

// seal returns the window as it is passed on, and whether it may be. No command
// can leave it any more.
func (s *collector[K, V, C]) seal(w *window[K, V]) (sealed Window[K, V], may bool) {
	s.mu.Lock()
	defer s.unlock()
	w.sent = true
	if s.fail && w.Why != Full {
		return w.Window, false
	}
	w.join(w.places[1:], follows, w.places[0].ticket())
	return w.Window, true
}

// carry passes on the result of a window. The handlers of the other places go
// on when it is decided that the result leaves: after the middleware, if there
// is any.
func (s *collector[K, V, C]) carry(c behaviour.Suspender, w *window[K, V]) (o behaviour.Outcome) {
	err := errCrashed // stays if a function of the flow's Route crashes
	deferred := false
	defer func() {
		if s.sums && err != nil {
			if v := recover(); v != nil { // a crash would leave a letter without the value
				err = fmt.Errorf("%w: %s", errCrashed, plain.Text(v))
			}
			o = behaviour.Error(&LostError{Window: w.Window, Err: err})
		}
		s.mu.Lock()
		defer s.unlock()
		s.goneLocked(w)
		if !deferred {
			s.endRestLocked(&w.hold, err)
		}
	}()
	s.waitTurn(c, &w.hold)
	sealed, may := s.seal(w)
	if !may {
		err = ErrIncomplete
		return behaviour.Error(err)
	}
	w.passOn(c)
	o = s.send(c, sealed)
	err = o.Err()
	if worker, ok := c.Value(link.EmitterKey{}).(link.Deferrer); ok && err == nil {
		if deferred = worker.Defer(s, w); !deferred { // the result does not leave
			err = errCrashed
			if cause := context.Cause(c); cause != nil {
				err = plain.Wrap("window: the worker that passed on the window was given up", cause)
			}
		}
	}
	return o
}

// Deferred returns true: the worker says whether the result of a window leaves.
func (s *collector[K, V, C]) Deferred(any) bool { return true }

// Settled is called when that is decided.
func (s *collector[K, V, C]) Settled(use any, ended bool, err error) {
	if !ended {
		err = errCrashed
	}
	s.mu.Lock()
	defer s.unlock()
	s.endRestLocked(&use.(*window[K, V]).hold, err)
}

// goneLocked has the next result of the same key go on.
func (s *collector[K, V, C]) goneLocked(w *window[K, V]) {
	w.gone = true
	if s.leaving[w.Key] == w {
		delete(s.leaving, w.Key)
	}
	if w.next != nil {
		w.next()
	}
}

var errCrashed = errors.New("window: passing on a window crashed")

// armLocked sets the timer that closes a window, if its time is bounded.
func (s *collector[K, V, C]) armLocked(w *window[K, V]) {
	if due := w.due(s.bounds.Time, s.bounds.Every, s.bounds.Idle); !due.IsZero() {
		w.timer = time.AfterFunc(time.Until(due), func() { s.expire(w) })
	}
}

// expire closes a window if it is due.
func (s *collector[K, V, C]) expire(w *window[K, V]) {
	s.mu.Lock()
	defer s.unlock()
	if w.closed {
		return
	}
	if early := time.Until(w.due(s.bounds.Time, s.bounds.Every, s.bounds.Idle)); early > 0 {
		w.timer.Reset(early)
		return
	}
	if w.released.IsZero() {
		s.closeLocked(w, Due)
	} else {
		s.closeLocked(w, Early)
	}
}

// HeldCommands returns how many commands wait in open windows.
func (s *collector[K, V, C]) HeldCommands() int {
	s.mu.Lock()
	defer s.unlock()
	return s.held
}

// ReleaseHeld closes all windows, the oldest first.
func (s *collector[K, V, C]) ReleaseHeld() {
	s.mu.Lock()
	defer s.unlock()
	for _, all := range []*list.List{&s.order, &s.periods} {
		for e := all.Front(); e != nil; {
			w := e.Value.(*window[K, V])
			e = e.Next()
			s.releaseLocked(w)
		}
	}
}

// ReleaseTimeless closes the windows that no time closes, the oldest first, and
// returns how many.
func (s *collector[K, V, C]) ReleaseTimeless() (n int) {
	s.mu.Lock()
	defer s.unlock()
	for e := s.order.Front(); e != nil; {
		w := e.Value.(*window[K, V])
		if e = e.Next(); w.timer == nil {
			s.releaseLocked(w)
			n++
		}
	}
	return n
}

// Stop stops the timers of a [Throttle]; other windows are closed by now.
func (s *collector[K, V, C]) Stop() { s.ReleaseHeld() }
