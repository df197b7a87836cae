package worker

// bookMidBatch books in the middle of a batch.
func (w *Worker) bookMidBatch() {
	if w.hasUndelivered() {
		w.out.emitting.Lock()
		defer w.out.emitting.Unlock()
		defer w.pledgeLocked()
	}
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally) {
		panic(unwind{})
	}
}

// pledgeLocked copies the commands that are booked, have not left, and were not
// copied yet. Without the copies, the commands that a worker had forwarded
// before it was abandoned would never end, nor would the calls that wait for
// them.
func (w *Worker) pledgeLocked() {
	for l := &w.out.lane; l.shown < l.n; l.shown++ {
		w.out.pledged = append(w.out.pledged, pledge{l.out.to, w.Member.Batch[l.shown]})
	}
	for _, out := range w.out.outs {
		for ; int(out.shown) < len(out.items); out.shown++ {
			w.out.pledged = append(w.out.pledged, pledge{out.to, out.items[out.shown]})
		}
	}
}

// pledgeLoaded prepares a worker that could not deliver all commands for its
// next batch. Those commands are booked, so the worker must leave copies in
// case it is abandoned in the batch.
func (w *Worker) pledgeLoaded() {
	w.withdraw()
	w.out.emitting.Lock()
	defer w.out.emitting.Unlock()
	w.pledgeLocked()
}

// redeem discards the pledges: the commands have left, or the worker is about
// to deliver them.
func (w *Worker) redeem() {
	if len(w.out.pledged) == 0 {
		return
	}
	clear(w.out.pledged)
	w.out.pledged = w.out.pledged[:0]
	w.out.lane.shown = 0
	for _, out := range w.out.outs {
		out.shown = 0
	}
}
