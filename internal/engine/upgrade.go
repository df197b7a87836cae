package engine

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/internal/trial"
	"github.com/golda-dev/golda/worker"
)

// The errors of an upgrade. Package stage/upgrade documents them.
var (
	ErrUpgrading = errors.New("stage: another upgrade is under way")
	ErrEnded     = errors.New("stage: it has stopped")
)

// Upgrade starts a rollout of a version, and ends it at once unless it is a canary.
func (c *Core) Upgrade(ctx context.Context, to *worker.Version, limits trial.Limits, canary bool) (*worker.Rollout, error) {
	if c.process != "" {
		return nil, &ElsewhereError{c.Name(), c.process, "it can be upgraded there only"}
	}
	if err := c.claimUpgrade(); err != nil {
		return nil, err
	}
	r, err := c.rollOut(ctx, to, limits, canary)
	c.upgrade.mu.Lock()
	c.upgrade.trying = false
	c.upgrade.mu.Unlock()
	if err != nil {
		to.Stop()
		return nil, err
	}
	if !canary {
		r.Decide(trial.Promoted, nil)
		return r, r.Why() // not nil if the stage ended first
	}
	return r, nil
}

// claimUpgrade keeps other upgrades out while one is under way.
func (c *Core) claimUpgrade() error {
	c.upgrade.mu.Lock()
	defer c.upgrade.mu.Unlock()
	switch {
	case c.upgrade.underWayLocked():
		return ErrUpgrading
	case c.hasEndedLocked():
		return ErrEnded
	}
	c.upgrade.trying = true
	return nil
}

// rollOut makes an instance of a version and starts the rollout. If the stage runs, the instance is started; it belongs to
// the supervisor then. So if the supervisor starts or ends meanwhile, the instance is started or stopped too, and the loop
// checks again.
func (c *Core) rollOut(ctx context.Context, to *worker.Version, limits trial.Limits, canary bool) (*worker.Rollout, error) {
	if err := to.Build(); err != nil {
		return nil, err
	}
	for started := false; ; {
		c.upgrade.mu.Lock()
		ended, running := c.hasEndedLocked(), c.upgrade.running
		if !ended && running == started {
			defer c.upgrade.mu.Unlock()
			r := c.staff.NewRollout(to, limits, c.logRollout)
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
			if err := to.Start(ctx); err != nil {
				return nil, err
			}
		default:
			to.Stop()
		}
		started = running
	}
}

// hasEndedLocked reports whether the stage will not run again.
func (c *Core) hasEndedLocked() bool {
	closed, halted := c.inbox.Stopped()
	gone := c.env != nil && c.env.Context.Err() != nil
	return halted || !c.upgrade.running && (gone || closed)
}

// startVersion starts what the workers share, when the supervisor has started. From now on instances are started. They begin
// without the states of earlier ones: if the stage broke, one of those may be why.
func (c *Core) startVersion() error {
	c.upgrade.mu.Lock()
	c.upgrade.running = true
	c.upgrade.mu.Unlock()
	c.staff.Present().Forget()
	return c.staff.Present().StartShared()
}

// stopVersion stops idle and shared instances, when all workers have ended. The trial of a canary ends with them.
func (c *Core) stopVersion() {
	c.upgrade.mu.Lock()
	c.upgrade.running = false
	c.upgrade.mu.Unlock()
	suspended := c.unwind()
	c.EndTrial()
	c.stopAll(c.inbox.TakeIdleInstances())
	if !suspended && c.inbox.Pool() == nil { // otherwise a shared pool still works for the stage
		c.staff.Present().StopUnused()
	}
}

// EndTrial rolls back what is on trial: the stage ends, or was removed from its pipeline.
func (c *Core) EndTrial() {
	c.upgrade.mu.Lock()
	r := c.upgrade.rollout
	c.upgrade.mu.Unlock()
	if r != nil {
		r.Decide(trial.RolledBack, ErrEnded)
		<-r.Settled() // another goroutine may have decided, and may still hold an instance
	}
}

// logRollout logs how a rollout ended.
func (c *Core) logRollout(r *worker.Rollout) {
	c.upgrade.mu.Lock()
	env := c.env
	c.upgrade.mu.Unlock()
	if env == nil {
		return // the stage has not been started
	}
	log := env.Log
	old, fresh := r.Versions()
	args := []any{"stage", c.Name(), "old", old.Name(), "new", fresh.Name()}
	if why := r.Why(); why != nil {
		_ = worker.Guard(c.Name(), func() error { // the reason may hold an error of user code, which may panic
			log.Warn("upgrade rolled back", append(args, "reason", why)...)
			return nil
		})
		return
	}
	log.Info("upgraded", args...)
}

// Version returns what the present version calls itself.
func (c *Core) Version() string { return c.staff.Present().Name() }

// Trial returns the rollout that is on trial, or nil if there is none.
func (c *Core) Trial() *worker.Rollout {
	c.upgrade.mu.Lock()
	defer c.upgrade.mu.Unlock()
	if r := c.upgrade.rollout; r != nil && r.OnTrial() {
		return r
	}
	return nil
}
