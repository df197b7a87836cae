package stage

// defaultInstances is how many commands of a stage whose handlers may suspend
// are in progress at once.
const defaultInstances = 1024

// Workers sets the fewest and the most workers. A stage starts with the fewest,
// and the pipeline's controller moves the number between the bounds; equal
// bounds fix it. Each worker runs one handler at a time, so Workers(1, 1)
// handles one command after the other, in the order of the queue. A policy that
// lets stages share workers leaves a stage its own workers if it asks for more
// than the shared pool has.
//
// The default is GOMAXPROCS and four times that: the handlers of a new stage
// run in parallel from its second command on. A stage that is given fewer
// [Instances] than GOMAXPROCS, and no Workers, starts with one worker for each
// instance.
func Workers(fewest, most int) Option {
	return once("Workers", func(s *settings) { s.engine.Fewest, s.engine.Most, s.engine.Asks = fewest, most, true })
}

// Instances sets how many workers may be at the stage at once, however many
// workers there are. The default is the most of [Workers]. It matters if many
// stages share a pool of workers, and for a stage that must have only one
// instance.
//
// For a stage whose handlers may suspend ([Coroutine], or [Keyed] with such
// instances) Instances sets how many commands may be in progress at once:
// commands that workers hold, suspended commands, and commands that are about
// to continue. The default is 1024; each suspended command holds about 3 KB.
func Instances(n int) Option {
	return once("Instances", func(s *settings) { s.engine.Inbox.Instances, s.instances = n, true })
}

// SnapshotEvery sets after how many commands of an instance its Snapshot is
// called, see [behaviour.Snapshotter]. The default is 1: then a crash undoes
// the changes of the command that crashed, and no others. With a larger n a
// crash also undoes the changes of up to n−1 commands before it, although they
// have ended and may have been answered. An instance that is stopped without a
// crash, because it is idle, one too many, or of an old version, loses nothing.
// A Batcher has a snapshot after the batch in which the number was reached.
func SnapshotEvery(n int) Option {
	return once("SnapshotEvery", func(s *settings) { s.snapshotEvery, s.snapshots = n, true })
}

// suspending marks the stage as one whose handlers may suspend. New adds it
// after the options of the caller.
func suspending(s *settings) { s.suspends = true }

// Blocking says that the stage's handlers wait (for a disk, a peer, another
// stage) rather than compute. Policies that let stages share workers leave such
// a stage its own workers, so that no other stage waits with it.
func Blocking() Option { return func(s *settings) { s.engine.Blocking = true } }

func (s *settings) setInstances() {
	if s.instances && !s.suspends && !s.engine.Asks {
		s.engine.Fewest = max(min(s.engine.Fewest, s.engine.Inbox.Instances), 1) // a further worker would have no instance to use
	}
	switch {
	case s.instances:
	case s.suspends:
		s.engine.Inbox.Instances = defaultInstances
	default:
		s.engine.Inbox.Instances, s.engine.Fits = s.engine.Most, true
	}
}
