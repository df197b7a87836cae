package worker

import "github.com/golda-dev/golda/internal/command"

// handleCalls starts the commands of a batch that [Stage.Calls] selects, and has the instance handle the others together. A call that is
// suspended ends outside the workers, so it does not wait until the worker has handled the others.
func (w *Worker) handleCalls(batch []command.Envelope) {
	if w.stage.InOrder {
		w.handleCallsInOrder(batch)
		return
	}
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

// handleCallsInOrder is handleCalls for a stage that keeps the order of the batch: the instance handles together the commands that come
// between two calls.
func (w *Worker) handleCallsInOrder(batch []command.Envelope) {
	w.follow(0)
	if w.Halted() {
		return
	}
	for batch = w.sift(batch); len(batch) > 0 && !w.Halted(); {
		calls, n := w.stage.Calls(&batch[0]), 1
		for n < len(batch) && w.stage.Calls(&batch[n]) == calls {
			n++
		}
		if calls {
			w.handleRuns(batch[:n])
		} else {
			if w.tally.Suspended > 0 {
				w.bookMidBatch() // these may take long, and a call that is suspended ends outside the workers
			}
			for _, o := range w.callMany(w.instance, batch[:n]) {
				w.Settle(o)
			}
		}
		batch = batch[n:]
	}
}
