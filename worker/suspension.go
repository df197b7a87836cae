package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/plain"
)

// keptIdle is how many idle coroutines a stage keeps: as many as a large batch
// may have started.
const keptIdle = 256

// Suspends has the stage's handlers run on coroutines. It must be called before
// the stage starts.
func (s *Stage) Suspends() {
	s.Inbox.Settings().SetSuspends()
	s.Versions.Suspends = true
	s.Runs = coro.New(coro.Config{
		Idle: keptIdle, Ready: s.queueWoken, Apart: s.queueWokenApart, Left: s.detachRun, Ended: s.endedRun,
	})
}

// coroutines runs each command of a batch on a coroutine, until it ends or
// suspends.
type coroutines struct{ single }

func (coroutines) execute(w *Worker, batch []command.Envelope) {
	for i := range batch {
		if w.Halted() {
			break
		}
		if e := &batch[i]; !e.Woken() && w.endEarly(e) {
			continue
		}
		run := w.runOf(&batch[i])
		ended := w.resume(run)
		switch {
		case w.Lost():
			panic(unwind{})
		case ended:
			w.conclude(run)
		default:
			w.progress.tally.Suspended++
			w.progress.cur++
		}
	}
}

// takesMore reports true in any case for a worker of the stage's own: commands
// that have been woken need a worker, and the full stage may wait for one of
// them. A worker that carries as many commands as its stage has slots starts no
// others.
func (coroutines) takesMore(w *Worker) bool { return w.pool == nil }

// runOf returns the run of a command, or a new one. From now on the command is
// in the batch as it was when it was started.
func (w *Worker) runOf(e *command.Envelope) *Run {
	var run *Run
	if e.Woken() {
		run = e.Load.(*Run)
		*e = run.envelope
		if p := w.order.known(); p != nil {
			p.Set(w.progress.cur, run.hold)
		}
		return run
	}
	run = &Run{Context: w.stage.Context, stage: w.stage, instance: w.gear.instance}
	run.envelope = *e
	if p := w.order.known(); p != nil {
		run.hold = p.Of(w.progress.cur)
	}
	if w.stage.Apart != nil {
		run.number = w.stage.begun.Add(1)
	}
	return run
}

// resume starts or resumes a run until it suspends or ends, and reports whether
// it has ended. If another goroutine has the run already, because the stage
// ends its runs, this worker treats it as suspended; so it does if a hard stop
// has abandoned the run.
func (w *Worker) resume(run *Run) (ended bool) {
	w.acting.ended = false
	if run.task == nil {
		run.instance.Of().Retain()
		w.attachRun(run)
		if _, err := w.stage.Runs.Start((*runContext)(run), run, run.serve); err != nil {
			run.refuse()
			return true
		}
		return w.acting.ended
	}
	switch {
	case !w.stage.Runs.Claim(run.task):
	case run.custody.move(parked, held):
		w.attachRun(run)
		w.stage.Runs.GoOn(run.task)
	default:
		go w.stage.Runs.GoOn(run.task)
	}
	return w.acting.ended
}

// attachRun makes the worker the owner of the run, which it holds.
func (w *Worker) attachRun(run *Run) {
	run.owner = w
	run.shared.Store(w.pool != nil)
	if run.stage.Timeout > 0 {
		w.arm() // before another goroutine may own the worker
	}
	w.suspending.running.Store(run)
	if run.task != nil {
		run.watch()
	}
}

// conclude settles what became of a run.
func (w *Worker) conclude(run *Run) {
	from := w.takeRest(run)
	if run.crash != nil {
		w.suspending.blame = run
		panic(run.crash)
	}
	o := w.decide(run, from)
	at := w.progress.cur
	w.Settle(o)
	w.order.endHold(at)
}

