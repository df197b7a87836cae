package inbox

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/reason"
)

// Random actions drive the inbox of a keyed stage, its own workers and those of a shared pool. The model knows of each key what
// waits, in the order of arrival, and which worker has the key. If handlers suspend it is the one command that was given out
// which has the key.
func TestTheInboxOfAKeyedStageKeepsTheOrderOfEachKey(t *testing.T) {
	testTheInboxOfAKeyedStage(t, false)
}

func TestTheInboxOfAKeyedStageWhoseHandlersSuspendKeepsTheOrderOfEachKey(t *testing.T) {
	testTheInboxOfAKeyedStage(t, true)
}

func testTheInboxOfAKeyedStage(t *testing.T, suspends bool) {
	t.Helper()
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		for _, capacity := range []int{1, 3, 64} {
			for _, backoff := range []time.Duration{0, time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%v", ruleNames[rule], capacity, backoff), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rapid.Check(timeless{t}, func(t *rapid.T) {
							m := newKeyedModel(rule, capacity, rapid.SampledFrom([]int{0, 1, 2, line.QuarterOfCapacity}).Draw(t, "places"), backoff, suspends)
							defer m.stop()
							for range 4 {
								t.Repeat(m.actions())
							}
							m.settle(t)
						})
					})
				})
			}
		}
	}
}

// modelKeys is how many keys the commands have.
const modelKeys = 4

// modelKey is the key in the model; that in the inbox is one more.
func modelKey(id int) uint64 { return uint64(id % modelKeys) }

type keyedModel struct {
	inbox   *Inbox
	pool    *SharedPool
	queued  [modelKeys][]int        // what is here and in no batch, those that wait for their next try included
	holder  [modelKeys]*keyedWorker // nil if handlers suspend
	working [modelKeys]*keyedRun    // what has the key, if handlers suspend; until what came of it has been handed over
	workers []*keyedWorker
	waiters []*modelWaiter
	senders []*keySender
	taken   []command.Envelope // what a worker was just given
	came    [modelKeys]int     // how many came back, along a back edge, or to a place that was promised before the bound fell, since a key was below it
	ended   []Ending
	callers callers
	next    int
	halted  bool

	suspends         bool
	suspended, woken []*keyedRun
}

// keyedRun is a command that was given out. Its handler may be suspended.
type keyedRun struct {
	e    command.Envelope
	hold line.Hold
}

type keyedWorker struct {
	Member

	at                     int32       // of its batch, if handlers suspend: the index of the first command of todo
	ended                  []*keyedRun // what it has still to hand over
	shared, joined, parked bool
	carries                bool
	woken                  atomic.Bool
	todo                   []command.Envelope
	tally                  Tally
}

// keySender is a worker of an inbox before, with what it has for this one.
type keySender struct {
	Member

	items []command.Envelope
	woken atomic.Bool
}

func newKeyedModel(rule Overflow, capacity, places int, backoff time.Duration, suspends bool) *keyedModel {
	m := &keyedModel{suspends: suspends, callers: newCallers()}
	m.inbox = New(Config{
		Name: "keyed", Capacity: capacity, Batch: 6, Overflow: rule, StreakEnds: time.Minute, Instances: 10,
		Retry: Retry{Attempts: 3, Backoff: backoff, Max: time.Minute}, KeyCapacity: places,
		Key: func(cmd any) uint64 { return 1 + modelKey(cmd.(int)) },
	})
	if suspends {
		m.inbox.Settings().SetSuspends()
	}
	pl := newPipeline()
	pl.Ended = func(e Ending) { m.ended = append(m.ended, e) }
	pl.Attach(m.inbox)
	m.pool = NewSharedPool("pool", pl)
	m.inbox.Phases().Open()
	m.inbox.state.pace.limit = 3
	before := New(Config{Name: "before", Capacity: 10, Batch: 6, StreakEnds: time.Minute, Instances: 10})
	pl.Attach(before)
	before.Phases().Open()
	for range 2 {
		s := new(keySender)
		s.Wake = func() { s.woken.Store(true) }
		before.Workers().Join(&s.Member, false)
		m.senders = append(m.senders, s)
	}
	for i := range 5 {
		w := &keyedWorker{shared: i >= 3}
		w.Wake = func() { w.woken.Store(true) }
		m.workers = append(m.workers, w)
		m.start(w)
	}
	return m
}

