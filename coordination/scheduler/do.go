package scheduler

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

// job is one run of a handler, or a task.
type job struct {
	f     func(c coroutine.Context) // the function of a task
	task  *Task                     // the task; nil for a handler for whose end nothing waits
	reg   *Registration             // the registration of a handler; nil for a task
	event any
	holds bool // it occupies a slot of its registration, for the event that it handles

	before, after *job // the runs of the same registration, in the order in which they started
}

// runs is a list of the runs of a handler that have not ended.
type runs struct{ first, last *job }

func (r *runs) add(j *job) {
	j.before = r.last
	if r.last == nil {
		r.first = j
	} else {
		r.last.after = j
	}
	r.last = j
}

func (r *runs) remove(j *job) {
	if j.before == nil {
		r.first = j.after
	} else {
		j.before.after = j.after
	}
	if j.after == nil {
		r.last = j.before
	} else {
		j.after.before = j.before
	}
	j.before, j.after = nil, nil
}

// hold and release record whether a run of a handler is handling an event.
func (j *job) hold() {
	j.holds = true
	j.reg.held++
}

func (j *job) release() {
	if j.holds {
		j.holds = false
		j.reg.held--
		j.reg.settle()
	}
}

// do processes an entry, and reports whether that counts as an event.
func (s *Scheduler) do(e entry) bool {
	switch {
	case e.task != nil:
		return s.resume(e.task)
	case e.job != nil:
		return s.start(e.job)
	case e.end != nil:
		e.reg.finish(e.end.err)
		return false
	case e.reg.over != nil:
		s.forget(e)
		return false
	case e.reg.wake(e.event):
		return true
	default:
		return s.start(&job{reg: e.reg, event: e.event})
	}
}

// forget drops an entry that will not be processed.
func (s *Scheduler) forget(e entry) {
	switch {
	case e.job != nil:
		e.job.task.end(ErrClosed)
	case e.end != nil:
		e.reg.finish(e.end.err)
	case e.reg != nil:
		e.reg.drop(e.event)
		e.reg.settle()
	}
}

// start runs a job until it suspends or ends.
func (s *Scheduler) start(j *job) bool {
	defer s.watch(j)()
	s.live++
	if j.reg != nil {
		j.hold()
		j.reg.runs.add(j)
	}
	t, err := s.host.Start(context.Background(), j, run)
	if err != nil {
		panic(err) // not reached on a closed scheduler
	}
	s.count(t)
	return true
}

// resume continues a task, unless it has been resumed already.
func (s *Scheduler) resume(t *coro.Task) bool {
	defer s.watch(t.Tag.(*job))()
	was := t.Blocked()
	if !s.host.Resume(t) {
		return false
	}
	if was {
		s.blocked--
	}
	s.count(t)
	return true
}

// count counts a task that has become blocked. Tasks run only on this
// goroutine, so the task has not moved since it suspended.
func (s *Scheduler) count(t *coro.Task) {
	if !t.Ended() && t.Blocked() {
		s.blocked++
	}
}

// run is the body of every coroutine of a scheduler.
func run(t *coro.Task) {
	j := t.Tag.(*job)
	if j.reg == nil {
		j.f(t)
		return
	}
	defer j.release()
	j.reg.handler(t, j.event)
}

// ended is called by the host for each task that has ended.
func (s *Scheduler) ended(t *coro.Task) {
	j := t.Tag.(*job)
	s.live--
	if j.reg != nil {
		j.reg.runs.remove(j)
	}
	if err := t.Fault(); err != nil {
		s.cfg.Error(fmt.Errorf("scheduler: %s: %w", j.name(), err))
	}
	if j.task != nil {
		j.task.end(t.Fault())
	}
}

// watch reports to Error a job that does not suspend in time.
func (s *Scheduler) watch(j *job) (done func()) {
	if s.cfg.Patience == 0 {
		return func() {}
	}
	timer := time.AfterFunc(s.cfg.Patience, func() {
		s.cfg.Error(fmt.Errorf("scheduler: %s has run for %v without suspending; all others wait for it",
			j.name(), s.cfg.Patience))
	})
	return func() { timer.Stop() }
}

// closing watches a handler or task that Close has stopped: when the grace is
// over it reports the name of the job to Error, and makes its next suspension
// end it.
func (s *Scheduler) closing(t *coro.Task) (done func()) {
	timer := time.AfterFunc(s.cfg.Grace, func() {
		s.cfg.Error(fmt.Errorf("scheduler: %s has not returned within %v of being stopped; Close waits for it, "+
			"and its next suspension ends it", t.Tag.(*job).name(), s.cfg.Grace))
		t.Hurry()
	})
	return func() { timer.Stop() }
}

// name returns the name of the job for messages.
func (j *job) name() string {
	if j.reg != nil {
		return "handler " + function(j.reg.handler) + " of " + j.reg.name()
	}
	return "task " + function(j.f)
}

// function returns the name of a function, with its package.
func function(f any) string {
	if fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil {
		return fn.Name()
	}
	return "without a name"
}
