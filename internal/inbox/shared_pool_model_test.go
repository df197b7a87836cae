package inbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/pool"
	"github.com/golda-dev/golda/stage/queue"
)

var dispatchModes = []controller.Dispatch{controller.SharedFIFO, controller.SharedPriority, controller.Polled}

// Random actions drive a few inboxes in a row, two shared pools, and workers of the stages' own. A worker's turn may be taken
// in two parts, with anything in between, as happens when others are faster than a worker on its way from the shared pool to
// an inbox.
func TestSharedPoolsServeTheirInboxesWhateverIsChanged(t *testing.T) {
	for _, mode := range dispatchModes {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(timeless{t}, func(t *rapid.T) {
					pm := newPoolModel(t, mode)
					defer pm.end()
					for range 6 {
						t.Repeat(pm.actions())
					}
					pm.settle(t)
				})
			})
		})
	}
}

// poolModel is a model of a pipeline with shared pools: it says what the inboxes and pools should do.
type poolModel struct {
	pipeline *Pipeline
	inboxes  []*modelInbox
	pools    []*SharedPool
	workers  []*poolWorker
	next     int

	mu      sync.Mutex  // guards ends
	ends    map[int]int // how often each command has ended: 1 for each end in the model, 100 for each that an inbox reported
	endedBy map[int]int // how many ends each inbox reported, by place
	stopped map[any]bool
}

// modelInbox is an inbox and what it should hold.
type modelInbox struct {
	*Inbox
	to      []*modelInbox // inboxes ahead
	queue   []int         // in the order in which it is given out, if that is first in, first out
	delayed []int
	packs   packs
	waiters []*modelWaiter

	accepted, ok, forwarded, errors, rejected int
	wasOut, wasMade                           int
}

// poolWorker is a worker of a shared pool, or of a stage's own.
type poolWorker struct {
	Member
	pool           *SharedPool
	inbox          *modelInbox // its stage's, or where it is
	joined, parked bool
	woken          atomic.Bool
	todo           []command.Envelope
	outboxes       map[*modelInbox][]command.Envelope
	tally          Tally

	onWay bool // it has a token, and has not entered the inbox yet
	dest  *binding
	era   uint32
}

type testInstance struct{ _ int }

func newPoolModel(t *rapid.T, mode controller.Dispatch) *poolModel {
	pm := &poolModel{ends: map[int]int{}, endedBy: map[int]int{}, stopped: map[any]bool{}}
	pm.pipeline = newPipeline()
	pm.pipeline.Ended = func(e Ending) {
		pm.mu.Lock()
		defer pm.mu.Unlock()
		pm.endedBy[e.Inbox.Place]++
		pm.ends[e.Cmd.(int)] += 100 // to distinguish these from the ends in the model
	}
	for i := range 2 {
		sp := NewSharedPool(fmt.Sprint("pool", i), pm.pipeline)
		sp.SetDispatch(mode)
		pm.pools = append(pm.pools, sp)
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "inboxes") {
		rule := Wait
		if rapid.IntRange(0, 5).Draw(t, "drops") == 0 {
			rule = rapid.SampledFrom([]Overflow{Reject, DropNewest, DropOldest}).Draw(t, "rule")
		}
		backoff := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "backoff")
		in := New(Config{
			Name: string(rune('A' + i)), Capacity: rapid.IntRange(1, 8).Draw(t, "capacity"), Batch: 4, Overflow: rule,
			Instances: rapid.IntRange(1, 3).Draw(t, "instances"), StreakEnds: time.Minute,
			Retry: Retry{Attempts: 3, Backoff: backoff, Max: time.Minute},
		})
		in.Place = i
		in.state.pace.limit = rapid.IntRange(1, 4).Draw(t, "limit")
		pm.pipeline.Attach(in)
		in.Phases().Open()
		pm.inboxes = append(pm.inboxes, &modelInbox{Inbox: in, packs: packs{}})
		if k := rapid.IntRange(0, 4).Draw(t, "bound to"); k < 4 {
			in.Settings().Bind(pm.pools[max(k-2, 0)])
		}
	}
	for i, mi := range pm.inboxes[1:] {
		for _, from := range pm.inboxes[:i+1] {
			if from == pm.inboxes[i] || rapid.Bool().Draw(t, "shortcut") {
				from.to = append(from.to, mi)
				from.Settings().Ahead(mi.Inbox)
			}
		}
	}
	for i := range rapid.IntRange(2, 5).Draw(t, "workers") {
		sp := pm.pools[i%2]
		if i >= 2 {
			sp = pm.anyPool(t)
		}
		pm.addWorker(sp, nil)
	}
	for _, mi := range pm.inboxes {
		for range rapid.IntRange(1, 2).Draw(t, "own") {
			pm.addWorker(nil, mi)
		}
	}
	return pm
}

func (pm *poolModel) addWorker(sp *SharedPool, mi *modelInbox) {
	w := &poolWorker{pool: sp, inbox: mi, outboxes: map[*modelInbox][]command.Envelope{}}
	w.Wake = func() { w.woken.Store(true) }
	pm.workers = append(pm.workers, w)
	if sp != nil || mi.state.visits.pool == nil {
		pm.start(w)
	}
}

// end ends all waits and halts the inboxes, whatever happened.
func (pm *poolModel) end() {
	for _, mi := range pm.inboxes {
		for _, x := range mi.waiters {
			x.cancel()
		}
		mi.Phases().Halt()()
	}
	synctest.Wait()
}

