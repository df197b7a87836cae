package simulator

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// worker is a worker of a process: it does in virtual time what a worker of
// package worker does, with the same calls of the same inbox, but has no actor
// and no goroutine. It takes one batch after the other, of its station or of
// the stations that its pool leads it to.
type worker struct {
	inbox.Member

	run     *run
	process *process
	id      int32
	gen     uint32 // changes when a handler begins, and when the process ends
	pool    *pool  // nil: it is one of the station's own
	at      *station
	tally   inbox.Tally

	queued, working, gone bool
	parked                bool // in lines of full stages, with the commands in outs
	n, cur                int  // commands of the batch, and the present one
	began                 time.Duration
	first                 time.Duration // when the batch began
	paused                bool          // the handler has computed, and waits
	outs                  []*outbox     // of all stations where it has been
	loaded                int           // commands in outs
}

// outbox has the commands of a worker for one stage.
type outbox struct {
	from  *station
	edge  edge
	items []command.Envelope
}

func (r *run) newWorker(p *process, own *station, of *pool) *worker {
	w := &worker{run: r, process: p, id: int32(len(r.workers)), at: own, pool: of}
	r.workers = append(r.workers, w)
	w.Wake = func() { r.wake(w) }
	return w
}

// wake has a worker take a turn when the present event has happened.
func (r *run) wake(w *worker) {
	if !w.queued && !w.gone {
		w.queued = true
		r.woken.Push(w)
	}
}

// serve has the workers take their turns that were woken.
func (r *run) serve() {
	for r.woken.Len() > 0 {
		w := r.woken.Pop()
		w.queued = false
		if w.gone || w.working {
			continue
		}
		w.turns()
		if !w.gone && !w.working && w.Ready() {
			r.wake(w)
		}
	}
}

// turns takes turns until the worker has a command to handle, or nothing to do.
func (w *worker) turns() {
	for w.deliver() {
		n := w.turn()
		switch {
		case n < 0:
			w.leave()
			return
		case n == 0:
			if w.loaded > 0 {
				w.restLoaded()
			}
			return
		}
		w.withdraw()
		w.working, w.n, w.cur, w.first = true, n, 0, w.run.now
		now := w.run.clock()
		w.Since.Store(now)
		wait, waited := command.Waited(w.Batch[:n], now)
		w.tally.Wait, w.tally.Waited = wait, int32(waited)
		if w.next() {
			return
		}
	}
}

// turn books the last batch and takes the next one.
func (w *worker) turn() (n int) {
	if w.pool != nil {
		left := w.at
		var in *inbox.Inbox
		in, n = w.pool.Turn(&w.Member, &w.tally, true)
		if left != nil {
			left.changed()
		}
		if n > 0 {
			w.at = in.Owner.(*station)
			w.at.changed()
		}
		w.Surplus = nil
	} else {
		if int(w.Carried) != w.loaded {
			w.at.inbox.Carry(&w.Member, w.loaded)
		}
		n = w.at.inbox.Turn(&w.Member, &w.tally, true)
		w.at.changed()
	}
	if n > 0 && w.Instance == nil {
		w.Instance = w
	}
	return n
}

// next begins the next command of the batch that may still be handled, and
// returns false if there is none.
func (w *worker) next() bool {
	for ; w.cur < w.n; w.cur++ {
		e := &w.Batch[w.cur]
		c := e.Load.(*task)
		if w.mayStart(e, c) {
			w.gen++
			w.at.begin(w, c)
			return true
		}
		w.book()
		w.at.inbox.Book(&w.Member, &w.tally, &inbox.Unbegun{Commands: []command.Envelope{*e}, Expired: true})
		w.at.changed()
	}
	w.working = false
	w.Since.Store(-w.run.clockAt(w.first))
	clear(w.Batch[:w.n])
	return false
}

// mayStart reports whether a command may be started, and has not waited for too
// long.
func (w *worker) mayStart(e *command.Envelope, c *task) bool {
	if end := w.run.messages[c.message].expires; end > 0 && w.run.now >= end {
		return false
	}
	longest := w.at.TTL
	if d := time.Duration(w.Sojourn) * time.Microsecond; d > 0 && (longest == 0 || d < longest) {
		longest = d
	}
	waited, known := e.Waited(w.run.clock())
	return longest == 0 || !known || waited <= longest
}

