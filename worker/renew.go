package worker

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/trial"
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

// adopt takes over an instance of another version, as far as it is of use, and stops the rest. It returns nil if nothing is of
// use.
func (v *Version) adopt(inst Instance) Instance {
	want := v
	if v.rollout != nil {
		want = v.rollout.versions[trial.Before]
	}
	if p, ok := inst.(*pair); ok {
		inst = p.extract(want)
	} else if inst.Of() != want {
		StopInstance(v.stage, inst)
		inst = nil
	}
	if inst == nil || v.rollout == nil {
		return inst
	}
	return v.rollout.wrap(inst)
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
