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
	f     func(c coroutine.Context) // a task's
	task  *Task                     // likewise
	reg   *Registration             // or whose handler
	event any
	holds bool // the room of an event that it is at
}

// hold and release say whether a run of a handler is at an event.
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

// do does what an entry says, and reports whether that was an event.
func (s *Scheduler) do(e entry) bool {
	switch {
	case e.task != nil:
		return s.resume(e.task)
	case e.job != nil:
		return s.begin(e.job)
	case e.end != nil:
		e.reg.finish(e.end.err)
		return false
	case e.reg.over != nil:
		s.forget(e)
		return false
	case e.reg.wake(e.event):
		return true
	default:
		return s.begin(&job{reg: e.reg, event: e.event})
	}
}

// forget drops an entry that nobody will do.
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

// begin runs a job until it suspends or ends.
func (s *Scheduler) begin(j *job) bool {
	defer s.watch(j)()
	s.live++
	if j.reg != nil {
		j.hold()
	}
	t, err := s.host.Start(context.Background(), j, run)
	if err != nil {
		panic(err) // a closed scheduler does not come here
	}
	s.count(t)
	return true
}

// resume goes on with a task, unless that has been done.
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

// count counts a task that has become blocked. It runs on this goroutine alone, so
// the task is still where it was left.
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

// ended is told by the host of each task that has.
func (s *Scheduler) ended(t *coro.Task) {
	j := t.Tag.(*job)
	s.live--
	if err := t.Fault(); err != nil {
		s.cfg.Error(fmt.Errorf("scheduler: %s: %w", j.name(), err))
	}
	if j.task != nil {
		j.task.end(t.Fault())
	}
}

// watch has Error hear of a job that does not suspend in time.
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

// closing watches a handler or task that Close has stopped: when the grace is over Error receives its name, and its
// next suspension ends it.
func (s *Scheduler) closing(t *coro.Task) (done func()) {
	timer := time.AfterFunc(s.cfg.Grace, func() {
		s.cfg.Error(fmt.Errorf("scheduler: %s has not returned within %v of being stopped; Close waits for it, "+
			"and its next suspension ends it", t.Tag.(*job).name(), s.cfg.Grace))
		t.Hurry()
	})
	return func() { timer.Stop() }
}

// name says whose fault something is.
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
