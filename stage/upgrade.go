package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/worker"
)

// What an upgrade may be told, wrapped with the stage's name.
var (
	// ErrUpgrading refuses an upgrade: another one is on its way, or on trial.
	ErrUpgrading = engine.ErrUpgrading
	// ErrEnded refuses an upgrade, or rolls it back: the stage has stopped.
	ErrEnded = engine.ErrEnded
	// ErrRolledBack is the end of a [Rollout] that somebody rolled back.
	ErrRolledBack = errors.New("stage: the upgrade was rolled back")
	// ErrPromoted tells that it is too late to roll back: upgrade to the old version.
	ErrPromoted = errors.New("stage: the upgrade was promoted")
	// ErrCanary is the end of a [Rollout] that came back by itself: the new version
	// crashed, could not start, or answered too many errors.
	ErrCanary = worker.ErrCanary
)

// Upgrade has the stage run another version of its behaviour from now on: the next batch
// of each worker is handled by an instance that the factory makes. For a stage whose
// workers share one behaviour ([New], [Func]) the factory is called once. Queue, accounts
// and workers stay; no command is lost, charged or reordered for it.
//
// First one instance is made and, if the stage runs, started, as a trial. If that fails, or
// ctx ends before it has started, Upgrade tells why and nothing has changed. The instance is
// kept, and is the first that a worker gets.
//
// The old instances finish the batch that they hold and are then stopped: each by its
// worker, before that makes a new one. So no more of either version are in use than
// [Instances] says, and with one there are never two at work; but for the trial's, which
// waits, beside the old ones. [Rollout.Wait] waits until the last old one has been stopped.
// A handler that hangs keeps its instance.
//
// With [Canary] only a part of the commands goes to the new version, until it is promoted.
// Upgrade then returns when the trial has begun.
//
// Upgrade may be called by anybody, at any time: before the start, when it only
// replaces the factory, since the start tries it; while the stage is paused, bound to a shared pool, or
// drained. It is refused with [ErrUpgrading] while another upgrade is under way, with
// [ErrEnded] when the stage has stopped, and with [*Fault]s for options that make no sense.
func (s *Stage[C]) Upgrade(ctx context.Context, factory behaviour.Factory[C], opts ...UpgradeOption) (*Rollout, error) {
	need.Context(ctx, "stage: Upgrade")
	c := s.core
	plan := newPlan[C](c.Name(), opts)
	plan.check(factory != nil, "the factory is nil", "Upgrade")
	if len(plan.faults) > 0 {
		return nil, errors.Join(plan.faults...)
	}
	r, err := c.Upgrade(ctx, c.NewVersion(maker(factory)), plan.law, plan.canary)
	if err != nil {
		return nil, plain.Wrap(fmt.Sprintf("stage %q: upgrade", c.Name()), err)
	}
	return &Rollout{c.Name(), r}, nil
}