func (m *keyedModel) stop() {
	for _, x := range m.waiters {
		x.cancel()
	}
	m.inbox.Phases().Halt()()
	synctest.Wait()
}

func (m *keyedModel) start(w *keyedWorker) {
	w.woken.Store(false)
	w.joined, w.parked, w.carries = true, false, false
	if w.shared {
		m.pool.Join(&w.Member)
	} else {
		m.inbox.Workers().Join(&w.Member, false)
	}
}

func (m *keyedModel) actions() map[string]func(*rapid.T) {
	seldom := (&inboxModel{}).seldom
	return map[string]func(*rapid.T){
		"": m.check, "submit": m.submit, "submit2": m.submit, "submit3": m.submit, "hand over": m.handOver, "bring": m.bring, "bring2": m.bring,
		"bring on": m.bringOn, "withdraw": seldom(m.withdraw), "capacity": seldom(m.changeCapacity), "cancel": m.cancel,
		"turn": m.turn, "turn2": m.turn, "turn3": m.turn, "turn4": m.turn, "finish": m.finish, "finish2": m.finish, "skip": m.skip,
		"retry": m.retry, "crash": m.crash, "carry": m.carry, "leave": seldom(m.leave), "join": m.join, "bind": seldom(m.bind),
		"pause": seldom(m.pause), "tick": m.tick, "halt": seldom(seldom(m.halt)), "suspend": m.suspend, "suspend2": m.suspend,
		"wake": m.wake, "wake2": m.wake, "resize": seldom(m.resize), "give up": m.giveUp, "end lapsed": m.endLapsed,
	}
}

func (m *keyedModel) arrived(id int) {
	k := modelKey(id)
	m.queued[k] = append(m.queued[k], id)
}

// back puts commands of a batch back before all others of their keys. Those that were woken wait for a worker.
func (m *keyedModel) back(es ...command.Envelope) {
	for _, e := range slices.Backward(es) {
		if run, ok := e.Load.(*keyedRun); ok {
			m.woken = append(m.woken, run)
			continue
		}
		k := modelKey(e.Load.(int))
		m.working[k] = nil
		m.came[k]++
		m.queued[k] = slices.Insert(m.queued[k], 0, e.Load.(int))
	}
}

func (m *keyedModel) newID(t *rapid.T) int {
	m.next++
	return modelKeys*m.next + rapid.IntRange(0, modelKeys-1).Draw(t, "key")
}

func (m *keyedModel) submit(t *rapid.T) {
	m.endLapsed(t)
	id := m.newID(t)
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	e := m.callers.envelope(id)
	go func() { x.result <- m.inbox.Submit(ctx, &e) }()
	m.waiters = append(m.waiters, x)
	m.collect(t)
}

func (m *keyedModel) cancel(*rapid.T) {
	for _, x := range m.waiters {
		x.cancel()
	}
}

func (m *keyedModel) handOver(t *rapid.T) {
	m.endLapsed(t) // otherwise it may be done before the hand-over
	var es []command.Envelope
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		es = append(es, m.callers.envelope(m.newID(t)))
	}
	m.inbox.Senders().HandOver(nil, es, 0, true, false)
	for _, e := range es {
		if !m.halted {
			m.arrived(e.Load.(int))
			m.came[modelKey(e.Load.(int))]++ // along a back edge, beside the places that are promised
		}
	}
}

// bring has a worker of the inbox before hand over, and wait for what is not taken.
func (m *keyedModel) bring(t *rapid.T) {
	m.endLapsed(t)
	s := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "sender")]
	if len(s.items) > 0 {
		t.Skip("it has something")
	}
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		s.items = append(s.items, m.callers.envelope(m.newID(t)))
	}
	m.handOn(t, s)
}

// bringOn has a worker that waits hand over, woken or not.
func (m *keyedModel) bringOn(t *rapid.T) {
	m.endLapsed(t)
	s := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "sender")]
	if len(s.items) == 0 {
		t.Skip("it has nothing")
	}
	m.handOn(t, s)
}

