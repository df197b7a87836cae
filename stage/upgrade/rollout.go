package upgrade

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/trial"
	"github.com/golda-dev/golda/worker"
)

// The errors of an upgrade, wrapped with the name of the stage.
var (
	// ErrUpgrading refuses an upgrade because another one is under way.
	ErrUpgrading = engine.ErrUpgrading
	// ErrEnded refuses an upgrade, or rolls it back, because the stage has stopped.
	ErrEnded = engine.ErrEnded
	// ErrRolledBack is the result of a [Rollout] that [Rollout.Rollback] ended.
	ErrRolledBack = errors.New("stage: the upgrade was rolled back")
	// ErrPromoted means that it is too late to roll back. Upgrade to the old version instead.
	ErrPromoted = errors.New("stage: the upgrade was promoted")
	// ErrCanary is the result of a [Rollout] that was rolled back automatically: the new version crashed, could not start,
	// or answered too many errors.
	ErrCanary = trial.ErrCanary
)

// State says how far a [Rollout] has come.
type State = trial.State

// The states. The last two are final.
const (
	OnTrial    = trial.OnTrial    // a part of the commands goes to the new version
	Promoted   = trial.Promoted   // all commands go to the new version
	RolledBack = trial.RolledBack // all commands go to the old version, as before
)

// Rollout is an upgrade that is under way or has ended. Its methods may be called by any goroutine, at any time.
type Rollout struct {
	stage string
	way   *worker.Rollout
}

// NewRollout is for package stage. Callers get a Rollout from Stage.Upgrade.
func NewRollout(stage string, way *worker.Rollout) *Rollout { return &Rollout{stage, way} }

// Status is the state of a [Rollout]. Its counts are read one after the other.
type Status struct {
	State    State
	Why      error // why it was rolled back
	Old, New Side
}

// Side counts what became of the commands that went to one version during a trial.
type Side struct {
	Version  string // what the behaviour returns as its version, if it is a behaviour.Versioned
	Commands uint64 // answered, with errors or without
	Errors   uint64 // answered with an error
	Crashes  uint64 // of handlers
	// Instances is how many instances have not been stopped. If workers share the behaviour, it is how many workers use it,
	// and how many of its commands are suspended.
	Instances int
}

// Status returns the state of the upgrade.
func (r *Rollout) Status() Status {
	old, fresh := r.way.Versions()
	return Status{State: r.way.State(), Why: r.way.Why(), Old: r.side(trial.Before, old), New: r.side(trial.After, fresh)}
}

func (r *Rollout) side(which int, v *worker.Version) Side {
	s := Side{Version: v.Name(), Instances: v.Live()}
	s.Commands, s.Errors, s.Crashes = r.way.Counts(which)
	return s
}

// Wait waits until the upgrade is promoted or rolled back, and the last instance of the version that lost has been
// stopped. The error is nil if the upgrade was promoted; [ErrRolledBack] if [Rollout.Rollback] was called; [ErrCanary],
// wrapped around the reason, if it was rolled back automatically; [ErrEnded] if the stage stopped first; or the error of
// ctx.
func (r *Rollout) Wait(ctx context.Context) error {
	link.CheckContext(ctx, "upgrade: Rollout.Wait")
	return r.wrap(r.way.Wait(ctx))
}

// Promote ends the trial: all commands go to the new version from now on. It does not wait, see [Rollout.Wait]. The error
// says why the upgrade was rolled back before.
func (r *Rollout) Promote() error {
	r.way.Decide(trial.Promoted, nil)
	return r.wrap(r.way.Why())
}

// Rollback ends the trial: all commands go to the old version, whose instances continue. It does not wait, see
// [Rollout.Wait]. The error is [ErrPromoted] if the upgrade was promoted before. To roll back twice is no error.
func (r *Rollout) Rollback() error {
	r.way.Decide(trial.RolledBack, ErrRolledBack)
	if r.way.State() == trial.Promoted {
		return r.wrap(ErrPromoted)
	}
	return nil
}

func (r *Rollout) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stage %q: upgrade: %w", r.stage, err)
}
