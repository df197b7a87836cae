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
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
)

// keptIdle is how many idle coroutines a stage keeps: as many as a large batch may have begun.
const keptIdle = 256

// Run is one try of a command whose handler may suspend. It has a coroutine of the stage's,
// so it outlives the worker that began it: whoever of the stage's workers finds it woken goes
// on with it. While one does, the command is in that worker's hand, as it was given out, so that
// whatever happens is charged to it as to any other.
//
// A run is the context of its handler's task, and what the handler emits is kept here until
// it has succeeded.
type Run struct {
	context.Context // the stage's

	stage    *Stage
	instance Instance
	trial    *Rollout         // the canary's trial in which it was begun, nil if there was none
	side     int              // whose it is in that
	envelope command.Envelope // as it was given out
	number   uint64           // among the stage's, if somebody sets the actors' pace
	task     *coro.Task
	owner    *Worker // who runs it; nil between two workers, and if its end is seen to by nobody's worker

	outcome  behaviour.Outcome
	returned bool
	crash    *thrown // how the handler crashed, nil if it did not

	began  time.Time   // if there is a time limit
	alarm  *time.Timer // likewise
	unhook func() bool // lets go of the caller's context; nil if the run does not end with that
	late   atomic.Bool // the time limit has passed
	lost   atomic.Bool // its worker was given up: the command has been charged, and what else comes is nobody's
	shared atomic.Bool // who runs it is of a shared pool
	wait   emitWait

	emitting sync.Mutex // guards all below
	emits    []emission
	over     bool
}

// thrown is how a handler crashed. It is what a worker panics with in the place of a run.
type thrown struct {
	value   any
	at      *site
	version string // the handler's, which may be one that the worker does not have any more
}

// Suspends has the stage's handlers run on coroutines. It is said before the stage starts.
func (s *Stage) Suspends() {
	s.Inbox.SetSuspends()
	s.Runs = coro.New(coro.Config{
		Idle: keptIdle, Ready: s.ready, Apart: s.resumeApart, Left: s.startRun, Ended: s.ended,
	})
}

// handleRuns begins the commands of a batch, or goes on with them.
func (w *Worker) handleRuns(batch []command.Envelope) {
	for i := range batch {
		if w.Halted() {
			break
		}
		if e := &batch[i]; !e.Woken() && w.unbegun(e) {
			continue
		}
		run := w.hold(&batch[i])
		w.running.Store(run)
		ended := w.goOn(run)
		w.running.Store(nil)
		switch {
		case w.lost.Load():
			panic(abandoned{})
		case ended:
			w.conclude(run)
		default:
			w.tally.Suspended++
			w.cur++
		}
	}
	w.both = nil
}

// hold finds the run of a command, or makes one. From now on the command is in the worker's
// hand as it was when it was begun.
func (w *Worker) hold(e *command.Envelope) *Run {
	var run *Run
	if e.Woken() {
		run = e.Cmd.(*Run)
		*e = run.envelope
		return run
	}
	run = &Run{Context: w.stage.Context, stage: w.stage, instance: w.instance}
	if w.both != nil {
		w.both.aim(e)
		run.instance, run.trial, run.side = w.both.parts[w.both.side], w.both.rollout, w.both.side
	}
	run.envelope = *e
	if w.stage.Apart != nil {
		run.number = w.stage.begun.Add(1)
	}
	return run
}

// goOn has a run go on until it suspends or ends, and reports whether it has ended. If somebody
// else has it already, who sees to the end of what a stage leaves behind, it has not, as far as
// this worker is concerned.
func (w *Worker) goOn(run *Run) (ended bool) {
	w.ended = false
	if run.task == nil {
		run.instance.Of().another()
		w.own(run)
		if _, err := w.stage.Runs.Start(run, run, run.serve); err != nil {
			run.refused()
			return true
		}
		return w.ended
	}
	if w.stage.Runs.Claim(run.task) {
		w.own(run)
		w.stage.Runs.GoOn(run.task)
	}
	return w.ended
}

// own makes the worker the one who runs it.
func (w *Worker) own(run *Run) {
	run.owner = w
	run.shared.Store(w.pool != nil)
	if run.task != nil {
		run.watch()
	}
}

// watch has the worker watched while it runs the handler, if there is a time limit: until that has passed, then for the
// grace.
func (run *Run) watch() {
	limit := run.stage.Timeout
	if limit == 0 {
		return
	}
	run.wait.renew()
	run.owner.watch(run.task, max(limit-time.Since(run.began), 0))
}

// refused ends a run that could not begin: the stage has come to its end.
func (run *Run) refused() {
	run.outcome, run.returned = behaviour.Error(inbox.ErrStopped), true
	run.instance.Of().left()
}

// serve is the run, on its coroutine. Its address is how the stack of a run is found.
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
	run.outcome = run.instance.Handle(t, run.envelope.Cmd)
	run.returned = true
}

// rescue notes how a handler crashed; who runs it deals with that. If it ended its goroutine,
// the coroutine goes with it.
func (run *Run) rescue() {
	if run.returned {
		return
	}
	value := recover()
	if value == nil {
		value = cmp.Or(run.task.Fault(), ErrGoexit)
	}
	run.crash = &thrown{value, sites.here(&run.stage.crashSite), run.instance.Version()}
}

// expire ends the handler's context at its time limit, and the suspension that it is in.
func (run *Run) expire() {
	run.late.Store(true)
	run.task.Stop(ErrTimeout)
}

