package worker

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
)

// Instance is one value of a stage's behaviour, with the command type erased by
// the stage.
type Instance interface { //nolint:interfacebloat // only package stage implements it
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
	// Suspends reports whether handlers may suspend. Then Handle is called on a
	// coroutine.
	Suspends() bool
	// Many reports whether HandleMany is to be called, not Handle.
	Many() bool
	// Handle handles one command, given as its envelope has it.
	Handle(ctx context.Context, load any) behaviour.Outcome
	// HandleEach handles the commands of a batch, one after the other, until
	// [Worker.Halts] is set. It calls [Worker.Settle] with the outcome of each.
	// The loop is in the instance so that a command costs one indirect call,
	// not two.
	HandleEach(ctx context.Context, w *Worker, batch Batch)
	// HandleMany handles the commands of a batch.
	HandleMany(ctx context.Context, batch Batch) []behaviour.Outcome
}

// lent is a shared instance as one worker has it. The worker neither starts nor
// stops it.
type lent struct{ Instance }

func (lent) Start(context.Context) error { return nil }
func (lent) Stop()                       {}
func (lent) Stops() bool                 { return false }

// Present returns the version that new instances are made of.
func (s *Stage) Present() *Version { return s.present.Load() }

// Install sets the first version of a stage.
func (s *Stage) Install(v *Version) { s.present.Store(v) }

// StopInstance stops an instance of a stage, which may panic, and releases it
// from its version. What the instance leaves of its state is for the next
// instance.
func StopInstance(s *Stage, inst Instance) {
	s.saveLast(inst)
	s.callStop(inst)
	inst.Of().release()
}

// saveLast saves the state of an instance that no command crashed, and that is
// about to be stopped, for the next instance.
func (s *Stage) saveLast(inst Instance) {
	saved := inst.Saved()
	if saved == nil {
		return
	}
	if saved.since > 0 {
		if err := Guard(s.Inbox.Name(), func() error { saved.save(); return nil }); err != nil {
			s.LogPanic("an instance that stops has no snapshot; an older one is kept", err)
		}
	}
	inst.Of().keep(saved.take())
}

// callStop calls the instance's Stop. If that calls no user code it needs no
// goroutine of its own.
func (s *Stage) callStop(inst Instance) {
	if !inst.Stops() {
		return
	}
	if err := Guard(s.Inbox.Name(), func() error { inst.Stop(); return nil }); err != nil {
		s.LogPanic("instance did not stop well", err)
	}
}

// nilOr converts an instance for the inbox, which knows no instance as a nil of
// type any.
func nilOr(inst Instance) any {
	if inst == nil {
		return nil
	}
	return inst
}
