package worker

import "github.com/golda-dev/golda/internal/actor"

// deliverBatch delivers what the last batch gathered, and reports whether the
// worker may go on. If all of it goes to one stage, an idle worker that the
// hand-over calls is not woken yet: this worker will soon know whether it goes
// on itself, and if not, the other one may have its goroutine. A shared worker
// wakes others at once, because it has other inboxes to serve first.
func (w *Worker) deliverBatch(box *actor.Mailbox) bool {
	w.Member.DefersWakes = w.pool == nil && w.out.loaded == 0 && !box.Stepped()
	gone := w.deliver(true)
	w.Member.DefersWakes = false
	return gone
}

// wakeCalled wakes the worker that this one has called, if any.
func (w *Worker) wakeCalled() {
	if called := w.Member.Called; called != nil {
		w.Member.Called = nil
		called.Wake()
	}
}

// runCalled gives this worker's goroutine to the worker that it has called, if
// any: it is about to rest.
func (w *Worker) runCalled(box *actor.Mailbox) {
	called := w.Member.Called
	if called == nil {
		return
	}
	colleague, ok := called.Owner.(*Worker)
	if !ok { // a worker that is not started yet has no actor
		w.wakeCalled()
		return
	}
	w.Member.Called = nil
	if next := colleague.slot.box.Load(); next != nil {
		box.RunNext(next)
	}
}
