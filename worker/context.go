package worker

import (
	"context"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// The contexts of handlers. A command without a caller's context is handled with its worker's, which is always the same:
// handling. The others have one of their own: valued adds the values of the caller's context, calling its end too. So a
// context that a handler has kept still tells the values of its command, whatever the worker does by then.

// called is what a worker needs for commands that have their callers' contexts.
type called struct {
	last    *valued  // of the last command whose caller's context gives values only; the next one may have the same
	present *calling // of the command in hand, if it may end with its caller's context
	skipped int32    // commands of the batch that were not begun
}

// calls returns what is needed for commands that have their callers' contexts.
func (w *Worker) calls() *called {
	if w.called == nil {
		w.called = new(called)
	}
	return w.called
}

// Begin returns the context for the handler of the command in hand. If the command has ended with its caller's context, or
// has expired, Begin settles it, goes on to the next one and returns nil. [Worker.End] must follow when the handler has
// returned.
func (w *Worker) Begin(e *command.Envelope) Context {
	if w.unbegun(e) {
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

// End ends the context of a handler that has returned, if it has to let go of the caller's.
func (w *Worker) End() {
	if w.called != nil && w.present != nil {
		w.present.release()
		w.present = nil
	}
}

// unbegun ends the command in hand if its caller's context has ended, or if it has expired.
func (w *Worker) unbegun(e *command.Envelope) bool {
	err := w.verdict(e)
	if err == nil {
		return false
	}
	if w.carries() {
		w.book() // it would be booked with this one
	}
	w.calls().skipped++
	w.cur++
	if es := []command.Envelope{*e}; err == inbox.ErrExpired { //nolint:errorlint // it is that very one
		w.shed(es, nil)
	} else {
		w.fails(es, []error{err}, nil)
	}
	return true
}

// verdict returns nil if a command may be begun, and [inbox.ErrExpired] if it has expired, or why its caller's context has
// ended.
func (w *Worker) verdict(e *command.Envelope) error {
	if err := e.From.Ended(); err != nil {
		return err
	}
	if w.stage.perishes() && w.expired(e) {
		return inbox.ErrExpired
	}
	return nil
}

// sift ends those of a batch whose callers' contexts have ended, and those that have expired, and returns the rest.
func (w *Worker) sift(batch []command.Envelope) []command.Envelope {
	var verdicts []error // before anything is moved: the user's code may crash
	for i := range batch {
		err := w.verdict(&batch[i])
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
		case inbox.ErrExpired: //nolint:errorlint // it is that very one
			expired = append(expired, e)
		default:
			failed, errs = append(failed, e), append(errs, err)
		}
	}
	clear(batch[len(live):])
	w.n = int32(len(live))
	if len(failed) > 0 {
		w.fails(failed, errs, slices.Concat(expired, live))
	}
	if len(expired) > 0 {
		w.shed(expired, live)
	}
	return live
}

// fails ends commands that are not begun with an error each. Rest are those that are left of the batch, if these were
// not the next ones.
func (w *Worker) fails(es []command.Envelope, errs []error, rest []command.Envelope) {
	if !w.stage.Inbox.Unbegun(&w.Member, &w.tally, len(es), rest) {
		panic(abandoned{})
	}
	for i := range es {
		w.refuse(&es[i], errs[i])
	}
}

// shed ends commands that have expired. Rest are those that are left of the batch, if these were not the next ones.
func (w *Worker) shed(es, rest []command.Envelope) {
	if !w.stage.Inbox.Expire(&w.Member, &w.tally, es, rest) {
		panic(abandoned{})
	}
	w.mark = 0 // that may have taken its time
}

// perishes reports whether commands of the stage may expire.
func (s *Stage) perishes() bool { return s.TTL > 0 || s.ExpiresAt != nil }

// expired reports whether the command's time to live is over. It may call the user's code: if that crashes, the command
// has.
func (w *Worker) expired(e *command.Envelope) bool {
	if w.stage.TTL > 0 {
		if waited, known := e.Waited(w.pipeline.Now()); known && waited > w.stage.TTL {
			return true
		}
	}
	if w.stage.ExpiresAt == nil {
		return false
	}
	at := w.stage.ExpiresAt(e.Cmd)
	return !at.IsZero() && time.Now().After(at)
}

// handling is the context of a handler whose command has no caller's: it ends when the pipeline stops hard, and it
// knows the worker.
type handling Worker

func (w *Worker) handling() Context { return (*handling)(w) }

// Deadline is that of the stage's context.
func (h *handling) Deadline() (deadline time.Time, ok bool) { return h.base.Deadline() }

// Done is closed when the pipeline stops hard.
func (h *handling) Done() <-chan struct{} { return h.base.Done() }

// Err is why it has ended.
func (h *handling) Err() error { return h.base.Err() }

// Value knows the worker as the emitter, and what the pipeline's context knows.
func (h *handling) Value(key any) any {
	if _, ok := key.(behaviour.EmitterKey); ok {
		return (*emitter)(h)
	}
	return h.base.Value(key)
}

// Origin returns nil: there is no caller's context.
func (h *handling) Origin() *command.Origin { return nil }

// Pipeline returns the worker's pipeline.
func (h *handling) Pipeline() any { return h.pipeline }

// Lasts returns true: the context ends with the pipeline.
func (h *handling) Lasts() bool { return true }

// valued is the context of a handler whose command has the values of its caller's context.
type valued struct {
	w    *Worker
	from *command.Origin
}

// Deadline is that of the pipeline's context.
func (v *valued) Deadline() (deadline time.Time, ok bool) { return v.w.base.Deadline() }

// Done is closed when the pipeline stops hard.
func (v *valued) Done() <-chan struct{} { return v.w.base.Done() }

// Err is why the pipeline has stopped hard.
func (v *valued) Err() error { return v.w.base.Err() }

// Value knows the worker as the emitter, then what the caller's context knows, and then what the pipeline's does.
func (v *valued) Value(key any) any {
	if known, ok := v.own(key); ok {
		return known
	}
	if value := v.from.Value(key); value != nil {
		return value
	}
	return v.w.base.Value(key)
}

// own is what the caller's context is not asked for: the caller may be a handler itself.
func (v *valued) own(key any) (value any, known bool) {
	switch key.(type) {
	case behaviour.EmitterKey:
		return (*emitter)(v.w), true
	case command.OriginKey:
		return v.from, true
	}
	if key == profileKey {
		return v.w.base.Value(key), true
	}
	return nil, false
}

// Origin returns the origin of the command.
func (v *valued) Origin() *command.Origin { return v.from }

// Pipeline returns the worker's pipeline.
func (v *valued) Pipeline() any { return v.w.pipeline }

// Lasts returns true: the context ends with the pipeline.
func (v *valued) Lasts() bool { return true }

// calling is the context of a handler whose command ends with its caller's context. It ends with that, when the
// pipeline stops hard, and when the handler has returned.
//
// Most handlers never wait for the end of their context, so what it takes to be told is made when it is first asked
// for.
type calling struct {
	valued

	mu     sync.Mutex      // guards all below
	proper context.Context // made of the caller's; nil until it is needed
	cancel context.CancelCauseFunc
	unhook func() bool
	over   bool // the handler has returned
}

// Deadline is the caller's or the pipeline's, whichever is earlier.
func (c *calling) Deadline() (deadline time.Time, ok bool) {
	deadline, ok = c.w.base.Deadline()
	if theirs, limited := c.from.Context().Deadline(); limited && (!ok || theirs.Before(deadline)) {
		return theirs, true
	}
	return deadline, ok
}

// Done is closed when the context has ended.
func (c *calling) Done() <-chan struct{} { return c.ending().Done() }

// Err is why the context has ended.
func (c *calling) Err() error {
	c.mu.Lock()
	proper, over := c.proper, c.over
	c.mu.Unlock()
	switch {
	case proper != nil:
		return proper.Err()
	case over:
		return context.Canceled
	}
	if err := c.w.base.Err(); err != nil {
		return err
	}
	return c.from.Context().Err()
}

// Value knows what valued knows. Package context asks so for the context that ends, and with what cause, which is the
// proper one.
func (c *calling) Value(key any) any {
	value := (*upstream)(c).Value(key)
	if _, suspect := value.(context.Context); suspect {
		return c.ending().Value(key)
	}
	return value
}

// Lasts returns false: the context may end with the caller's.
func (c *calling) Lasts() bool { return false }

// ending makes the proper context.
func (c *calling) ending() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proper != nil {
		return c.proper
	}
	c.proper, c.cancel = context.WithCancelCause((*upstream)(c))
	base := c.w.base
	switch {
	case c.over:
		c.cancel(nil)
	case base.Err() != nil:
		c.cancel(context.Cause(base))
	default:
		cancel := c.cancel
		c.unhook = context.AfterFunc(base, func() { cancel(context.Cause(base)) })
	}
	return c.proper
}

// release ends the context: its handler has returned.
func (c *calling) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.unhook != nil {
		c.unhook()
	}
	if c.cancel != nil {
		c.cancel(nil)
	}
}

