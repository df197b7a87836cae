package worker

import (
	"context"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/stacks"
)

// calls returns what the worker needs for commands with callers' contexts, and
// makes it the first time.
func (w *Worker) calls() *called {
	if w.called == nil {
		w.called = new(called)
	}
	return w.called
}

// End ends the context of a handler that has returned, if it is registered with
// the caller's context.
func (w *Worker) End() {
	if w.called != nil && w.called.present != nil {
		w.called.present.Release()
		w.called.present = nil
	}
}

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
		return &w.base
	}
	c := w.calls()
	if e.From.Ends() {
		c.present = w.base.Calling(e.From)
		return c.present
	}
	if c.last == nil || c.last.Origin() != e.From {
		c.last = w.base.Valued(e.From)
	}
	return c.last
}

// arm makes the watchdog if there is none.
func (w *Worker) arm() {
	if w.watchdog == nil {
		w.watchdog = newWatchdog(w.pipeline.Now, w.giveUpStuckLocked, w.settleStuck)
	}
}

// limit returns a context for the next call. It ends with the stage's time
// limit or at [Worker.unlimit].
func (w *Worker) limit(within context.Context, from *command.Origin) context.Context {
	w.arm()
	ctx, cancel := context.WithTimeoutCause(within, w.stage.Timeout, ErrTimeout)
	w.watchdog.cancel = cancel
	return w.base.Timed(ctx, from)
}

// unlimit releases the context of the last call, if it had one of its own.
func (w *Worker) unlimit() {
	w.End()
	w.watchdog.unlimit()
}

// watchedHandle runs the worker's instance on one command, watched.
func (w *Worker) watchedHandle(ctx context.Context, load any) (o behaviour.Outcome) {
	instance := w.gear.instance
	w.watched(ctx, func() { o = instance.Handle(ctx, load) })
	return o
}

// watched runs a handler's call while the watchdog watches. Limit made its
// context.
func (w *Worker) watched(ctx context.Context, call func()) {
	if w.watchdog.header == nil {
		w.watchdog.header = stacks.Header()
	}
	w.watchdog.watch(ctx, w.stage.Timeout, w.stage.Grace)
	call()
	if !w.returned() {
		panic(unwind{})
	}
}

// returned is [watchdog.returned].
func (w *Worker) returned() bool { return w.watchdog.returned(&w.slot.fate) }

// endEarly ends the present command without starting it if its caller's context
// has ended, or if it has expired. It reports whether it did.
func (w *Worker) endEarly(e *command.Envelope) bool {
	err := w.mayStart(e)
	if err == nil {
		return false
	}
	if w.out.pending() {
		w.bookMidBatch() // otherwise it would be booked with this one
	}
	w.progress.skipped++
	w.order.endNumber(w.progress.cur)
	w.order.endHold(w.progress.cur)
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
	if err == nil && (w.Member.Sojourn != 0 && w.overdue(e) || w.stage.mayExpire() && w.expired(e)) {
		err = inbox.ErrExpired
	}
	return err
}

// overdue reports whether a command has waited for longer than a policy allows.
// The policy bounds the wait. (The caller tests that, because a call for each
// command costs more than the test.)
func (w *Worker) overdue(e *command.Envelope) bool {
	waited, known := e.Waited(w.pipeline.Now())
	return known && waited > time.Duration(w.Member.Sojourn)*time.Microsecond
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
	w.order.sift(len(verdicts), func(i int) bool { return verdicts[i] == nil })
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
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, &inbox.Unbegun{Commands: es, Rest: rest}) {
		panic(unwind{})
	}
	for i := range es {
		w.stage.Inbox.Answer(&es[i], errs[i])
	}
}

// shed ends commands that have expired. Rest is the remainder of the batch, if
// they were not the next ones.
func (w *Worker) shed(es, rest []command.Envelope) {
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, &inbox.Unbegun{Commands: es, Rest: rest, Expired: true}) {
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
	w.order.endNumbers(w.progress.cur, to)
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, &inbox.Stopped{Commands: w.Member.Batch[w.progress.cur:to]}) {
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
