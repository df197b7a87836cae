package stage

import (
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/worker"
)

// The defaults of a canary's trial.
const (
	// DefaultMargin is by how much the new version's share of errors may exceed the old
	// one's.
	DefaultMargin = 0.05
	// DefaultLeast is how many commands the new version answers before its errors count.
	DefaultLeast = 100
)

// UpgradeOption sets how an upgrade goes. Options are checked by [Stage.Upgrade]; each may be
// given once, and none may be nil.
type UpgradeOption func(*plan)

// Canary has only a part of the commands, above 0 and at most 1, go to the new version:
// of n commands the whole part of n times the fraction, spread evenly, counted over all
// workers. A worker runs both versions, so commands are handled in the order in which they
// would be otherwise; only of a [behaviour.Batcher]'s batch the new version gets its part
// first. What comes of them leaves in order in any case.
//
// A command goes to the new version at most once: if it crashes there, it goes to the old
// one, before all others, and is not charged with it. The old version's instance stays.
//
// Of a stage whose handlers suspend, a command stays with the version that began it, whatever
// becomes of the trial meanwhile: it ends there, and counts when it has ended.
//
// The trial ends with the new version promoted ([PromoteAfter], [Rollout.Promote]) or with
// all as it was: after a crash ([MaxCrashes]), after too many errors ([MaxErrors]), if an
// instance cannot be made, by [Rollout.Rollback], or when the stage ends.
func Canary(fraction float64) UpgradeOption {
	return func(p *plan) {
		p.once("Canary")
		p.canary, p.law.Fraction = true, fraction
		p.check(fraction > 0 && fraction <= 1, "must be above 0 and at most 1", "Canary(%v)", fraction)
	}
}

// By has commands with the same key go to the same version, during a [Canary]'s trial: the
// fraction is one of keys then. A key belongs to the new version or not by its hash, which is
// the same in every trial; what a smaller fraction gets, a larger one gets too. It may be
// called by several workers at once. If it panics that is a crash of the new version.
func By[C any](key func(cmd C) string) UpgradeOption {
	return func(p *plan) {
		p.once("By")
		p.key = key
		p.check(key != nil, "the key is nil", "By")
	}
}

// MaxErrors sets when a [Canary] is rolled back for its errors: when its share of commands
// that were answered with an error exceeds the old version's, in the same trial, by more than
// the margin, which is from 0 to 1. That is asked once the new version has answered the least number of
// commands, and always before it is promoted by itself. An old version that has answered
// nothing is taken for one without errors. The default is [DefaultMargin] and [DefaultLeast].
func MaxErrors(margin float64, least int) UpgradeOption {
	return func(p *plan) {
		p.once("MaxErrors")
		p.law.Margin, p.law.Least = margin, uint64(max(least, 0))
		p.check(margin >= 0 && margin <= 1, "the margin must be from 0 to 1", "MaxErrors(%v, %d)", margin, least)
		p.check(least >= 1, "must ask for at least 1 command", "MaxErrors(%v, %d)", margin, least)
	}
}

// MaxCrashes sets how many crashes of a [Canary] are endured. The default is none.
func MaxCrashes(n int) UpgradeOption {
	return func(p *plan) {
		p.once("MaxCrashes")
		p.law.Crashes = uint64(max(n, 0))
		p.check(n >= 0, "must not be negative", "MaxCrashes(%d)", n)
	}
}

// PromoteAfter has a [Canary] promoted by itself, when the new version has answered so many
// commands and the trial has lasted so long, both; 0 asks for none. The default is to wait
// for [Rollout.Promote].
func PromoteAfter(commands int, lasting time.Duration) UpgradeOption {
	return func(p *plan) {
		p.once("PromoteAfter")
		p.law.Promote = true
		p.law.Commands, p.law.Lasting = uint64(max(commands, 0)), lasting
		p.check(commands >= 0 && lasting >= 0, "must not be negative", "PromoteAfter(%d, %v)", commands, lasting)
		p.check(commands != 0 || lasting != 0, "asks for no trial", "PromoteAfter(%d, %v)", commands, lasting)
	}
}

// plan is how an upgrade is to go.
type plan struct {
	stage  string
	canary bool
	given  []string // the options' names
	law    worker.TrialLimits
	key    any // func(C) string
	faults []error
}

func newPlan[C any](stage string, opts []UpgradeOption) *plan {
	p := &plan{stage: stage, law: worker.TrialLimits{Margin: DefaultMargin, Least: DefaultLeast}}
	for i, o := range opts {
		if o == nil {
			p.check(false, "is nil", "Upgrade: option %d", i+1)
			continue
		}
		o(p)
	}
	p.check(p.canary || len(p.given) == 0, "By, MaxErrors, MaxCrashes and PromoteAfter mean nothing without a Canary", "Upgrade")
	switch key := p.key.(type) {
	case nil:
	case func(C) string:
		p.law.Key = func(cmd any) string {
			c, _ := cmd.(C) // a nil of an interface type is its zero value
			return key(c)
		}
	default:
		var c *C
		p.check(false, fmt.Sprintf("is not a key of the stage's commands, %s", fmt.Sprintf("%T", c)[1:]), "By(%T)", p.key)
	}
	return p
}

// once notes that an option is given: two of a kind would say two things.
func (p *plan) once(option string) {
	p.check(!slices.Contains(p.given, option), "is given twice", "%s", option)
	p.given = append(p.given, option)
}

func (p *plan) check(ok bool, problem, option string, args ...any) {
	if !ok {
		p.faults = append(p.faults, &Fault{p.stage, fmt.Sprintf(option, args...), problem})
	}
}
