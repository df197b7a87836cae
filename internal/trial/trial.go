// Package trial decides about the canary of an upgrade: which commands go to the new version of a behaviour, and whether
// its trial is over.
//
// A [Trial] starts and stops nothing. It counts what the versions return, and says how the trial should end; package
// worker carries that out.
package trial

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync/atomic"
	"time"
)

// ErrCanary is why a rollout was rolled back without a caller's decision: the new version crashed, could not start, or
// returned too many errors.
var ErrCanary = errors.New("stage: the new version did not stand its trial")

// State says how far a rollout has come.
type State uint8

// The states. The last two are final.
const (
	OnTrial    State = iota // some commands go to the new version
	Promoted                // all commands go to the new version
	RolledBack              // all commands go to the old version, as before
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

// The two sides of a rollout.
const (
	Before = 0 // the old version
	After  = 1 // the new version, the canary
)

// Limits says which commands go to a canary, and what ends its trial.
type Limits struct {
	Fraction float64              // of the commands, above 0 and at most 1
	Key      func(cmd any) string // if not nil, commands with the same key go to the same version
	Margin   float64              // by how much its share of errors may exceed the old version's
	Least    uint64               // how many commands it handles before its share of errors is compared
	Crashes  uint64               // how many crashes do not end the trial
	Promote  bool                 // it is promoted after Commands and Lasting
	Commands uint64
	Lasting  time.Duration
}

// Side counts what became of the commands that went to one version during a rollout.
type Side struct{ Commands, Errors, Crashes uint64 }

// share is the part of the commands that ended with an error.
func (s Side) share() float64 {
	if s.Commands == 0 {
		return 0
	}
	return float64(s.Errors) / float64(s.Commands)
}

// Trial counts what becomes of the commands of both versions. Any goroutine may call its methods.
type Trial struct {
	limits  Limits
	sides   [2]struct{ commands, errors, crashes atomic.Uint64 }
	offered atomic.Uint64 // commands for which PicksNew was called without a key
	elapsed atomic.Bool   // Limits.Lasting has passed
}

// New returns a trial in which no command was counted.
func New(limits Limits) *Trial {
	t := &Trial{limits: limits}
	t.elapsed.Store(limits.Lasting == 0)
	return t
}

// Lasting returns the least duration of a trial that is promoted by itself, and false if it is not, or needs no time.
func (t *Trial) Lasting() (time.Duration, bool) {
	return t.limits.Lasting, t.limits.Promote && t.limits.Lasting > 0
}

// Elapse records that Limits.Lasting has passed.
func (t *Trial) Elapse() { t.elapsed.Store(true) }

// PicksNew reports whether a command goes to the canary. Of n commands it picks the whole part of n times the fraction,
// spread evenly. With a key it picks a part of all keys: the same ones in every rollout, and those of a smaller fraction
// are among those of a larger one. It calls user code if there is a key.
func (t *Trial) PicksNew(cmd any) bool {
	if t.limits.Key != nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.limits.Key(cmd)))
		return float64(mix(h.Sum64())>>11)/(1<<53) < t.limits.Fraction
	}
	n := float64(t.offered.Add(1))
	return math.Floor(n*t.limits.Fraction) > math.Floor((n-1)*t.limits.Fraction)
}

// mix spreads a hash over all its bits. It is the finalizer of MurmurHash3 (Appleby 2011).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Note counts a command that a version has handled.
func (t *Trial) Note(side int, failed bool) {
	if failed {
		t.sides[side].errors.Add(1)
	}
	t.sides[side].commands.Add(1)
}

// Crashed counts a crash of a version, and reports whether it ends the trial.
func (t *Trial) Crashed(side int) bool {
	return t.sides[side].crashes.Add(1) > t.limits.Crashes && side == After
}

// Side returns what became of the commands of the old or the new version.
func (t *Trial) Side(side int) Side {
	s := &t.sides[side]
	return Side{s.commands.Load(), s.errors.Load(), s.crashes.Load()}
}

// Verdict returns how the trial ends by what was counted so far: OnTrial if it goes on. Why is the reason to roll back.
func (t *Trial) Verdict() (how State, why error) {
	old, fresh := t.Side(Before), t.Side(After)
	due := t.limits.Promote && t.elapsed.Load() && fresh.Commands >= t.limits.Commands
	switch bad := fresh.share() > old.share()+t.limits.Margin; {
	case bad && (due || fresh.Commands >= t.limits.Least):
		return RolledBack, fmt.Errorf("%w: %d errors of %d commands, where the old version had %d of %d",
			ErrCanary, fresh.Errors, fresh.Commands, old.Errors, old.Commands)
	case due:
		return Promoted, nil
	}
	return OnTrial, nil
}