// takeRest takes over what a run that has ended has emitted and deferred. It
// returns the origin of the results of the command. If that was derived from
// the origin of the command, it is the origin of further tries, too.
func (w *Worker) takeRest(run *Run) *command.Origin {
	all, from := run.close()
	w.takeOver(all)
	if run.derived {
		w.Member.Batch[w.progress.cur].From = from
	}
	return from
}

// decide returns the outcome of a run, after it has made the deferred calls.
// The results of a command that has not failed have the given origin.
func (w *Worker) decide(run *Run, from *command.Origin) behaviour.Outcome {
	o := run.answer()
	w.settleDeferred(true, o.Err())
	if o.Err() == nil {
		w.Member.Batch[w.progress.cur].From = from
	}
	return o
}

// takeOver makes what a run has emitted and deferred the worker's: the run is
// over.
func (w *Worker) takeOver(all emits) {
	for _, m := range all.held {
		out, err := w.out.outboxFor(w.stage.Inbox, m.to.to.Inlet())
		if err != nil { // the target was a stage of the pipeline when the command was emitted
			m.from.Ticket().Settle(true, nil, err)
			continue
		}
		w.emits.held = append(w.emits.held, emission{out, m.load, m.from})
	}
	if len(all.deferred) == 0 {
		return
	}
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.emits.deferred = append(w.emits.deferred, all.deferred...)
}

// loseRun takes over what the run in which the worker is stuck has emitted, and
// marks the run as lost. The caller has given the worker up and has locked the
// run, which may be nil. The command of the run ends with h.
func (w *Worker) loseRun(run *Run, h *hang) {
	if run == nil {
		return
	}
	run.custody.move(held, lost)
	run.hang = h
	w.takeOver(run.closeLocked())
	run.emitting.Unlock()
}

// detachRun is called when a run has suspended or ended, by the goroutine that
// ran it, before any other goroutine can have the run. If the worker was given
// up meanwhile, the run is lost; its context has ended long ago.
func (s *Stage) detachRun(t *coro.Task) {
	run := t.Tag.(*Run)
	w := run.owner
	if w == nil {
		return
	}
	switch {
	case s.Timeout > 0 && !w.returned():
		<-w.watchdog.over // until then the run is not marked as lost
	case !w.suspending.running.CompareAndSwap(run, nil):
		w.emitting.Lock()   // until then the run is not marked as lost; see Worker.takeRun
		w.emitting.Unlock() //nolint:staticcheck // it was locked for the wait
	}
	if !t.Ended() {
		run.owner = nil
		run.custody.move(held, parked)
	}
}

// queueWoken queues a run that was woken. A lost run belongs to no worker, so
// it is resumed at once, until it ends. So is one that ends outside the
// workers.
func (s *Stage) queueWoken(t *coro.Task) {
	run := t.Tag.(*Run)
	if run.custody.gone() || s.Calls != nil {
		go s.Runs.Resume(t)
		return
	}
	s.Inbox.Batches().Resume(command.Envelope{Load: run})
}

// queueWokenApart queues a run that was woken by a timer, or by the end of the
// task that it awaited. Stage.Apart decides when.
func (s *Stage) queueWokenApart(t *coro.Task) {
	if s.Apart == nil {
		s.queueWoken(t)
		return
	}
	s.Apart(s.Inbox.Name(), t.Tag.(*Run).number, func() { s.queueWoken(t) })
}

// endedRun is called when a run has ended, by the goroutine that ran it.
func (s *Stage) endedRun(t *coro.Task) {
	run := t.Tag.(*Run)
	if run.alarm != nil {
		run.alarm.Stop()
	}
	if run.unhook != nil {
		run.unhook()
	}
	defer run.instance.Of().Release()
	if run.custody.gone() {
		run.emitting.Lock() // until the run is lost
		h := run.hang
		run.emitting.Unlock()
		s.hangs.end(h)
	}
	switch {
	case run.owner != nil:
		run.owner.acting.ended = true
	case run.custody.move(parked, finished):
		s.finishRun(run)
	case run.custody.is(abandonedRun):
		s.endAbandoned()
	}
}

