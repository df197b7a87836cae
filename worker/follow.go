package worker

import "github.com/golda-dev/golda/internal/act"

// handOn hands over what the last batch gathered, and reports false if it could not. If all of it
// goes one way an idle worker whom it calls is not woken yet: this one is about to know whether it
// goes on itself, and if not he may have its goroutine. Nobody waits for one of a crew, which has
// other rooms to look after first.
func (w *Worker) handOn(box *act.Mailbox) bool {
	w.Seat.Defers = w.crew == nil && w.loaded == 0 && !box.Stepped()
	gone := w.deliver(true)
	w.Seat.Defers = false
	return gone
}

// rouse wakes whom the worker has called, and does not keep him waiting any longer.
func (w *Worker) rouse() {
	if called := w.Seat.Called; called != nil {
		w.Seat.Called = nil
		called.Wake()
	}
}

// follow lets whom the worker has called have its goroutine: it is about to come to rest.
func (w *Worker) follow(box *act.Mailbox) {
	called := w.Seat.Called
	if called == nil {
		return
	}
	colleague, ok := called.Owner.(*Worker)
	if !ok { // he dozes: there is no actor of him yet
		w.rouse()
		return
	}
	w.Seat.Called = nil
	if next := colleague.box.Load(); next != nil {
		box.Follow(next)
	}
}
