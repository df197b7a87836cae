package inbox

import (
	"context"
	"fmt"
	"maps"
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

// Random actions drive the inbox of an ordered stage, its own workers and those of a shared pool. The model knows in which order
// the commands were first given out, and what came of each.
func TestTheInboxOfAnOrderedStageKeepsTheOrderOfResults(t *testing.T) {
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		for _, capacity := range []int{1, 3, 64} {
			for _, backoff := range []time.Duration{0, time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%v", ruleNames[rule], capacity, backoff), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rapid.Check(timeless{t}, func(t *rapid.T) {
							m := newSequenceModel(rule, capacity, backoff)
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

type sequenceModel struct {
	inbox, ahead *Inbox
	pool         *SharedPool
	fresh        []int // what waits and was never given out, in order of arrival
	back         []int // what was given out and is here again, those that wait for their next try included
	given        []int // in the order in which they were first given out
	results      map[int]int
	done         map[int]bool // nothing more comes of it
	left         []int        // what left, in order
	workers      []*sequenceWorker
	waiters      []*modelWaiter
	ended        []Ending
	next         int
	halted       bool
}

type sequenceWorker struct {
	Member
	shared, joined, parked bool
	woken                  atomic.Bool
	todo                   []command.Envelope
	cur                    int32
	booked                 map[int]bool // ended and not booked
	results                map[int]int  // of those that are not booked
	owes                   bool         // it has to ask for results before it rests
	loaded                 []line.Result
	tally                  Tally
}

func newSequenceModel(rule Overflow, capacity int, backoff time.Duration) *sequenceModel {
	m := &sequenceModel{results: map[int]int{}, done: map[int]bool{}}
	m.inbox = New(Config{
		Name: "ordered", Capacity: capacity, Batch: 6, Overflow: rule, StreakEnds: time.Minute, Instances: 10,
		Retry: Retry{Attempts: 3, Backoff: backoff, Max: time.Minute}, Ordered: true,
	})
	pl := newPipeline()
	pl.Ended = func(e Ending) { m.ended = append(m.ended, e) }
	pl.Attach(m.inbox)
	m.ahead = New(Config{Name: "ahead", Capacity: 1 << 20, Batch: 1})
	newPipeline().Attach(m.ahead)
	m.ahead.Phases().Open()
	m.pool = NewSharedPool("pool", pl)
	m.inbox.Phases().Open()
	m.inbox.state.pace.limit = 3
	for i := range 5 {
		w := &sequenceWorker{shared: i >= 3, booked: map[int]bool{}, results: map[int]int{}}
		w.Wake = func() { w.woken.Store(true) }
		m.workers = append(m.workers, w)
		m.start(w)
	}
	return m
}

func (m *sequenceModel) stop() {
	for _, x := range m.waiters {
		x.cancel()
	}
	m.inbox.Phases().Halt()()
	m.ahead.Phases().Halt()()
	synctest.Wait()
}

func (m *sequenceModel) start(w *sequenceWorker) {
	w.woken.Store(false)
	w.joined, w.parked = true, false
	if w.shared {
		m.pool.Join(&w.Member)
	} else {
		m.inbox.Workers().Join(&w.Member, false)
	}
}

func (m *sequenceModel) actions() map[string]func(*rapid.T) {
	seldom := (&inboxModel{}).seldom
	return map[string]func(*rapid.T){
		"": m.check, "submit": m.submit, "submit2": m.submit, "submit3": m.submit, "hand over": m.handOver, "cancel": m.cancel,
		"turn": m.turn, "turn2": m.turn, "turn3": m.turn, "turn4": m.turn, "finish": m.finish, "finish2": m.finish, "finish3": m.finish,
		"skip": m.skip, "retry": m.retry, "crash": m.crash, "leave": seldom(m.leave), "join": m.join, "bind": seldom(m.bind),
		"let go": m.letGo, "pause": seldom(m.pause), "tick": m.tick, "halt": seldom(seldom(m.halt)),
	}
}

func (m *sequenceModel) submit(t *rapid.T) {
	m.next++
	id := m.next
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	go func() { x.result <- m.inbox.Submit(ctx, &command.Envelope{Load: id}) }()
	m.waiters = append(m.waiters, x)
	m.collect(t)
}

func (m *sequenceModel) cancel(*rapid.T) {
	for _, x := range m.waiters {
		x.cancel()
	}
}

func (m *sequenceModel) handOver(t *rapid.T) {
	var es []command.Envelope
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		m.next++
		es = append(es, command.Envelope{Load: m.next})
	}
	m.inbox.Senders().HandOver(nil, es, 0, true, false)
	for _, e := range es {
		if !m.halted {
			m.fresh = append(m.fresh, e.Load.(int))
		}
	}
}

// collect notes which of the commands that waited for a slot are queued, and what the inbox has dropped.
func (m *sequenceModel) collect(t *rapid.T) {
	synctest.Wait()
	m.waiters = slices.DeleteFunc(m.waiters, func(x *modelWaiter) bool {
		select {
		case err := <-x.result:
			if err == nil && !m.halted {
				m.fresh = append(m.fresh, x.id)
			}
			return true
		default:
			return false
		}
	})
	for _, e := range m.ended {
		if e.Reason != reason.Oldest && e.Reason != reason.Newest {
			continue // the model knows
		}
		i := slices.Index(m.fresh, e.Cmd.(int))
		if i < 0 || e.Reason == reason.Oldest && i > 0 {
			t.Fatalf("%v was dropped of %v", e.Cmd, m.fresh)
		}
		m.fresh = slices.Delete(m.fresh, i, i+1)
	}
	m.ended = nil
}

func (m *sequenceModel) worker(t *rapid.T, fit func(*sequenceWorker) bool) *sequenceWorker {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if !fit(w) {
		t.Skip()
	}
	return w
}

func (m *sequenceModel) busy(t *rapid.T) *sequenceWorker {
	return m.worker(t, func(w *sequenceWorker) bool { return len(w.todo) > 0 })
}

func (m *sequenceModel) turn(t *rapid.T) {
	w := m.worker(t, func(w *sequenceWorker) bool {
		return w.joined && len(w.todo) == 0 && (!w.parked || w.woken.Load())
	})
	if !m.deliver(t, w, !w.shared && rapid.Bool().Draw(t, "the stage ahead is full")) {
		return
	}
	m.takeTurn(t, w, rapid.Bool().Draw(t, "park"))
}

// deliver has a worker hand over what may leave. It returns false if something is left because the stage ahead is full.
func (m *sequenceModel) deliver(t *rapid.T, w *sequenceWorker, full bool) bool {
	if w.Part == nil {
		return true // it never had a batch
	}
	for {
		m.send(t, w)
		m.book(w)
		w.loaded = m.inbox.Results().Take(&w.Member, &w.tally, w.loaded)
		if len(w.loaded) == 0 {
			w.owes = false
			return true
		}
		if full {
			return false
		}
	}
}

// send has everything leave that the worker has.
func (m *sequenceModel) send(t *rapid.T, w *sequenceWorker) {
	for _, r := range w.loaded {
		m.left = append(m.left, r.Envelope.Load.(int))
	}
	w.loaded = nil
	if want := m.want(); len(m.left) > len(want) || !slices.Equal(m.left, want[:len(m.left)]) {
		t.Fatalf("left: %v, and not %v", m.left, want)
	}
}

// want is all that may have left.
func (m *sequenceModel) want() (all []int) {
	for _, id := range m.given {
		for range m.results[id] {
			all = append(all, id)
		}
		if !m.done[id] {
			break
		}
	}
	return all
}

// letGo has the stage ahead take what a worker has for it.
func (m *sequenceModel) letGo(t *rapid.T) {
	m.deliver(t, m.worker(t, func(w *sequenceWorker) bool { return len(w.loaded) > 0 && len(w.todo) == 0 }), false)
}

// book notes that what the worker did is booked.
func (m *sequenceModel) book(w *sequenceWorker) {
	for id := range w.booked {
		m.done[id] = true
		w.owes = true
	}
	maps.Copy(m.results, w.results)
	clear(w.booked)
	clear(w.results)
}

func (m *sequenceModel) takeTurn(t *rapid.T, w *sequenceWorker, park bool) {
	w.parked = false
	w.woken.Store(false)
	var n int
	if w.shared {
		_, n = m.pool.Turn(&w.Member, &w.tally, park)
	} else {
		n = m.inbox.Turn(&w.Member, &w.tally, park)
	}
	w.parked = park && n == 0
	m.collect(t)
	w.cur = 0
	for i, e := range w.Member.Batch[:max(n, 0)] {
		id := e.Load.(int)
		switch at := slices.Index(m.back, id); {
		case at >= 0:
			m.back = slices.Delete(m.back, at, at+1)
		case len(m.fresh) == 0 || m.fresh[0] != id:
			t.Fatalf("given %d, of %v", id, m.fresh)
		default:
			m.fresh = m.fresh[1:]
			m.given = append(m.given, id)
		}
		if number := w.Part.Of(int32(i)).Rank().Order; m.given[number-1] != id {
			t.Fatalf("%d has number %d, and not %d", id, number, slices.Index(m.given, id)+1)
		}
		w.todo = append(w.todo, e)
	}
}

func (m *sequenceModel) finish(t *rapid.T) {
	w := m.busy(t)
	for range rapid.IntRange(1, len(w.todo)).Draw(t, "n") {
		m.finishOne(w, rapid.IntRange(0, 2).Draw(t, "results"))
	}
	if rapid.Bool().Draw(t, "book") {
		m.book(w)
		m.inbox.Book(&w.Member, &w.tally, nil)
	}
}

func (m *sequenceModel) finishOne(w *sequenceWorker, results int) {
	id := w.todo[0].Load.(int)
	for range results {
		w.Part.Add(w.cur, m.ahead.Inlet()).Load = id
	}
	w.results[id] = results
	m.end(w)
	w.tally.OK++
}

// end ends the present command of a worker.
func (m *sequenceModel) end(w *sequenceWorker) {
	w.Part.End(w.cur)
	w.booked[w.todo[0].Load.(int)] = true
	w.todo = w.todo[1:]
	w.cur++
}

// skip ends the next command of a batch before it is started.
func (m *sequenceModel) skip(t *rapid.T) {
	w := m.busy(t)
	e := w.todo[:1]
	m.end(w)
	m.book(w)
	if rapid.Bool().Draw(t, "expired") {
		m.inbox.Book(&w.Member, &w.tally, &Unbegun{Commands: e, Expired: true})
	} else {
		m.inbox.Book(&w.Member, &w.tally, &Unbegun{Commands: e})
	}
}

func (m *sequenceModel) retry(t *rapid.T) {
	w := m.busy(t)
	e := w.todo[0]
	e.Failed()
	m.book(w)
	if m.inbox.Book(&w.Member, &w.tally, &Retried{Command: e, Rest: w.todo[1:]}) {
		m.back = append(m.back, e.Load.(int))
		w.todo = w.todo[1:]
		w.cur++
		return
	}
	if e.Tries() < 3 && !m.halted {
		t.Fatalf("no retry after %d tries", e.Tries())
	}
	m.end(w)
	w.tally.Errors++
}

func (m *sequenceModel) crash(t *rapid.T) {
	w := m.busy(t)
	culprit, rest := &w.todo[0], w.todo[1:]
	culprit.Failed()
	retry := culprit.Tries() < 3 && rapid.Bool().Draw(t, "again")
	m.book(w)
	if rapid.IntRange(0, 4).Draw(t, "no instance") == 0 {
		m.inbox.Book(&w.Member, &w.tally, Unequipped(w.todo, ErrStopped))
		culprit, rest = nil, w.todo
	} else {
		m.inbox.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: rest, Retry: retry, Err: ErrStopped})
	}
	for i := range rest {
		m.came(rest[i].Load.(int), !m.halted)
	}
	if culprit != nil {
		m.came(culprit.Load.(int), retry && !m.halted)
	}
	w.todo, w.owes = nil, true
	m.deliver(t, w, false)
	m.remove(w)
	if rapid.Bool().Draw(t, "restart") {
		m.start(w)
	}
}

// came notes that a command of a batch has come back, or has ended.
func (m *sequenceModel) came(id int, back bool) {
	if back {
		m.back = append(m.back, id)
	} else {
		m.done[id] = true
	}
}

// remove removes a worker without a batch.
func (m *sequenceModel) remove(w *sequenceWorker) {
	if w.shared {
		m.pool.Leave(&w.Member, &w.tally)
		m.inbox.Instances().Return(&w.Member)
	} else {
		m.inbox.Book(&w.Member, &w.tally, nil)
		m.inbox.Workers().Leave(&w.Member)
	}
	m.inbox.Yield(&w.Member)
	w.joined, w.parked = false, false
}

func (m *sequenceModel) leave(t *rapid.T) {
	w := m.worker(t, func(w *sequenceWorker) bool { return w.joined && len(w.todo) == 0 })
	m.deliver(t, w, false)
	m.remove(w)
}

func (m *sequenceModel) join(t *rapid.T) {
	m.start(m.worker(t, func(w *sequenceWorker) bool { return !w.joined }))
}

func (m *sequenceModel) bind(*rapid.T) {
	if m.inbox.Settings().Pool() == nil {
		m.inbox.Settings().Bind(m.pool)
	} else {
		m.inbox.Settings().Bind(nil)
	}
}

func (m *sequenceModel) pause(*rapid.T) { m.setPaused(!m.inbox.state.knobs.Paused) }

func (m *sequenceModel) setPaused(paused bool) {
	m.inbox.Settings().Adjust(func(k *Knobs) { k.Paused = paused })
}

func (m *sequenceModel) tick(*rapid.T) {
	m.inbox.mu.Lock()   // for the race detector
	m.inbox.mu.Unlock() //nolint:staticcheck // only for the order
	time.Sleep(time.Second)
}

func (m *sequenceModel) halt(t *rapid.T) {
	for _, id := range m.back {
		m.done[id] = true
	}
	m.halted, m.fresh, m.back = true, nil, nil
	m.inbox.Phases().Halt()()
	m.flushed(t)
}

// flushed notes what left the halted inbox without a worker.
func (m *sequenceModel) flushed(t *rapid.T) {
	if n := m.ahead.Len(); n > 0 {
		for _, e := range m.ahead.state.queue.takeAll() {
			m.left = append(m.left, e.Load.(int))
		}
		if want := m.want(); len(m.left) > len(want) || !slices.Equal(m.left, want[:len(m.left)]) {
			t.Fatalf("left a halted inbox: %v, and not %v", m.left, want)
		}
	}
}

// check holds after every step.
func (m *sequenceModel) check(t *rapid.T) {
	m.collect(t)
	m.flushed(t)
	q, in, inside := m.inbox.state.queue.line, m.inbox, line.Inspect(m.inbox.state.queue.line)
	loaded, owes := 0, 0
	var known line.Accounts
	q.Account(0, &known)
	for _, w := range m.workers {
		loaded += len(w.loaded)
		if w.owes || len(w.todo) > 0 || len(w.loaded) > 0 {
			owes++
		}
	}
	if inside.Results != known.Results || q.Len()+in.state.delayed.Len()+int(in.state.waiters.retries) != len(m.fresh)+len(m.back) {
		t.Fatalf("%d results, counted %d; %d commands and %d delayed, and here should be %v and %v", inside.Results, known.Results, q.Len(), in.state.delayed.Len(), m.fresh, m.back)
	}
	if in.state.available() > 0 && known.Results >= in.state.knobs.Capacity && q.Len() == q.Droppable() {
		t.Fatalf("%d results wait, and %d commands may be started", known.Results, in.state.available())
	}
	if !m.halted && inside.Ended && owes == 0 {
		t.Fatal("results may leave, and no worker will come for them")
	}
	if inside.Leads && loaded == 0 {
		t.Fatal("a worker with nothing to hand over is the leaver")
	}
	if in.state.available() > 0 && in.state.visits.pool == nil && in.state.workers.Inspect().Waking == 0 && len(in.state.workers.Inspect().Idle) > 0 && !m.halted {
		t.Fatalf("%d could be taken, %d workers are idle, and none is on its way", in.state.available(), len(in.state.workers.Inspect().Idle))
	}
}

// settle has all workers do what is left. Then everything must have left, in order.
func (m *sequenceModel) settle(t *rapid.T) {
	if m.setPaused(false); m.inbox.Settings().Pool() != nil {
		m.inbox.Settings().Bind(nil)
	}
	for range 200 {
		for _, w := range m.workers {
			if !w.joined {
				m.start(w)
			}
			for len(w.todo) > 0 {
				m.finishOne(w, 1)
			}
			m.deliver(t, w, false)
			if !w.parked || w.woken.Load() {
				m.takeTurn(t, w, true)
			}
		}
		m.tick(t)
		m.check(t)
	}
	if s := Snapshot([]*Inbox{m.inbox})[0]; s.Queue.Load()+s.Queue.Carried+len(m.waiters) > 0 {
		t.Fatalf("left: %d queued, %d in hand, %d delayed, %d carried, %d submitters", s.Queue.Queued, s.Queue.InHand, s.Queue.Delayed, s.Queue.Carried, len(m.waiters))
	}
	if want := m.want(); !slices.Equal(m.left, want) || line.Inspect(m.inbox.state.queue.line).Pending > 0 {
		t.Fatalf("%v left, and not %v; %d are pending", m.left, want, line.Inspect(m.inbox.state.queue.line).Pending)
	}
}
