package worker

import (
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/internal/trial"
)

// ErrGoexit is the value of a crash in which the handler ended its goroutine with runtime.Goexit, as a failing test helper
// does.
var ErrGoexit = errors.New("worker: handler called runtime.Goexit")

// CrashError is the crash of a handler: it panicked or ended its goroutine. It is the error of the ticket and of the dead
// letter of a command that is not tried again, and part of the error with which a stage gives up.
type CrashError struct {
	// Stage is the name of the stage where the handler crashed.
	Stage string
	// Value is what was given to panic, or [ErrGoexit].
	Value any
	// Stack is the goroutine's stack at the crash. It must not be changed: crashes that followed the same calls of the
	// handler share it. So the number of the goroutine, the arguments, and the calls outside the handler may be those of
	// an earlier crash.
	Stack []byte
	// Attempts is how often the command had been tried, including this try, counted to 65,535. It is 0 if there was no
	// command: the crash was in Start, Stop or a condition.
	Attempts int
	// Version is what the behaviour returns as its version, if it is a [behaviour.Versioned].
	Version string

	site *site // nil if the error was made outside this package
}

// Fingerprint returns the fingerprint of the stack; see [Fingerprint].
func (e *CrashError) Fingerprint() string {
	if e.site == nil {
		return Fingerprint(e.Stack)
	}
	return e.site.fingerprint()
}

// Error returns the stage and the value as text, without the stack. It is safe for any value, even for one that contains
// itself, and its length is bounded.
func (e *CrashError) Error() string {
	if e.Attempts == 0 {
		return fmt.Sprintf("stage %q: crash: %s", e.Stage, plain.Text(e.Value))
	}
	return fmt.Sprintf("stage %q: crash at attempt %d: %s", e.Stage, e.Attempts, plain.Text(e.Value))
}

