package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/plain"
)

// ErrCanary is why a rollout was rolled back that nobody rolled back: the new version
// crashed, could not start, or answered too many errors.
var ErrCanary = errors.New("stage: the new version did not stand its trial")

// State says how far a rollout has come.
type State uint8

// The states. The last two are final.
const (
	OnTrial    State = iota // some commands go to the new version
	Promoted                // all go to the new one
	RolledBack              // all go to the old one, as before
)

// String returns the state in words.
func (s State) String() string {
	switch s {
	case OnTrial:
		return "on trial"
	case Promoted:
		return "promoted"
	case RolledBack:
		return "rolled back"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// TrialLimits says which commands go to a canary, and what ends its trial.
type TrialLimits struct {
	Fraction float64              // of the commands, from above 0 to 1
	Key      func(cmd any) string // if not nil, commands with the same key go the same way
	Margin   float64              // by how much its share of errors may exceed the old version's
	Least    uint64               // commands before that is asked
	Crashes  uint64               // how many are endured
	Promote  bool                 // it is promoted, after Commands and Lasting
	Commands uint64
	Lasting  time.Duration
}

// Side is what became of the commands that went to one version during a rollout.
type Side struct{ Commands, Errors, Crashes uint64 }

// share is the part of the commands that ended with an error.
func (s Side) share() float64 {
	if s.Commands == 0 {
		return 0
	}
	return float64(s.Errors) / float64(s.Commands)
}

// tally counts what becomes of the commands of one side.
type sideTally struct{ commands, errors, crashes atomic.Uint64 }

func (t *sideTally) read() Side {
	return Side{t.commands.Load(), t.errors.Load(), t.crashes.Load()}
}

// verdict is how a rollout ended, and why so, if it was rolled back.
type verdict struct {
	state State
	why   error
}

// Rollout is the way from one version to another: at once, or by a canary's trial. Its
// methods may be called by anybody. Who decides how it ends sees to it: a worker, in the
// middle of its batch, or a caller.
type Rollout struct {
	stage    *Stage
	versions [2]*Version
	of       *Version // the rollout, as the version of a Both
	law      TrialLimits
	tell     func(*Rollout)

	sides   [2]sideTally
	offered atomic.Uint64 // commands about which was asked
	elapsed atomic.Bool
	timer   *time.Timer
	mu      sync.Mutex              // guards the writing of end
	end     atomic.Pointer[verdict] // nil while on trial
	settled chan struct{}           // closed when all follow the verdict
}

// NewRollout returns the way from the present version to another, not begun. Tell is told
// how it ended.
func (s *Stage) NewRollout(to *Version, law TrialLimits, tell func(*Rollout)) *Rollout {
	r := &Rollout{stage: s, versions: [2]*Version{s.Present(), to}, law: law, tell: tell, settled: make(chan struct{})}
	r.of = &Version{stage: s, rollout: r, done: make(chan struct{})}
	r.timer = time.AfterFunc(math.MaxInt64, func() { r.elapsed.Store(true); r.judge() })
	r.elapsed.Store(law.Lasting == 0)
	s.moving.Add(2) // until the version that loses is over, and the last Both
	return r
}

// Try puts the new version on trial.
func (r *Rollout) Try() {
	r.stage.present.Store(r.of)
	if r.law.Promote && r.law.Lasting > 0 {
		r.timer.Reset(r.law.Lasting)
	}
}

// startTrial starts the instances that workers share.
func (r *Rollout) startTrial() error {
	if err := r.versions[before].StartTrial(); err != nil {
		return err
	}
	if err := r.versions[after].StartTrial(); err != nil {
		r.failed(err)
	}
	return nil
}

// start returns an instance that is two.
func (r *Rollout) start(ctx Context) (Instance, error) {
	inst, err := r.versions[before].start(ctx)
	if err != nil {
		return nil, err
	}
	return r.wrap(inst), nil
}

// wrap makes an instance of the version before one of two, while the rollout goes on.
func (r *Rollout) wrap(inst Instance) Instance {
	if _, _, ok := r.of.join(); !ok {
		return inst
	}
	return &Both{rollout: r, parts: [2]Instance{inst, nil}}
}

// State tells how far the rollout has come.
func (r *Rollout) State() State {
	if end := r.end.Load(); end != nil {
		return end.state
	}
	return OnTrial
}

// OnTrial reports whether nothing has been decided yet.
func (r *Rollout) OnTrial() bool { return r.State() == OnTrial }

// Why is why the rollout was rolled back, nil if it was not or not yet.
func (r *Rollout) Why() error {
	if end := r.end.Load(); end != nil {
		return end.why
	}
	return nil
}

// Settled is closed when the rollout has ended and all follow.
func (r *Rollout) Settled() <-chan struct{} { return r.settled }

// Versions are the version before and the new one.
func (r *Rollout) Versions() (old, fresh *Version) { return r.versions[before], r.versions[after] }

// Sides tell what became of the commands that went to either version. What is on its way
// meanwhile may be counted on one side only.
func (r *Rollout) Sides() (old, fresh Side) {
	return r.sides[before].read(), r.sides[after].read()
}

// Wait waits until the rollout has ended and the instances of the version that lost have
// been stopped.
func (r *Rollout) Wait(ctx context.Context) error {
	if err := await(ctx, r.settled); err != nil {
		return err
	}
	lost := r.versions[before]
	if r.State() == RolledBack {
		lost = r.versions[after]
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

// picksNew reports whether a command goes to the canary. Of n commands it is the whole part
// of n times the fraction, spread evenly; with a key it is a part of all keys, the same
// in every rollout, and those of a fraction are among those of a larger one.
func (r *Rollout) picksNew(cmd any) bool {
	if r.law.Key != nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(r.law.Key(cmd)))
		return float64(mix(h.Sum64())>>11)/(1<<53) < r.law.Fraction
	}
	n := float64(r.offered.Add(1))
	return math.Floor(n*r.law.Fraction) > math.Floor((n-1)*r.law.Fraction)
}

// mix spreads a hash over all its bits: the finalizer of MurmurHash3 (Appleby 2011).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// note counts a command that a version has answered.
func (r *Rollout) note(side int, failed bool) {
	if failed {
		r.sides[side].errors.Add(1)
	}
	r.sides[side].commands.Add(1)
	if side == after {
		r.judge()
	}
}

// judge ends the trial, if it has been long enough or there are too many errors. What commands answer
// whose stage was stopped hard says nothing of a version.
func (r *Rollout) judge() {
	if !r.OnTrial() || r.stage.Inbox.Halted() {
		return
	}
	old, fresh := r.Sides()
	due := r.law.Promote && r.elapsed.Load() && fresh.Commands >= r.law.Commands
	switch bad := fresh.share() > old.share()+r.law.Margin; {
	case bad && (due || fresh.Commands >= r.law.Least):
		r.Decide(RolledBack, fmt.Errorf("%w: %d errors of %d commands, where the old version had %d of %d",
			ErrCanary, fresh.Errors, fresh.Commands, old.Errors, old.Commands))
	case due:
		r.Decide(Promoted, nil)
	}
}

// crashed counts a crash.
func (r *Rollout) crashed(side int, crash error) {
	if n := r.sides[side].crashes.Add(1); side == after && n > r.law.Crashes {
		r.Decide(RolledBack, plain.Because(ErrCanary, "", crash))
	}
}

// failed hears that an instance of the new version could not be made.
func (r *Rollout) failed(err error) {
	if !errors.Is(err, errRetired) {
		r.Decide(RolledBack, plain.Because(ErrCanary, "", err))
	}
}

// Decide ends the rollout, and reports whether it was the one to do so. The instances of
// the version that loses are stopped: those that nobody uses here, others by their workers,
// when they have finished what they hold.
func (r *Rollout) Decide(how State, why error) bool {
	wins, loses := r.versions[after], r.versions[before]
	if how == RolledBack {
		wins, loses = loses, wins
	}
	if !r.turn(wins, &verdict{how, why}) {
		return false
	}
	r.timer.Stop()
	r.of.retire()
	loses.retire()
	r.stage.sweep()
	r.stage.Inbox.WakeAll()
	r.tell(r)
	close(r.settled)
	return true
}

// turn makes the version that wins the present one, unless there is a verdict already. Who
// reads the verdict finds all commands to go that way.
func (r *Rollout) turn(wins *Version, end *verdict) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.OnTrial() {
		return false
	}
	r.stage.present.Store(wins)
	r.end.Store(end)
	return true
}
