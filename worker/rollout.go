package worker

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/trial"
)

// verdict is how a rollout ended, and why it was rolled back, if it was.
type verdict struct {
	state trial.State
	why   error
}

// Rollout is the change from one version to another: at once, or by a canary's trial. Any goroutine may call its methods. The
// goroutine that decides how it ends, a worker in the middle of its batch or a caller, also carries that out.
type Rollout struct {
	stage    *Stage
	versions [2]*Version // by side
	of       *Version    // the rollout as the version of its pairs
	trial    *trial.Trial
	notify   func(*Rollout)

	timer   *time.Timer
	mu      sync.Mutex              // held to write end
	end     atomic.Pointer[verdict] // nil while on trial
	settled chan struct{}           // closed when the stage follows the verdict
}

// NewRollout returns a rollout from the present version to another, which is not on trial yet. Notify is called when the
// rollout has ended.
func (s *Stage) NewRollout(to *Version, limits trial.Limits, notify func(*Rollout)) *Rollout {
	r := &Rollout{
		stage: s, versions: [2]*Version{s.Present(), to}, trial: trial.New(limits), notify: notify,
		settled: make(chan struct{}),
	}
	r.of = &Version{stage: s, rollout: r, done: make(chan struct{})}
	r.timer = time.AfterFunc(math.MaxInt64, func() { r.trial.Elapse(); r.judge() })
	s.moving.Add(2) // until the version that loses is over, and the last pair
	return r
}

// Try puts the new version on trial.
func (r *Rollout) Try() {
	r.stage.present.Store(r.of)
	if d, ok := r.trial.Lasting(); ok {
		r.timer.Reset(d)
	}
}

// startShared starts the instances that workers share.
func (r *Rollout) startShared() error {
	if err := r.versions[trial.Before].StartShared(); err != nil {
		return err
	}
	if err := r.versions[trial.After].StartShared(); err != nil {
		r.failed(err)
	}
	return nil
}

// acquire returns an instance of the old version, as one of two.
func (r *Rollout) acquire(ctx context.Context) (Instance, error) {
	inst, err := r.versions[trial.Before].acquire(ctx)
	if err != nil {
		return nil, err
	}
	return r.wrap(inst), nil
}

// wrap makes an instance of the old version one of two, while the rollout is on trial.
func (r *Rollout) wrap(inst Instance) Instance {
	if _, _, _, ok := r.of.reserve(); !ok {
		return inst
	}
	return &pair{rollout: r, parts: [2]Instance{inst, nil}}
}

// State returns how far the rollout has come.
func (r *Rollout) State() trial.State {
	if end := r.end.Load(); end != nil {
		return end.state
	}
	return trial.OnTrial
}

// OnTrial reports whether the rollout is undecided.
func (r *Rollout) OnTrial() bool { return r.State() == trial.OnTrial }

// Why returns why the rollout was rolled back, or nil if it was not.
func (r *Rollout) Why() error {
	if end := r.end.Load(); end != nil {
		return end.why
	}
	return nil
}

// Settled is closed when the rollout has ended and the stage follows the decision.
func (r *Rollout) Settled() <-chan struct{} { return r.settled }

// Versions returns the old and the new version.
func (r *Rollout) Versions() (old, fresh *Version) {
	return r.versions[trial.Before], r.versions[trial.After]
}

// Counts returns what became of the commands that went to a side, [trial.Before] or [trial.After].
func (r *Rollout) Counts(side int) (commands, errors, crashes uint64) {
	s := r.trial.Side(side)
	return s.Commands, s.Errors, s.Crashes
}

// Wait waits until the rollout has ended and the instances of the version that lost have been stopped.
func (r *Rollout) Wait(ctx context.Context) error {
	if err := await(ctx, r.settled); err != nil {
		return err
	}
	lost := r.versions[trial.Before]
	if r.State() == trial.RolledBack {
		lost = r.versions[trial.After]
	}
	if err := await(ctx, lost.Done()); err != nil {
		return err
	}
	return r.Why()
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// note counts a command that a version has handled.
func (r *Rollout) note(side int, failed bool) {
	r.trial.Note(side, failed)
	if side == trial.After {
		r.judge()
	}
}

// judge ends the trial if what was counted decides it. After a hard stop the outcomes of commands say nothing about a
// version.
func (r *Rollout) judge() {
	if !r.OnTrial() || r.stage.Inbox.Halted() {
		return
	}
	if how, why := r.trial.Verdict(); how != trial.OnTrial {
		r.Decide(how, why)
	}
}

// countCrash counts a crash.
func (r *Rollout) countCrash(side int, crash error) {
	if r.trial.Crashed(side) {
		r.Decide(trial.RolledBack, plain.Because(trial.ErrCanary, "", crash))
	}
}

// failed rolls back because an instance of the new version could not be made.
func (r *Rollout) failed(err error) {
	if !errors.Is(err, errRetired) {
		r.Decide(trial.RolledBack, plain.Because(trial.ErrCanary, "", err))
	}
}

// Decide ends the rollout, and reports whether this call did so. The instances of the version that loses are stopped: idle
// ones here, others by their workers when they have finished what they hold.
func (r *Rollout) Decide(how trial.State, why error) bool {
	wins, loses := r.versions[trial.After], r.versions[trial.Before]
	heir := wins
	if how == trial.RolledBack {
		wins, loses, heir = loses, wins, nil
	}
	if !r.install(wins, &verdict{how, why}) {
		return false
	}
	r.timer.Stop()
	r.of.retire(nil)
	loses.retire(heir)
	r.stage.sweep()
	r.stage.Inbox.WakeAll()
	r.notify(r)
	close(r.settled)
	return true
}

// install makes the version that wins the present one, unless there is a verdict already. A goroutine that reads the verdict
// finds that version to be the present one.
func (r *Rollout) install(wins *Version, end *verdict) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.OnTrial() {
		return false
	}
	r.stage.present.Store(wins)
	r.end.Store(end)
	return true
}
