package yield

import "sync"

// Lock guards the state of an inbox. Workers lock it once for a batch; submitters
// lock it for each command, and hold it for some thirty nanoseconds.
//
// A sync.Mutex parks a goroutine that finds it locked, unless its processor has
// no other goroutine to run. Where many goroutines submit there always are
// others, so most of their time would go into parking and waking. And each
// command would be submitted on another processor than the one before, and
// fetch the state from there.
//
// A worker that parks often leaves its processor without any goroutine to run.
// The system's thread then sleeps, and takes longer to wake than the lock was
// held. So a worker yields as long as the lock is held, for a while, and keeps
// the processor awake.
type Lock struct{ sync.Mutex }

// lockYields is how often a worker yields before it blocks. With nothing else
// to run they take some 20 µs. A keyed stage that is handed a batch holds its
// lock for as long.
const lockYields = 100

// Lock locks the lock. It is for workers, and all others that do not submit.
func (l *Lock) Lock() {
	if !l.TryLock() {
		l.yieldForTurn()
	}
}

func (l *Lock) yieldForTurn() {
	for range lockYields {
		if !Once() {
			break // many goroutines wait for the processors, so this one must not go to their end again and again
		}
		if l.TryLock() {
			return
		}
	}
	l.Mutex.Lock()
}

// How long a submitter waits before it tries a lock again: for about a
// microsecond, then for two, long enough for another processor to submit many
// commands. After the last try it blocks. By then it has waited for longer than
// blocking costs, or the goroutine that holds the lock does not run.
const (
	firstWait = 2000 // turns of an empty loop, of some half a nanosecond each
	lockTries = 4
)

// LockForSubmitter locks the lock. It is for goroutines that submit: a
// submitter that finds the lock held lets other goroutines have it for a while
// before it blocks.
func (l *Lock) LockForSubmitter() {
	if !l.TryLock() {
		l.WaitForTurn()
	}
}

// WaitForTurn is LockForSubmitter after TryLock has failed, for a caller that
// tries the lock itself.
func (l *Lock) WaitForTurn() {
	wait := firstWait
	for range lockTries {
		for range wait {
			spend()
		}
		if l.TryLock() {
			return
		}
		wait = 2 * firstWait
	}
	l.Mutex.Lock()
}

// spend spends some time. A loop without a call might be removed by a compiler.
//
//go:noinline
func spend() {}
