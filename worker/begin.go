package worker

import (
	"context"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// Begin returns the context for the handler of the present command. If the
// caller's context has ended, or the command has expired, Begin settles the
// command, moves on to the next one and returns nil. Otherwise [Worker.End]
// must be called when the handler has returned.
func (w *Worker) Begin() context.Context {
	e := &w.Member.Batch[w.progress.cur]
	if w.endEarly(e) {
		return nil
	}
	if !e.Caller() {
		return w.handling()
	}
	c := w.calls()
	if e.From.Ends() {
		c.present = &calling{valued: valued{w, e.From}}
		return c.present
	}
	if c.last == nil || c.last.from != e.From {
		c.last = &valued{w, e.From}
	}
	return c.last
}

// endEarly ends the present command without starting it if its caller's context
// has ended, or if it has expired. It reports whether it did.
func (w *Worker) endEarly(e *command.Envelope) bool {
	err := w.mayStart(e)
	if err == nil {
		return false
	}
	if w.hasUndelivered() {
		w.bookMidBatch() // otherwise it would be booked with this one
	}
	w.calls().skipped++
	w.endNumber()
	w.endHold(w.progress.cur)
	w.progress.cur++
	if es := []command.Envelope{*e}; err == inbox.ErrExpired { //nolint:errorlint // mayStart returns this very error
		w.shed(es, nil)
	} else {
		w.failUnstarted(es, []error{err}, nil)
	}
	return true
}

// mayStart returns nil if a command may be started, [inbox.ErrExpired] if it
// has expired, or why its caller's context has ended. It may call the user's
// code.
func (w *Worker) mayStart(e *command.Envelope) error {
	err := inbox.Lapsed(e.From)
	if err == nil && w.stage.mayExpire() && w.expired(e) {
		err = inbox.ErrExpired
	}
	return err
}

// sift ends the commands of a batch whose callers' contexts have ended or that
// have expired, and returns the rest.
func (w *Worker) sift(batch []command.Envelope) []command.Envelope {
	var verdicts []error // collected before any command is moved, because user code may crash
	for i := range batch {
		err := w.mayStart(&batch[i])
		if err != nil && verdicts == nil {
			verdicts = make([]error, len(batch))
		}
		if err != nil {
			verdicts[i] = err
		}
	}
	if verdicts == nil {
		return batch
	}
	var failed, expired []command.Envelope
	var errs []error
	live := batch[:0]
	for i, e := range batch {
		switch err := verdicts[i]; err {
		case nil:
			live = append(live, e)
		case inbox.ErrExpired: //nolint:errorlint // mayStart returns this very error
			expired = append(expired, e)
		default:
			failed, errs = append(failed, e), append(errs, err)
		}
	}
	clear(batch[len(live):])
	w.progress.n = w.progress.cur + int32(len(live))
	w.order(len(verdicts), func(i int) bool { return verdicts[i] == nil }, true)
	if len(failed) > 0 {
		w.failUnstarted(failed, errs, slices.Concat(expired, live))
	}
	if len(expired) > 0 {
		w.shed(expired, live)
	}
	return live
}

// failUnstarted ends commands that were not started, with an error each. Rest
// is the remainder of the batch, if they were not the next ones.
func (w *Worker) failUnstarted(es []command.Envelope, errs []error, rest []command.Envelope) {
	if !w.stage.Inbox.Unbegun(&w.Member, &w.progress.tally, es, rest) {
		panic(unwind{})
	}
	for i := range es {
		w.stage.Inbox.Answer(&es[i], errs[i])
	}
}

// shed ends commands that have expired. Rest is the remainder of the batch, if
// they were not the next ones.
func (w *Worker) shed(es, rest []command.Envelope) {
	if !w.stage.Inbox.Expire(&w.Member, &w.progress.tally, es, rest) {
		panic(unwind{})
	}
	w.progress.mark = 0 // subscribers of letters may have taken long
}

// skip ends the commands of the batch from the present one up to the given
// index. They were not started, because the inbox is halted.
func (w *Worker) skip(to int32) {
	if w.progress.cur == to {
		return
	}
	if w.out.numbers != nil {
		for i := w.progress.cur; i < to; i++ {
			w.out.numbers.End(i)
		}
	}
	if !w.stage.Inbox.End(&w.Member, &w.progress.tally, w.Member.Batch[w.progress.cur:to]) {
		panic(unwind{})
	}
	w.progress.cur = to
}

// expired reports whether the command's time to live is over. It may call user
// code; a crash of that is charged to the command.
func (w *Worker) expired(e *command.Envelope) bool {
	if w.stage.TTL > 0 {
		if waited, known := e.Waited(w.pipeline.Now()); known && waited > w.stage.TTL {
			return true
		}
	}
	if w.stage.ExpiresAt == nil {
		return false
	}
	at := w.stage.ExpiresAt(e.Command())
	return !at.IsZero() && time.Now().After(at)
}