// upstream is a calling without the pipeline's end: the parent of the proper context, which has its error and its cause
// from the caller's.
type upstream calling

// Deadline is the caller's.
func (c *upstream) Deadline() (deadline time.Time, ok bool) { return c.from.Context().Deadline() }

// Done is closed when the caller's context has ended.
func (c *upstream) Done() <-chan struct{} { return c.from.Context().Done() }

// Err is why the caller's context has ended.
func (c *upstream) Err() error { return c.from.Context().Err() }

// Value is that of valued; package context finds the caller's.
func (c *upstream) Value(key any) any {
	if known, ok := c.own(key); ok {
		return known
	}
	if value := c.from.Context().Value(key); value != nil {
		return value
	}
	return c.w.base.Value(key)
}

// timed is the context of a handler with a time limit.
type timed struct {
	context.Context // ends with the limit

	from *command.Origin
	host *inbox.Pipeline
}

// Origin returns the origin of the command, nil if there is none.
func (t *timed) Origin() *command.Origin { return t.from }

// Pipeline returns the worker's pipeline.
func (t *timed) Pipeline() any { return t.host }

// Lasts returns false: the context ends with the limit.
func (t *timed) Lasts() bool { return false }

// profileKey is the key under which package runtime/pprof keeps the labels of a context. Those of a handler are its
// stage's, whoever called: pprof.Do would else leave the worker's goroutine with the labels of another stage.
var profileKey = func() any {
	var asked keyhole
	pprof.Label(&asked, "")
	return asked.key
}()

// keyhole is a context that remembers for what it was asked.
type keyhole struct {
	context.Context
	key any
}

// Value notes the key.
func (k *keyhole) Value(key any) any {
	k.key = key
	return nil
}
