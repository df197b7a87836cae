package engine

import (
	"context"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/version"
)

// Upgrade makes another version the present one, whose instances build makes,
// and returns the previous one. If the stage runs, the first instance is started
// before. Upgrades of a stage run one at a time.
func (c *Core) Upgrade(ctx context.Context, build func(*version.Version) Instance) (before *version.Version, err error) {
	if c.process != "" {
		return nil, &ElsewhereError{c.Name(), c.process, "it can be upgraded there only"}
	}
	done, err := c.upgrade.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	to := c.newVersion(build)
	if err := to.Build(); err != nil {
		return nil, err
	}
	switched, err := c.prepare(ctx, to)
	if err != nil {
		to.Stop()
		return nil, err
	}
	defer close(switched)
	before = c.staff.Versions.Replace(to)
	c.logUpgrade(before, to)
	return before, nil
}

// begin waits until no other upgrade is under way. The caller calls done when
// it has ended.
func (u *upgrading) begin(ctx context.Context) (done func(), err error) {
	u.mu.Lock()
	if u.turn == nil {
		u.turn = make(chan struct{}, 1)
	}
	turn := u.turn
	u.mu.Unlock()
	select {
	case turn <- struct{}{}: // also if ctx has ended: then the start of the first instance returns the reason
		return func() { <-turn }, nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// prepare starts the first instance of a version if the stage runs; the
// instance belongs to the supervisor then. So if the supervisor starts or ends
// meanwhile, the instance is started or stopped too, and the loop checks again.
// From when prepare returns the supervisor's end waits until switched is
// closed.
func (c *Core) prepare(ctx context.Context, to *version.Version) (switched chan struct{}, err error) {
	for started := false; ; {
		c.upgrade.mu.Lock()
		ended, running := c.hasEndedLocked(), c.upgrade.running
		if !ended && running == started {
			switched = make(chan struct{})
			c.upgrade.switched = switched
			c.upgrade.mu.Unlock()
			return switched, nil
		}
		c.upgrade.mu.Unlock()
		switch {
		case ended:
			return nil, inbox.ErrStopped
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
	closed, halted := c.inbox.Phases().Stopped()
	gone := c.env != nil && c.env.Context.Err() != nil
	return halted || !c.upgrade.running && (gone || closed)
}

// startVersion starts the instance that the workers share, when the supervisor
// has started. From now on instances are started. They begin without the states
// of earlier instances: if the stage broke, one of those states may be the
// cause.
func (c *Core) startVersion() error {
	c.upgrade.mu.Lock()
	c.upgrade.running = true
	c.upgrade.mu.Unlock()
	c.staff.Versions.Present().Forget()
	return c.staff.Versions.Present().StartShared()
}

// stopVersion stops idle and shared instances, when all workers have ended.
func (c *Core) stopVersion() {
	c.upgrade.mu.Lock()
	c.upgrade.running = false
	switched := c.upgrade.switched
	c.upgrade.mu.Unlock()
	suspended := c.unwind()
	if switched != nil {
		<-switched // an upgrade may hold an idle instance
	}
	c.staff.Versions.Clear(c.inbox.Instances().TakeIdle())
	if !suspended && c.inbox.Settings().Pool() == nil { // otherwise a shared pool still works for the stage
		c.staff.Versions.Present().StopUnused()
	}
}

// logUpgrade logs an upgrade of a stage that was started.
func (c *Core) logUpgrade(before, to *version.Version) {
	c.upgrade.mu.Lock()
	env := c.env
	c.upgrade.mu.Unlock()
	if env != nil {
		env.Log.Info("upgraded", "stage", c.Name(), "old", before.Name(), "new", to.Name())
	}
}

// Version returns the name that the present version gives itself.
func (c *Core) Version() string { return c.staff.Versions.Present().Name() }