func (pm *poolModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                  pm.check,
		"submit":            pm.submit,
		"submit2":           pm.submit,
		"submit3":           pm.submit,
		"cancel":            pm.cancel,
		"turn":              pm.turn,
		"turn2":             pm.turn,
		"startTurn":         pm.startTurn,
		"finishTurn":        pm.finishTurn,
		"cycle":             pm.cycle,
		"cycle2":            pm.cycle,
		"cycle3":            pm.cycle,
		"done":              pm.done,
		"deliver":           pm.deliver,
		"retry":             pm.retryLater,
		"crash":             pm.crash,
		"noInstance":        pm.seldom(pm.noInstance),
		"join":              pm.join,
		"leave":             pm.seldom(pm.leave),
		"shrink":            pm.seldom(pm.shrink),
		"unshrink":          pm.seldom(pm.unshrink),
		"bind":              pm.seldom(pm.bind),
		"setMode":           pm.seldom(pm.setMode),
		"setPlan":           pm.seldom(pm.setPlan),
		"pause":             pm.seldom(pm.pause),
		"adjust":            pm.seldom(pm.adjust),
		"order":             pm.seldom(pm.order),
		"rest":              pm.seldom(pm.rest),
		"tick":              pm.tick,
		"close":             pm.seldom(pm.seldom(pm.close)),
		"addIdleInstance":   pm.seldom(pm.addIdleInstance),
		"takeIdleInstances": pm.seldom(pm.takeIdleInstances),
		"settle":            pm.seldom(pm.seldom(pm.settle)),
	}
}

// seldom skips an action three times out of four.
func (pm *poolModel) seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
			t.Skip()
		}
		f(t)
	}
}

func (pm *poolModel) anyInbox(t *rapid.T) *modelInbox {
	return pm.inboxes[rapid.IntRange(0, len(pm.inboxes)-1).Draw(t, "inbox")]
}

func (pm *poolModel) anyPool(t *rapid.T) *SharedPool {
	return pm.pools[rapid.IntRange(0, 1).Draw(t, "pool")]
}

// anyWorker draws one of the workers for which is returns true.
func (pm *poolModel) anyWorker(t *rapid.T, is func(*poolWorker) bool) *poolWorker {
	var those []*poolWorker
	for _, w := range pm.workers {
		if is(w) {
			those = append(those, w)
		}
	}
	if len(those) == 0 {
		t.Skip()
	}
	return those[rapid.IntRange(0, len(those)-1).Draw(t, "of those")]
}

func (pm *poolModel) submit(t *rapid.T) {
	mi := pm.anyInbox(t)
	id := pm.next
	pm.next++
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	go func() { x.result <- mi.Submit(ctx, &command.Envelope{Load: id}) }()
	synctest.Wait()
	mi.waiters = append(mi.waiters, x)
}

func (pm *poolModel) cancel(t *rapid.T) {
	mi := pm.anyInbox(t)
	if len(mi.waiters) == 0 {
		t.Skip()
	}
	x := mi.waiters[rapid.IntRange(0, len(mi.waiters)-1).Draw(t, "waiter")]
	x.cancelled = true
	x.cancel()
	synctest.Wait()
}

// free reports whether a worker may take a turn.
func (w *poolWorker) free() bool {
	return w.joined && !w.onWay && len(w.todo) == 0 && len(w.outboxes) == 0 && (!w.parked || w.woken.Load())
}

func (pm *poolModel) turn(t *rapid.T) {
	pm.takeTurn(t, pm.anyWorker(t, (*poolWorker).free), rapid.Bool().Draw(t, "park"))
}

func (pm *poolModel) takeTurn(t *rapid.T, w *poolWorker, park bool) int {
	for _, mi := range pm.inboxes {
		pm.updateQueue(t, mi)
	}
	if !w.Ready() {
		t.Fatalf("it was woken and is not ready")
	}
	w.parked = false
	w.woken.Store(false)
	if w.pool == nil {
		return pm.ownTurn(t, w, park)
	}
	before, places := w.pool.Accounts().Visits, len(pm.inboxes)
	_, excess, _ := w.pool.Inspect()
	in, n := w.pool.Turn(&w.Member, &w.tally, park)
	if _, after, _ := w.pool.Inspect(); n < 0 && after != excess-1 {
		t.Fatalf("a worker was asked to leave, with %d too many before and %d after", excess, after)
	}
	if made := w.pool.Accounts().Visits - before; int(made) > 1+3*(places+1)*(places+1) {
		t.Fatalf("%d visits in one turn", made)
	}
	pm.afterTurn(t, w, in, n, park)
	return n
}

// afterTurn does what follows the turn of a shared worker.
func (pm *poolModel) afterTurn(t *rapid.T, w *poolWorker, in *Inbox, n int, park bool) {
	pm.discard(t, w)
	switch {
	case n < 0:
		w.pool.Leave(&w.Member, &w.tally)
		w.joined = false
	case n == 0:
		w.parked = park
	default:
		if in.state.visits.pool != w.pool {
			t.Fatalf("%s is served by a worker of %s", in.Name(), w.pool.Name())
		}
		pm.checkBatch(t, w, pm.inboxes[in.Place], n)
	}
	synctest.Wait()
}

func (pm *poolModel) ownTurn(t *rapid.T, w *poolWorker, park bool) int {
	n := w.inbox.Turn(&w.Member, &w.tally, park)
	switch {
	case n < 0:
		pm.leaveOwn(t, w)
	case n == 0:
		w.parked = park
	default:
		pm.checkBatch(t, w, w.inbox, n)
	}
	synctest.Wait()
	return n
}

