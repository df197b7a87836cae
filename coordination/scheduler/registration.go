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

// Handler handles one event. It runs as a coroutine, so it may suspend; other
// handlers run meanwhile, further runs of the same one too.
type Handler func(c coroutine.Context, event any)

// Registration ties a source to its handler. Its methods are for handlers and tasks of
// its scheduler, and for who steps when no handler runs.
type Registration struct {
	s       *Scheduler
	source  any
	handler Handler
	place   *list.Element // among the open ones

	ctx      context.Context // the source's
	cancel   context.CancelFunc
	room     chan struct{} // as many as there are events that have not been dealt with
	returned chan struct{} // closed when the source's goroutine has ended, or if there is none

	polled  bool    // the source is a Poller
	held    int     // of the room, by runs of the handler
	timer   *timer  // of After and Every
	waiting []*next // those who want the next events, first come first served
	over    error   // why there will be no more events; nil while there may be
}

// next is a handler that waits for the next event.
type next struct {
	task   *coro.Task
	wake   coro.Waker
	rouse  func() // instead of wake, if the end of a context may be first
	job    *job   // if it is a run of the same registration
	served bool   // it has the event
	event  any
	err    error
}

// claim reports whether the caller must have the handler go on, for which it waits no more.
func (n *next) claim() bool {
	if n.rouse == nil {
		return n.wake.Claim()
	}
	n.rouse()
	return true
}

// Register ties a source, which is a Source or a Poller, to its handler. For each event
// of the source a run of the handler is begun, unless a handler has asked for it with
// Next. It panics if src is neither, or h is nil. On a closed scheduler the
// registration is closed at once: a Source is called, and told to end, so that it lets go of what
// it owns.
func (s *Scheduler) Register(src any, h Handler) *Registration {
	if h == nil {
		panic("scheduler: Register without a handler")
	}
	r := &Registration{
		s: s, source: src, handler: h,
		room: make(chan struct{}, s.cfg.Backlog), returned: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.begin()
	if s.closed {
		r.end(ErrClosed)
		s.cfg.Error(fmt.Errorf("scheduler: Register: %w", ErrClosed))
	}
	return r
}

// begin puts the source to work.
func (r *Registration) begin() {
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

// Close ends the registration: the source is told to stop, and events of it that have
// not been handled are dropped. Handlers that run go on; those that wait in Next get ErrClosed. To
// close twice is fine.
func (r *Registration) Close() { r.end(ErrClosed) }

// Next suspends the handler until the next event of the source, which is then not given to a
// new run. Several that wait are served in the order in which they came. The error is
// ErrClosed or ErrEnded if there will be no more events, coroutine.ErrStopped, or that of the context that ended
// the wait (coroutine.WithContext): an event is then left to the next that waits, or to a new run. The
// context must be that of a handler or task of the same scheduler.
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

// block suspends a handler that only an event, or the end of its source, will wake.
func (r *Registration) block(n *next) (err error) {
	if n.wake, err = n.task.Prepare(); err != nil {
		return err
	}
	r.join(n)
	return n.task.Block()
}

// join puts a handler into the line for the next event.
func (r *Registration) join(n *next) {
	if j := n.task.Tag.(*job); j.reg == r {
		j.release() // it is done with its last event
		n.job = j
	}
	r.waiting = append(r.waiting, n)
}

// leave takes a handler out of the line that does not wait any more.
func (r *Registration) leave(n *next) {
	for i, other := range r.waiting {
		if other == n {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			return
		}
	}
}

// wake gives an event to the handler that has waited for it longest, if one has, and goes
// on with that.
func (r *Registration) wake(event any) bool {
	for len(r.waiting) > 0 {
		n := r.waiting[0]
		r.waiting = r.waiting[1:]
		if n.claim() { // if not, it was stopped
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

// settle makes room for a further event, one having been dealt with.
func (r *Registration) settle() { <-r.room }

// full reports whether the source is held back, or will be when events have come in that
// are on their way.
func (r *Registration) full() bool { return len(r.room) == cap(r.room) }

// hopeless reports whether the source is held back until a run of its handler ends or asks for more, and
// nothing of it is on its way: no event, nor its end if somebody waits for that. A poller that is held
// back is not asked, so it does not end either.
func (r *Registration) hopeless() bool {
	return r.held == cap(r.room) && (len(r.waiting) == 0 || r.polled)
}

// notify takes an event from the source's goroutines. It waits while the source is at its bound.
func (r *Registration) notify(event any) {
	select {
	case r.room <- struct{}{}:
		if r.ctx.Err() == nil && r.s.inbox.put(entry{reg: r, event: event}) {
			return
		}
		r.settle()
	case <-r.ctx.Done():
	}
	r.drop(event)
}

// drop returns an event that will not be handled to its source, if that wants it. A panic of the source is reported.
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
	err := coroutine.ErrGoexit // unless it returns or panics
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

// end stops the source, for the reason given, and wakes who waits for it.
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

// name says which source it is: by its String method, or if that panics or there is none, by its type.
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
