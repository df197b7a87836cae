package worker

import "github.com/golda-dev/golda/internal/actor"

// join makes an instance, if the inbox lends none, and joins the stage's own
// workers.
func (w *Worker) join(again bool) error {
	if err := w.takeInstance(w.stage.Inbox.Claim(&w.Member)); err != nil {
		w.stage.Inbox.CrashIdle(&w.Member)
		w.stage.Inbox.Leave(&w.Member)
		return err
	}
	w.stage.Inbox.Join(&w.Member, again)
	return nil
}

// takeInstance takes the instance that the inbox has lent, or makes one if the
// inbox says so.
func (w *Worker) takeInstance(make bool) error {
	if make {
		return w.makeInstance()
	}
	w.useLent()
	return nil
}

// releaseInstance reports to the inbox that the instance which the worker had
// is stopped. Only now may another one take its place.
func (w *Worker) releaseInstance() {
	if w.stage == nil {
		return
	}
	if w.pool != nil {
		w.stage.Inbox.Yield(&w.Member)
	}
	w.stage.Inbox.ReturnInstance(&w.Member)
	w.stopSurplus()
	w.stage.sweepIfMoving()
}

// quit leaves the shared pool, if the worker is in one, and fails towards the
// supervisor.
func (w *Worker) quit(err error) {
	w.leavePool()
	actor.Fail(w.acting.self, err)
}

func (w *Worker) leavePool() {
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.progress.tally)
	}
}
