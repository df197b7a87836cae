package worker

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// AbandonAll gives up the workers that have commands of the stage, whose inbox is halted, in their batches and do not
// deliver, and the suspended handlers that have not ended: a hard stop has waited for them for long enough. Their commands are
// dead-lettered, and the tickets are settled. That counts as no crash, and no worker takes their place. The error of the commands says
// where their handler is stuck, and since when.
func (s *Stage) AbandonAll() {
	if s.Runs != nil {
		s.abandonRuns()
		return
	}
	var held []*Worker
	for _, m := range s.Inbox.Holders() {
		if w, ok := m.Owner.(*Worker); ok {
			held = append(held, w)
		}
	}
	if len(held) == 0 {
		return
	}
	running, _ := findHandlers(held, nil)
	for _, w := range held {
		w.abandon(s.Inbox, s.stuckError(stuckIn(w.Busy(), running[w])))
	}
}

func (w *Worker) abandon(in *inbox.Inbox, err error) {
	emits, pledged, report := w.giveUpAbandoned(in, err)
	if report == nil {
		return
	}
	if w.pool != nil {
		w.pool.Abandon(&w.Member)
	}
	report()
	for _, m := range emits {
		m.from.Ticket().Settle(true, nil, nil)
	}
	for _, p := range pledged {
		p.to.HandOver(nil, []command.Envelope{p.e}, 0, true, false)
	}
	in.Flush()
}

// giveUpAbandoned gives the worker up and copies what the caller has to settle. Report is nil if the worker was not given up.
func (w *Worker) giveUpAbandoned(in *inbox.Inbox, err error) (emits []emission, pledged []pledge, report func()) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	if !w.giveUpLocked(abandoned, func() bool {
		report = in.Abandon(&w.Member, err)
		return report != nil
	}) {
		return nil, nil, nil
	}
	return slices.Clone(w.emits), slices.Clone(w.pledged), report
}
