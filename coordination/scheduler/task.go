package scheduler

import (
	"errors"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

// Task is a task that Go has created, or a run of a handler: see [TaskOf] and
// [Registration.Runs]. Its methods may be called from any goroutine.
type Task struct {
	job job  // of Go
	of  *job // the job, of Go or of a handler
	s   *Scheduler

	ends waiters // its lock guards the fields below
	over bool
	err  error
	done chan struct{} // made on the first call of Done
}

// TaskOf returns the task, or the run of a handler, that has the context c.
// Other handlers may use it to wait for the end of the task. TaskOf must be
// called by that task or handler, and reports whether c belongs to one.
func TaskOf(c coroutine.Context) (*Task, bool) {
	t, ok := coro.TaskOf(c)
	if !ok {
		return nil, false
	}
	j, ok := t.Tag.(*job)
	if !ok {
		return nil, false
	}
	return j.handle(), true
}

// handle returns the task of a job. A run of a handler has one only if it is
// asked for.
func (j *job) handle() *Task {
	if j.task == nil {
		j.task = &Task{of: j, s: j.reg.s}
	}
	return j.task
}

// errOwnEnd is returned to a task that waits for itself.
var errOwnEnd = errors.New("scheduler: Join: a task waits for its own end")

// Join suspends the caller until the task has ended, and returns how it ended,
// like [Task.Err]. If the caller is stopped first, or the context of its wait
// ends (coroutine.WithContext), Join returns that error, and the task
// continues. A task that joins itself gets an error at once. Any number of
// handlers and tasks may join, of other schedulers too, and a goroutine with
// coroutine.Blocking.
//
// If the error may come from the wait or from the task, use Done to find out
// whether the task has ended.
func (t *Task) Join(c coroutine.Context) error {
	caller, ok := coro.TaskOf(c)
	if ok && caller.Tag == t.of {
		return errOwnEnd
	}
	t.ends.mu.Lock()
	if t.over {
		defer t.ends.mu.Unlock()
		return t.err
	}
	wait := block
	if ok && caller.Host() != t.s.host {
		wait = suspend // its own scheduler does not know whether it will be woken
	}
	if _, err := t.ends.waitWith(c, wait); err != nil {
		return err
	}
	return t.Err()
}

// Done returns a channel that is closed when the task has ended.
func (t *Task) Done() <-chan struct{} {
	t.ends.mu.Lock()
	defer t.ends.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
		if t.over {
			close(t.done)
		}
	}
	return t.done
}

// Err returns how the task has ended: nil if it returned, or has not ended; a
// *coroutine.PanicError; coroutine.ErrGoexit; coroutine.ErrIgnoredStop; or
// ErrClosed if the scheduler was closed before the task started.
func (t *Task) Err() error {
	t.ends.mu.Lock()
	defer t.ends.mu.Unlock()
	return t.err
}

// end records how the task has ended and wakes all waiters, in the order in
// which they came.
func (t *Task) end(err error) {
	t.ends.mu.Lock()
	defer t.ends.mu.Unlock()
	t.over, t.err = true, err
	if t.done != nil {
		close(t.done)
	}
	for t.ends.wakeFirstLocked() {
	}
}
