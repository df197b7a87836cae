package worker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/stacks"
)

// unknownTries stands for the tries of the command of a worker that was
// abandoned: it may have been tried before.
const unknownTries = 2

// AbandonAll gives up the workers that have commands of the stage, whose inbox
// is halted, in their batches and do not deliver, and the suspended handlers
// that have not ended: a hard stop has waited for them for long enough. Their
// commands are dead-lettered, and the tickets are settled. That counts as no
// crash, and no worker takes their place. The error of the commands says where
// their handler is stuck, and since when.
func (s *Stage) AbandonAll() {
	if s.Runs != nil {
		s.abandonRuns()
		return
	}
	var held []*Worker
	for _, m := range s.Inbox.Batches().Holders() {
		if w, ok := m.Owner.(*Worker); ok {
			held = append(held, w)
		}
	}
	if len(held) == 0 {
		return
	}
	running, _ := findHandlers(held, nil)
	for _, w := range held {
		w.abandon(s, stuckIn(w.Busy(), running[w]))
	}
}

// abandon gives a worker up that has commands of a stage. Why says where the
// handler is stuck.
func (w *Worker) abandon(s *Stage, why error) {
	in := s.Inbox
	emits, pledged, report := w.giveUpAbandoned(s, why)
	if report == nil {
		return
	}
	if w.pool != nil {
		w.pool.Abandon(&w.Member)
	}
	report()
	for _, m := range emits {
		m.settle()
	}
	for _, p := range pledged {
		p.to.Senders().HandOver(nil, []command.Envelope{p.e}, 0, true, false)
	}
	in.Results().Flush()
}

// giveUpAbandoned gives the worker up and copies what the caller has to settle.
// Report is nil if the worker was not given up.
func (w *Worker) giveUpAbandoned(s *Stage, why error) (emits []emission, pledged []pledge, report func()) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if !w.giveUpLocked(abandoned, func() bool {
		h := s.hangs.begin(why, unknownTries)
		if report = s.Inbox.Batches().Abandon(&w.Member, s.stopError(h)); report == nil {
			h.tries = 1 // it has no command
			s.hangs.end(h)
			return false
		}
		w.slot.hung = h
		return true
	}) {
		return nil, nil, nil
	}
	return slices.Clone(w.emits.held), slices.Clone(w.out.pledged), report
}

// abandonRuns is AbandonAll for a stage whose handlers may suspend.
func (s *Stage) abandonRuns() {
	if _, halted := s.Inbox.Phases().Stopped(); !halted {
		return
	}
	workers := map[*Worker]bool{}
	for _, m := range s.Inbox.Batches().Holders() {
		if w, ok := m.Owner.(*Worker); ok && w.suspending.running.Load() != nil {
			workers[w] = true
		}
	}
	runs := map[uint64]*Run{}
	s.eachRun(func(run *Run) {
		if run.custody.is(parked) {
			runs[stacks.Address(run)] = run
		}
	})
	if len(workers)+len(runs) == 0 {
		return
	}
	running, suspended := findHandlers(slices.Collect(maps.Keys(workers)), runs)
	for w := range workers {
		w.abandonRun(s, stuckIn(w.Busy(), running[w]))
	}
	for _, run := range runs {
		s.abandonParked(run, stuckIn(0, suspended[run]))
	}
}

// abandonRun gives a worker up that runs a run of the stage, which is halted.
// It does nothing if the run has suspended or ended meanwhile, or emits just
// now.
func (w *Worker) abandonRun(s *Stage, why error) {
	run := w.takeRun(s)
	if run == nil {
		return
	}
	defer close(w.watchdog.over)
	report := w.endRun(run, why)
	if w.pool != nil {
		w.leavePool()
	} else {
		s.Inbox.Yield(&w.Member)
		s.Inbox.Workers().Leave(&w.Member)
	}
	w.releaseInstance()
	report()
}

// takeRun makes the caller the owner of a worker that runs a run of the stage,
// and returns the run, locked; nil if that is not possible now. The goroutine
// of the handler finds out when the run suspends or ends, and waits then until
// takeRun has returned.
func (w *Worker) takeRun(s *Stage) (run *Run) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if !w.giveUpLocked(stuck, func() bool {
		run = w.suspending.running.Load()
		if run == nil || run.stage != s || !run.tryLock() {
			return false
		}
		if w.suspending.running.CompareAndSwap(run, nil) {
			run.custody.move(held, lost) // so that the handler's goroutine finds it so
			return true
		}
		run.emitting.Unlock()
		return false
	}) {
		return nil
	}
	w.arm()
	w.watchdog.alarm.Stop()
	return run
}

// endRun ends the batch of a worker, from the command of a run on that does not
// end, and delivers the results of the commands before. The caller owns the
// worker and has locked the run. It calls report when it has released what the
// worker had.
func (w *Worker) endRun(run *Run, why error) (report func()) {
	h := w.stage.hangs.begin(why, w.presentTry())
	w.loseRun(run, h)
	w.settleDeferred(false, nil)
	w.recall()
	w.clock()
	w.out.spill(w.Member.Batch)
	w.stage.Inbox.Batches().AddAbandoned()
	return w.endLeft(w.stage.stopError(h))
}

// abandonParked ends the command of a suspended run of a halted stage. It does
// nothing if another goroutine ends it, or if its handler emits just now.
func (s *Stage) abandonParked(run *Run, why error) {
	if !run.tryLock() {
		return
	}
	if !run.custody.move(parked, abandonedRun) {
		run.emitting.Unlock()
		return
	}
	s.workerFor(run).endRun(run, why)()
}

// stuckIn returns an error that says where a handler is that has been at its
// batch for some time, and that a hard stop does not wait for any longer. The
// stack may be nil.
func stuckIn(since time.Duration, stack []byte) error {
	var text string
	if since > 0 {
		text = fmt.Sprintf(" for %v", since.Round(time.Millisecond))
	}
	if at := stacks.Place(stack); at != "" {
		text += " in " + at
	}
	return fmt.Errorf("%w%s", ErrStuck, text)
}
