package worker

import (
	"runtime/trace"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/yield"
)

// turns is how many batches a worker handles before its mailbox checks for
// other messages. The worker itself checks for system messages after each
// batch.
const turns = 64

// serve handles batches until the queue is empty, a target is full, or a system
// message waits.
func (w *Worker) serve() {
	if w.Lost() {
		return
	}
	if w.watchdog != nil {
		w.watchdog.header = nil
	}
	w.label()
	defer w.forgetTime() // the next batch may start much later
	box := w.slot.box.Load()
	for range turns {
		if !w.deliverBatch(box) || box.Pressing() {
			w.runCalled(box)
			return
		}
		n := w.next()
		if n == 0 {
			if w.out.loaded > 0 {
				w.restLoaded()
			}
			w.rest(box)
			return
		}
		if w.out.loaded > 0 {
			w.withdraw()
			w.pledge()
		}
		w.wakeCalled()
		if n < 0 {
			w.acting.left = true
			w.acting.self.Stop(w.acting.self.Self())
			return
		}
		if !w.ensureInstance(n) || !w.work(n) || box.Stepped() {
			return
		}
	}
}

// next takes the worker's next turn. If there is nothing to do it yields once
// and tries again before it parks: another goroutine may be about to forward or
// to call, and parking and waking cost more than a yield. It parks at once if
// such yields have been in vain, as where commands come one by one, or if the
// worker has called an idle worker, because that one would wait meanwhile.
func (w *Worker) next() int {
	if w.Member.Called != nil || !w.progress.yields.Pays() {
		return w.takeTurn(true)
	}
	n := w.takeTurn(false)
	if n == 0 {
		w.progress.mark = 0
		yield.Once()
		n = w.takeTurn(true)
		w.progress.yields.Found(n != 0)
	}
	return n
}

// rest ends the turns of a worker that has parked.
func (w *Worker) rest(box *actor.Mailbox) {
	if w.pool == nil && w.stage.Versions.Moving() {
		w.wakeCalled() // renewing an instance may take any time
		w.renewIdle()
	}
	w.runCalled(box)
}

// takeTurn books the last batch and takes the next.
func (w *Worker) takeTurn(park bool) int {
	if w.pool == nil {
		if w.out.loaded != w.Member.Carried {
			w.stage.Inbox.Carry(&w.Member, int(w.out.loaded))
		}
		w.passMark()
		n := w.stage.Inbox.Turn(&w.Member, &w.progress.tally, park)
		w.progress.recycle(w.stage.Boxes)
		return n
	}
	left := w.stage
	in, n := w.pool.Turn(&w.Member, &w.progress.tally, park)
	if left != nil {
		w.progress.recycle(left.Boxes)
	}
	if n > 0 {
		w.visit(in)
	}
	w.stopSurplus()
	if left != nil {
		left.Versions.Sweep()
	}
	return n
}

// visit makes the inbox's stage the present one.
func (w *Worker) visit(in *inbox.Inbox) {
	if w.stage == nil || w.stage.Inbox != in {
		if w.stage != nil {
			w.out.store(w.stage.Inbox.Place)
		}
		w.stage = in.Owner.(*Stage)
		w.seen.Store(w.stage)
		w.out.fetch(in.Place)
		w.order.join(in, &w.Member)
		w.label()
	}
	w.useLent()
}

// ensureInstance ensures that there is an instance for the batch. It returns
// false if none could be made; then the batch has gone back to the queue, and
// the actor has failed.
func (w *Worker) ensureInstance(n int) bool {
	if w.gear.instance != nil && !w.stage.Versions.Moving() {
		return true
	}
	err := w.equip()
	if err == nil {
		return true
	}
	w.acting.failure = err
	if !w.stage.Inbox.Book(&w.Member, &w.progress.tally, inbox.Unequipped(w.Member.Batch[:n], err)) {
		w.comeBack(w.gear.instance)
		return false
	}
	clear(w.Member.Batch[:n])
	if w.pool == nil {
		w.stage.Inbox.Yield(&w.Member)
	}
	w.quit(err)
	return false
}

// work handles the batch. It returns false if the actor must not continue: a
// handler crashed, or the worker was given up. Stacks of handlers are found by
// the name of this method, see [handlerCallers].
func (w *Worker) work(n int) (ok bool) {
	if trace.IsEnabled() { // see docs/traces.md
		defer trace.StartRegion(w.stage.Context, w.stage.Inbox.Name()).End()
	}
	w.progress.start(n)
	started := max(w.now(), 1)
	w.Member.Since.Store(started)
	defer w.endBatch(w.gear.instance, &ok)
	defer w.rescue(w.gear.instance, &ok)
	wait, waited := command.Waited(w.Member.Batch[:n], started)
	w.progress.tally.Wait, w.progress.tally.Waited = wait, int32(waited)
	w.gear.executor.execute(w, w.Member.Batch[:n])
	w.clock()
	w.skip(w.progress.n)
	w.progress.n = 0
	clear(w.Member.Batch[w.out.lane.n:n])
	return true
}

// endBatch records that no handler runs any more, so a context that a handler
// has kept cannot emit. From now on the worker will not be abandoned, unless it
// was before.
func (w *Worker) endBatch(inst instance, ok *bool) {
	w.emitting.Lock()
	w.Member.Since.Store(-w.batchStart())
	fate := w.slot.fate.Load()
	if fate == inService {
		w.Member.Delivers = true
		w.out.redeem()
	}
	w.emitting.Unlock()
	if fate == abandoned {
		*ok = false
		w.comeBack(inst)
	}
}

// deliverBatch delivers what the last batch gathered, and reports whether the
// worker may go on. If all of it goes to one stage, an idle worker that the
// hand-over calls is not woken yet: this worker will soon know whether it goes
// on itself, and if not, the other one may have its goroutine. A shared worker
// wakes others at once, because it has other inboxes to serve first.
func (w *Worker) deliverBatch(box *actor.Mailbox) bool {
	w.Member.DefersWakes = w.pool == nil && w.out.loaded == 0 && !box.Stepped()
	gone := w.deliver(true)
	w.Member.DefersWakes = false
	return gone
}

// wakeCalled wakes the worker that this one has called, if any.
func (w *Worker) wakeCalled() {
	if called := w.Member.Called; called != nil {
		w.Member.Called = nil
		called.Wake()
	}
}

// runCalled gives this worker's goroutine to the worker that it has called, if
// any: it is about to rest.
func (w *Worker) runCalled(box *actor.Mailbox) {
	called := w.Member.Called
	if called == nil {
		return
	}
	colleague, ok := called.Owner.(*Worker)
	if !ok { // a worker that is not started yet has no actor
		w.wakeCalled()
		return
	}
	w.Member.Called = nil
	if next := colleague.slot.box.Load(); next != nil {
		box.RunNext(next)
	}
}