// Unwind ends all runs that are suspended: their suspensions return, and what
// their handlers return then counts. It is called when a stage has ended. It
// waits for handlers that do not return, but not for runs that a worker still
// runs.
func (s *Stage) Unwind() {
	cause := context.Cause(s.Context)
	if cause == nil {
		cause = inbox.ErrStopped
	}
	s.Runs.CloseFor(cause)
}

// finishRun settles what became of a run that ended outside a worker.
func (s *Stage) finishRun(run *Run) {
	w := s.workerFor(run)
	from := w.takeRest(run)
	if run.crash != nil {
		w.suspending.blame = run
		w.settleCrash(run.crash)
		return
	}
	o := w.decide(run, from)
	if s.wasHeld(run, o.Err()) {
		w.endLeft(s.stopError(o.Err()))()
		return
	}
	w.Settle(o)
	w.progress.n = 0
	s.Inbox.Book(&w.Member, &w.progress.tally, nil)
	w.deliver(false)
}

// wasHeld reports whether the command of a run waited for others, as in a
// window, when a hard stop ended its wait with err. Then its handler has not
// handled it: the error is no answer.
func (s *Stage) wasHeld(run *Run, err error) (yes bool) {
	if err == nil || s.Inbox.Config().Holder == nil || run.envelope.From.Ended() != nil {
		return false
	}
	_ = crash.Guard(s.Inbox.Name(), func() error { // middleware may have made the error
		yes = errors.Is(err, coro.ErrStopped)
		return nil
	})
	return yes
}

// stopError returns the error of a command that a hard stop has ended for a
// reason.
func (s *Stage) stopError(why error) error {
	return plain.Wrap(fmt.Sprintf("stage %q", s.Inbox.Name()), fmt.Errorf("%w: %w", inbox.ErrStopped, why))
}

// workerFor returns a worker without an actor that has the command of a parked
// run of a halted stage in its batch, to end it.
func (s *Stage) workerFor(run *Run) *Worker {
	w := New(s)
	w.use(run.instance)
	w.Member.Batch = make([]command.Envelope, 2)
	w.Member.Batch[0], w.progress.n = run.envelope, 1
	if w.order.known() != nil {
		w.Member.Part = line.PartOf(run.hold)
		w.order.join(s.Inbox, &w.Member)
	}
	s.Inbox.Batches().TakeSuspended(&w.Member)
	return w
}

// endLeft ends the rest of the batch of a worker of a halted stage, the present
// command with err, and delivers the results of the commands before. The caller
// owns the worker, and calls report when it has released what the worker had.
func (w *Worker) endLeft(err error) (report func()) {
	left := w.Member.Batch[w.progress.cur:w.progress.n]
	w.order.endNumbers(w.progress.cur, w.progress.n)
	w.progress.n = 0
	report = w.stage.Inbox.Batches().EndWith(&w.Member, &w.progress.tally, left, err)
	w.out.redeem()
	clear(left)
	w.deliver(false)
	return report
}

// relayed is for a stage that runs in another process. It starts the commands
// that [Stage.Calls] selects as runs, and has the instance send the others
// together. A call that is suspended ends outside the workers, so it does not
// wait until the others are sent.
type relayed struct{ many }

func (relayed) execute(w *Worker, batch []command.Envelope) {
	var rest []command.Envelope
	calls := batch[:0]
	for _, e := range batch {
		if w.stage.Calls(&e) {
			calls = append(calls, e)
		} else {
			rest = append(rest, e)
		}
	}
	copy(batch[len(calls):], rest)
	coroutines{}.execute(w, calls)
	if len(rest) == 0 {
		return
	}
	if len(calls) > 0 {
		w.bookMidBatch() // the others may take long
	}
	many{}.execute(w, batch[len(calls):])
}

func (relayed) takesMore(w *Worker) bool { return coroutines{}.takesMore(w) }