// leaveOwn ends a worker of a stage's own.
func (pm *poolModel) leaveOwn(t *rapid.T, w *poolWorker) {
	w.inbox.Book(&w.Member, &w.tally, nil)
	w.inbox.Yield(&w.Member)
	w.inbox.Workers().Leave(&w.Member)
	w.joined = false
	pm.discard(t, w)
	if w.Instance != nil {
		pm.stopInstance(t, w.Instance)
		w.Instance = nil
	}
	w.inbox.Instances().Return(&w.Member)
}

// checkBatch checks a batch, and makes an instance if the worker has none.
func (pm *poolModel) checkBatch(t *rapid.T, w *poolWorker, mi *modelInbox, n int) {
	w.inbox = mi
	batch := w.Member.Batch[:n]
	for _, e := range batch {
		id := e.Load.(int)
		at := slices.Index(mi.queue, id)
		if at < 0 {
			// The model can't see the order inside a discipline, so it learns here of retries that were queued.
			if at = slices.Index(mi.delayed, id); at < 0 || mi.Inbox.state.queue.plain {
				t.Fatalf("%s: given %d, which the model does not have: %v", mi.Name(), id, mi.queue)
			}
			mi.delayed = slices.Delete(mi.delayed, at, at+1)
		} else {
			if at > 0 && mi.Inbox.state.queue.plain && !pm.allInBatch(mi.queue[:at], batch) {
				t.Fatalf("%s: given %d before %v", mi.Name(), id, mi.queue[:at])
			}
			mi.queue = slices.Delete(mi.queue, at, at+1)
		}
	}
	mi.packs.checkBatch(t, batch, mi.Inbox.state.queue.plain)
	w.todo = slices.Clone(batch)
	if w.Instance == nil {
		if !w.Owns() {
			t.Fatalf("%s: a batch and no instance", mi.Name())
		}
		w.Instance = new(testInstance)
	}
}

// allInBatch reports whether all ids are in the batch.
func (pm *poolModel) allInBatch(ids []int, batch []command.Envelope) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(batch, func(e command.Envelope) bool { return e.Load == id }) {
			return false
		}
	}
	return true
}

func (pm *poolModel) discard(t *rapid.T, w *poolWorker) {
	if w.Surplus != nil {
		pm.stopInstance(t, w.Surplus)
		w.Surplus = nil
	}
}

func (pm *poolModel) stopInstance(t *rapid.T, in any) {
	if pm.stopped[in] {
		t.Fatalf("an instance is stopped twice")
	}
	pm.stopped[in] = true
}

// startTurn is the first half of [SharedPool.Turn], of a worker that is at no inbox.
func (pm *poolModel) startTurn(t *rapid.T) {
	w := pm.anyWorker(t, func(w *poolWorker) bool { return w.free() && w.pool != nil && w.visit.at == nil })
	w.parked = false
	w.woken.Store(false)
	if w.pool.Arrive(&w.attendance) {
		w.pool.Leave(&w.Member, &w.tally)
		w.joined = false
		return
	}
	b, era := w.pool.Next(&w.visit.way)
	if b == nil {
		w.parked = w.pool.Park(&w.attendance, &w.visit.way)
		return
	}
	w.onWay, w.dest, w.era = true, b, era
}

// finishTurn is the second half.
func (pm *poolModel) finishTurn(t *rapid.T) {
	w := pm.anyWorker(t, func(w *poolWorker) bool { return w.onWay })
	pm.completeTurn(t, w)
}

func (pm *poolModel) completeTurn(t *rapid.T, w *poolWorker) {
	for _, mi := range pm.inboxes {
		pm.updateQueue(t, mi)
	}
	w.onWay = false
	n := w.pool.enter(w.dest, w.era, &w.Member)
	if n > 0 {
		pm.afterTurn(t, w, w.dest.Inbox(), n, false)
	}
	synctest.Wait()
}

// cycle is what a worker does most of the time: it finishes its batch, hands over what came of it, and takes the next.
func (pm *poolModel) cycle(t *rapid.T) {
	w := pm.anyWorker(t, func(w *poolWorker) bool {
		return w.joined && !w.onWay && (!w.parked || w.woken.Load())
	})
	for len(w.todo) > 0 {
		pm.finish(t, w)
	}
	if pm.handOver(t, w, rapid.Bool().Draw(t, "park there")) {
		pm.takeTurn(t, w, rapid.Bool().Draw(t, "park"))
	}
}

func (pm *poolModel) holder(t *rapid.T) *poolWorker {
	return pm.anyWorker(t, func(w *poolWorker) bool { return len(w.todo) > 0 })
}

// done finishes some commands of a batch.
func (pm *poolModel) done(t *rapid.T) {
	w := pm.holder(t)
	for range rapid.IntRange(1, len(w.todo)).Draw(t, "done") {
		pm.finish(t, w)
	}
	if rapid.Bool().Draw(t, "book") {
		w.inbox.Book(&w.Member, &w.tally, nil)
	}
}

// finish ends the next command of a batch, or forwards it.
func (pm *poolModel) finish(t *rapid.T, w *poolWorker) {
	e := w.todo[0]
	w.todo = w.todo[1:]
	w.tally.Timed++
	how := rapid.IntRange(-1, 5).Draw(t, "how")
	switch to := w.inbox.to; {
	case how > 0 && len(to) > 0:
		x := to[how%len(to)]
		w.tally.Forwarded++
		w.inbox.forwarded++
		w.outboxes[x] = append(w.outboxes[x], command.Envelope{Load: e.Load})
	case how < 0:
		w.tally.Errors++
		w.inbox.errors++
		pm.countEnd(e)
	default:
		w.tally.OK++
		w.inbox.ok++
		pm.countEnd(e)
	}
}

