package stage

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/version"
)

// Upgrade replaces the stage's behaviour by another version: from now on, an
// instance that the factory makes handles the next batch of each worker. For a
// stage whose workers share one behaviour ([New], [Func]) Upgrade calls the
// factory once. The queue, the accounts and the workers stay. No command is
// lost, charged with an attempt or reordered.
//
// Upgrade first makes one instance and, if the stage runs, starts it, as a
// trial. If that fails, or ctx ends before the instance has started, Upgrade
// returns the reason and nothing has changed. The instance is kept, and is the
// first that a worker gets.
//
// The old instances finish the batches that they hold. Then the worker of each
// stops it, before that worker makes a new one. So no more instances of the two
// versions together are in use than [Instances] says, and with one instance the
// two versions never work at once. The instance of the trial comes on top: it
// waits beside the old ones. The channel that Upgrade returns is closed when
// the last old instance has been stopped. A handler that hangs keeps its
// instance.
//
// Instances of the new version that are Restorers begin with the states of the
// old ones, if those are Snapshotters; see [behaviour.Snapshotter].
//
// Upgrade may be called by any goroutine, at any time: while the stage is
// paused, bound to a shared pool, or drained, and before its start. Before the
// start it only replaces the factory, since the start tries the factory. A
// second upgrade waits for the first one; so the factory and the Start of an
// instance must not upgrade their own stage. The error is [ErrStopped] when the
// stage has stopped, [ErrElsewhere] if it runs in another process, and a
// [*OptionError] if it cannot be upgraded.
//
// To try a version on a part of the commands first, put it into a stage of its
// own, and have a stage before it send that part there with [Flow.Route].
func (s *Stage[C]) Upgrade(ctx context.Context, factory behaviour.Factory[C]) (replaced <-chan struct{}, err error) {
	link.CheckContext(ctx, "stage: Upgrade")
	var makes func(of *version.Version) engine.Instance
	if factory != nil {
		makes = maker(s.set, factory)
	}
	return s.set.upgrade(ctx, s.core, makes)
}

// upgrade is Upgrade without the type of the commands. The function is nil if
// the factory is.
func (s *settings) upgrade(
	ctx context.Context, core *engine.Core, makes func(of *version.Version) engine.Instance,
) (replaced <-chan struct{}, err error) {
	problem := ""
	switch {
	case s.keying.on:
		problem = "a keyed stage cannot be upgraded: the new version would not have the state of the keys"
	case s.engine.Inbox.Holder != nil:
		problem = "a stage with windows cannot be upgraded: the new version would not have the open ones"
	case makes == nil:
		problem = "the factory is nil"
	}
	if problem != "" {
		return nil, &OptionError{core.Name(), "Upgrade", problem}
	}
	before, err := core.Upgrade(ctx, makes)
	if err != nil {
		return nil, plain.Wrap(fmt.Sprintf("stage %q: upgrade", core.Name()), err)
	}
	return before.Done(), nil
}
