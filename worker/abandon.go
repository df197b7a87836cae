package worker

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

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
		m.from.Ticket().Settle(true, nil, nil)
	}
	for _, p := range pledged {
		p.to.HandOver(nil, []command.Envelope{p.e}, 0, true, false)
	}
	in.Flush()
}

// giveUpAbandoned gives the worker up and copies what the caller has to settle.
// Report is nil if the worker was not given up.
func (w *Worker) giveUpAbandoned(s *Stage, why error) (emits []emission, pledged []pledge, report func()) {
	w.out.emitting.Lock()
	defer w.out.emitting.Unlock()
	if !w.giveUpLocked(abandoned, func() bool {
		h := s.hangs.begin(why, unknownTries)
		if report = s.Inbox.Abandon(&w.Member, s.stopError(h)); report == nil {
			h.tries = 1 // it has no command
			s.hangs.end(h)
			return false
		}
		w.slot.hung = h
		return true
	}) {
		return nil, nil, nil
	}
	return slices.Clone(w.out.emits), slices.Clone(w.out.pledged), report
}
