package version

import (
	"fmt"

	"github.com/golda-dev/golda/behaviour"
)

// Saved is the state of an instance as it was when a command had ended. A fresh
// instance that comes after a crash begins with it. The worker that has the
// instance has its saved state too.
type Saved struct {
	snapshot func() any
	restore  func(any) error
	every    int // commands after which the state is saved
	since    int // commands since it was
	state    any // nil: none
	flaw     error
}

// SavedOf returns the saved state, empty as yet, of a behaviour that has
// snapshots: one after so many commands each. It returns nil for any other
// behaviour.
func SavedOf(b any, every int) *Saved {
	s, saves := b.(behaviour.Snapshotter)
	r, restores := b.(behaviour.Restorer)
	switch {
	case saves && restores:
		return &Saved{snapshot: s.Snapshot, restore: r.Restore, every: max(every, 1)}
	case saves:
		return &Saved{flaw: fmt.Errorf("%T is a Snapshotter and no Restorer: it has no Restore(any) error", b)}
	case restores:
		return &Saved{flaw: fmt.Errorf("%T is a Restorer and no Snapshotter: it has no Snapshot() any", b)}
	default:
		return nil
	}
}

// Flaw returns why the behaviour cannot be used; nil if it can. The receiver
// may be nil.
func (s *Saved) Flaw() error {
	if s == nil {
		return nil
	}
	return s.flaw
}

// Note saves the state after n further commands, if it is time to. It calls
// user code, which may panic.
func (s *Saved) Note(n int) {
	s.since += n
	if s.since >= s.every {
		s.save()
	}
}

func (s *Saved) save() { s.state, s.since = s.snapshot(), 0 }

// Restore gives the behaviour a state, and saves a copy of its own. It calls
// user code, which may panic.
func (s *Saved) Restore(state any) error {
	if err := s.restore(state); err != nil {
		return err
	}
	s.save()
	return nil
}

// Discard drops the saved state.
func (s *Saved) Discard() { s.take() }

// take removes the saved state and returns it. Changes by later commands are
// lost.
func (s *Saved) take() (state any) {
	state, s.state, s.since = s.state, nil, 0
	return state
}
