package worker

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/trial"
)

// handlePair runs two versions of the behaviour on the batch.
func (w *Worker) handlePair(p *pair, n int) {
	batch := w.Batch[:n]
	if p.Many() {
		batch = w.sift(batch)
		p.aimAll(batch)
		w.handleParts(p, batch)
	} else {
		w.handleEither(p, batch)
	}
	w.pair = nil
}

// handleParts has each version handle its part of the batch, the canary first. If the canary crashes the old version has not
// started. If the old version crashes, [Worker.settleGiven] settles what the canary has returned. Each part is watched by
// itself, so pair.side does not change while the watchdog may read it: a worker that was given up gets no further than its
// handler.
func (w *Worker) handleParts(p *pair, batch []command.Envelope) {
	p.answers = make([]answer, len(batch))
	for _, side := range []int{trial.After, trial.Before} {
		p.side = side
		part := p.part(side, batch)
		if len(part) == 0 || w.Halted() {
			continue
		}
		outcomes := w.callMany(p.parts[side], part)
		if saved := p.parts[side].Saved(); saved != nil {
			saved.Note(len(part))
		}
		p.note(side, outcomes)
	}
	answers := p.answers
	p.answers = nil
	for _, a := range answers {
		if a.given {
			w.Settle(a.outcome)
		} else {
			w.skip(w.cur + 1)
		}
	}
}

// handleEither runs one version or the other on each command of the batch.
func (w *Worker) handleEither(p *pair, batch []command.Envelope) {
	for i := range batch {
		if w.Halted() {
			break
		}
		e := &batch[i]
		ctx := w.Begin()
		if ctx == nil {
			continue
		}
		p.aim(e)
		o := w.callOne(ctx, p, e)
		if saved := p.parts[p.side].Saved(); saved != nil {
			saved.Note(1)
		}
		p.rollout.note(p.side, o.Err() != nil)
		w.Settle(o)
	}
}

// settleGiven settles the commands of a batch for which the canary has returned outcomes, when the old version has crashed
// with its part of the batch. What remains from the present command on is that part. It returns false if the worker was
// abandoned.
func (w *Worker) settleGiven() (ours bool) {
	p := w.pair
	if p == nil || p.answers == nil {
		return true
	}
	defer func() {
		if v := recover(); v != nil {
			if _, gone := v.(unwind); !gone {
				panic(v)
			}
		}
	}()
	batch := w.Batch[:w.n]
	w.order(len(p.answers), func(i int) bool { return p.answers[i].given }, false)
	outcomes := p.given(batch)
	if len(outcomes) == 0 {
		return true
	}
	if !w.stage.Inbox.Unbegun(&w.Member, &w.tally, nil, batch) {
		return false
	}
	for _, o := range outcomes {
		w.Settle(o)
	}
	return true
}
