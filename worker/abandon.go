package worker

import (
	"fmt"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// pledge is a command that was booked as forwarded or emitted, and has not left. While a worker is at its
// batch these are its own affair, so whoever forsakes it could not hand them over: a copy is left where he
// finds it. That is rare, and so are they: most often all of a batch is booked when it has left.
type pledge struct {
	to *inbox.Inbox
	e  command.Envelope
}

// book books in the middle of a batch.
func (w *Worker) book() {
	if w.carries() {
		w.emitting.Lock()
		defer w.emitting.Unlock()
		defer w.pledge()
	}
	if !w.stage.Inbox.Book(&w.Member, &w.tally) {
		panic(abandoned{})
	}
}

// pledge leaves copies of what is booked and has not left, and was not pledged yet.
func (w *Worker) pledge() {
	for l := &w.lane; l.shown < l.n; l.shown++ {
		w.pledged = append(w.pledged, pledge{l.out.room, w.Batch[l.shown]})
	}
	for _, out := range w.outs {
		for ; int(out.shown) < len(out.items); out.shown++ {
			w.pledged = append(w.pledged, pledge{out.room, out.items[out.shown]})
		}
	}
}

// goOnLoaded prepares a worker with commands that it could not hand over for its next batch: they are booked, so
// that a worker that is given up in the batch must leave copies.
func (w *Worker) goOnLoaded() {
	w.withdraw()
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.pledge()
}

// redeem forgets what was pledged: it has left, or the worker is about to see to it.
func (w *Worker) redeem() {
	if len(w.pledged) == 0 {
		return
	}
	clear(w.pledged)
	w.pledged = w.pledged[:0]
	w.lane.shown = 0
	for _, out := range w.outs {
		out.shown = 0
	}
}

// AbandonAll gives up the workers that have commands of a halted inbox in hand and are not about to hand over:
// a hard stop has waited for them long enough. Their commands are dead-lettered and their tickets told; what
// they do from now on is nobody's. It is no crash: nobody takes their place.
//
// Who has the worker's lock and finds that it does not deliver may do so, see [inbox.Room.Forsake].
// The worker sees it when it comes to the end of its batch, or meets its room before. The flag of guarded
// is not asked: it costs a lock for each command, and only stages with a time limit have it.
func AbandonAll(in *inbox.Inbox) {
	for _, m := range in.Holders() {
		if w, ok := m.Owner.(*Worker); ok {
			w.abandonHalted(in)
		}
	}
}

func (w *Worker) abandonHalted(in *inbox.Inbox) {
	w.emitting.Lock()
	if w.lost.Load() { // the watch was faster
		w.emitting.Unlock()
		return
	}
	tell := in.Abandon(&w.Member, fmt.Errorf("stage %q: %w: %w", in.Name(), inbox.ErrStopped, ErrStuck))
	if tell == nil {
		w.emitting.Unlock()
		return
	}
	w.lost.Store(true)
	w.halted = true
	emits, pledged := slices.Clone(w.emits), slices.Clone(w.pledged)
	w.emitting.Unlock()
	if w.pool != nil {
		w.pool.Abandon(&w.Member)
	}
	tell()
	for _, m := range emits {
		m.from.Ticket().Settle(true, nil, nil)
	}
	for _, d := range pledged {
		d.to.HandOver(nil, []command.Envelope{d.e}, 0, true, false)
	}
}

// joinAbandoned is what a worker does that was abandoned and is back: it gives its instance the last word and goes.
func (w *Worker) joinAbandoned(inst Instance) {
	w.unlimit()
	clear(w.Batch)
	w.n, w.tally, w.lane, w.both = 0, inbox.Tally{}, noLane, nil
	w.tour, w.outs, w.loaded, w.mustBook = nil, nil, 0, false
	w.stage.Inbox.CountAbandoned(-1)
	w.stage.Log.Info("a handler that was given up has returned", "stage", w.stage.Inbox.Name())
	for _, i := range []Instance{inst, w.kept} {
		if i != nil {
			StopInstance(w.stage, i)
		}
	}
	w.instance, w.kept = nil, nil
}

func (w *Worker) isAbandoned() bool {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	return w.halted
}