// Unwrap returns the panic's value if it is an error.
func (e *CrashError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Fingerprint returns a short hash of the user's part of the stack of a [CrashError]. Crashes at the same place have the
// same fingerprint, in every run of the same program. Numbers of goroutines, addresses, arguments, the frames of the
// engine, the depth of a recursion, and the value of the panic make no difference. An empty stack has an empty fingerprint.
func Fingerprint(stack []byte) string { return stacks.Fingerprint(stack) }

// thrown is how a handler crashed. A worker panics with it in place of a run, whose handler crashed on a coroutine.
type thrown struct {
	value   any
	at      *site
	version string // of the handler; the worker may have an instance of another version by now
}

// rescue is deferred by a batch. It does nothing if the batch has ended without a crash. If the watchdog gave the worker up
// while its handler was stuck, rescue leaves the worker to it. Otherwise it settles the crash. It sets ok to whether the
// actor may continue; if the handler ended its goroutine, the mailbox starts another one for it.
func (w *Worker) rescue(inst Instance, ok *bool) {
	if !w.returned() { // before anything of the worker is touched
		_ = recover()
		w.comeBack(inst)
		return
	}
	if w.n == 0 {
		return
	}
	value := recover()
	if _, gone := value.(unwind); gone {
		return
	}
	if value == nil {
		value = ErrGoexit
	}
	how, known := value.(*thrown)
	if !known {
		how = &thrown{value, sites.here(&w.stage.crashSite), w.instance.Version()}
	}
	if !w.settleCrash(how) {
		return
	}
	if *ok = w.isolated() && w.replaceInstance(); !*ok {
		w.quit(w.failure)
	}
}

// isolated reports whether a crash was the first one since a command of the stage was completed, and left nothing that
// could not be handed over. Then the supervisor has nothing to decide.
func (w *Worker) isolated() bool { return !w.carries() && w.stage.Inbox.Streak() <= 1 }

// replaceInstance does after an isolated crash what the supervisor would: it stops the instance, and joins again with a
// fresh one. To end the actor and start another one costs several times as much. It returns false if no instance can be
// made, which the supervisor must know.
func (w *Worker) replaceInstance() bool {
	w.stopInstances()
	w.releaseInstance()
	if w.pool == nil {
		if err := w.join(true); err != nil {
			w.failure = err
			return false
		}
	}
	w.failure = nil
	return true
}

// settleCrash settles the accounts of a batch in which a handler crashed. It returns false if the worker was abandoned.
func (w *Worker) settleCrash(how *thrown) bool {
	w.unlimit()
	if !w.recall() || !w.settleGiven() {
		return false
	}
	w.clock()
	w.spill()
	batch := w.Batch[:w.n]
	w.n = 0

	crash := &CrashError{Stage: w.stage.Inbox.Name(), Value: how.value, Stack: how.at.stack, Version: how.version, site: how.at}
	culprit, rest := w.charge(batch)
	if culprit != nil {
		culprit.Failed()
		crash.Attempts = culprit.Tries()
	} else {
		crash.Attempts = 1
	}
	retry := culprit != nil && crash.Attempts < w.stage.Inbox.Config().Retry.Attempts && w.triesAgain(culprit, crash)
	w.keepOther(crash)
	if !w.stage.Inbox.Crash(&w.Member, &w.tally, culprit, rest, retry, crash) {
		return false
	}
	w.redeem() // from here on the worker cannot be abandoned: the inbox knows that it holds nothing
	again := retry || culprit == nil
	clear(batch)
	w.stage.Crashed(crash, again)
	w.deliver(false)                   // after Crash, which says whether the worker still owns what earlier commands forwarded
	if w.pool == nil && !w.carries() { // a worker that carries commands keeps its place until it has handed them over
		w.stage.Inbox.Yield(&w.Member)
	}
	w.failure = crash
	return true
}

// charge returns the command that is charged with the crash, and the rest of the batch. If a batch handler crashed, the
// culprit may be any command of the batch: all go back in smaller batches. A culprit that was found so stays alone at further
// tries, because it may well crash again.
//
// A command that crashed a canary is not charged: the old version is to handle it.
func (w *Worker) charge(batch []command.Envelope) (culprit *command.Envelope, rest []command.Envelope) {
	if w.byCanary() {
		return nil, batch[w.cur:]
	}
	if !w.instance.Many() {
		return &batch[w.cur], batch[w.cur+1:]
	}
	if rest = batch[w.cur:]; len(rest) > 1 {
		inbox.Narrow(rest)
		return nil, rest
	}
	rest[0].SetPack(1)
	return &rest[0], nil
}

// triesAgain reports whether a command is to be tried again after an error. It is not if its caller's context has ended, or
// if the stage's policy says no. The policy is user code; if it crashes, its answer is no.
func (w *Worker) triesAgain(e *command.Envelope, err error) bool {
	return e.From.Ended() == nil && w.retries(err)
}

func (w *Worker) retries(err error) (yes bool) {
	switch {
	case w.stage.Inbox.Config().Retry.Attempts < 2:
		return false
	case w.stage.RetryIf == nil:
		return true
	}
	if crash := Guard(w.stage.Inbox.Name(), func() error { yes = w.stage.RetryIf(err); return nil }); crash != nil {
		w.stage.logPanic("retry condition crashed", crash)
		return false
	}
	return yes
}

// keepOther keeps the part that did not crash of an instance that is two, for the next actor, and counts the crash for the
// canary or for the old version.
func (w *Worker) keepOther(crash *CrashError) {
	w.pair = nil
	if run := w.blame; run != nil { // its instance is shared, and not the worker's
		w.blame = nil
		if run.rollout != nil {
			run.rollout.crashed(run.side, crash)
		}
		return
	}
	if b, ok := w.instance.(*pair); ok {
		b.rollout.crashed(b.side, crash)
		w.kept = b.split()
	}
}

// crashed returns the instance whose handler crashed.
func (w *Worker) crashed() Instance {
	if w.blame != nil {
		return w.blame.instance
	}
	return w.instance
}

// byCanary reports whether a canary's handler crashed.
func (w *Worker) byCanary() bool {
	if w.blame != nil {
		return w.blame.rollout != nil && w.blame.side == trial.After
	}
	return w.pair != nil && w.pair.side == trial.After
}
