package scheduler

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

// Handler handles one event. It runs as a coroutine, so it may suspend;
// meanwhile other handlers run, including further runs of the same one.
type Handler func(c coroutine.Context, event any)

// Registration ties a source to its handler. Its methods may be called by
// handlers and tasks of its scheduler, and, when no handler runs, by the
// goroutine that runs the scheduler.
type Registration struct {
	s       *Scheduler
	source  any
	handler Handler
	place   *list.Element // in the list of open registrations

	ctx      context.Context // the context of the source
	cancel   context.CancelFunc
	slots    chan struct{} // one element for each open event; its capacity is the backlog
	returned chan struct{} // closed when the source's goroutine has ended, or at once if it has none

	polled  bool    // the source is a Poller
	held    int     // slots that runs of the handler occupy
	timer   *timer  // the timer of an After or Every source
	runs    runs    // of the handler
	waiting []*next // handlers that wait for the next events, first come, first served
	over    error   // why there will be no more events; nil while there may be
}

// next is a handler that waits for the next event.
type next struct {
	task   *coro.Task
	wake   coro.Waker
	rouse  func() // replaces wake if the end of a context may end the wait
	job    *job   // set if the handler is a run of the same registration
	served bool   // it got the event
	event  any
	err    error
}

// claim ends the wait and reports whether the caller must resume the handler.
func (n *next) claim() bool {
	if n.rouse == nil {
		return n.wake.Claim()
	}
	n.rouse()
	return true
}

// Register ties a source, which is a Source or a Poller, to its handler. Each
// event of the source starts a run of the handler, unless a handler has asked
// for the event with Next. Register panics if src is neither a Source nor a
// Poller, or if h is nil. On a closed scheduler the registration is closed at
// once: Observe of a Source is called with a context that ends, so that the
// source releases its resources.
func (s *Scheduler) Register(src any, h Handler) *Registration {
	if h == nil {
		panic("scheduler: Register without a handler")
	}
	r := &Registration{
		s: s, source: src, handler: h,
		slots: make(chan struct{}, s.cfg.Backlog), returned: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.start()
	if s.closed {
		r.end(ErrClosed)
		s.cfg.Error(fmt.Errorf("scheduler: Register: %w", ErrClosed))
	}
	return r
}

// start starts the source.
func (r *Registration) start() {
	switch src := r.source.(type) {
	case ticker: // needs no goroutine
		close(r.returned)
		r.timer = r.s.timers.add(time.Now().Add(src.first()), coro.Waker{}, r)
	case Source:
		go r.observe(src)
	case Poller:
		r.polled = true
		close(r.returned)
		r.s.pollers = append(r.s.pollers, r)
	default:
		panic(fmt.Sprintf("scheduler: Register: %T is neither a Source nor a Poller", src))
	}
	r.place = r.s.open.PushBack(r)
}

// Close ends the registration: it stops the source and drops its unhandled
// events. Running handlers continue; handlers that wait in Next get ErrClosed.
// Close may be called twice.
func (r *Registration) Close() { r.end(ErrClosed) }

// Runs returns the runs of the handler that events have started and that have
// not ended, in the order in which they started. [Task.Join] waits for the end
// of one.
func (r *Registration) Runs() (all []*Task) {
	for j := r.runs.first; j != nil; j = j.after {
		all = append(all, j.handle())
	}
	return all
}

// Next suspends the handler until the next event of the source, which then does
// not start a new run. Several waiting handlers are served in the order in
// which they called Next. The error is ErrClosed or ErrEnded if there will be
// no more events. It is coroutine.ErrStopped or the error of the context that
// ended the wait (coroutine.WithContext) if the wait ended early: then an event
// is left to the next waiting handler, or to a new run. The context must belong
// to a handler or task of the same scheduler.
func (r *Registration) Next(c coroutine.Context) (event any, err error) {
	t, ok := coro.TaskOf(c)
	if !ok || t.Host() != r.s.host {
		return nil, errors.New("scheduler: Next: the context is not that of a handler or task of this scheduler")
	}
	if err := t.Refused(); err != nil {
		return nil, err
	}
	if r.over != nil {
		return nil, r.over
	}
	n := &next{task: t}
	if c == coroutine.Context(t) {
		err = r.block(n)
	} else {
		err = c.Suspend(func(wake func()) {
			n.rouse = wake
			r.join(n)
		})
	}
	if err != nil && !n.served {
		r.leave(n)
		return nil, err
	}
	return n.event, n.err
}

// block suspends a handler that can be woken only by an event, or by the end of
// its source.
func (r *Registration) block(n *next) (err error) {
	if n.wake, err = n.task.Prepare(); err != nil {
		return err
	}
	r.join(n)
	return n.task.Block()
}

// join adds a handler to the handlers that wait for the next event.
func (r *Registration) join(n *next) {
	if j := n.task.Tag.(*job); j.reg == r {
		j.release() // the handler has finished its last event
		n.job = j
	}
	r.waiting = append(r.waiting, n)
}

// leave removes a handler that no longer waits.
func (r *Registration) leave(n *next) {
	for i, other := range r.waiting {
		if other == n {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			return
		}
	}
}

// wake gives an event to the handler that has waited longest for it and resumes
// that handler. It returns false if no handler waits.
func (r *Registration) wake(event any) bool {
	for len(r.waiting) > 0 {
		n := r.waiting[0]
		r.waiting = r.waiting[1:]
		if n.claim() { // not claimed: it was stopped
			n.event, n.served = event, true
			if n.job != nil {
				n.job.hold()
			} else {
				r.settle()
			}
			return r.s.resume(n.task)
		}
	}
	return false
}

// settle frees a slot, after an event has been handled or dropped.
func (r *Registration) settle() { <-r.slots }

// full reports whether all slots are taken, so that the source is held back.
func (r *Registration) full() bool { return len(r.slots) == cap(r.slots) }

// stalled reports whether the source is held back until a run of its handler
// ends or asks for more, and nothing from it is on its way: no event, and no
// end for which a handler waits. A poller that is held back is not polled, so
// it does not end either.
func (r *Registration) stalled() bool {
	return r.held == cap(r.slots) && (len(r.waiting) == 0 || r.polled)
}

// notify accepts an event from the source's goroutines. It waits while the
// source has reached its backlog.
func (r *Registration) notify(event any) {
	select {
	case r.slots <- struct{}{}:
		if r.ctx.Err() == nil && r.s.inbox.put(entry{reg: r, event: event}) {
			return
		}
		r.settle()
	case <-r.ctx.Done():
	}
	r.drop(event)
}

// drop returns an event that will not be handled to its source, if the source
// is a Dropper. A panic of the source is reported.
func (r *Registration) drop(event any) {
	d, ok := r.source.(Dropper)
	if !ok {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.s.cfg.Error(fmt.Errorf("scheduler: %s: Drop: %w", r.name(), &coroutine.PanicError{Value: v, Stack: debug.Stack()}))
		}
	}()
	d.Drop(event)
}