func (m *keyedModel) handOn(t *rapid.T, s *keySender) {
	s.woken.Store(false)
	all := slices.Clone(s.items)
	n := m.inbox.Senders().HandOver(&s.Member, s.items, 0, false, true)
	s.items = slices.Clone(s.items[n:])
	for _, e := range all {
		id := e.Load.(int)
		left := slices.ContainsFunc(s.items, func(o command.Envelope) bool { return o.Load.(int) == id })
		if !left && !m.halted {
			m.arrived(id)
		}
	}
	m.collect(t)
}

// withdraw has a worker go on with other work.
func (m *keyedModel) withdraw(t *rapid.T) {
	s := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "sender")]
	m.inbox.Senders().Withdraw(&s.Member)
	m.collect(t)
	s.woken.Store(true) // it comes again by itself
}

func (m *keyedModel) changeCapacity(t *rapid.T) {
	n := rapid.IntRange(1, 64).Draw(t, "capacity")
	for _, ln := range line.Inspect(m.inbox.state.queue.line).Lanes {
		m.came[ln.Key-1] += ln.Reserved // places that were promised before the bound fell are given
	}
	m.inbox.Settings().Adjust(func(k *Knobs) { k.Capacity = n })
	m.collect(t)
}

// bounds checks the places of keys, and what waits for them.
func (m *keyedModel) bounds(t *rapid.T) {
	in := m.inbox
	l := in.state.queue.bound
	if m.halted || l == nil {
		return
	}
	for k, q := range m.queued {
		ln := l.Find(line.Rank{Key: uint64(k + 1)})
		if len(q) <= l.Most() && ln == nil || ln != nil && l.Places(ln) >= 0 {
			m.came[k] = 0
		}
	}
	reserved, lined, senders := 0, 0, 0
	for _, ln := range line.Inspect(in.state.queue.line).Lanes {
		reserved += ln.Reserved
		if w := in.state.senders.atLanes[ln.Lane]; w != nil {
			lined += w.line.Len()
			senders += w.senders
			if l.Places(ln.Lane) > 0 && w.line.Len() > 0 && w.senders == 0 {
				t.Fatalf("a place of key %d is free, and %d commands wait for it", ln.Key, w.line.Len())
			}
			if l.Places(ln.Lane) >= l.Most() && w.senders > 0 {
				t.Fatalf("all places of key %d are free, and a worker waits for them", ln.Key)
			}
		}
	}
	for _, p := range slices.Concat(in.state.senders.forSlots, in.state.slots.promises) {
		reserved -= p.places
	}
	for w := in.state.waiters.first; w != nil; w = w.after {
		if w.lane != nil {
			reserved--
		}
	}
	if reserved != 0 || lined != in.state.senders.linedAtLanes || senders != len(in.state.senders.forPlaces) || l.HasVacated() || !m.halted && len(in.state.senders.overKeys) > 0 {
		t.Fatalf("%d places reserved too many, %d commands wait, counted %d; %d workers, counted %d; a lane must be looked at: %v",
			reserved, lined, in.state.senders.linedAtLanes, senders, len(in.state.senders.forPlaces), l.HasVacated())
	}
	if in.state.free() > 0 && in.state.waiters.n > 0 && len(in.state.senders.forSlots) == 0 {
		t.Fatalf("%d slots are free, and %d commands wait for them", in.state.free(), in.state.waiters.n)
	}
	for _, s := range m.senders {
		if len(s.items) > 0 && !s.woken.Load() && !in.Senders().InLine(&s.Member) {
			t.Fatal("a worker waits, and is in no line")
		}
	}
}

