package worker

import "github.com/golda-dev/golda/internal/inbox"

// In an ordered stage the results of a command do not go to an outbox when the
// command has been handled. The worker leaves them with the inbox when it books
// the command, and takes from the inbox the results that may leave: of its own
// commands or of other workers' commands. It puts these results into the
// outboxes and delivers them as in any stage.

// endNumber notes that nothing more comes of the present command.
func (w *Worker) endNumber() {
	if w.out.numbers != nil {
		w.out.numbers.End(w.progress.cur)
	}
}

// endHold ends the hold of a command on the lane of its key, unless it is to be
// tried again.
func (w *Worker) endHold(at int32) {
	if w.out.holds != nil {
		w.out.holds.End(at)
	}
}

// takeResults moves the results that may leave to the outboxes, and reports
// whether there are any.
func (w *Worker) takeResults() bool {
	w.out.leaving = w.stage.Inbox.TakeResults(&w.Member, &w.progress.tally, w.out.leaving[:0])
	w.out.mustBook = false
	for i := range w.out.leaving {
		r := &w.out.leaving[i]
		out, err := w.outboxFor(r.To)
		if err != nil { // the stage was removed meanwhile: its inbox ends the command
			out = &outbox{to: r.To.Inbox().(*inbox.Inbox)}
			w.out.outs = append(w.out.outs, out)
		}
		out.items = append(out.items, r.Envelope)
	}
	w.out.loaded += int32(len(w.out.leaving))
	clear(w.out.leaving)
	return w.out.loaded > 0
}

// order has the numbers of the batch follow its commands. Those at the indexes
// that were left out have ended.
func (w *Worker) order(n int, keep func(i int) bool, ends bool) {
	if w.out.numbers == nil {
		return
	}
	var kept, others []int
	for i := range n {
		if keep(i) {
			kept = append(kept, i)
		} else {
			others = append(others, i)
		}
	}
	if ends {
		for _, i := range others {
			w.out.numbers.End(int32(i))
		}
		others = nil
	}
	w.out.numbers.Order(append(kept, others...))
}
