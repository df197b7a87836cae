package worker

import "github.com/golda-dev/golda/internal/inbox"

// giveUpLocked gives the worker up, unless that was done before or take returns
// false. The caller has emitting, so the handler does not emit; to give the
// worker up as stuck it also has watching, so the handler does not return.
func (w *Worker) giveUpLocked(f fate, take func() bool) bool {
	if w.slot.fate.Load() != inService || !take() {
		return false
	}
	w.slot.fate.v.Store(int32(f))
	return true
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

// unknownTries stands for the tries of the command of a worker that was
// abandoned: it may have been tried before.
const unknownTries = 2

// endAbandoned notes that a handler which was given up has returned.
func (s *Stage) endAbandoned() {
	s.Inbox.EndAbandoned()
	s.Log.Info("a handler that was given up has returned", "stage", s.Inbox.Name())
}

// drop empties a worker that was abandoned. What it held has ended.
func (w *Worker) drop() {
	w.unlimit()
	w.settleDeferred(false, nil)
	clear(w.Member.Batch)
	w.progress.n, w.progress.tally, w.out.lane, w.progress.spent = 0, inbox.Tally{}, noLane, nil
	w.out.tour, w.out.outs, w.out.loaded, w.out.mustBook = nil, nil, 0, false
	w.gear.instance = nil
}
