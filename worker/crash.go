package worker

import (
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
)

// ErrGoexit is the value of a crash in which the handler ended its goroutine
// with runtime.Goexit, as a failing test helper does.
var ErrGoexit = errors.New("worker: handler called runtime.Goexit")

// CrashError tells that a handler crashed: it panicked or ended its goroutine.
// It is the error of a ticket whose command was not tried again, the error of
// its dead letter, and part of the story of an escalation.
type CrashError struct {
	// Stage is where it happened.
	Stage string
	// Value is what was given to panic, or [ErrGoexit].
	Value any
	// Stack is the goroutine's stack at the crash. Crashes that came the same way through the
	// handler, call by call, share it, so nobody should change it; the number of the goroutine, the
	// arguments, and the calls outside of the handler, may be those of an earlier one.
	Stack []byte
	// Attempts is how often the command had been tried, this try included, counted to 65,535; 0
	// if there was no command: the crash was in Start, Stop or a condition.
	Attempts int
	// Version is what the behaviour calls itself, if it is a
	// [behaviour.Versioned].
	Version string

	site *site // nil if somebody else made the error
}

// Fingerprint is that of the stack; see [Fingerprint].
func (e *CrashError) Fingerprint() string {
	if e.site == nil {
		return Fingerprint(e.Stack)
	}
	return e.site.fingerprint()
}

// Error tells where and what, whatever the value is: it may hold itself, and only so much
// of it is told. The stack is apart.
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

// rescue is deferred by a batch and does nothing if the batch ended well. If the
// worker was given up while its handler was stuck, its affairs are settled. It says
// whether the worker may go on. If the handler ended its goroutine, the worker goes on in another one, which its
// mailbox starts.
func (w *Worker) rescue(inst Instance, goesOn *bool) {
	if !w.returned() { // before anything of it is touched
		_ = recover()
		w.comeBack(inst)
		return
	}
	if w.n == 0 {
		return
	}
	value := recover()
	if _, gone := value.(abandoned); gone {
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
	if *goesOn = w.isolated() && w.recoverOrFail(); !*goesOn {
		w.quit(w.failure)
	}
}

// isolated reports whether a crash was the first since a command of the stage was
// completed, and left nothing behind that could not be handed over. Then the keeper has
// nothing to decide.
func (w *Worker) isolated() bool { return !w.carries() && w.stage.Inbox.Streak() <= 1 }

// recoverOrFail is what the keeper would do after an isolated crash: the instance is stopped, and
// the worker takes its seat again with a fresh one. To end the actor and start another
// for that costs several times as much. It reports false if there is none to be had;
// that the keeper has to know.
func (w *Worker) recoverOrFail() bool {
	w.stop()
	w.depart()
	if w.pool == nil {
		if err := w.join(true); err != nil {
			w.failure = err
			return false
		}
	}
	w.failure = nil
	return true
}

// settleCrash settles the accounts of a batch in which a handler crashed. It reports false if the worker
// was abandoned.
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
	w.spare(crash)
	if !w.stage.Inbox.Crash(&w.Member, &w.tally, culprit, rest, retry, crash) {
		return false
	}
	w.redeem()
	again := retry || culprit == nil
	clear(batch)
	w.stage.Crashed(crash, again)
	w.deliver(false)
	if w.pool == nil && !w.carries() {
		w.stage.Inbox.Yield(&w.Member)
	}
	w.failure = crash
	return true
}

// charge finds the command that is to blame. When a batch handler crashes it
// may be any of the batch: all go back, in smaller ones. One that was found so stays
// apart at further tries, for it may well crash again.
//
// One that crashed a canary is not charged: the version before is to handle it.
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

// triesAgain reports whether a command is to be tried again after an error. It is not if it has ended with its caller's
// context.
func (w *Worker) triesAgain(e *command.Envelope, err error) bool {
	return e.From.Ended() == nil && w.retries(err)
}

