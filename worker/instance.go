package worker

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// Instance is one value of a stage's behaviour, with the command type erased by the stage.
type Instance interface {
	// Start calls the behaviour's Start, if it has one.
	Start(ctx context.Context) error
	// Stop calls the behaviour's Stop, if it has one.
	Stop()
	// Stops reports whether Stop calls user code.
	Stops() bool
	// Of returns the version that made the instance.
	Of() *Version
	// Version returns what the behaviour calls its version, empty if it has none.
	Version() string
	// Suspends reports whether handlers may suspend. Then Handle is called on a coroutine.
	Suspends() bool
	// Many reports whether HandleMany is to be called, not Handle.
	Many() bool
	// Handle handles one command.
	Handle(ctx context.Context, cmd any) behaviour.Outcome
	// HandleEach handles the commands of a batch, one after the other, until [Worker.Halts] is set. It calls
	// [Worker.Settle] with the outcome of each. The loop is in the instance so that a command costs one indirect call, not
	// two.
	HandleEach(ctx context.Context, w *Worker, batch []command.Envelope)
	// HandleMany handles the commands of a batch.
	HandleMany(ctx context.Context, batch []command.Envelope) []behaviour.Outcome
}

// lent is a shared instance as one worker has it. The worker neither starts nor stops it.
type lent struct{ Instance }

func (lent) Start(context.Context) error { return nil }
func (lent) Stop()                       {}
func (lent) Stops() bool                 { return false }

// Present returns the version that new instances are made of.
func (s *Stage) Present() *Version { return s.present.Load() }

// Install sets the first version of a stage.
func (s *Stage) Install(v *Version) { s.present.Store(v) }

// newInstance makes an instance of the present version and starts it.
func (s *Stage) newInstance(ctx context.Context) (Instance, error) {
	for {
		inst, err := s.Present().acquire(ctx)
		if !errors.Is(err, errRetired) {
			return inst, err
		}
	}
}

// Stock makes one idle instance for a stage, unless there is one.
func Stock(s *Stage) error {
	var borrower inbox.Member
	if !s.Inbox.Claim(&borrower) {
		s.Inbox.ReturnInstance(&borrower)
		return nil
	}
	inst, err := s.newInstance(s.Context)
	if err == nil {
		borrower.Instance = inst
	}
	s.Inbox.ReturnInstance(&borrower)
	return err
}

// StopInstance stops an instance of a stage, which may panic, and releases it from its version.
func StopInstance(s *Stage, inst Instance) {
	s.callStop(inst)
	inst.Of().left()
}

// callStop calls the instance's Stop. If that calls no user code it needs no goroutine of its own.
func (s *Stage) callStop(inst Instance) {
	if !inst.Stops() {
		return
	}
	if err := Guard(s.Inbox.Name(), func() error { inst.Stop(); return nil }); err != nil {
		s.logPanic("instance did not stop well", err)
	}
}

// renew replaces what of an instance is not of the present version. It returns nil if the instance was stopped.
func (s *Stage) renew(inst Instance) Instance {
	for inst != nil {
		now := s.Present()
		if inst.Of() == now {
			break
		}
		inst = now.adopt(inst)
	}
	return inst
}

// sweep renews the idle instances.
func (s *Stage) sweep() {
	stale := func(inst any) bool { return inst.(Instance).Of() != s.Present() }
	for {
		var borrower inbox.Member
		if !s.Inbox.Borrow(&borrower, stale) {
			return
		}
		borrower.Instance = nilOr(s.renew(borrower.Instance.(Instance)))
		s.Inbox.ReturnInstance(&borrower)
		if inst, ok := borrower.Surplus.(Instance); ok {
			StopInstance(s, inst)
		}
	}
}

// sweepIfMoving renews what a worker may have returned to the idle instances, if a version was replaced.
func (s *Stage) sweepIfMoving() {
	if s.moving.Load() > 0 {
		s.sweep()
	}
}

// nilOr converts an instance for the inbox, which knows no instance as a nil of type any.
func nilOr(inst Instance) any {
	if inst == nil {
		return nil
	}
	return inst
}
