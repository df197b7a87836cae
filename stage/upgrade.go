package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/worker"
)

// What an upgrade may be told, wrapped with the stage's name.
var (
	// ErrUpgrading refuses an upgrade: another one is on its way, or on trial.
	ErrUpgrading = errors.New("stage: another upgrade is under way")
	// ErrEnded refuses an upgrade, or rolls it back: the stage has stopped.
	ErrEnded = errors.New("stage: it has stopped")
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
	to := c.staff.NewVersion(maker(factory), c.shares)
	r, err := c.roll(ctx, to, plan)
	if err != nil {
		return nil, plain.Wrap(fmt.Sprintf("stage %q: upgrade", c.Name()), err)
	}
	return &Rollout{c, r}, nil
}

// upgrading is what a stage knows of its upgrades.
type upgrading struct {
	mu      sync.Mutex      // guards all below, and what Attach lends
	running bool            // the stage's keeper is there: instances are started
	trying  bool            // somebody is about to begin
	rollout *worker.Rollout // the last one
}

// under reports whether an upgrade is under way.
func (u *upgrading) under() bool { return u.trying || u.rollout != nil && u.rollout.OnTrial() }

// roll begins a rollout, and ends it at once if there is to be no trial.
func (c *Core) roll(ctx context.Context, to *worker.Version, p *plan) (*worker.Rollout, error) {
	if err := c.claimUpgrade(); err != nil {
		return nil, err
	}
	r, err := c.begin(ctx, to, p)
	c.upgrade.mu.Lock()
	c.upgrade.trying = false
	c.upgrade.mu.Unlock()
	if err != nil {
		to.Halt()
		return nil, err
	}
	if !p.canary {
		r.Decide(worker.Promoted, nil)
		return r, r.Why() // not nil if the stage was faster and has ended
	}
	return r, nil
}

// claimUpgrade sees to it that only one upgrade is under way.
func (c *Core) claimUpgrade() error {
	c.upgrade.mu.Lock()
	defer c.upgrade.mu.Unlock()
	switch {
	case c.upgrade.under():
		return ErrUpgrading
	case c.hasEnded():
		return ErrEnded
	}
	c.upgrade.trying = true
	return nil
}

// begin tries a version out and puts it on its way. What is started belongs to the keeper, so
// if that comes or goes meanwhile the trial follows.
func (c *Core) begin(ctx context.Context, to *worker.Version, p *plan) (*worker.Rollout, error) {
	if err := to.Build(); err != nil {
		return nil, err
	}
	for started := false; ; {
		c.upgrade.mu.Lock()
		ended, running := c.hasEnded(), c.upgrade.running
		if !ended && running == started {
			defer c.upgrade.mu.Unlock()
			r := c.staff.NewRollout(to, p.law, c.told)
			c.upgrade.rollout = r
			if p.canary {
				r.Try()
			}
			return r, nil
		}
		c.upgrade.mu.Unlock()
		switch {
		case ended:
			return nil, ErrEnded
		case running:
			if err := to.Begin(ctx); err != nil {
				return nil, err
			}
		default:
			to.Halt()
		}
		started = running
	}
}

// hasEnded reports whether the stage will not run any more.
func (c *Core) hasEnded() bool {
	closed, halted := c.inbox.Stopped()
	gone := c.env != nil && c.env.Context.Err() != nil
	return halted || !c.upgrade.running && (gone || closed)
}

// raise starts what the workers share, when the keeper has come. From now on instances
// are started.
func (c *Core) raise() error {
	c.upgrade.mu.Lock()
	c.upgrade.running = true
	c.upgrade.mu.Unlock()
	return c.staff.Present().StartTrial()
}

// lower stops the instances that nobody uses and those that are shared, when all workers
// have ended. A canary's trial ends with them.
func (c *Core) lower() {
	c.upgrade.mu.Lock()
	c.upgrade.running = false
	c.upgrade.mu.Unlock()
	suspended := c.unwind()
	c.EndTrial()
	c.stopAll(c.inbox.TakeIdleInstances())
	if !suspended && c.inbox.Pool() == nil { // else others still work for the stage
		c.staff.Present().EndTrial()
	}
}

// EndTrial rolls back what is on trial: the stage ends, or was taken out of its pipeline.
func (c *Core) EndTrial() {
	c.upgrade.mu.Lock()
	r := c.upgrade.rollout
	c.upgrade.mu.Unlock()
	if r != nil {
		r.Decide(worker.RolledBack, ErrEnded)
		<-r.Settled() // somebody else may be at it, with an instance in his hand
	}
}

// told writes down how a rollout ended.
func (c *Core) told(r *worker.Rollout) {
	c.upgrade.mu.Lock()
	env := c.env
	c.upgrade.mu.Unlock()
	if env == nil {
		return // it has not been started
	}
	log := env.Log
	old, fresh := r.Versions()
	args := []any{"stage", c.Name(), "old", old.Name(), "new", fresh.Name()}
	if why := r.Why(); why != nil {
		_ = worker.Guard(c.Name(), func() error { // the reason may hold an error of the user's
			log.Warn("upgrade rolled back", append(args, "reason", why)...)
			return nil
		})
		return
	}
	log.Info("upgraded", args...)
}

// version is what the present version calls itself.
func (c *Core) version() string { return c.staff.Present().Name() }

// trial is the rollout that is under way, nil if there is none.
func (c *Core) trial() *worker.Rollout {
	c.upgrade.mu.Lock()
	defer c.upgrade.mu.Unlock()
	if r := c.upgrade.rollout; r != nil && r.OnTrial() {
		return r
	}
	return nil
}

// onTrial is the state of the rollout that is under way.
func (c *Core) onTrial() *RolloutStatus {
	r := c.trial()
	if r == nil {
		return nil
	}
	s := statusOf(r)
	return &s
}