// collect notes which of the commands that waited for a slot are queued, and what the inbox has ended.
func (m *keyedModel) collect(t *rapid.T) {
	synctest.Wait()
	var before [modelKeys]int
	for k := range m.queued {
		before[k] = len(m.queued[k])
	}
	defer func() {
		for k, most := 0, m.inbox.state.keyCapacity(); k < modelKeys && most > 0; k++ {
			n := len(m.queued[k])
			for _, e := range m.taken {
				if id, fresh := e.Load.(int); fresh && modelKey(id) == uint64(k) {
					n--
				}
			}
			if n > max(before[k], most+m.came[k]) {
				t.Fatalf("%d commands of key %d are here; the bound is %d, and %d were here before", n, k, most, before[k])
			}
		}
	}()
	m.waiters = slices.DeleteFunc(m.waiters, func(x *modelWaiter) bool {
		select {
		case err := <-x.result:
			if err == nil {
				m.arrived(x.id)
			}
			return true
		default:
			return false
		}
	})
	gone := m.callers.gone(t)
	for k := range m.queued {
		m.queued[k] = slices.DeleteFunc(m.queued[k], func(id int) bool { return gone[id] })
	}
	for _, e := range m.ended {
		if e.Reason != reason.Oldest && e.Reason != reason.Newest && e.Reason != reason.Full {
			continue // the model knows
		}
		id := e.Cmd.(int)
		k := modelKey(id)
		i := slices.Index(m.queued[k], id)
		if i < 0 {
			t.Fatalf("%d was dropped and is not here", id)
		}
		for _, before := range m.queued[k][:i] {
			if e.Reason == reason.Oldest && !m.delayed(before) {
				t.Fatalf("%d was dropped before %d", id, before)
			}
		}
		m.queued[k] = slices.Delete(m.queued[k], i, i+1)
	}
	m.ended = nil
}

// giveUp has the caller of a command give up, wherever the command is.
func (m *keyedModel) giveUp(t *rapid.T) { m.callers.giveUp(t) }

// endLapsed has the inbox end what has lapsed.
func (m *keyedModel) endLapsed(t *rapid.T) {
	for range 1000 { // those that come into their slots may have lapsed, too
		if m.inbox.endLapsed(); len(m.callers.settled) == 0 {
			break
		}
		m.collect(t)
	}
	for _, q := range m.queued {
		for _, id := range q {
			if m.callers.givenUp[id] {
				t.Fatalf("%d has lapsed and waits", id)
			}
		}
	}
}

// delayed reports whether a command waits for its next try.
func (m *keyedModel) delayed(id int) bool {
	return slices.ContainsFunc(m.inbox.state.delayed.heap, func(d due) bool { return d.e.Load == id })
}

func (m *keyedModel) worker(t *rapid.T, fit func(*keyedWorker) bool) *keyedWorker {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if !fit(w) {
		t.Skip()
	}
	return w
}

func (m *keyedModel) busy(t *rapid.T) *keyedWorker {
	return m.worker(t, func(w *keyedWorker) bool { return len(w.todo) > 0 })
}

func (m *keyedModel) turn(t *rapid.T) {
	w := m.worker(t, func(w *keyedWorker) bool {
		return w.joined && len(w.todo) == 0 && (!w.parked || w.woken.Load())
	})
	m.takeTurn(t, w, rapid.Bool().Draw(t, "park"))
}

func (m *keyedModel) takeTurn(t *rapid.T, w *keyedWorker, park bool) {
	w.parked = false
	w.woken.Store(false)
	if !w.carries {
		m.free(w)
	}
	var n int
	if w.shared {
		_, n = m.pool.Turn(&w.Member, &w.tally, park)
	} else {
		n = m.inbox.Turn(&w.Member, &w.tally, park)
	}
	w.parked = park && n == 0
	m.taken = w.Member.Batch[:max(n, 0)]
	m.collect(t)
	m.taken = nil
	w.at = 0
	for i, e := range w.Member.Batch[:max(n, 0)] {
		if m.suspends {
			m.given(t, w, int32(i), e)
			continue
		}
		id := e.Load.(int)
		k := modelKey(id)
		if h := m.holder[k]; h != nil && h != w || len(m.queued[k]) == 0 || m.queued[k][0] != id {
			t.Fatalf("given %d, of %v, and %v has the key", id, m.queued[k], h)
		}
		m.queued[k] = m.queued[k][1:]
		w.todo = append(w.todo, e)
	}
	for _, e := range w.todo {
		if !m.suspends {
			m.holder[modelKey(e.Load.(int))] = w
		}
	}
}

