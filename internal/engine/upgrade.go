package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/golda-dev/golda/worker"
)

// The errors of an upgrade; package stage documents them.
var (
	ErrUpgrading = errors.New("stage: another upgrade is under way")
	ErrEnded     = errors.New("stage: it has stopped")
)

// upgrading is what a stage knows of its upgrades.
type upgrading struct {
	mu      sync.Mutex      // guards all below, and what Attach lends
	running bool            // the stage's keeper is there: instances are started
	trying  bool            // somebody is about to begin
	rollout *worker.Rollout // the last one
}

// under reports whether an upgrade is under way.
func (u *upgrading) under() bool { return u.trying || u.rollout != nil && u.rollout.OnTrial() }

// Upgrade begins a rollout, and ends it at once if there is to be no trial.
func (c *Core) Upgrade(ctx context.Context, to *worker.Version, limits worker.TrialLimits, canary bool) (*worker.Rollout, error) {
	if err := c.claimUpgrade(); err != nil {
		return nil, err
	}
	r, err := c.begin(ctx, to, limits, canary)
	c.upgrade.mu.Lock()
	c.upgrade.trying = false
	c.upgrade.mu.Unlock()
	if err != nil {
		to.Halt()
		return nil, err
	}
	if !canary {
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
func (c *Core) begin(ctx context.Context, to *worker.Version, limits worker.TrialLimits, canary bool) (*worker.Rollout, error) {
	if err := to.Build(); err != nil {
		return nil, err
	}
	for started := false; ; {
		c.upgrade.mu.Lock()
		ended, running := c.hasEnded(), c.upgrade.running
		if !ended && running == started {
			defer c.upgrade.mu.Unlock()
			r := c.staff.NewRollout(to, limits, c.told)
			c.upgrade.rollout = r
			if canary {
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

// Version is what the present version calls itself.
func (c *Core) Version() string { return c.staff.Present().Name() }

// Trial is the rollout that is under way, nil if there is none.
func (c *Core) Trial() *worker.Rollout {
	c.upgrade.mu.Lock()
	defer c.upgrade.mu.Unlock()
	if r := c.upgrade.rollout; r != nil && r.OnTrial() {
		return r
	}
	return nil
}