func (pm *poolModel) countEnd(e command.Envelope) {
	pm.mu.Lock()
	defer pm.mu.Unlock()
	pm.ends[e.Load.(int)]++
}

func (pm *poolModel) deliver(t *rapid.T) {
	w := pm.anyWorker(t, func(w *poolWorker) bool { return len(w.outboxes) > 0 && (!w.parked || w.woken.Load()) })
	pm.handOver(t, w, rapid.Bool().Draw(t, "park"))
}

// handOver hands over the forwarded commands, and reports whether all were taken.
func (pm *poolModel) handOver(t *rapid.T, w *poolWorker, park bool) bool {
	w.parked = false
	w.woken.Store(false)
	for _, x := range pm.inboxes {
		es := w.outboxes[x]
		if len(es) == 0 {
			continue
		}
		pm.updateQueue(t, x)
		n := x.Senders().HandOver(&w.Member, es, pm.pipeline.Now(), w.pool != nil, park)
		if w.pool != nil && n < len(es) {
			t.Fatalf("a shared worker would have to wait at %s", x.Name())
		}
		x.accepted += n
		for _, e := range es[:n] {
			x.queue = append(x.queue, e.Load.(int))
		}
		synctest.Wait()
		pm.updateQueue(t, x)
		if n < len(es) {
			w.outboxes[x] = slices.Clone(es[n:])
			w.parked = park && w.joined
			return false
		}
		delete(w.outboxes, x)
	}
	return true
}

func (pm *poolModel) retryLater(t *rapid.T) {
	w := pm.holder(t)
	e := w.todo[0]
	e.Failed()
	pm.updateQueue(t, w.inbox)
	ok := w.inbox.Book(&w.Member, &w.tally, &Retried{Command: e})
	if ok != (e.Tries() < 3) {
		t.Fatalf("RetryLater is %v after %d tries", ok, e.Tries())
	}
	w.todo = w.todo[1:]
	if ok {
		pm.postponed(w.inbox, e.Load.(int))
	} else {
		w.tally.Errors++
		w.inbox.errors++
		pm.countEnd(e)
	}
	synctest.Wait()
}

// postponed notes that a command is to be tried again. It is in the queue already if there is no pause and no other command
// waits for a slot.
func (pm *poolModel) postponed(mi *modelInbox, id int) { mi.delayed = append(mi.delayed, id) }

func (pm *poolModel) crash(t *rapid.T) {
	w := pm.holder(t)
	var culprit *command.Envelope
	rest := w.todo
	if len(rest) == 1 || rapid.Bool().Draw(t, "one") {
		culprit, rest = &w.todo[0], w.todo[1:]
		culprit.Failed()
	} else {
		Narrow(rest)
	}
	retry := culprit != nil && culprit.Tries() < 3 && rapid.Bool().Draw(t, "retry")
	pm.crashed(t, w, rest, culprit, retry, func() {
		w.inbox.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: rest, Retry: retry, Err: ErrStopped})
	})
}

// noInstance ends a batch for which no instance could be made.
func (pm *poolModel) noInstance(t *rapid.T) {
	w := pm.holder(t)
	pm.stopInstance(t, w.Instance)
	w.Instance = nil
	pm.crashed(t, w, w.todo, nil, false, func() {
		w.inbox.Book(&w.Member, &w.tally, Unequipped(w.todo, ErrStopped))
	})
}

func (pm *poolModel) crashed(t *rapid.T, w *poolWorker, rest []command.Envelope, culprit *command.Envelope, retry bool, report func()) {
	mi := w.inbox
	pm.updateQueue(t, mi)
	in := w.Instance
	report()
	if in != nil {
		pm.stopInstance(t, in)
	}
	front := make([]int, 0, len(rest))
	for _, e := range rest {
		id := e.Load.(int)
		front = append(front, id)
		mi.packs.add(e)
	}
	mi.queue = append(front, mi.queue...)
	if retry {
		mi.packs.retry(*culprit)
		pm.postponed(mi, culprit.Load.(int))
	}
	w.todo = nil
	synctest.Wait()
	all := pm.handOver(t, w, false)
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
		mi.Yield(&w.Member)
		mi.Instances().Return(&w.Member)
	} else {
		if all {
			mi.Yield(&w.Member)
		}
		mi.Instances().Return(&w.Member)
	}
	w.joined, w.parked = false, false
	if !all || rapid.Bool().Draw(t, "restart") {
		pm.start(w)
	}
	synctest.Wait()
}

func (pm *poolModel) join(t *rapid.T) {
	pm.start(pm.anyWorker(t, func(w *poolWorker) bool { return !w.joined }))
}

func (pm *poolModel) start(w *poolWorker) {
	w.woken.Store(false)
	w.joined, w.parked = true, false
	if w.pool != nil {
		w.pool.Join(&w.Member)
		return
	}
	if w.inbox.Instances().Claim(&w.Member) {
		w.Instance = new(testInstance)
	}
	w.inbox.Workers().Join(&w.Member, false)
}

func (pm *poolModel) leave(t *rapid.T) {
	w := pm.anyWorker(t, func(w *poolWorker) bool {
		return w.joined && !w.onWay && len(w.todo) == 0 && len(w.outboxes) == 0
	})
	if w.pool == nil {
		pm.leaveOwn(t, w)
	} else {
		w.pool.Leave(&w.Member, &w.tally)
		pm.discard(t, w)
	}
	w.joined, w.parked = false, false
	synctest.Wait()
}

