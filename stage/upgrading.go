package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/trial"
	"github.com/golda-dev/golda/stage/upgrade"
)

// Upgrade replaces the stage's behaviour by another version: from now on, an instance that the factory makes handles the
// next batch of each worker. For a stage whose workers share one behaviour ([New], [Func]) Upgrade calls the factory once.
// The queue, the accounts and the workers stay. No command is lost, charged with an attempt or reordered.
//
// Upgrade first makes one instance and, if the stage runs, starts it, as a trial. If that fails, or ctx ends before the
// instance has started, Upgrade returns the reason and nothing has changed. The instance is kept, and is the first that a
// worker gets.
//
// The old instances finish the batches that they hold. Then the worker of each stops it, before that worker makes a new
// one. So no more instances of the two versions together are in use than [Instances] says, and with one instance the two
// versions never work at once. The instance of the trial comes on top: it waits beside the old ones. Rollout.Wait waits
// until the last old instance has been stopped. A handler that hangs keeps its instance.
//
// Instances of the new version that are Restorers begin with the states of the old ones, if those are Snapshotters; see
// [behaviour.Snapshotter]. In the trial of a canary both versions have the state, each its own: a canary's instance begins
// with a snapshot of the old instance beside it, and is rolled back if it cannot be restored. What the version that loses has
// changed since is lost with it.
//
// With [upgrade.Canary] only a part of the commands goes to the new version, until it is promoted. Upgrade then returns
// when the trial has started.
//
// Upgrade may be called by any goroutine, at any time: while the stage is paused, bound to a shared pool, or drained, and
// before its start. Before the start it only replaces the factory, since the start tries the factory. Upgrade returns
// [upgrade.ErrUpgrading] while another upgrade is under way, [upgrade.ErrEnded] when the stage has stopped, and [*Fault]s
// for options that are wrong.
func (s *Stage[C]) Upgrade(ctx context.Context, factory behaviour.Factory[C], opts ...upgrade.Option) (*upgrade.Rollout, error) {
	link.CheckContext(ctx, "stage: Upgrade")
	p := newPlan[C](opts)
	p.Check(!s.set.keyed, "a keyed stage cannot be upgraded: the new version would not have the state of the keys", "Upgrade")
	p.Check(s.set.Inbox.Holder == nil, "a stage with windows cannot be upgraded: the new version would not have the open ones", "Upgrade")
	p.Check(factory != nil, "the factory is nil", "Upgrade")
	if len(p.Problems) > 0 {
		faults := make([]error, len(p.Problems))
		for i, wrong := range p.Problems {
			faults[i] = &Fault{s.Name(), wrong.Option, wrong.Problem}
		}
		return nil, errors.Join(faults...)
	}
	r, err := s.core.Upgrade(ctx, s.core.NewVersion(maker(s.set, factory)), p.Limits, p.Canary)
	if err != nil {
		return nil, plain.Wrap(fmt.Sprintf("stage %q: upgrade", s.Name()), err)
	}
	return upgrade.NewRollout(s.Name(), r), nil
}

// The defaults of upgrade.MaxErrors.
const (
	defaultMargin = 0.05
	defaultLeast  = 100
)

func newPlan[C any](opts []upgrade.Option) *engine.Plan {
	p := &engine.Plan{Limits: trial.Limits{Margin: defaultMargin, Least: defaultLeast}}
	for i, o := range opts {
		if o == nil {
			p.Check(false, "is nil", "Upgrade: option %d", i+1)
			continue
		}
		o(p)
	}
	p.Check(p.Canary || len(p.Given) == 0, "By, MaxErrors, MaxCrashes and PromoteAfter mean nothing without a Canary", "Upgrade")
	switch key := p.Key.(type) {
	case nil:
	case func(C) string:
		p.Limits.Key = func(cmd any) string {
			c, _ := cmd.(C) // a nil of an interface type is its zero value
			return key(c)
		}
	default:
		var c *C
		p.Check(false, fmt.Sprintf("is not a key of the stage's commands, %s", fmt.Sprintf("%T", c)[1:]), "By(%T)", p.Key)
	}
	return p
}
