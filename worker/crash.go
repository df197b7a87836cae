package worker

import (
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/version"
)

// rescue is deferred by a batch. It does nothing if the batch has ended without
// a crash. If the watchdog gave the worker up while its handler was stuck,
// rescue leaves the worker to it. Otherwise it settles the crash. It sets ok to
// whether the actor may continue; if the handler ended its goroutine, the
// mailbox starts another one for it.
func (w *Worker) rescue(inst instance, ok *bool) {
	if !w.returned() { // before anything of the worker is touched
		_ = recover()
		w.comeBack(inst)
		return
	}
	if w.progress.n == 0 {
		return
	}
	value := recover()
	if _, gone := value.(unwind); gone {
		return
	}
	if value == nil {
		value = crash.ErrGoexit
	}
	how, known := value.(*crash.Thrown)
	if !known {
		how = &crash.Thrown{Value: value, At: w.stage.lastCrash.Here(), Version: w.gear.instance.Version()}
	}
	if !w.settleCrash(how) {
		return
	}
	if *ok = w.isolated() && w.replaceInstance(); !*ok {
		w.quit(w.acting.failure)
	}
}

// isolated reports whether a crash was the first one since a command of the
// stage was completed, and left nothing that could not be handed over. Then the
// supervisor has nothing to decide.
func (w *Worker) isolated() bool { return !w.out.pending() && w.stage.Inbox.Workers().Streak() <= 1 }

// replaceInstance does after an isolated crash what the supervisor would: it
// stops the instance, and joins again with a fresh one. To end the actor and
// start another one costs several times as much. It returns false if no
// instance can be made, which the supervisor must know.
func (w *Worker) replaceInstance() bool {
	w.stopInstances()
	w.releaseInstance()
	if w.pool == nil {
		if err := w.join(true); err != nil {
			w.acting.failure = err
			return false
		}
	}
	w.acting.failure = nil
	return true
}

// settleCrash settles the accounts of a batch in which a handler crashed. It
// returns false if the worker was abandoned.
func (w *Worker) settleCrash(how *crash.Thrown) bool {
	w.unlimit()
	w.settleDeferred(false, nil)
	if !w.recall() {
		return false
	}
	w.clock()
	w.out.spill(w.Member.Batch)
	batch := w.Member.Batch[:w.progress.n]
	w.progress.n = 0

	failure := how.ErrorAt(w.stage.Inbox.Name())
	culprit, rest := w.gear.executor.charge(w, batch)
	if culprit != nil {
		culprit.Failed()
		failure.Attempts = culprit.Tries()
	} else {
		failure.Attempts = 1
	}
	retry, err := false, error(failure)
	if culprit != nil {
		retry, err = w.triesAgain(culprit, failure, false)
	}
	var cmd any
	if retry {
		cmd = culprit.Command() // from Book on another worker may have it
	}
	w.keepState()
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, &inbox.Crashed{Culprit: culprit, Rest: rest, Retry: retry, Err: err}) {
		return false
	}
	w.out.redeem() // from here on the worker cannot be abandoned: the inbox knows that it holds nothing
	again := retry || culprit == nil
	clear(batch)
	w.stage.Crashed(failure, again, cmd)
	w.deliver(false)                       // after Crash, which says whether the worker still owns what earlier commands forwarded
	if w.pool == nil && !w.out.pending() { // otherwise it still counts as one with an instance in use, until it has handed all over
		w.stage.Inbox.Yield(&w.Member)
	}
	w.acting.failure = failure
	return true
}

// keepState keeps the saved state of the instance whose handler crashed for the
// next one. The instance of a run is shared, and has none.
func (w *Worker) keepState() {
	if w.suspending.blame != nil {
		w.suspending.blame = nil
		return
	}
	version.KeepCrashed(w.gear.instance)
}

// crashedInstance returns the instance whose handler crashed.
func (w *Worker) crashedInstance() instance {
	if w.suspending.blame != nil {
		return w.suspending.blame.instance
	}
	return w.gear.instance
}

// comeBack is what the goroutine of a worker that was given up does when the
// handler has returned: it stops the instance and drops what the worker holds,
// if that is its own.
func (w *Worker) comeBack(inst instance) {
	if w.slot.fate.Load() == stuck {
		<-w.watchdog.over // until then the crash is being settled
	} else {
		w.drop()
	}
	if w.slot.hung != nil {
		w.stage.hangs.end(w.slot.hung)
	}
	w.stage.endAbandoned()
	if inst != nil {
		if saved := inst.Saved(); saved != nil {
			saved.Discard()
		}
		w.stage.Versions.Stop(inst)
	}
}

// drop empties a worker that was abandoned. What it held has ended.
func (w *Worker) drop() {
	w.unlimit()
	w.settleDeferred(false, nil)
	clear(w.Member.Batch)
	w.progress.n, w.progress.tally, w.progress.spent = 0, inbox.Tally{}, nil
	w.out.drop()
	w.gear.instance = nil
}
