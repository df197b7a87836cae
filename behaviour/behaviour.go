package behaviour

import "context"

// Behaviour handles one command of type C at a time.
//
// HandleCommand is called by one worker at a time for an instance made by a
// [Factory], and by many workers at once for a shared one. The context ends
// when the command's time limit passes, the pipeline stops hard, or the context that the command was
// asked for with ends (stage.Ask, stage.Call); a handler that may take long watches it. It has the values of the context that
// the command was submitted with. The context is valid until HandleCommand returns, and no longer: it may end then.
type Behaviour[C any] interface {
	HandleCommand(ctx context.Context, cmd C) Outcome
}

// Func is a behaviour without state of its own.
type Func[C any] func(ctx context.Context, cmd C) Outcome

// HandleCommand calls f.
func (f Func[C]) HandleCommand(ctx context.Context, cmd C) Outcome { return f(ctx, cmd) }

// Factory makes a fresh instance: one for each worker that is at the stage, when it is
// first needed, and one more after each crash. It must not return nil. It may be called from several
// goroutines at once.
type Factory[C any] func() Behaviour[C]

// Starter is asked of an instance before its first command. An error counts
// as a crash of the worker: at the start of a pipeline it fails the start,
// later it is tried again, with a growing pause, on a new instance.
// The context ends when the pipeline stops hard.
type Starter interface {
	Start(ctx context.Context) error
}

// Stopper is told that an instance has seen its last command, crashed ones
// included, so that resources are given back. It is called exactly once for
// an instance that was started, when nobody uses it any more. A panic in Stop
// is logged and goes no further.
type Stopper interface {
	Stop()
}

// Versioned is for a behaviour that says which version of itself it is, such as that of
// its model or its rules. Version is asked once for an instance, when it has been made;
// what it said is told by the stage's snapshot, by upgrades, and by the log and the letters
// of commands that crashed it.
type Versioned interface {
	Version() string
}

// Batcher is for a behaviour that is better at many commands than at one. If
// an instance is a Batcher, its worker calls HandleBatch instead of
// HandleCommand, with one command or more, in order, never more than the
// stage's batch.
//
// It returns one outcome for each command, in the same order; any other number
// is a crash. The slice belongs to the engine: do not keep it. When a batch of n
// crashes, its commands are given to HandleBatch again, about √n at a time, and
// those of a batch that crashes then one by one, so that only the culprit is charged. So
// HandleBatch may be given a command that crashes nothing up to three times.
//
// The context is the batch's: it has no values of the contexts that the commands were submitted with, and does not end
// with them. A command whose caller's context ended before the batch began is not given to HandleBatch.
type Batcher[C any] interface {
	HandleBatch(ctx context.Context, cmds []C) []Outcome
}
