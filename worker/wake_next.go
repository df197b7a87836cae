package worker

import "github.com/golda-dev/golda/internal/actor"

// wakeNext hands over what the last batch gathered, and reports false if it could not. If all of it
// goes one way an idle worker whom it calls is not woken yet: this one is about to know whether it
// goes on itself, and if not he may have its goroutine. Nobody waits for one of a shared pool, which has
// other inboxes to look after first.
func (w *Worker) wakeNext(box *actor.Mailbox) bool {
	w.Member.DefersWakes = w.pool == nil && w.loaded == 0 && !box.Stepped()
	gone := w.deliver(true)
	w.Member.DefersWakes = false
	return gone
}

// wakeCalled wakes whom the worker has called, and does not keep him waiting any longer.
func (w *Worker) wakeCalled() {
	if called := w.Member.Called; called != nil {
		w.Member.Called = nil
		called.Wake()
	}
}

// runAfter lets whom the worker has called have its goroutine: it is about to come to rest.
func (w *Worker) runAfter(box *actor.Mailbox) {
	called := w.Member.Called
	if called == nil {
		return
	}
	colleague, ok := called.Owner.(*Worker)
	if !ok { // he dozes: there is no actor of him yet
		w.wakeCalled()
		return
	}
	w.Member.Called = nil
	if next := colleague.box.Load(); next != nil {
		box.RunNext(next)
	}
}