func (pm *poolModel) shrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	if rapid.Bool().Draw(t, "own") {
		pm.anyInbox(t).Workers().Shrink(n)
	} else {
		pm.anyPool(t).Shrink(n)
	}
}

func (pm *poolModel) unshrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	if rapid.Bool().Draw(t, "own") {
		pm.anyInbox(t).Workers().Unshrink(n)
	} else {
		pm.anyPool(t).Unshrink(n)
	}
}

func (pm *poolModel) bind(t *rapid.T) {
	mi := pm.anyInbox(t)
	if k := rapid.IntRange(0, 2).Draw(t, "to"); k < 2 {
		mi.Settings().Bind(pm.pools[k])
	} else {
		mi.Settings().Bind(nil)
	}
}

func (pm *poolModel) setMode(t *rapid.T) {
	pm.anyPool(t).SetDispatch(rapid.SampledFrom(dispatchModes).Draw(t, "mode"))
}

func (pm *poolModel) setPlan(t *rapid.T) {
	pm.anyPool(t).SetPlan(drawPlan(t, len(pm.inboxes)))
}

func drawPlan(t *rapid.T, inboxes int) *controller.VisitPlan {
	p := &controller.VisitPlan{
		Gating:  controller.Gating(rapid.IntRange(0, 3).Draw(t, "gating")),
		Bound:   rapid.IntRange(0, 3).Draw(t, "bound"),
		Quantum: rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Minute}).Draw(t, "quantum"),
		Restart: rapid.Bool().Draw(t, "restart"), RestartAt: rapid.IntRange(0, 4).Draw(t, "restart at"),
		Advance: rapid.Bool().Draw(t, "advance"), Now: rapid.Bool().Draw(t, "now"),
	}
	for _, s := range rapid.SliceOfN(rapid.IntRange(0, inboxes), 0, 6).Draw(t, "order") {
		p.Order = append(p.Order, controller.StageID(s))
	}
	if rapid.Bool().Draw(t, "bounds") {
		p.Bounds = map[controller.StageID]int{1: 2}
	}
	return p
}

func (pm *poolModel) pause(t *rapid.T) {
	paused := rapid.Bool().Draw(t, "paused")
	pm.stopInstances(t, pm.anyInbox(t).Settings().Adjust(func(k *Knobs) { k.Paused = paused }))
}

func (pm *poolModel) stopInstances(t *rapid.T, ins []any) {
	for _, in := range ins {
		pm.stopInstance(t, in)
	}
}

func (pm *poolModel) adjust(t *rapid.T) {
	mi := pm.anyInbox(t)
	knob, n := rapid.IntRange(0, 4).Draw(t, "knob"), rapid.IntRange(1, 8).Draw(t, "n")
	pm.stopInstances(t, mi.Settings().Adjust(func(k *Knobs) {
		switch knob {
		case 0:
			k.Instances = 1 + n%3
		case 1:
			k.Capacity = n
		case 2:
			k.Priority = n % 3
		case 3:
			k.Batch = n
		default:
			k.Linger = time.Duration(n%3) * time.Second
		}
	}))
	synctest.Wait()
}

func (pm *poolModel) order(t *rapid.T) {
	mi := pm.anyInbox(t)
	pm.updateQueue(t, mi)
	odd := queue.PriorityOf(func(id int) int { return id % 2 })
	d := rapid.SampledFrom([]queue.Discipline{nil, nil, queue.FIFO{}, queue.LIFO{}, queue.AdaptiveLIFO{Above: 2}, odd}).Draw(t, "discipline")
	mi.Settings().Order(d)
	if mi.Inbox.state.queue.plain {
		have := mi.ids()
		for _, id := range have {
			if i := slices.Index(mi.delayed, id); i >= 0 {
				mi.delayed = slices.Delete(mi.delayed, i, i+1)
				mi.queue = append(mi.queue, id)
			}
		}
		if !sameIDs(have, mi.queue) {
			t.Fatalf("%s: the new order has %v, want %v", mi.Name(), have, mi.queue)
		}
		mi.queue = have
	}
}

func sameIDs(a, b []int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (pm *poolModel) rest(t *rapid.T) {
	pm.anyInbox(t).Rest(time.Duration(rapid.IntRange(1, 5).Draw(t, "pause")) * time.Second)
}

func (pm *poolModel) tick(t *rapid.T) {
	pm.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(t, "tick"))
}

func (pm *poolModel) pass(d time.Duration) {
	for _, mi := range pm.inboxes {
		mi.mu.Lock()   // for the race detector: what was read so far comes before what the timers will write
		mi.mu.Unlock() //nolint:staticcheck // only for the order
	}
	time.Sleep(d)
	synctest.Wait()
}

func (pm *poolModel) close(t *rapid.T) {
	pm.anyInbox(t).Phases().Close()
	synctest.Wait()
}

// addIdleInstance makes an instance before a shared worker needs it.
func (pm *poolModel) addIdleInstance(t *rapid.T) {
	mi := pm.anyInbox(t)
	var m Member
	if mi.Instances().Claim(&m) && rapid.Bool().Draw(t, "starts") {
		m.Instance = new(testInstance)
	}
	if rapid.Bool().Draw(t, "surplus") {
		pm.stopInstances(t, mi.Settings().Adjust(func(k *Knobs) { k.Instances = 1 }))
	}
	mi.Instances().Return(&m)
	if m.Surplus != nil {
		pm.stopInstance(t, m.Surplus)
	}
}

func (pm *poolModel) takeIdleInstances(t *rapid.T) {
	pm.stopInstances(t, pm.anyInbox(t).Instances().TakeIdle())
}

