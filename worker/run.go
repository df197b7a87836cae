package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/handling"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
)

// Run is one try of a command whose handler may suspend. It has a coroutine of
// the stage, so it outlives the worker that started it: when it is woken, any
// worker of the stage may resume it. While a worker runs it, the command is in
// that worker's batch as it was given out, so whatever happens is charged to it
// as to any other command.
//
// As a [runContext] it is the context of its handler's task. It holds what the
// handler emits until the handler has succeeded.
type Run struct {
	context.Context // the stage's
	runLimit
	runEmits

	stage    *Stage
	instance instance
	envelope command.Envelope // as it was given out
	number   uint64           // of the command at the stage, if Stage.Apart is set
	hold     line.Hold        // of the command on the line of the stage
	task     *coro.Task
	owner    *Worker // the worker that runs it; nil while it is suspended, and if it is finished outside a worker

	outcome  behaviour.Outcome
	returned bool
	crash    *crash.Thrown // how the handler crashed; nil if it did not

	unhook func() bool // unregisters from the caller's context; nil if the run does not end with that

	custody runCustody
	shared  atomic.Bool // the worker that runs it is of a shared pool
}

// runLimit is the time limit of a run: its timer ends the handler's context
// once.
type runLimit struct {
	began time.Time
	alarm *time.Timer
	late  atomic.Bool // the time limit has passed
	wait  emitWait
}

// runEmits is what a run's handler has emitted, and deferred until the run has
// ended. After over no more is added.
type runEmits struct {
	emitting sync.Mutex // guards the rest
	emits    emits
	over     bool
	derived  bool            // result was derived from the origin of the command
	result   *command.Origin // of the results of the command, if several commands have them in common or it was derived; otherwise nil
	hang     *hang           // the error of the command, if the run was given up
}

// serve is the run on its coroutine. Stacks of runs are found by the name of
// this method and its receiver.
//
//go:noinline
func (run *Run) serve(t *coro.Task) {
	run.task = t
	if limit := run.stage.Timeout; limit > 0 {
		run.began = time.Now()
		run.alarm = time.AfterFunc(limit, run.expire)
		run.watch()
	}
	if from := run.envelope.From; from.Ends() {
		run.unhook = context.AfterFunc(from.Context(), func() { t.Stop(from.Ended()) })
	}
	defer run.rescue()
	run.outcome = run.instance.Handle(t, run.envelope.Load)
	run.returned = true
}

// rescue records how a handler crashed, for the worker that runs it. If the
// handler ended its goroutine, the coroutine ends too.
func (run *Run) rescue() {
	if run.returned {
		return
	}
	value := recover()
	if value == nil {
		value = cmp.Or(run.task.Fault(), crash.ErrGoexit)
	}
	run.crash = &crash.Thrown{Value: value, At: run.stage.lastCrash.Here(), Version: run.instance.Version()}
}

// watch has the worker watched while it runs the handler, if there is a time
// limit: until the limit has passed, and then for the grace.
func (run *Run) watch() {
	limit := run.stage.Timeout
	if limit == 0 {
		return
	}
	run.wait.renew()
	run.owner.watchdog.watch(run.task, max(limit-time.Since(run.began), 0), run.stage.Grace)
}

// expire ends the handler's context at its time limit, and the suspension that
// the handler is in.
func (run *Run) expire() {
	run.late.Store(true)
	run.task.Stop(ErrTimeout)
}

// refuse ends a run that could not start, because the stage has ended.
func (run *Run) refuse() {
	run.outcome, run.returned = behaviour.Error(inbox.ErrStopped), true
	run.instance.Of().Release()
}

// runContext is a run as the context of its handler's task.
type runContext Run

// Deadline returns the deadline of the stage's time limit or of the caller's
// context, whichever is earlier.
func (run *runContext) Deadline() (deadline time.Time, ok bool) {
	deadline, ok = run.Context.Deadline()
	if run.stage.Timeout > 0 {
		deadline, ok = run.began.Add(run.stage.Timeout), true
	}
	if from := run.envelope.From; from.Ends() {
		if theirs, limited := from.Context().Deadline(); limited && (!ok || theirs.Before(deadline)) {
			return theirs, true
		}
	}
	return deadline, ok
}

// Value returns the run as the emitter, then what the caller's context has, and
// then what the stage's context has.
func (run *runContext) Value(key any) any {
	switch key.(type) {
	case link.EmitterKey:
		return (*runEmitter)(run)
	case link.SuspenderKey:
		return run.task
	case command.OriginKey:
		return run.Origin()
	}
	if key != handling.ProfileKey {
		if value := run.envelope.From.Value(key); value != nil {
			return value
		}
	}
	return run.Context.Value(key)
}

// Origin returns the origin of the command, or nil if there is none.
func (run *runContext) Origin() *command.Origin { return run.envelope.From }

// Pipeline returns the stage's pipeline.
func (run *runContext) Pipeline() any { return run.stage.Inbox.Pipeline() }

// Lasts returns false: the context ends with the handler.
func (run *runContext) Lasts() bool { return false }

// originLocked returns the origin of the results of the command.
func (run *Run) originLocked() *command.Origin {
	return cmp.Or(run.result, run.envelope.From)
}

// answer returns the handler's outcome. An error that was returned after the
// time limit says so.
func (run *Run) answer() behaviour.Outcome {
	err := run.outcome.Err()
	if err == nil || !run.late.Load() || errors.Is(err, ErrTimeout) && !errors.Is(err, coro.ErrStopped) {
		return run.outcome // an error of a suspension that was stopped has ErrTimeout as its reason only
	}
	return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", run.stage.Timeout), err))
}

// close makes further emits fail. It returns what the handler has emitted and
// deferred, and the origin of the other results of the command.
func (run *Run) close() (emits, *command.Origin) {
	run.emitting.Lock()
	defer run.emitting.Unlock()
	return run.closeLocked(), run.originLocked()
}

func (run *Run) closeLocked() (all emits) {
	run.over = true
	all, run.emits = run.emits, emits{}
	return all
}

// tryLock keeps the handler from emitting until the run is lost, or unlocked.
// It returns false if the handler emits just now. The run may be nil.
func (run *Run) tryLock() bool { return run == nil || run.emitting.TryLock() }

// custody says which goroutine ends the command of a run.
//
//	           the command is ended by                    next
//	held       the worker that runs it                    parked, when it suspends; lost, when the worker is given up
//	parked     the goroutine that resumes it next         held, by a worker; finished or abandoned
//	lost       the goroutine that gave its worker up
//	finished   the goroutine that ran it to its end,
//	           which is no worker: the stage has ended
//	abandoned  [Stage.AbandonAll]: a hard stop has
//	           waited for it for long enough
//
// What the handler of a run does that is lost or abandoned has no effect.
type custody int32

const (
	held custody = iota
	parked
	lost
	finished
	abandonedRun
)

// runCustody is a custody that goroutines compete to change.
type runCustody struct{ v atomic.Int32 }

func (c *runCustody) move(from, to custody) bool { return c.v.CompareAndSwap(int32(from), int32(to)) }

func (c *runCustody) is(one custody) bool { return custody(c.v.Load()) == one }

// gone reports whether another goroutine has ended the command of the run.
func (c *runCustody) gone() bool { return c.is(lost) || c.is(abandonedRun) }
