package worker

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/internal/inbox"
)

// newInstance makes an instance of the present version and starts it.
func (s *Stage) newInstance(ctx context.Context) (Instance, error) {
	for {
		inst, err := s.Present().acquire(ctx)
		if !errors.Is(err, errRetired) {
			return inst, err
		}
	}
}

// Replace makes another version the present one, and returns the one before.
// Its instances are stopped: idle ones here, others by their workers after the
// batch that they hold. [Version.Done] tells when the last one has been. One
// goroutine at a time may call Replace; a stage that ends stops its instances
// only after Replace has returned.
func (s *Stage) Replace(to *Version) (before *Version) {
	s.moving.Add(1) // until the version before is over
	before = s.Present()
	before.giveWay(to, func() { s.present.Store(to) })
	before.discard()
	s.sweep()
	s.Inbox.WakeAll()
	return before
}

// renew returns an instance of the present version as it is. It stops another
// one and returns nil.
func (s *Stage) renew(inst Instance) Instance {
	if inst == nil || inst.Of() == s.Present() {
		return inst
	}
	StopInstance(s, inst)
	return nil
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

// sweepIfMoving renews what a worker may have returned to the idle instances,
// if a version was replaced.
func (s *Stage) sweepIfMoving() {
	if s.moving.Load() > 0 {
		s.sweep()
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