func (mi *modelInbox) ids() []int {
	ids := make([]int, mi.Inbox.state.queue.Len())
	for i := range ids {
		ids[i] = mi.Inbox.state.queue.line.At(i).Load.(int)
	}
	return ids
}

// updateQueue collects the answers of an inbox's submitters, and compares the queue with the model.
func (pm *poolModel) updateQueue(t *rapid.T, mi *modelInbox) {
	var granted []int
	mi.waiters = slices.DeleteFunc(mi.waiters, func(x *modelWaiter) bool {
		select {
		case err := <-x.result:
			if err == nil {
				mi.accepted++
				granted = append(granted, x.id)
				return true
			}
			mi.rejected++
			pm.ends[x.id]++ // it was never accepted
			if mi.Phases().IsOpen() && !x.cancelled && mi.state.cfg.Overflow != Reject {
				t.Fatalf("%s: refused for no reason: %v", mi.Name(), err)
			}
			return true
		default:
			if x.cancelled || !mi.Phases().IsOpen() || mi.state.cfg.Overflow != Wait {
				t.Fatalf("%s: a submitter waits, and should not", mi.Name())
			}
			return false
		}
	})
	dropped := func(id int) bool { return pm.ends[id] >= 100 }
	mi.queue, mi.delayed = slices.DeleteFunc(mi.queue, dropped), slices.DeleteFunc(mi.delayed, dropped)
	granted = slices.DeleteFunc(granted, dropped)
	if !mi.Inbox.state.queue.plain {
		mi.queue = append(mi.queue, granted...)
		if have := mi.Inbox.state.queue.Len() + mi.Inbox.state.postponed(); have != len(mi.queue)+len(mi.delayed) {
			t.Fatalf("%s: %d queued or delayed, want %v and %v", mi.Name(), have, mi.queue, mi.delayed)
		}
		return
	}
	have := mi.ids()
	if len(have) < len(mi.queue) || !slices.Equal(have[:len(mi.queue)], mi.queue) {
		t.Fatalf("%s: the queue is %v, want %v and perhaps more", mi.Name(), have, mi.queue)
	}
	for _, id := range have[len(mi.queue):] {
		if i := slices.Index(granted, id); i >= 0 {
			granted = slices.Delete(granted, i, i+1)
		} else if i := slices.Index(mi.delayed, id); i >= 0 {
			mi.delayed = slices.Delete(mi.delayed, i, i+1)
		} else {
			t.Fatalf("%s: %d came from nowhere: %v, want %v", mi.Name(), id, have, mi.queue)
		}
	}
	if len(granted) > 0 {
		t.Fatalf("%s: %v were accepted and are nowhere", mi.Name(), granted)
	}
	mi.queue = have
}

// check holds after every step.
func (pm *poolModel) check(t *rapid.T) {
	for _, mi := range pm.inboxes {
		pm.updateQueue(t, mi)
		pm.checkLaw(t, mi)
		pm.checkInstances(t, mi)
		pm.checkTokens(t, mi)
		pm.checkStalls(t, mi)
		pm.checkWorkers(t, mi.Name(), mi.state.workers.Live(), mi.state.workers.Inspect(), func(w *poolWorker) bool { return w.pool == nil && w.inbox == mi })
	}
	for _, sp := range pm.pools {
		pm.checkPoolTokens(t, sp)
		set, _, _ := sp.Inspect()
		pm.checkWorkers(t, sp.Name(), sp.Workers(), set, func(w *poolWorker) bool { return w.pool == sp })
	}
}

func (pm *poolModel) checkLaw(t *rapid.T, mi *modelInbox) {
	s := Snapshot([]*Inbox{mi.Inbox})[0]
	in := s.Counts.Accepted
	out := s.Counts.Ended()
	if in != out+uint64(s.Queue.Load()) {
		t.Fatalf("%s: the law is broken: %+v", mi.Name(), s)
	}
	booked, inHand, busy := Tally{}, 0, 0
	for _, w := range pm.workers {
		if w.inbox == mi {
			booked.OK += w.tally.OK
			booked.Forwarded += w.tally.Forwarded
			booked.Errors += w.tally.Errors
			inHand += len(w.todo) + w.tally.completed()
			if w.Member.custody.inHand > 0 {
				busy++
			}
		}
	}
	if int(in) != mi.accepted || int(s.Counts.Rejected) != mi.rejected || int(s.Counts.OK) != mi.ok-booked.OK ||
		int(s.Counts.Forwarded) != mi.forwarded-booked.Forwarded || int(s.Counts.Errors) != mi.errors-booked.Errors ||
		s.Queue.InHand != inHand || s.Workers.Busy != busy || int(s.Counts.Shed+s.Counts.DeadLettered) != pm.endedBy[mi.Place] {
		t.Fatalf("%s: accounts %+v, and the model says accepted %d, rejected %d, ok %d, forwarded %d, errors %d, in hand %d, busy %d",
			mi.Name(), s, mi.accepted, mi.rejected, mi.ok, mi.forwarded, mi.errors, inHand, busy)
	}
}