// given checks what a worker was given, if handlers suspend.
func (m *keyedModel) given(t *rapid.T, w *keyedWorker, i int32, e command.Envelope) {
	w.todo = append(w.todo, e)
	if run, ok := e.Load.(*keyedRun); ok {
		at := slices.Index(m.woken, run)
		if at < 0 || m.working[modelKey(run.e.Load.(int))] != run {
			t.Fatalf("given %d, which was not woken, or has not its key", run.e.Load)
		}
		m.woken = slices.Delete(m.woken, at, at+1)
		return
	}
	id := e.Load.(int)
	k := modelKey(id)
	if had := m.working[k]; had != nil || len(m.queued[k]) == 0 || m.queued[k][0] != id {
		t.Fatalf("given %d, of %v, and %v has the key", id, m.queued[k], had)
	}
	m.queued[k] = m.queued[k][1:]
	m.working[k] = &keyedRun{e, w.Part.Of(i)}
}

// start is what a worker does with the next command of its batch, if handlers suspend: the command is in the batch as it was when it
// was started.
func (m *keyedModel) begin(w *keyedWorker) *keyedRun {
	if run, ok := w.todo[0].Load.(*keyedRun); ok {
		w.todo[0] = run.e
		w.Part.Set(w.at, run.hold)
		return run
	}
	return m.working[modelKey(w.todo[0].Load.(int))]
}

// done has a worker go on to the next command of its batch. The last one ends there, unless it is to be tried again.
func (m *keyedModel) done(w *keyedWorker, ended bool) {
	if m.suspends {
		run := m.working[modelKey(w.todo[0].Load.(int))]
		w.Part.End(w.at)
		if ended && run != nil {
			w.ended = append(w.ended, run)
		}
		w.at++
	}
	w.todo = w.todo[1:]
}

// suspend suspends the handler of the next command of a batch.
func (m *keyedModel) suspend(t *rapid.T) {
	if !m.suspends {
		t.Skip()
	}
	w := m.busy(t)
	m.suspended = append(m.suspended, m.begin(w))
	w.tally.Suspended++
	w.todo, w.at = w.todo[1:], w.at+1
	if rapid.Bool().Draw(t, "at once") {
		m.wakeOne(t, len(m.suspended)-1)
	}
}

func (m *keyedModel) wake(t *rapid.T) {
	if len(m.suspended) == 0 {
		t.Skip()
	}
	m.wakeOne(t, rapid.IntRange(0, len(m.suspended)-1).Draw(t, "which"))
}

func (m *keyedModel) wakeOne(t *rapid.T, i int) {
	run := m.suspended[i]
	m.inbox.Batches().Resume(command.Envelope{Load: run})
	if !m.halted {
		m.suspended = slices.Delete(m.suspended, i, i+1)
		m.woken = append(m.woken, run)
	}
	m.collect(t)
}

// resize changes how many handlers may be under way.
func (m *keyedModel) resize(t *rapid.T) {
	n := rapid.IntRange(1, 10).Draw(t, "instances")
	m.inbox.Settings().Adjust(func(k *Knobs) { k.Instances = n })
}

// free ends a worker's hold on keys, or that of its commands that have ended.
func (m *keyedModel) free(w *keyedWorker) {
	for _, run := range w.ended {
		if k := modelKey(run.e.Load.(int)); m.working[k] == run {
			m.working[k] = nil
		}
	}
	w.ended = nil
	for k, h := range m.holder {
		if h == w {
			m.holder[k] = nil
		}
	}
}

func (m *keyedModel) finish(t *rapid.T) {
	w := m.busy(t)
	n := rapid.IntRange(1, len(w.todo)).Draw(t, "n")
	w.tally.OK += n
	for range n {
		if m.suspends {
			m.begin(w)
		}
		m.done(w, true)
	}
	if rapid.Bool().Draw(t, "book") {
		m.inbox.Book(&w.Member, &w.tally, nil)
	}
}

// skip ends the next command of a batch before it is started.
func (m *keyedModel) skip(t *rapid.T) {
	w := m.worker(t, func(w *keyedWorker) bool { return len(w.todo) > 0 && !w.todo[0].Woken() })
	if rapid.Bool().Draw(t, "expired") {
		m.inbox.Book(&w.Member, &w.tally, &Unbegun{Commands: w.todo[:1], Expired: true})
	} else {
		m.inbox.Book(&w.Member, &w.tally, &Unbegun{Commands: w.todo[:1]})
	}
	m.done(w, true)
}