// Deadline is that of the stage's time limit, or of the caller's context, whichever is earlier.
func (run *Run) Deadline() (deadline time.Time, ok bool) {
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

// Value knows the run as the emitter, then what the caller's context knows, and then what the stage's does.
func (run *Run) Value(key any) any {
	switch key.(type) {
	case behaviour.EmitterKey:
		return (*runEmitter)(run)
	case command.OriginKey:
		return run.Origin()
	}
	if key != profileKey {
		if value := run.envelope.From.Value(key); value != nil {
			return value
		}
	}
	return run.Context.Value(key)
}

// Origin returns the origin of the command, nil if there is none.
func (run *Run) Origin() *command.Origin { return run.envelope.From }

// Pipeline returns the stage's pipeline.
func (run *Run) Pipeline() any { return run.stage.Inbox.Pipeline() }

// Lasts returns false: the context ends with the handler.
func (run *Run) Lasts() bool { return false }

// startRun is told of a run that has suspended or ended, by who ran it, before anybody else can
// have it. If its worker was given up meanwhile the run is a stray; its time limit has told it to
// end long ago.
func (s *Stage) startRun(t *coro.Task) {
	run := t.Tag.(*Run)
	if w := run.owner; w != nil && s.Timeout > 0 && !w.returned() {
		<-w.over // until then it is not known to be one
	}
	if !t.Ended() {
		run.owner = nil
	}
}

// ready queues a run that was woken. A stray is nobody's, so it ends by itself.
func (s *Stage) ready(t *coro.Task) {
	run := t.Tag.(*Run)
	if run.lost.Load() {
		go s.Runs.Resume(t)
		return
	}
	s.Inbox.Resume(command.Envelope{Cmd: run})
}

// resumeApart is ready for a run that was woken by a timer, or by what it awaited. Who sets the pace of the actors
// decides when it is queued.
func (s *Stage) resumeApart(t *coro.Task) {
	if s.Apart == nil {
		s.ready(t)
		return
	}
	s.Apart(s.Inbox.Name(), t.Tag.(*Run).number, func() { s.ready(t) })
}

// ended is told of a run that has ended, by who ran it.
func (s *Stage) ended(t *coro.Task) {
	run := t.Tag.(*Run)
	if run.alarm != nil {
		run.alarm.Stop()
	}
	if run.unhook != nil {
		run.unhook()
	}
	defer run.instance.Of().left()
	switch {
	case run.owner != nil:
		run.owner.ended = true
	case !run.lost.Load():
		s.finishRun(run)
	}
}

// conclude settles what became of a run.
func (w *Worker) conclude(run *Run) {
	w.adopt(run.close())
	if run.crash != nil {
		w.blame = run
		panic(run.crash)
	}
	w.Settle(run.verdict())
}

// verdict is the run's answer, which a trial has taken note of.
func (run *Run) verdict() behaviour.Outcome {
	o := run.answer()
	if run.trial != nil {
		run.trial.note(run.side, o.Err() != nil)
	}
	return o
}

// close ends what a run's handler may do, and returns what it has emitted.
func (run *Run) close() []emission {
	run.emitting.Lock()
	defer run.emitting.Unlock()
	return run.shut()
}

func (run *Run) shut() (emits []emission) {
	run.over = true
	emits, run.emits = run.emits, nil
	return emits
}

// answer is the outcome of the handler. An error that comes after the time limit says so.
func (run *Run) answer() behaviour.Outcome {
	err := run.outcome.Err()
	if err == nil || !run.late.Load() || errors.Is(err, ErrTimeout) && run.limited(err) {
		return run.outcome
	}
	return behaviour.Error(plain.Because(ErrTimeout, fmt.Sprintf(" (%v)", run.stage.Timeout), err))
}

// limited reports whether an error tells the time limit by itself, and not only as the reason why
// a suspension was ended.
func (run *Run) limited(err error) bool { return !errors.Is(err, coro.ErrStopped) }

// adopt takes over what a run has emitted.
func (w *Worker) adopt(emits []emission) {
	ticket := w.Batch[w.cur].Ticket()
	for _, m := range emits {
		out, err := w.outboxFor(m.to.room.Inlet())
		if err != nil { // it was a stage of the pipeline when it was emitted
			ticket.Settle(true, nil, err)
			continue
		}
		w.emits = append(w.emits, emission{out, m.cmd, m.from})
	}
}

// loseRun makes the run that is stuck, if it is one, a stray. It is called by the watch, who has seen
// to it that it is still.
func (w *Worker) loseRun() {
	if run := w.running.Load(); run != nil {
		run.lost.Store(true)
		w.blame = run
		w.adopt(run.shut())
		run.endWaits()
	}
}

// isQuiet sees to it that nobody emits for the run, if there is one: its affairs are at rest until
// it is lost, or stirred. It reports false if somebody does.
func (run *Run) isQuiet() bool { return run == nil || run.emitting.TryLock() }

// endWaits ends what still began.
func (run *Run) endWaits() {
	if run != nil {
		run.emitting.Unlock()
	}
}

// Unwind ends all runs that are suspended: their suspensions return, and what their handlers
// then answer counts. It is for a stage that has come to its end, and does not wait for those that
// somebody still runs. A handler that does not end holds it up.
func (s *Stage) Unwind() {
	cause := context.Cause(s.Context)
	if cause == nil {
		cause = inbox.ErrStopped
	}
	s.Runs.CloseFor(cause)
}

// finishRun settles what became of a run that no worker ran.
func (s *Stage) finishRun(run *Run) {
	w := New(s)
	w.instance, w.Batch = run.instance, make([]command.Envelope, 2)
	w.Batch[0], w.n = run.envelope, 1
	s.Inbox.TakeSuspended(&w.Member)
	w.adopt(run.close())
	if run.crash != nil {
		w.blame = run
		w.settleCrash(run.crash)
		return
	}
	w.Settle(run.verdict())
	w.n = 0
	s.Inbox.Book(&w.Member, &w.tally)
	w.deliver(false)
}