// checkInstances checks that each instance is in one place, and that there are no more than the knob allows.
func (pm *poolModel) checkInstances(t *rapid.T, mi *modelInbox) {
	out, owned := 0, 0
	seen := map[any]bool{}
	have := func(in any) {
		if in == nil {
			return
		}
		if seen[in] || pm.stopped[in] {
			t.Fatalf("%s: an instance is used twice, or after its end", mi.Name())
		}
		seen[in] = true
	}
	for _, in := range mi.state.instances.Inspect().Idle {
		have(in)
	}
	for _, w := range pm.workers {
		if w.inbox != mi {
			continue
		}
		if w.InUse() {
			out++
		}
		if w.Owns() {
			owned++
			have(w.Instance)
		} else if w.Instance != nil {
			t.Fatalf("%s: a worker has an instance that is not its own", mi.Name())
		}
		if len(w.todo) > 0 && (!w.InUse() || !w.Owns()) {
			t.Fatalf("%s: a worker has a batch, holds %v, owns %v", mi.Name(), w.InUse(), w.Owns())
		}
	}
	if mi.state.instances.Busy() != out || mi.state.instances.Inspect().Made != owned+len(mi.state.instances.Inspect().Idle) {
		t.Fatalf("%s: out %d, made %d; want %d, %d idle and %d owned", mi.Name(), mi.state.instances.Busy(), mi.state.instances.Inspect().Made, out, len(mi.state.instances.Inspect().Idle), owned)
	}
	if mi.state.instances.Busy() > mi.state.knobs.Instances && mi.state.instances.Busy() > mi.wasOut || mi.state.instances.Inspect().Made > mi.state.knobs.Instances && mi.state.instances.Inspect().Made > mi.wasMade {
		t.Fatalf("%s: %d in use, %d made, %d allowed", mi.Name(), mi.state.instances.Busy(), mi.state.instances.Inspect().Made, mi.state.knobs.Instances)
	}
	if len(mi.state.instances.Inspect().Idle) > 0 && mi.state.instances.Inspect().Made > mi.state.knobs.Instances {
		t.Fatalf("%s: an instance is idle, and there are %d, with %d allowed", mi.Name(), mi.state.instances.Inspect().Made, mi.state.knobs.Instances)
	}
	mi.wasOut, mi.wasMade = mi.state.instances.Busy(), mi.state.instances.Inspect().Made
}

// lingersNow is [Inbox.lingering] without setting the timer.
func (mi *modelInbox) lingersNow() bool {
	k := mi.state.knobs
	if k.Linger <= 0 || mi.Inbox.state.queue.Len() >= k.Batch || mi.Inbox.state.queue.Len() >= k.Capacity || mi.Inbox.state.queue.Len() == 0 {
		return false
	}
	first := mi.Inbox.state.queue.line.Oldest()
	waited, known := first.Waited(mi.Pipeline().Now())
	if first.Tries() > 0 {
		waited -= 40 * time.Microsecond // the time of a tried command is exact to 16, and the timer may be set later by as much
	}
	return known && waited < k.Linger
}

func (mi *modelInbox) hasWork() bool {
	return mi.Inbox.state.queue.Len() > 0 && !mi.state.knobs.Paused && !mi.state.halted.Load() && mi.state.instances.Busy() < mi.state.knobs.Instances && !mi.lingersNow()
}

// checkTokens checks that an inbox with work that can be done has given its shared pool tokens.
func (pm *poolModel) checkTokens(t *rapid.T, mi *modelInbox) {
	has := mi.state.visits.tokens
	if mi.state.visits.pool == nil {
		if has != 0 {
			t.Fatalf("%s: tokens without a shared pool", mi.Name())
		}
		return
	}
	if has < 0 || mi.state.visits.pool.Polled() && has > 1 {
		t.Fatalf("%s: %d tokens, %v", mi.Name(), has, mi.state.visits.pool.Dispatch())
	}
	if !mi.hasWork() || mi.state.visits.stalled || mi.state.visits.resting || !mi.state.instances.Available(mi.state.knobs.Instances) {
		return
	}
	want := int32(1)
	if !mi.state.visits.pool.Polled() {
		want = int32(min(mi.Inbox.state.queue.Len(), mi.state.knobs.Instances-mi.state.instances.Busy()))
	}
	if has < want {
		t.Fatalf("%s: %d queued, %d of %d instances in use, and %d tokens", mi.Name(), mi.Inbox.state.queue.Len(), mi.state.instances.Busy(), mi.state.knobs.Instances, has)
	}
}

// checkPoolTokens checks that a shared pool, with workers on their way, has the tokens that its inboxes have given.
func (pm *poolModel) checkPoolTokens(t *rapid.T, sp *SharedPool) {
	all := 0
	for _, mi := range pm.inboxes {
		if mi.state.visits.pool != sp {
			continue
		}
		b := mi.state.visits.binding
		has := b.Tokens()
		all += has
		for _, w := range pm.workers {
			if w.onWay && w.dest == b && w.era == mi.state.visits.era {
				has++
			}
		}
		if want := int(mi.state.visits.tokens); has != want {
			t.Fatalf("%s has %d tokens of %s, which has given %d", sp.Name(), has, mi.Name(), want)
		}
	}
	set, _, tokens := sp.Inspect()
	if tokens != all {
		t.Fatalf("%s has %d tokens, and %d of its inboxes", sp.Name(), tokens, all)
	}
	if len(set.Idle) == 0 || tokens == 0 {
		return
	}
	awake := 0
	for _, w := range pm.workers {
		if w.pool == sp && w.joined && (!w.parked || w.woken.Load()) {
			awake++
		}
	}
	if awake < min(tokens, awake+1) {
		t.Fatalf("%s has %d idle workers, %d tokens, and %d workers awake", sp.Name(), len(set.Idle), tokens, awake)
	}
}

