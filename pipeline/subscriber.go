package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

const (
	// mostUntold is how many letters wait for one subscriber.
	mostUntold = 1024
	// patience is how long a subscriber may take for one letter while others wait for it.
	patience = 5 * time.Second
)

// subscriber tells letters to a function of the user's. Whoever ends a command leaves its letter in a bounded
// queue; one goroutine takes them out and calls the function, one letter at a time and in order. It begins with the
// first letter and ends with [subscriber.close].
//
// When the queue is full, whoever has a letter waits. But if the function does not return for [patience], nobody
// waits for it any more until it returns: what finds the queue full meanwhile is not told.
type subscriber struct {
	f       func(stage.DeadLetter)
	crashed func(letter stage.DeadLetter, err error) // f panicked, or ended its goroutine
	stuck   func(letter stage.DeadLetter)            // f does not return

	mu      sync.Mutex // guards all below
	queue   letterQueue
	filled  sync.Cond        // signalled when a letter is queued, and at the end
	changed chan struct{}    // closed when f returns, and at the end; nil if nobody listens
	current stage.DeadLetter // the one that f is at, if calling
	calling bool
	returns uint64 // of f
	missed  int    // letters that f is not told of
	begun   bool   // the goroutine was started
	silent  bool   // f has been at current for too long
	closed  bool   // f is called no more
}

func newSubscriber(f func(stage.DeadLetter), crashed func(stage.DeadLetter, error), stuck func(stage.DeadLetter)) *subscriber {
	s := &subscriber{f: f, crashed: crashed, stuck: stuck}
	s.filled.L = &s.mu
	return s
}

// notify queues a letter. It reports false if f will not be told of it.
func (s *subscriber) notify(letter stage.DeadLetter) bool {
	ok, late := s.push(letter)
	if late {
		s.stuck(letter)
	}
	return ok
}

// push is tell; late reports that f has just been found to take too long.
func (s *subscriber) push(letter stage.DeadLetter) (ok, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && !s.silent && s.queue.len() >= mostUntold {
		late = !s.wait(nil)
		s.silent = s.silent || late
	}
	if s.closed || s.queue.len() >= mostUntold {
		s.missed++
		return false, late
	}
	s.queue.push(letter)
	s.filled.Signal()
	if !s.begun {
		s.begun = true
		s.begin(letter.Stage)
	}
	return true, late
}

// wait waits until f returns. It reports false if f does not return for [patience], or over is closed before.
// The caller has the lock, which is free meanwhile.
func (s *subscriber) wait(over <-chan struct{}) bool {
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

// change wakes those who wait. The caller has the lock.
func (s *subscriber) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// begin starts the goroutine. If f ends it, another takes its place.
func (s *subscriber) begin(at string) {
	worker.Go(at, s.serve, func(err error) {
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
		s.returned()
		s.mu.Unlock()
		s.begin(at)
	})
}

// serve calls f for one letter after the other until the end.
func (s *subscriber) serve() error {
	for {
		letter, ok := s.next()
		if !ok {
			return nil
		}
		s.f(letter)
		s.mu.Lock()
		s.returned()
		s.mu.Unlock()
	}
}

// next takes the next letter, and waits for one if there is none. It reports false at the end.
func (s *subscriber) next() (letter stage.DeadLetter, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.queue.len() == 0 {
		s.filled.Wait()
	}
	if s.closed {
		return letter, false
	}
	letter = s.queue.pop()
	s.current, s.calling = letter, true
	return letter, true
}

// returned notes that f has returned. The caller has the lock.
func (s *subscriber) returned() {
	s.current, s.calling, s.silent = stage.DeadLetter{}, false, false
	s.returns++
	s.change()
}

// idle reports whether f has been told of all letters and has returned. The caller has the lock.
func (s *subscriber) idle() bool { return !s.calling && s.queue.len() == 0 }

// rest waits until f has been told of all letters and has returned. It gives up when ctx ends, or if f does not return for
// [patience].
func (s *subscriber) rest(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	returns := true
	for returns && !s.closed && !s.idle() && ctx.Err() == nil {
		returns = s.wait(ctx.Done())
	}
}

// close ends the subscriber, and returns the letters that f has not been told of, and the one that it is at.
// If busy, it does nothing if there are none. It may be called more than once.
func (s *subscriber) close(busy bool) (untold []stage.DeadLetter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || busy && s.idle() {
		return nil
	}
	s.closed = true
	if s.calling {
		untold = append(untold, s.current)
	}
	for s.queue.len() > 0 {
		untold = append(untold, s.queue.pop())
	}
	s.missed += len(untold)
	s.filled.Broadcast()
	s.change()
	return untold
}

// undelivered returns how many letters f was not told of, the one that it is still at included.
func (s *subscriber) undelivered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed
}

// letterQueue is a first-in-first-out queue of letters.
type letterQueue struct {
	letters []stage.DeadLetter
	first   int // those before it are gone
}

func (q *letterQueue) len() int { return len(q.letters) - q.first }

func (q *letterQueue) push(letter stage.DeadLetter) {
	if len(q.letters) == cap(q.letters) && q.first >= q.len() {
		rest := copy(q.letters, q.letters[q.first:])
		clear(q.letters[rest:])
		q.letters, q.first = q.letters[:rest], 0
	}
	q.letters = append(q.letters, letter)
}

func (q *letterQueue) pop() stage.DeadLetter {
	letter := q.letters[q.first]
	q.letters[q.first] = stage.DeadLetter{}
	if q.first++; q.first == len(q.letters) {
		q.letters, q.first = q.letters[:0], 0
	}
	return letter
}
