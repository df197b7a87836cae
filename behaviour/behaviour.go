package behaviour

import "context"

// Behaviour handles one command of type C at a time.
//
// HandleCommand is called by one worker at a time on an instance made by a
// [Factory], and by many workers at once on a shared one. The context ends when
// the command's time limit passes, when the pipeline stops hard, or when the
// context of the caller (stage.Ask, stage.Call) ends; a handler that may take
// long watches it. The context has the values of the context that the command
// was submitted with. It is valid until HandleCommand returns and may end then.
type Behaviour[C any] interface {
	HandleCommand(ctx context.Context, cmd C) Outcome
}

// Func is a behaviour without state of its own.
type Func[C any] func(ctx context.Context, cmd C) Outcome

// HandleCommand calls f.
func (f Func[C]) HandleCommand(ctx context.Context, cmd C) Outcome { return f(ctx, cmd) }

// Factory makes a fresh instance: one for each worker of the stage, when that
// worker first needs it, and one more after each crash. It must not return nil.
// It may be called from several goroutines at once.
type Factory[C any] func() Behaviour[C]

// Starter is implemented by a behaviour that needs to start before its first
// command. An error from Start counts as a crash of the worker: at the start of
// a pipeline it fails the start; later the worker tries again on a new
// instance, after a growing pause. The context ends when the pipeline stops
// hard.
type Starter interface {
	Start(ctx context.Context) error
}

// Stopper is implemented by a behaviour that holds resources. Stop is called
// when the instance has seen its last command, also if it crashed, so that it
// can give its resources back. Stop is called exactly once for each instance
// that was started, when no worker uses the instance any more. A panic in Stop
// is logged and goes no further.
type Stopper interface {
	Stop()
}

// Snapshotter is implemented by a behaviour whose state must survive a crash.
// Such a behaviour is also a [Restorer]. It is for stages whose instances are
// made by a factory, stage.Each and stage.Keyed.
//
// The worker calls Snapshot
//   - after each handler, whatever its outcome, and before the outcome takes
//     effect; less often with stage.SnapshotEvery;
//   - after the instance was restored;
//   - before an instance that has changed since is stopped.
//
// It never calls Snapshot while a handler of the instance runs. If the next
// command crashes, a fresh instance gets the last snapshot. So a snapshot has
// the changes of the commands that have ended, and nothing of the command that
// crashed. Snapshot is a part of the handling of its command: if it panics, the
// command has crashed.
//
// The result must not share anything with the behaviour that a later command
// changes: Snapshot copies maps, slices and the values that pointers point to.
// If the result is nil there is nothing to keep, and the next instance begins
// without a state.
type Snapshotter interface {
	Snapshot() any
}

// Restorer is implemented by a behaviour that takes over the state that a
// [Snapshotter] returned.
//
// If there is a snapshot, the worker calls Restore once, after Start and before
// the first command. Restore may keep the state: nothing else uses it. In a
// stage.Each the Stop of the instance before may still run. After an upgrade
// the state may be the old version's. If Restore returns an error or panics,
// that is logged, the instance is stopped, and a fresh one begins without a
// state; no command is charged.
type Restorer interface {
	Restore(state any) error
}

// Versioned is implemented by a behaviour that reports its own version, such as
// the version of its model or its rules. The engine calls Version once for an
// instance, after the instance was made. The stage's snapshot, upgrades, the
// log, and the dead letters of commands that crashed the instance show the
// result.
type Versioned interface {
	Version() string
}

// Batcher is implemented by a behaviour that handles many commands better than
// one. If an instance is a Batcher, its worker calls HandleBatch instead of
// HandleCommand, with one command or more, in order, and never with more than
// the stage's batch size.
//
// HandleBatch returns one outcome for each command, in the same order; any
// other number of outcomes is a crash. The slice belongs to the engine: do not
// keep it. When a batch of n commands crashes, the worker calls HandleBatch
// again with about √n of them at a time, and then, for each of these smaller
// batches that crashes, with one command at a time. So only the command that
// causes the crash is charged for it, and HandleBatch may get an innocent
// command up to three times.
//
// The context is the batch's: it has no values of the contexts that the
// commands were submitted with, and does not end when they end. HandleBatch
// does not get a command whose caller's context ended before the batch started.
type Batcher[C any] interface {
	HandleBatch(ctx context.Context, cmds []C) []Outcome
}
