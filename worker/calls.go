package worker

import "github.com/golda-dev/golda/internal/command"

// handleCalls starts the commands of a batch that [Stage.Calls] selects, and has the instance handle the others together. A call that is
// suspended ends outside the workers, so it does not wait until the worker has handled the others.
func (w *Worker) handleCalls(batch []command.Envelope) {
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
	w.handleRuns(calls)
	if len(rest) == 0 {
		return
	}
	if len(calls) > 0 {
		w.bookMidBatch() // the others may take long
	}
	w.handleMany(batch[len(calls):])
}
