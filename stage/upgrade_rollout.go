package stage

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/worker"
)

// RolloutState says how far a [Rollout] has come.
type RolloutState = worker.State

// The states. The last two are final.
const (
	OnTrial    = worker.OnTrial    // a part of the commands goes to the new version
	Promoted   = worker.Promoted   // all go to the new version
	RolledBack = worker.RolledBack // all go to the old version, as before
)

// Rollout is an upgrade under way, or over. Its methods may be called by anybody, at any
// time.
type Rollout struct {
	stage string
	way   *worker.Rollout
}

// RolloutStatus is the state of a [Rollout]. Its counts are read one after the other.
type RolloutStatus struct {
	State    RolloutState
	Why      error // why it was rolled back
	Old, New RolloutSide
}

// RolloutSide is what became of the commands that went to one version during a trial.
type RolloutSide struct {
	Version   string // what the behaviour calls itself, if it is a [behaviour.Versioned]
	Commands  uint64 // answered, with errors or without
	Errors    uint64 // answered with an error
	Crashes   uint64 // of handlers
	Instances int    // that have not been stopped; of a shared behaviour, workers that have it, and its commands that are suspended
}

// Status tells how the upgrade goes.
func (r *Rollout) Status() RolloutStatus { return *statusOf(r.way) }

func statusOf(way *worker.Rollout) *RolloutStatus {
	if way == nil {
		return nil
	}
	before, after := way.Versions()
	old, fresh := way.Sides()
	return &RolloutStatus{
		State: way.State(), Why: way.Why(),
		Old: sideOf(before, old), New: sideOf(after, fresh),
	}
}

func sideOf(v *worker.Version, s worker.Side) RolloutSide {
	return RolloutSide{Version: v.Name(), Commands: s.Commands, Errors: s.Errors, Crashes: s.Crashes, Instances: v.Live()}
}

// Wait waits until the upgrade is promoted or rolled back, and the last instance of the
// version that lost has been stopped. The error is nil if it was promoted; [ErrRolledBack]
// if somebody rolled it back; [ErrCanary], wrapped around the reason, if it came back by
// itself; [ErrEnded] if the stage stopped first; or why ctx ended.
func (r *Rollout) Wait(ctx context.Context) error {
	need.Context(ctx, "stage: Rollout.Wait")
	return r.told(r.way.Wait(ctx))
}

// Promote ends the trial: all commands go to the new version from now on. It does not wait,
// see [Rollout.Wait]. The error tells why the upgrade was rolled back before.
func (r *Rollout) Promote() error {
	r.way.Decide(worker.Promoted, nil)
	return r.told(r.way.Why())
}

// Rollback ends the trial: all commands go to the old version, whose instances go on where
// they were. It does not wait, see [Rollout.Wait]. The error is [ErrPromoted] if it comes
// too late; one that was rolled back already is fine.
func (r *Rollout) Rollback() error {
	r.way.Decide(worker.RolledBack, ErrRolledBack)
	if r.way.State() == worker.Promoted {
		return r.told(ErrPromoted)
	}
	return nil
}

func (r *Rollout) told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stage %q: upgrade: %w", r.stage, err)
}