// retries asks the stage's policy whether an error is worth another try. The
// policy is a user's function; if it crashes the answer is no.
func (w *Worker) retries(err error) (yes bool) {
	switch {
	case w.stage.Inbox.Config().Retry.Attempts < 2:
		return false
	case w.stage.RetryIf == nil:
		return true
	}
	if crash := w.guard(func() error { yes = w.stage.RetryIf(err); return nil }); crash != nil {
		w.stage.logPanic("retry condition crashed", crash)
		return false
	}
	return yes
}

// logPanic logs an error of a user's code. The log asks the error for its text, which may end the goroutine.
func (s *Stage) logPanic(message string, err error) {
	_ = Guard(s.Inbox.Name(), func() error { // a crash of the log cannot be logged
		s.Log.Error(message, "stage", s.Inbox.Name(), "error", err)
		return nil
	})
}

// guard runs a piece of a user's code that is not a handler: Start, Stop, a
// condition.
func (w *Worker) guard(f func() error) error { return Guard(w.stage.Inbox.Name(), f) }

// Guard runs a piece of a user's code in a goroutine of its own, so that nothing it
// does, not even runtime.Goexit, can hurt the caller, and returns its error, or a
// [*CrashError] if it panicked or ended its goroutine. It is not for handlers,
// which are too many for a goroutine each.
func Guard(stage string, f func() error) error { return <-Try(stage, f) }

// Try is [Guard] for those who may not want to wait for the end.
func Try(stage string, f func() error) <-chan error {
	ended := make(chan error, 1)
	Go(stage, f, func(err error) { ended <- err })
	return ended
}

// Go is [Guard] for those who do not wait: then is called with the error, as the last act of the goroutine.
func Go(stage string, f func() error, then func(error)) {
	go func() {
		done := false
		defer func() {
			if done {
				return
			}
			value := recover()
			if value == nil {
				value = ErrGoexit
			}
			at := sites.here(nil)
			then(&CrashError{Stage: stage, Value: value, Stack: at.stack, site: at})
		}()
		err := f()
		done = true
		then(err)
	}()
}

// start makes the instance and starts it.
func (w *Worker) start() error {
	inst, err := w.stage.start(w.handling())
	if err != nil {
		return err
	}
	w.instance, w.Member.Instance = inst, inst
	return nil
}

// Stock makes one instance for the idle instances of a stage's room, unless there is one.
func Stock(s *Stage) error {
	var seat inbox.Member
	if !s.Inbox.Claim(&seat) {
		s.Inbox.ReturnInstance(&seat)
		return nil
	}
	inst, err := s.start(s.Context)
	if err == nil {
		seat.Instance = inst
	}
	s.Inbox.ReturnInstance(&seat)
	return err
}

// stop gives the instance its last word, and one that is too many.
func (w *Worker) stop() {
	w.discard()
	inst := w.instance
	w.instance, w.Member.Instance = nil, nil
	if inst != nil {
		w.stopOne(inst)
	}
}

func (w *Worker) stopOne(inst Instance) { StopInstance(w.stage, inst) }

// Instance is one behaviour value whose command type the stage has erased.
type Instance interface {
	// Start is the behaviour's Start, if it has one.
	Start(ctx Context) error
	// Stop is the behaviour's Stop, if it has one.
	Stop()
	// Stops reports whether Stop calls the behaviour's code.
	Stops() bool
	// Of is the version that made it.
	Of() *Version
	// Version is what the behaviour says that it is, empty if it tells none.
	Version() string
	// Suspends reports whether handlers may suspend: Handle is to be called on a coroutine.
	Suspends() bool
	// Many reports whether HandleMany is to be called, not Handle.
	Many() bool
	// Handle handles one command.
	Handle(ctx Context, cmd any) behaviour.Outcome
	// HandleEach handles the commands of a batch, one after the other, and tells the
	// worker what became of each: [Worker.Settle]; or those before [Worker.Halts] was true. The loop is the instance's so that a
	// command costs one call of a function that nobody can foresee, not two.
	HandleEach(ctx Context, w *Worker, batch []command.Envelope)
	// HandleMany handles the commands of a batch.
	HandleMany(ctx Context, batch []command.Envelope) []behaviour.Outcome
}
