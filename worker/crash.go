package worker

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/trial"
)

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
func (w *Worker) isolated() bool { return !w.hasUndelivered() && w.stage.Inbox.Streak() <= 1 }

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
	w.settleDeferred(false, nil)
	if !w.recall() || !w.settleGiven() {
		return false
	}
	w.clock()
	w.spill()
	batch := w.Batch[:w.n]
	w.n = 0

	if w.starting { // no handler was called
		w.starting = false
		w.stage.Inbox.Unhandled(batch[w.cur : w.cur+1])
	}
	crash := &CrashError{Stage: w.stage.Inbox.Name(), Value: how.value, Stack: how.at.stack, Version: how.version, site: how.at}
	culprit, rest := w.charge(batch)
	if culprit != nil {
		culprit.Failed()
		crash.Attempts = culprit.Tries()
	} else {
		crash.Attempts = 1
	}
	retry, err := false, error(crash)
	if culprit != nil {
		retry, err = w.triesAgain(culprit, crash)
	}
	unaimed := w.blame == nil && w.pair != nil && w.pair.aiming
	w.keepSurvivor(crash)
	if unaimed && !w.stage.Inbox.Unaimed(&w.Member, &w.tally, rest, err) ||
		!unaimed && !w.stage.Inbox.Crash(&w.Member, &w.tally, culprit, rest, retry, err) {
		return false
	}
	w.redeem() // from here on the worker cannot be abandoned: the inbox knows that it holds nothing
	again := retry || culprit == nil
	clear(batch)
	w.stage.Crashed(crash, again)
	w.deliver(false)                          // after Crash, which says whether the worker still owns what earlier commands forwarded
	if w.pool == nil && !w.hasUndelivered() { // otherwise it still counts as one with an instance in use, until it has handed all over
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

// keepSurvivor keeps the part that did not crash of an instance that is two, for the next actor, and counts the crash for the
// canary or for the old version. It keeps the saved state of what did crash for the next instance.
func (w *Worker) keepSurvivor(crash *CrashError) {
	w.pair = nil
	if run := w.blame; run != nil { // its instance is shared, and not the worker's
		w.blame = nil
		if run.rollout != nil {
			run.rollout.countCrash(run.side, crash)
		}
		return
	}
	if b, ok := w.instance.(*pair); ok {
		b.rollout.countCrash(b.side, crash)
		w.survivor = b.split()
	}
	keepState(w.instance)
}

// crashedInstance returns the instance whose handler crashed.
func (w *Worker) crashedInstance() Instance {
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