func (m *keyedModel) retry(t *rapid.T) {
	w := m.busy(t)
	if m.suspends {
		m.begin(w)
	}
	e := w.todo[0]
	e.Failed()
	if m.inbox.Book(&w.Member, &w.tally, &Retried{Command: e, Rest: w.todo[1:]}) {
		if m.suspends {
			m.back(w.todo[0])
			m.done(w, false)
			return
		}
		m.back(w.todo...)
		w.todo = nil
		return
	}
	if e.Tries() < 3 && !m.halted {
		t.Fatalf("no retry after %d tries", e.Tries())
	}
	m.done(w, true)
	w.tally.Errors++
}

func (m *keyedModel) crash(t *rapid.T) {
	w := m.busy(t)
	none := rapid.IntRange(0, 4).Draw(t, "no instance") == 0
	if m.suspends && !none {
		m.begin(w)
	}
	culprit, rest := &w.todo[0], w.todo[1:]
	culprit.Failed()
	retry := culprit.Tries() < 3 && rapid.Bool().Draw(t, "again")
	if none {
		m.inbox.Book(&w.Member, &w.tally, Unequipped(w.todo, ErrStopped))
		culprit, rest = nil, w.todo
	} else {
		m.inbox.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: rest, Retry: retry, Err: ErrStopped})
	}
	if m.halted {
		for _, e := range rest {
			if run, ok := e.Load.(*keyedRun); ok {
				m.suspended = append(m.suspended, run)
			}
		}
	} else {
		m.back(rest...)
		if culprit != nil && retry {
			m.back(*culprit)
		} else if culprit != nil {
			m.working[modelKey(culprit.Load.(int))] = nil
		}
	}
	w.todo = nil
	m.end(w)
	if rapid.Bool().Draw(t, "restart") {
		m.start(w)
	}
}

// end removes a worker without a batch.
func (m *keyedModel) end(w *keyedWorker) {
	if w.shared {
		m.pool.Leave(&w.Member, &w.tally)
		m.inbox.Instances().Return(&w.Member)
	} else {
		m.inbox.Book(&w.Member, &w.tally, nil)
		m.inbox.Workers().Leave(&w.Member)
	}
	m.inbox.Yield(&w.Member)
	m.free(w)
	w.joined, w.parked = false, false
}

func (m *keyedModel) leave(t *rapid.T) {
	m.end(m.worker(t, func(w *keyedWorker) bool { return w.joined && len(w.todo) == 0 }))
}

func (m *keyedModel) join(t *rapid.T) {
	m.start(m.worker(t, func(w *keyedWorker) bool { return !w.joined }))
}

// carry has a worker carry a command that a full inbox does not take, or hand it over.
func (m *keyedModel) carry(t *rapid.T) {
	w := m.worker(t, func(w *keyedWorker) bool { return w.joined && !w.shared && len(w.todo) == 0 })
	m.setCarry(w, !w.carries)
}

func (m *keyedModel) setCarry(w *keyedWorker, carries bool) {
	n := 0
	if w.carries = carries; carries {
		n = 1
	}
	m.inbox.Carry(&w.Member, n)
	if !carries {
		m.free(w) // it may stay parked
	}
}

func (m *keyedModel) bind(*rapid.T) {
	if m.inbox.Settings().Pool() == nil {
		m.inbox.Settings().Bind(m.pool)
	} else {
		m.inbox.Settings().Bind(nil)
	}
}

func (m *keyedModel) pause(*rapid.T) { m.setPaused(!m.inbox.state.knobs.Paused) }

func (m *keyedModel) setPaused(paused bool) {
	m.inbox.Settings().Adjust(func(k *Knobs) { k.Paused = paused })
}

func (m *keyedModel) tick(*rapid.T) {
	m.inbox.mu.Lock()   // for the race detector
	m.inbox.mu.Unlock() //nolint:staticcheck // only for the order
	time.Sleep(time.Second)
}

func (m *keyedModel) halt(*rapid.T) {
	m.halted = true
	m.inbox.Phases().Halt()()
	m.queued = [modelKeys][]int{}
	m.suspended, m.woken = append(m.suspended, m.woken...), nil // for good
}

