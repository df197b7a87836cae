package version

import (
	"context"
	"fmt"
)

// Instance is the life of one value of a stage's behaviour, with the command
// type erased by the stage. How it handles commands is a matter of workers: see
// [github.com/golda-dev/golda/worker.Handler].
type Instance interface {
	// Start calls the behaviour's Start, if it has one.
	Start(ctx context.Context) error
	// Stop calls the behaviour's Stop, if it has one.
	Stop()
	// Stops reports whether Stop calls user code.
	Stops() bool
	// Of returns the version that made the instance.
	Of() *Version
	// Version returns what the behaviour calls its version, empty if it has
	// none.
	Version() string
	// Saved returns the saved state of the behaviour; nil if the behaviour has
	// no snapshots.
	Saved() *Saved
	// Suspends reports whether handlers may suspend.
	Suspends() bool
	// Many reports whether the behaviour handles whole batches.
	Many() bool
}

// Stop stops an instance of the stage, which may panic, and releases it from
// its version. What the instance leaves of its state is for the next instance.
// An instance that workers share goes on; it is only released.
func (s *Series) Stop(inst Instance) {
	s.saveLast(inst)
	if !inst.Of().shares {
		s.callStop(inst)
	}
	inst.Of().Release()
}

// KeepCrashed keeps the saved state of an instance whose handler has crashed
// for the next instance.
func KeepCrashed(inst Instance) {
	if saved := inst.Saved(); saved != nil {
		inst.Of().keep(saved.take())
	}
}

// saveLast saves the state of an instance that no command crashed, and that is
// about to be stopped, for the next instance.
func (s *Series) saveLast(inst Instance) {
	saved := inst.Saved()
	if saved == nil {
		return
	}
	if saved.since > 0 {
		if err := s.guard(func() error { saved.save(); return nil }); err != nil {
			s.logPanic("an instance that stops has no snapshot; an older one is kept", err)
		}
	}
	inst.Of().keep(saved.take())
}

// callStop calls the instance's Stop. If that calls no user code it needs no
// goroutine of its own.
func (s *Series) callStop(inst Instance) {
	if !inst.Stops() {
		return
	}
	if err := s.guard(func() error { inst.Stop(); return nil }); err != nil {
		s.logPanic("instance did not stop well", err)
	}
}

// check returns an error if an instance is not fit for the stage: either all
// versions of a stage suspend, or none. Only instances that workers do not
// share have snapshots.
func (s *Series) check(inst Instance, shared bool) error {
	if err := inst.Saved().Flaw(); err != nil {
		return fmt.Errorf("stage %q: the factory made an instance that cannot be used: %w", s.name(), err)
	}
	switch suspends := inst.Suspends(); {
	case shared && inst.Saved() != nil:
		return fmt.Errorf("stage %q: the factory made a Snapshotter, but all workers share it; a crash leaves it as it is", s.name())
	case suspends && !s.Suspends:
		return fmt.Errorf("stage %q: the factory made a behaviour that suspends; "+
			"only one that all workers share may, from the start on: stage.New, stage.Coroutine", s.name())
	case suspends && inst.Many():
		return fmt.Errorf("stage %q: the factory made a behaviour that suspends and is a Batcher; it cannot be both", s.name())
	case !suspends && s.Suspends:
		return fmt.Errorf("stage %q: the factory made a behaviour that does not suspend, for a stage whose behaviour does", s.name())
	}
	return nil
}
