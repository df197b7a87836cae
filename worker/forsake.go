package worker

import (
	"fmt"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/room"
)

// debt is a command that was booked as forwarded or emitted, and has not left. While a worker is at its
// batch these are its own affair, so whoever forsakes it could not hand them over: a copy is left where he
// finds it. That is rare, and so are they: most often all of a batch is booked when it has left.
type debt struct {
	to *room.Room
	e  command.Envelope
}

// book books in the middle of a batch.
func (w *Worker) book() {
	if w.carries() {
		w.emitting.Lock()
		defer w.emitting.Unlock()
		defer w.pledge()
	}
	if !w.stage.Room.Book(&w.Seat, &w.tally) {
		panic(abandoned{})
	}
}

// pledge leaves copies of what is booked and has not left, and was not pledged yet.
func (w *Worker) pledge() {
	for l := &w.lane; l.shown < l.n; l.shown++ {
		w.pledged = append(w.pledged, debt{l.out.room, w.Hand[l.shown]})
	}
	for _, out := range w.outs {
		for ; int(out.shown) < len(out.items); out.shown++ {
			w.pledged = append(w.pledged, debt{out.room, out.items[out.shown]})
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

// Forsake gives up the workers that have commands of a halted room in hand and are not about to hand over:
// a hard stop has waited for them long enough. Their commands are dead-lettered and their tickets told; what
// they do from now on is nobody's. It is no crash: nobody takes their place.
//
// Who has the worker's lock and finds that it does not deliver may do so, see [room.Room.Forsake].
// The worker sees it when it comes to the end of its batch, or meets its room before. The flag of guarded
// is not asked: it costs a lock for each command, and only stages with a time limit have it.
func Forsake(r *room.Room) {
	for _, s := range r.Holders() {
		if w, ok := s.Owner.(*Worker); ok {
			w.forsake(r)
		}
	}
}

func (w *Worker) forsake(r *room.Room) {
	w.emitting.Lock()
	if w.lost.Load() { // the watch was faster
		w.emitting.Unlock()
		return
	}
	tell := r.Forsake(&w.Seat, fmt.Errorf("stage %q: %w: %w", r.Name(), room.ErrStopped, ErrStuck))
	if tell == nil {
		w.emitting.Unlock()
		return
	}
	w.lost.Store(true)
	w.forsaken = true
	emits, pledged := slices.Clone(w.emits), slices.Clone(w.pledged)
	w.emitting.Unlock()
	if w.crew != nil {
		w.crew.Forsake(&w.Seat)
	}
	tell()
	for _, m := range emits {
		m.from.Ticket().Settle(true, nil, nil)
	}
	for _, d := range pledged {
		d.to.Hand(nil, []command.Envelope{d.e}, 0, true, false)
	}
}

// comeToo is what a worker does that was forsaken and is back: it gives its instance the last word and goes.
func (w *Worker) comeToo(inst Instance) {
	w.unlimit()
	clear(w.Hand)
	w.n, w.tally, w.lane, w.both = 0, room.Tally{}, noLane, nil
	w.tour, w.outs, w.loaded, w.told = nil, nil, 0, false
	w.stage.Room.Abandoned(-1)
	w.stage.Log.Info("a handler that was given up has returned", "stage", w.stage.Room.Name())
	for _, i := range []Instance{inst, w.kept} {
		if i != nil {
			StopInstance(w.stage, i)
		}
	}
	w.instance, w.kept = nil, nil
}

func (w *Worker) isForsaken() bool {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	return w.forsaken
}