// check holds after every step.
func (m *keyedModel) check(t *rapid.T) {
	m.collect(t)
	m.bounds(t)
	l, inside := m.inbox.state.queue.line, line.Inspect(m.inbox.state.queue.line)
	n, takeable, held := 0, 0, 0
	inUse := func(k uint64) bool { return m.holder[k-1] != nil || m.working[k-1] != nil }
	for _, ln := range inside.Lanes {
		n += ln.Len
		ready := ln.Len > 0 && !ln.Held && !ln.Blocked
		if ready {
			switch {
			case m.suspends:
				takeable++
			case ln.Again > 0:
				takeable += min(ln.Len, ln.Again)
			default:
				takeable += ln.Len
			}
		}
		if ln.Held {
			held++
		}
		if ready != ln.Ready || ln.Held != inUse(ln.Key) && !m.halted {
			t.Fatalf("the lane of key %d: %d commands, held %v, blocked %v, ready %v", ln.Key, ln.Len, ln.Held, ln.Blocked, ln.Ready)
		}
	}
	all := 0
	for _, q := range m.queued {
		all += len(q)
	}
	if n != l.Len() || takeable != l.Takeable() || n+m.inbox.state.delayed.Len() != all {
		t.Fatalf("%d commands, %d to be taken; counted %d and %d; here should be %d", l.Len(), l.Takeable(), n, takeable, all)
	}
	held -= m.lanesHeld()
	for _, run := range m.working {
		if run != nil && !m.halted {
			held--
		}
	}
	if m.halted {
		held = 0 // nothing is given out any more
	}
	if held != 0 || inside.Taken > 0 {
		t.Fatalf("%d lanes are held too many, and %d by no worker", held, inside.Taken)
	}
	in := m.inbox
	if in.state.available() > 0 && in.state.visits.pool == nil && in.state.workers.Inspect().Waking == 0 && slices.ContainsFunc(in.state.workers.Inspect().Idle, in.state.canWork) && !m.halted {
		t.Fatalf("%d could be taken, %d workers are idle, and none is on its way", in.state.available(), len(in.state.workers.Inspect().Idle))
	}
}

// settle has all workers do what is left. Then no lane may be kept from the next command of its key.
func (m *keyedModel) settle(t *rapid.T) {
	if m.setPaused(false); m.inbox.Settings().Pool() != nil {
		m.inbox.Settings().Bind(nil)
	}
	for range 200 {
		for len(m.suspended) > 0 && !m.halted {
			m.wakeOne(t, 0)
		}
		for _, w := range m.workers {
			if !w.joined {
				m.start(w)
			}
			for len(w.todo) > 0 {
				if m.suspends {
					m.begin(w)
				}
				w.tally.OK++
				m.done(w, true)
			}
			if w.carries {
				m.setCarry(w, false)
			}
			if !w.parked || w.woken.Load() {
				m.takeTurn(t, w, true)
			}
		}
		for _, s := range m.senders {
			if len(s.items) > 0 && s.woken.Load() {
				m.handOn(t, s)
			}
		}
		m.tick(t)
		m.check(t)
	}
	for _, s := range m.senders {
		if len(s.items) > 0 {
			t.Fatalf("a worker still waits with %d commands", len(s.items))
		}
	}
	inside := line.Inspect(m.inbox.state.queue.line)
	if s := Snapshot([]*Inbox{m.inbox})[0]; s.Queue.Load()+len(m.waiters) > len(m.suspended) {
		t.Fatalf("left: %d queued, %d in hand, %d delayed, %d submitters", s.Queue.Queued, s.Queue.InHand, s.Queue.Delayed, len(m.waiters))
	}
	if m.halted {
		return // lanes stay blocked by the retries that were ended
	}
	if m.lanesHeld() > 0 || len(inside.Lanes) > 0 || inside.Ready > 0 || m.inbox.state.queue.line.Takeable() > 0 {
		t.Fatalf("nothing is here, and workers hold %d lanes; %d lanes are in use, and %d are empty", m.lanesHeld(), len(inside.Lanes), inside.Kept)
	}
}

func (m *keyedModel) lanesHeld() (n int) {
	for _, w := range m.workers {
		n += w.Part.Lanes()
	}
	return n
}
