package letters

import (
	"context"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/ring"
	"github.com/golda-dev/golda/stage"
)

const (
	// maxQueued is how many letters wait for one subscriber.
	maxQueued = 1024
	// patience is how long a subscriber may take for one letter while other
	// letters wait.
	patience = 5 * time.Second
)

// subscriber delivers letters to a function of the user. The goroutine that
// ends a command puts its letter into a bounded queue; one goroutine takes
// letters out and calls the function, one letter at a time and in order. That
// goroutine starts with the first letter and ends with [subscriber.close].
//
// When the queue is full, the goroutine with the letter waits. But if the
// function does not return for [patience], no goroutine waits until it returns:
// letters that find the queue full meanwhile are not delivered.
type subscriber struct {
	f       func(stage.DeadLetter)
	crashed func(letter stage.DeadLetter, err error) // f panicked, or ended its goroutine
	stuck   func(letter stage.DeadLetter)            // f does not return

	mu      sync.Mutex // guards all below
	queue   ring.Ring[stage.DeadLetter]
	filled  sync.Cond        // signalled when a letter is queued, and at the end
	changed chan struct{}    // closed when f returns, and at the end; nil if no goroutine waits for it
	current stage.DeadLetter // the letter that f is called with, while calling
	calling bool
	returns uint64 // how often f has returned
	missed  int    // letters that were not delivered
	started bool   // the goroutine was started
	silent  bool   // f has not returned from current for too long
	closed  bool   // f is not called any more
}

func newSubscriber(f func(stage.DeadLetter), crashed func(stage.DeadLetter, error), stuck func(stage.DeadLetter)) *subscriber {
	s := &subscriber{f: f, crashed: crashed, stuck: stuck}
	s.filled.L = &s.mu
	return s
}

// notify queues a letter. It reports false if the letter will not be delivered.
func (s *subscriber) notify(letter stage.DeadLetter) bool {
	ok, late := s.push(letter)
	if late {
		s.stuck(letter)
	}
	return ok
}

// push is notify; late reports that f has just been found to take too long.
func (s *subscriber) push(letter stage.DeadLetter) (ok, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && !s.silent && s.queue.Len() >= maxQueued {
		late = !s.waitLocked(nil)
		s.silent = s.silent || late
	}
	if s.closed || s.queue.Len() >= maxQueued {
		s.missed++
		return false, late
	}
	s.queue.Push(letter)
	s.filled.Signal()
	if !s.started {
		s.started = true
		s.start(letter.Stage)
	}
	return true, late
}

// waitLocked waits until f returns, and releases the lock meanwhile. It reports
// false if f does not return for [patience], or if over is closed first.
func (s *subscriber) waitLocked(over <-chan struct{}) bool {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed, returns := s.changed, s.returns
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	select {
	case <-changed:
	case <-over:
	case <-timer.C:
	}
	timer.Stop()
	s.mu.Lock()
	return s.returns != returns || s.closed
}

// changeLocked wakes the goroutines that wait for f.
func (s *subscriber) changeLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// start starts the goroutine. If f ends it, another takes its place.
func (s *subscriber) start(stageName string) {
	crash.Go(stageName, s.serve, func(err error) {
		if err == nil {
			return
		}
		s.mu.Lock()
		letter, closed := s.current, s.closed
		s.mu.Unlock()
		if !closed { // else close has returned the letter
			s.crashed(letter, err)
		}
		s.mu.Lock()
		s.returnedLocked()
		s.mu.Unlock()
		s.start(stageName)
	})
}

// serve calls f with one letter after another until the subscriber is closed.
func (s *subscriber) serve() error {
	for {
		letter, ok := s.next()
		if !ok {
			return nil
		}
		s.f(letter)
		s.mu.Lock()
		s.returnedLocked()
		s.mu.Unlock()
	}
}

// next takes the next letter, and waits for one if there is none. It reports
// false if the subscriber is closed.
func (s *subscriber) next() (letter stage.DeadLetter, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.queue.Len() == 0 {
		s.filled.Wait()
	}
	if s.closed {
		return letter, false
	}
	letter = s.queue.Pop()
	s.current, s.calling = letter, true
	return letter, true
}

// returnedLocked notes that f has returned.
func (s *subscriber) returnedLocked() {
	s.current, s.calling, s.silent = stage.DeadLetter{}, false, false
	s.returns++
	s.changeLocked()
}

// idleLocked reports whether all letters have been delivered and f has
// returned.
func (s *subscriber) idleLocked() bool { return !s.calling && s.queue.Len() == 0 }

// rest waits until all letters have been delivered and f has returned. It gives
// up when ctx ends, or if f does not return for [patience].
func (s *subscriber) rest(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	returns := true
	for returns && !s.closed && !s.idleLocked() && ctx.Err() == nil {
		returns = s.waitLocked(ctx.Done())
	}
}

// anyLocked matches every subscriber.
func (s *subscriber) anyLocked() bool { return true }

// behindLocked reports whether a letter of a command that ended before a time
// has not been delivered, or f has not returned from it.
func (s *subscriber) behindLocked(at time.Time) bool {
	switch {
	case s.calling:
		return s.current.At.Before(at)
	case s.queue.Len() > 0:
		return s.queue.At(0).At.Before(at)
	default:
		return false
	}
}

// close ends the subscriber if it matches, and returns the letters that have
// not been delivered, including a letter with which f has not returned. It may
// be called more than once.
func (s *subscriber) close(match func(*subscriber) bool) (undelivered []stage.DeadLetter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !match(s) {
		return nil
	}
	s.closed = true
	if s.calling {
		undelivered = append(undelivered, s.current)
	}
	for s.queue.Len() > 0 {
		undelivered = append(undelivered, s.queue.Pop())
	}
	s.missed += len(undelivered)
	s.filled.Broadcast()
	s.changeLocked()
	return undelivered
}

// undelivered returns how many letters were not delivered. After close that
// includes a letter with which f has not returned.
func (s *subscriber) undelivered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed
}
