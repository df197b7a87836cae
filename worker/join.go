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
