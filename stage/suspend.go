package stage

import (
	"sync"

	"github.com/golda-dev/golda/behaviour"
)

// signal resumes the handler that waits for a command when that command ends.
// It needs neither a goroutine nor a channel. The zero signal is ready.
type signal struct {
	mu     sync.Mutex // guards all below
	isSet  bool
	resume func()
}

// set has the parameters of a ticket's function.
func (s *signal) set(any, error) {
	s.mu.Lock()
	s.isSet = true
	resume := s.resume
	s.mu.Unlock()
	if resume != nil {
		resume()
	}
}

// await suspends a handler until the signal is set. If it is set already, the
// handler continues at once.
func (s *signal) await(c behaviour.Suspender) error {
	s.mu.Lock()
	isSet := s.isSet
	s.mu.Unlock()
	if isSet {
		return nil
	}
	return c.Suspend(func(wake func()) {
		s.mu.Lock()
		s.resume = wake
		isSet := s.isSet
		s.mu.Unlock()
		if isSet {
			wake()
		}
	})
}