// checkStalls checks that a stalled inbox is known to the inbox that stalls it, and that an inbox stalls others and lets
// workers and submitters wait only while it has reason to.
func (pm *poolModel) checkStalls(t *rapid.T, mi *modelInbox) {
	known := false
	for _, x := range pm.inboxes {
		known = known || slices.Contains(x.state.visits.behind, mi.Inbox)
	}
	if mi.state.visits.stalled && !known {
		t.Fatalf("%s is stalled, and no inbox will unstall it", mi.Name())
	}
	slots := max(mi.state.knobs.Capacity-mi.Inbox.state.delayed.Len(), 0) // without those that delayed retries keep
	if len(mi.state.visits.behind) > 0 && mi.Inbox.state.queue.Len() <= slots/2 && !mi.state.isFull() {
		t.Fatalf("%s has %d of %d queued, and %d inboxes behind are stalled", mi.Name(), mi.Inbox.state.queue.Len(), mi.state.knobs.Capacity, len(mi.state.visits.behind))
	}
	if len(mi.state.senders.forSlots) > 0 && mi.state.free() >= (mi.state.knobs.Capacity+1)/2 {
		t.Fatalf("%s has %d free, and %d workers wait", mi.Name(), mi.state.free(), len(mi.state.senders.forSlots))
	}
	if len(mi.waiters) > 0 && mi.state.free() > 0 && len(mi.state.senders.forSlots) == 0 && len(mi.state.visits.behind) == 0 {
		t.Fatalf("%s has %d free, and %d submitters wait", mi.Name(), mi.state.free(), len(mi.waiters))
	}
}

// checkWorkers compares which workers are parked and which are on their way, and checks that none on its way is asleep.
func (pm *poolModel) checkWorkers(t *rapid.T, name string, has int, set pool.Inside[Member], of func(*poolWorker) bool) {
	live, waking := 0, 0
	for i, w := range pm.workers {
		if !of(w) {
			continue
		}
		inLine := len(w.outboxes) > 0
		idle := slices.Contains(set.Idle, &w.Member)
		if idle != (w.joined && w.parked && !w.woken.Load() && !inLine) {
			t.Fatalf("%s: worker %d: idle %v, parked %v, woken %v", name, i, idle, w.parked, w.woken.Load())
		}
		if w.joined {
			live++
		}
		if w.Member.attendance.Waking() {
			waking++
			if !w.joined || w.parked && !w.woken.Load() || !w.Ready() {
				t.Fatalf("%s: worker %d counts as on its way, and is asleep", name, i)
			}
		}
	}
	if has != live || set.Waking != waking {
		t.Fatalf("%s: live %d, waking %d; want %d, %d", name, has, set.Waking, live, waking)
	}
}

// settle lets all workers do what they can, until none can do anything. Then nothing may be left.
func (pm *poolModel) settle(t *rapid.T) {
	for _, mi := range pm.inboxes {
		pm.stopInstances(t, mi.Settings().Adjust(func(k *Knobs) {
			k.Paused = false
			k.Instances = max(k.Instances, 1)
		}))
		if mi.state.visits.pool != nil { // the stage's own workers would keep its instances
			mi.Workers().Shrink(pm.ownWorkers(mi))
		}
	}
	pm.check(t)
	for range 20_000 {
		if !pm.move(t) {
			pm.checkNothingLeft(t)
			return
		}
		pm.check(t)
	}
	t.Fatalf("there is always something to do")
}

// ownWorkers is how many workers of its stage's own an inbox has.
func (pm *poolModel) ownWorkers(mi *modelInbox) (n int) {
	for _, w := range pm.workers {
		if w.pool == nil && w.inbox == mi && w.joined {
			n++
		}
	}
	return n
}

// move makes one move that is due, if there is one. Time goes on when there is none.
func (pm *poolModel) move(t *rapid.T) bool {
	for _, w := range pm.workers {
		switch {
		case w.joined || w.pool == nil && (w.inbox.state.visits.pool != nil || pm.ownWorkers(w.inbox) > 0):
		case w.pool != nil && w.pool.Workers() > 0:
		default:
			pm.start(w)
			return true
		}
	}
	turns := 0
	for _, w := range pm.workers {
		if w.onWay {
			pm.completeTurn(t, w)
			turns++
			continue
		}
		if !w.joined || w.parked && !w.woken.Load() {
			continue
		}
		turns++
		for len(w.todo) > 0 {
			pm.finish(t, w)
		}
		if pm.handOver(t, w, true) {
			pm.takeTurn(t, w, true)
		}
	}
	if turns > 0 {
		return true
	}
	for _, mi := range pm.inboxes {
		if mi.Inbox.state.delayed.Len() > 0 || mi.state.visits.resting || mi.lingersNow() {
			pm.pass(time.Second)
			return true
		}
	}
	return false
}

// checkNothingLeft checks that nothing is left once all workers are parked.
func (pm *poolModel) checkNothingLeft(t *rapid.T) {
	for _, mi := range pm.inboxes {
		if mi.state.load() > 0 || len(mi.waiters) > 0 || len(mi.state.senders.forSlots) > 0 || mi.state.slots.reserved > 0 {
			t.Fatalf("%s: stranded: %d queued, %d in hand, %d delayed, %d submitters wait, %d workers are blocked, %d slots promised; stalled %v",
				mi.Name(), mi.Inbox.state.queue.Len(), mi.state.counts.inHand, mi.Inbox.state.delayed.Len(), len(mi.waiters), len(mi.state.senders.forSlots), mi.state.slots.reserved, mi.state.visits.stalled)
		}
	}
	for id := range pm.next {
		if pm.ends[id] != 1 && pm.ends[id] != 100 {
			t.Fatalf("%d ended %d times", id, pm.ends[id]/100+pm.ends[id]%100)
		}
	}
}