// finish ends the handler of the present command: it has taken all its time.
func (w *worker) finish() {
	s, e := w.at, &w.Batch[w.cur]
	c := e.Load.(*task)
	w.tally.Timed++
	s.handled++
	w.tally.Busy = w.run.now - w.first
	if s.Fails > 0 && s.routes.Float64() < s.Fails {
		w.fail(e, c)
	} else {
		s.answer(w, e, c)
	}
	w.cur++
	if w.next() {
		return
	}
	w.run.wake(w)
}

// fail has a command tried again, or ends it with an error.
func (w *worker) fail(e *command.Envelope, c *task) {
	in := w.at.inbox
	e.Failed()
	if e.Tries() < in.Config().Retry.Attempts && in.SpendRetry(&w.tally) {
		w.book()
		c.at = w.run.now
		if in.Book(&w.Member, &w.tally, &inbox.Retried{Command: *e, Rest: w.Batch[w.cur+1 : w.n]}) {
			if in.Config().TakesBack() {
				w.n = w.cur + 1
			}
			w.at.changed()
			w.at.handled--
			return
		}
	}
	w.tally.Errors++
	w.run.messages[c.message].failed = true
	w.run.drop(c)
}

// book books the finished commands, so that they are not booked with a mishap.
func (w *worker) book() {
	w.at.inbox.Book(&w.Member, &w.tally, nil)
}

// deliver hands over what the last batch has led to, and reports whether the
// worker may go on; see deliver.go of package worker.
func (w *worker) deliver() bool {
	if w.loaded == 0 {
		return true
	}
	if w.tally.Emitted > 0 {
		w.book()
	}
	for _, out := range w.outs {
		w.empty(out, false)
	}
	switch {
	case w.loaded == 0:
		return true
	case w.pool == nil && w.at.inbox.Settings().Forks() && w.at.inbox.Config().Batch > 1 && w.loaded < w.at.inbox.Config().Capacity:
		return true // it takes another batch, and carries these
	}
	w.at.inbox.Blocked(&w.Member, &w.tally, w.run.clock())
	if w.Carried > 0 {
		w.at.inbox.Carry(&w.Member, w.loaded)
	}
	w.at.changed()
	return w.parkLoaded()
}

// parkLoaded parks the worker at each stage that does not take what the worker
// has for it. It returns true if everything has left after all.
func (w *worker) parkLoaded() bool {
	for _, out := range w.outs {
		w.empty(out, true)
	}
	w.parked = w.loaded > 0
	for _, out := range w.outs {
		if len(out.items) > 0 && !w.to(out).inbox.Senders().InLine(&w.Member) {
			w.MarkReady()
		}
	}
	return w.loaded == 0
}

// restLoaded parks a worker that has nothing to do at the stages that do not
// take what the worker has for them.
func (w *worker) restLoaded() {
	gone := w.parkLoaded()
	if !w.at.inbox.Carry(&w.Member, w.loaded) {
		w.MarkReady()
	}
	w.parked = !gone
}

// withdraw leaves the lines of full stages: the worker could not use a slot
// there before its next batch is done.
func (w *worker) withdraw() {
	if !w.parked {
		return
	}
	w.parked = false
	for _, out := range w.outs {
		if len(out.items) > 0 {
			w.to(out).inbox.Senders().Withdraw(&w.Member)
			w.to(out).changed()
		}
	}
}

// empty hands over as many commands of an outbox as its target takes.
func (w *worker) empty(out *outbox, park bool) {
	if len(out.items) == 0 {
		return
	}
	to := w.to(out)
	force := out.edge.back || w.pool != nil && to.inbox.Config().Waits() // a shared worker never waits for a slot
	n := to.inbox.Senders().HandOver(&w.Member, out.items, w.run.clock(), force, park)
	to.moved[out.from.id] += uint64(n)
	to.changed()
	left := copy(out.items, out.items[n:])
	clear(out.items[left:])
	out.items = out.items[:left]
	w.loaded -= n
}

func (w *worker) to(out *outbox) *station { return w.process.stations[out.edge.to] }

// load puts a command into the outbox for an edge.
func (w *worker) load(e edge, item command.Envelope) {
	i := slices.IndexFunc(w.outs, func(o *outbox) bool { return o.edge.to == e.to && o.from == w.at })
	if i < 0 {
		i = len(w.outs)
		w.outs = append(w.outs, &outbox{from: w.at, edge: e})
	}
	w.outs[i].items = append(w.outs[i].items, item)
	w.loaded++
}

// leave ends the worker.
func (w *worker) leave() {
	w.gone = true
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
		return
	}
	w.at.inbox.Workers().Leave(&w.Member)
	w.at.inbox.Yield(&w.Member)
	w.at.inbox.Instances().Return(&w.Member)
	w.at.changed()
}