// observe runs a source to its end, on a goroutine of its own.
func (r *Registration) observe(src Source) {
	defer close(r.returned)
	err := coroutine.ErrGoexit // stays if Observe calls Goexit
	defer func() {
		if v := recover(); v != nil {
			err = &coroutine.PanicError{Value: v, Stack: debug.Stack()}
		}
		r.s.inbox.put(entry{reg: r, end: &ending{err}})
	}()
	err = src.Observe(r.ctx, r.notify)
}

// finish ends the registration when all events of its source have been handled.
func (r *Registration) finish(err error) {
	if r.over != nil {
		return
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		r.s.cfg.Error(fmt.Errorf("scheduler: %s: %w", r.name(), err))
	}
	r.end(ErrEnded)
}

// end stops the source for the given reason and wakes the handlers that wait
// for it.
func (r *Registration) end(why error) {
	if r.over != nil {
		return
	}
	r.over = why
	r.cancel()
	r.s.open.Remove(r.place)
	r.s.timers.remove(r.timer)
	r.s.removePoller(r)
	for _, n := range r.waiting {
		n.err = why
		if n.rouse != nil {
			n.rouse()
		} else {
			n.wake.Wake()
		}
	}
	r.waiting = nil
}

// name returns the name of the source: its String method's result, or its type
// if it has no such method or the method panics.
func (r *Registration) name() (name string) {
	name = fmt.Sprintf("source %T", r.source)
	defer func() { _ = recover() }()
	switch src := r.source.(type) {
	case fmt.Stringer:
		name = src.String()
	case SourceFunc:
		name = "source " + function(src)
	}
	return name
}
