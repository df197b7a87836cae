package worker

import (
	"bytes"
	"maps"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/stacks"
)

// Handlers finds the stacks of the handlers that run in the workers, and of the
// suspended handlers of the stages. A worker that runs no handler, or whose
// stack is not found, is missing. Any goroutine may call it. It stops the world
// for as long as it takes to write all stacks, at most 8 MB of them, so it is
// for reports only.
//
// A worker is found by its address, which is the first argument of its methods
// on the stack. So a worker need not record anything while it works, such as
// the number of its goroutine.
func Handlers(workers []*Worker, stages []*Stage) (running map[*Worker][]byte, suspended map[*Run][]byte) {
	runs := map[uint64]*Run{}
	for _, s := range stages {
		s.eachRun(func(run *Run) { runs[stacks.Address(run)] = run })
	}
	return findHandlers(workers, runs)
}

// How the lines of a worker's method, and of a run on its coroutine, begin in a
// stack.
var (
	workerMethod = []byte("\n" + stacks.Module + "worker.(*Worker).")
	runServes    = []byte("\n" + stacks.Module + "worker.(*Run).serve")
)

// findHandlers finds the stacks of workers, and of runs that are in no worker.
func findHandlers(workers []*Worker, runs map[uint64]*Run) (found map[*Worker][]byte, suspended map[*Run][]byte) {
	byAddress := make(map[uint64]*Worker, len(workers))
	runners := make(map[uint64]*Worker) // by the address of the run
	for _, w := range workers {
		byAddress[stacks.Address(w)] = w
		if run := w.suspending.running.Load(); run != nil {
			runners[stacks.Address(run)] = w
		}
	}
	found, suspended = make(map[*Worker][]byte, len(workers)), make(map[*Run][]byte)
	onCoroutines := make(map[*Worker][]byte)
	stacks.Each(func(stack []byte) {
		if w := byAddress[stacks.Receiver(stack, workerMethod)]; w != nil {
			found[w] = bytes.Clone(stack)
		}
		at := stacks.Receiver(stack, runServes)
		if w := runners[at]; w != nil {
			onCoroutines[w] = bytes.Clone(stack)
		} else if run := runs[at]; run != nil {
			suspended[run] = bytes.Clone(stack)
		}
	})
	maps.Copy(found, onCoroutines) // a worker that runs a coroutine only waits for it
	return found, suspended
}

// eachRun calls f with each run of the stage that has not ended.
func (s *Stage) eachRun(f func(*Run)) {
	if s.Runs != nil {
		s.Runs.Each(func(t *coro.Task) { f(t.Tag.(*Run)) })
	}
}

// Stage returns the name of the run's stage.
func (run *Run) Stage() string { return run.stage.Inbox.Name() }

// Holds reports whether a command of the ticket at an address is at the stage.
func (s *Stage) Holds(ticket uint64) (held bool) {
	is := func(t *command.Ticket) bool { return stacks.Address(t) == ticket }
	of := func(e *command.Envelope) bool { return e.Ticket().Includes(is) }
	s.eachRun(func(run *Run) { held = held || of(&run.envelope) })
	return held || s.Inbox.Batches().Has(of)
}

// IsAt reports whether the stage's inbox is at an address.
func (s *Stage) IsAt(inbox uint64) bool { return stacks.Address(s.Inbox) == inbox }
