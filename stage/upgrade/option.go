package upgrade

import (
	"time"

	"github.com/golda-dev/golda/internal/engine"
)

// Option sets how an upgrade goes. Stage.Upgrade checks the options: each may be given once, and none may be nil.
type Option func(*engine.Plan)

// Canary sends only a fraction of the commands, above 0 and at most 1, to the new version. Of n commands it gets n times
// the fraction, rounded down, spread evenly and counted over all workers. A worker runs both versions, so commands are
// handled in the order in which they would be handled without a canary. There is one exception: of the batch of a
// behaviour.Batcher the new version gets its part first. What the commands forward leaves in order in any case.
//
// A command goes to the new version at most once. If it crashes there, it goes to the old version, before all other
// commands, and the crash does not count as one of its attempts. The instance of the old version stays.
//
// In a stage whose handlers suspend, a command stays with the version that started it, even if the trial ends meanwhile.
// It ends in that version, and it is counted when it has ended.
//
// The trial ends when the new version is promoted ([PromoteAfter], [Rollout.Promote]) or rolled back: after a crash
// ([MaxCrashes]), after too many errors ([MaxErrors]), if an instance cannot be made, by [Rollout.Rollback], or when the
// stage ends.
func Canary(fraction float64) Option {
	return func(p *engine.Plan) {
		p.Give("Canary")
		p.Canary, p.Limits.Fraction = true, fraction
		p.Check(fraction > 0 && fraction <= 1, "must be above 0 and at most 1", "Canary(%v)", fraction)
	}
}

// By sends commands with the same key to the same version during the trial of a [Canary]; the fraction is then a fraction
// of the keys. The hash of a key decides, so a key goes the same way in every trial, and each key that a small fraction
// sends to the new version goes there with a larger fraction too. Several workers may call the function at once. A panic
// of the function is a crash of the new version.
func By[C any](key func(cmd C) string) Option {
	return func(p *engine.Plan) {
		p.Give("By")
		p.Key = key
		p.Check(key != nil, "the key is nil", "By")
	}
}

// MaxErrors rolls a [Canary] back for its errors: when the share of its commands that were answered with an error exceeds
// the share of the old version, in the same trial, by more than the margin, which is from 0 to 1. The shares are compared
// once the new version has answered the least number of commands, and always before it is promoted automatically. An old
// version that has answered nothing counts as one without errors. The default is a margin of 0.05 and 100 commands.
func MaxErrors(margin float64, least int) Option {
	return func(p *engine.Plan) {
		p.Give("MaxErrors")
		p.Limits.Margin, p.Limits.Least = margin, uint64(max(least, 0))
		p.Check(margin >= 0 && margin <= 1, "the margin must be from 0 to 1", "MaxErrors(%v, %d)", margin, least)
		p.Check(least >= 1, "must ask for at least 1 command", "MaxErrors(%v, %d)", margin, least)
	}
}

// MaxCrashes sets how many crashes a [Canary] may have before it is rolled back. The default is none.
func MaxCrashes(n int) Option {
	return func(p *engine.Plan) {
		p.Give("MaxCrashes")
		p.Limits.Crashes = uint64(max(n, 0))
		p.Check(n >= 0, "must not be negative", "MaxCrashes(%d)", n)
	}
}

// PromoteAfter promotes a [Canary] automatically, when the new version has answered a number of commands and the trial has
// lasted for a time, both; 0 leaves out one of the conditions. The default is to wait for [Rollout.Promote].
func PromoteAfter(commands int, lasting time.Duration) Option {
	return func(p *engine.Plan) {
		p.Give("PromoteAfter")
		p.Limits.Promote = true
		p.Limits.Commands, p.Limits.Lasting = uint64(max(commands, 0)), lasting
		p.Check(commands >= 0 && lasting >= 0, "must not be negative", "PromoteAfter(%d, %v)", commands, lasting)
		p.Check(commands != 0 || lasting != 0, "asks for no trial", "PromoteAfter(%d, %v)", commands, lasting)
	}
}
