package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// Random actions drive an inbox and a model of it that uses a slice. In a synctest bubble time stands still, so a submitter
// either has its answer or waits until another action changes something.
func TestAnInboxBehavesLikeASlice(t *testing.T) {
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		for _, capacity := range []int{1, 2, 3, 64} {
			t.Run(fmt.Sprintf("%s/%d", ruleNames[rule], capacity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rapid.Check(timeless{t}, func(t *rapid.T) {
						m := newModel(t, rule, capacity)
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

// timeless is a test without a deadline: [testing.T.Deadline] panics in a bubble, and rapid calls it.
type timeless struct{ *testing.T }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

var ruleNames = map[Overflow]string{Wait: "wait", Reject: "reject", DropNewest: "newest", DropOldest: "oldest"}

// inboxModel is a model of an inbox: it says what the inbox should do.
type inboxModel struct {
	inbox *Inbox
	rule  Overflow
	cap   int

	queue   []int // ids, the front first
	delayed []int
	packs   packs
	tries   map[int]int
	open    bool
	halted  bool
	excess  int

	accepted                        int
	ok, forwarded, errors, rejected int
	next                            int
	ended                           sync.Mutex   // guards ends: waiting submitters end on goroutines of their own
	ends                            map[int]int  // how often each command has ended, in the model or in the inbox
	gone                            map[int]bool // commands that the inbox has ended because their callers have given up
	lapsed                          int          // of those, not counted in errors yet
	callers                         map[int]context.CancelFunc
	givenUp                         map[int]bool // commands whose callers have given up
	was                             int          // commands queued and slots reserved after the last step
	mayOverfill                     bool         // in this step more commands than the capacity may be queued
	workers                         []*modelWorker
	senders                         []*modelSender
	waiters                         []*modelWaiter
	endedByInbox                    atomic.Int64
}

type modelWorker struct {
	Member
	joined, parked bool
	woken          atomic.Bool
	todo           []command.Envelope
	tally          Tally
}

// modelSender is a worker of another inbox.
type modelSender struct {
	Member
	parked bool // does nothing until it is woken
	inLine bool // is in line here, parked or not
	woken  atomic.Bool
	items  []command.Envelope
}

type modelWaiter struct {
	id          int
	fromHandler bool // submitted by a handler
	cancel      context.CancelFunc
	cancelled   bool // the model has ended its context
	result      chan error
}

func newModel(t *rapid.T, rule Overflow, capacity int) *inboxModel {
	m := &inboxModel{
		rule: rule, cap: capacity, open: true,
		packs: packs{}, tries: map[int]int{}, ends: map[int]int{}, gone: map[int]bool{}, callers: map[int]context.CancelFunc{},
		givenUp: map[int]bool{},
	}
	m.inbox = New(Config{
		Name: "r", Capacity: capacity, Batch: 4, Overflow: rule, StreakEnds: time.Minute,
		Retry: Retry{Attempts: 3, Backoff: time.Second, Max: time.Minute},
	})
	(&Pipeline{
		Base:  time.Now().Add(-time.Second),
		Ended: func(Ending) { m.endedByInbox.Add(1) },
		Quiet: make(chan struct{}, 1),
	}).Attach(m.inbox)
	m.inbox.Phases().Open()
	for range rapid.IntRange(1, 4).Draw(t, "workers") {
		w := &modelWorker{}
		w.Wake = func() { w.woken.Store(true) }
		m.workers = append(m.workers, w)
		m.start(w)
	}
	m.inbox.state.pace.limit = rapid.IntRange(1, 4).Draw(t, "limit")
	for range 3 {
		sender := &modelSender{}
		sender.Wake = func() { sender.woken.Store(true) }
		m.senders = append(m.senders, sender)
	}
	return m
}

// stop ends all waits and halts the inbox, whatever happened.
func (m *inboxModel) stop() {
	for _, x := range m.waiters {
		x.cancel()
	}
	m.inbox.Phases().Halt()()
	synctest.Wait()
}

// countEnd counts an end of one command.
func (m *inboxModel) countEnd(id int) {
	m.ended.Lock()
	defer m.ended.Unlock()
	m.ends[id]++
}

func (m *inboxModel) envelope() command.Envelope {
	id := m.next
	m.next++
	ctx, giveUp := context.WithCancel(context.Background())
	m.callers[id] = giveUp
	ticket := command.NewTicket(func(_ any, err error) {
		m.countEnd(id)
		if errors.Is(err, context.Canceled) {
			m.ended.Lock()
			defer m.ended.Unlock()
			m.gone[id] = true
			m.lapsed++
		}
	})
	return command.Envelope{Load: id, From: ticket.Asked(ctx, nil)}
}

// giveUp has the caller of a command give up, wherever the command is.
func (m *inboxModel) giveUp(t *rapid.T) {
	if m.next == 0 {
		t.Skip()
	}
	id := m.next - 1 - rapid.IntRange(0, min(m.next-1, 6)).Draw(t, "back")
	m.givenUp[id] = true
	m.callers[id]()
}

// endLapsed has the inbox end what has lapsed. Time stands still, so it will not do so by itself in this step.
func (m *inboxModel) endLapsed(t *rapid.T) {
	for was := -1; was < len(m.gone); { // those that come into their slots may have lapsed, too
		was = len(m.gone)
		m.inbox.endLapsed()
		synctest.Wait()
		m.collectAnswers(t)
	}
	for _, id := range slices.Concat(m.queue, m.delayed) {
		if m.givenUp[id] && m.packs[id] == 0 {
			t.Fatalf("%d has lapsed and waits", id)
		}
	}
}

// forget takes the commands out of the model that the inbox has ended because their callers have given up.
func (m *inboxModel) forget(t *rapid.T) {
	m.ended.Lock()
	defer m.ended.Unlock()
	m.errors, m.lapsed = m.errors+m.lapsed, 0
	gone := func(id int) bool { return m.gone[id] }
	m.queue = slices.DeleteFunc(m.queue, gone)
	m.delayed = slices.DeleteFunc(m.delayed, gone)
	for id := range m.gone {
		delete(m.packs, id)
		if !m.givenUp[id] {
			t.Fatalf("%d has ended, and its caller has not given up", id)
		}
	}
}

// free is how many slots are free. The model does not decide which commands that wait for a retry have given up their
// slots: it asks the inbox.
func (m *inboxModel) free() int {
	return m.cap - len(m.queue) - m.inbox.state.delayed.Len() - m.reserved() - m.carried()
}

// carried is how many commands the workers carry.
func (m *inboxModel) carried() (n int) {
	for _, w := range m.workers {
		n += int(w.Carried)
	}
	return n
}

// reserved is how many slots are promised. The model does not decide which senders get them; settle fails if a promise is
// not used.
func (m *inboxModel) reserved() int {
	n := 0
	for _, p := range m.inbox.state.slots.promises {
		n += p.n
	}
	return n
}

func (m *inboxModel) promised(sender *modelSender) int {
	for _, p := range m.inbox.state.slots.promises {
		if p.m == &sender.Member {
			return p.n
		}
	}
	return 0
}

func (m *inboxModel) blocked() int {
	n := 0
	for _, sender := range m.senders {
		if sender.inLine && !sender.woken.Load() {
			n++
		}
	}
	return n
}

func (m *inboxModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":          m.check,
		"submit":    m.submit,
		"submit2":   m.submit,
		"cancel":    m.cancel,
		"handOver":  m.handOverNew,
		"handRest":  m.handOverRest,
		"replace":   m.seldom(m.replaceSender),
		"turn":      m.turn,
		"turn2":     m.turn,
		"turn3":     m.turn,
		"handOver2": m.handOverNew,
		"crash2":    m.crash,
		"done":      m.done,
		"book":      m.book,
		"retry":     m.retryLater,
		"crash":     m.crash,
		"join":      m.join,
		"carry":     m.carry,
		"leave":     m.leave,
		"shrink":    m.shrink,
		"unshrink":  m.unshrink,
		"send":      m.send,
		"tick":      m.tick,
		"giveUp":    m.giveUp,
		"endLapsed": m.endLapsed,
		"close":     m.seldom(m.close),
		"halt":      m.seldom(m.halt),
		"settle":    m.seldom(m.settle),
	}
}

// seldom skips an action nine times out of ten.
func (m *inboxModel) seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
			t.Skip()
		}
		f(t)
	}
}

func (m *inboxModel) submit(t *rapid.T) {
	m.endLapsed(t)
	e := m.envelope()
	id := e.Load.(int)
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	if rapid.IntRange(0, 9).Draw(t, "ended") == 0 {
		cancel()
		x.cancelled = true
	}
	full := m.free() <= 0 || len(m.waiters) > 0 || m.blocked() > 0
	go func() { x.result <- m.inbox.Submit(ctx, &e) }()
	synctest.Wait()
	if m.open && full && m.rule == Wait && !x.cancelled {
		m.waiters = append(m.waiters, x)
		if len(x.result) > 0 {
			t.Fatalf("submit does not wait, with %d free, %d before it and %d blocked", m.free(), len(m.waiters)-1, m.blocked())
		}
		return
	}
	var err error
	select {
	case err = <-x.result:
	default:
		t.Fatalf("submit waits, and should not")
	}
	switch {
	case !m.open || x.cancelled:
		m.refused(t, id, err)
	case !full:
		m.accept(t, err)
		m.queue = append(m.queue, id)
	case m.rule == Reject:
		m.refused(t, id, err)
	default:
		m.accept(t, err)
		m.drop(id)
	}
}

func (m *inboxModel) accept(t *rapid.T, err error) {
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	m.accepted++
}

func (m *inboxModel) refused(t *rapid.T, id int, err error) {
	if err == nil {
		t.Fatalf("accepted %d, and should not", id)
	}
	m.rejected++
	m.countEnd(id) // it was never accepted
}

func (m *inboxModel) drop(id int) {
	if m.rule == DropNewest || len(m.queue) == 0 {
		return
	}
	m.queue = append(m.queue[1:], id)
}

func (m *inboxModel) cancel(t *rapid.T) {
	if len(m.waiters) == 0 {
		t.Skip()
	}
	x := m.waiters[rapid.IntRange(0, len(m.waiters)-1).Draw(t, "waiter")]
	x.cancelled = true
	x.cancel()
	synctest.Wait()
}

func (m *inboxModel) handOverNew(t *rapid.T) {
	sender := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "up")]
	if sender.parked && !sender.woken.Load() || len(sender.items) > 0 {
		t.Skip()
	}
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		sender.items = append(sender.items, m.envelope())
	}
	m.handOverSomehow(t, sender)
}

func (m *inboxModel) handOverRest(t *rapid.T) {
	sender := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "up")]
	if sender.parked && !sender.woken.Load() || len(sender.items) == 0 {
		t.Skip()
	}
	m.handOverSomehow(t, sender)
}

func (m *inboxModel) handOverSomehow(t *rapid.T, sender *modelSender) {
	back := rapid.IntRange(0, 4).Draw(t, "back") == 0
	m.handOver(t, sender, back, rapid.Bool().Draw(t, "park"))
}

func (m *inboxModel) handOver(t *rapid.T, sender *modelSender, back, park bool) {
	m.endLapsed(t)
	if sender.parked && !sender.Ready() {
		t.Fatalf("it was woken and is not ready")
	}
	known, place := sender.inLine, m.place(sender)
	space := max(m.free()+m.promised(sender), 0)
	if place > 0 {
		space = 0 // others are in line before it
	}
	sender.woken.Store(false)
	n := m.inbox.Senders().HandOver(&sender.Member, sender.items, 0, back, park)
	m.checkHandedOver(t, sender.items, n, space, back)
	sender.items = slices.Clone(sender.items[n:])
	sender.parked = park && len(sender.items) > 0
	sender.inLine = (park || known) && len(sender.items) > 0
	if sender.inLine && m.inLine(sender) != place {
		t.Fatalf("it was at place %d in line, and lost it", place)
	}
	synctest.Wait()
}

// place is how many are in line before a worker.
func (m *inboxModel) place(sender *modelSender) int {
	if m.promised(sender) > 0 {
		return 0
	}
	if i := m.inLine(sender); i >= 0 {
		return i
	}
	return len(m.inbox.state.senders.forSlots)
}

// inLine is where in the inbox's line for slots a worker is, below 0 if it is not there.
func (m *inboxModel) inLine(x *modelSender) int {
	return slices.IndexFunc(m.inbox.state.senders.forSlots, func(p sender) bool { return p.m == &x.Member })
}

// checkHandedOver checks how many commands the inbox took when there were so many free slots for them.
func (m *inboxModel) checkHandedOver(t *rapid.T, es []command.Envelope, n, space int, back bool) {
	want := len(es)
	if !m.halted && !back && m.rule == Wait {
		want = min(want, space)
	}
	if n != want {
		t.Fatalf("handed over %d of %d with space for %d, want %d", n, len(es), space, want)
	}
	m.accepted += n
	m.mayOverfill = back
	if m.halted {
		return
	}
	fits := n
	if !back {
		fits = min(n, space)
	}
	for i, e := range es[:n] {
		switch {
		case i < fits:
			m.queue = append(m.queue, e.Load.(int))
		case m.rule != Reject:
			m.drop(e.Load.(int))
		}
	}
}

// replaceSender stops a parked worker of another inbox and starts a new one with the same member: that comes without being
// woken.
func (m *inboxModel) replaceSender(t *rapid.T) {
	sender := m.senders[rapid.IntRange(0, len(m.senders)-1).Draw(t, "up")]
	if !sender.parked {
		t.Skip()
	}
	sender.attendance.SetReady(true)
	m.handOver(t, sender, false, rapid.Bool().Draw(t, "park"))
}

func (m *inboxModel) live() int {
	n := 0
	for _, w := range m.workers {
		if w.joined {
			n++
		}
	}
	return n
}

func (m *inboxModel) turn(t *rapid.T) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if !w.joined || w.parked && !w.woken.Load() || len(w.todo) > 0 {
		t.Skip()
	}
	m.takeTurn(t, w, rapid.Bool().Draw(t, "park"))
}

func (m *inboxModel) takeTurn(t *rapid.T, w *modelWorker, park bool) int {
	if !w.Ready() {
		t.Fatalf("it was woken and is not ready")
	}
	m.unload(t, w)
	w.parked = false
	w.woken.Store(false)
	queued := len(m.queue)
	n := m.inbox.Turn(&w.Member, &w.tally, park)
	if w.tally != (Tally{}) {
		t.Fatalf("a tally was not cleared")
	}
	switch {
	case m.excess > 0:
		m.excess--
		if n != -1 {
			t.Fatalf("a worker that is to leave was given %d", n)
		}
		m.inbox.Workers().Leave(&w.Member)
		w.joined = false
	case n < 0:
		t.Fatalf("a worker was asked to leave for no reason")
	case n == 0:
		if queued > 0 {
			t.Fatalf("given nothing, and %d are queued", queued)
		}
		w.parked = park
	default:
		m.checkBatch(t, w, w.Member.Batch[:n])
	}
	synctest.Wait()
	return n
}

func (m *inboxModel) checkBatch(t *rapid.T, w *modelWorker, batch []command.Envelope) {
	n := len(batch)
	share := (len(m.queue) + m.live() - 1) / m.live()
	if n > len(m.queue) || n > max(share, 1) {
		t.Fatalf("given %d of %d, with %d at work", n, len(m.queue), m.live())
	}
	for i, e := range batch {
		if e.Load.(int) != m.queue[i] {
			t.Fatalf("given %v at place %d, want %d", e.Load, i, m.queue[i])
		}
		if e.Tries() != m.tries[m.queue[i]] {
			t.Fatalf("%v has %d tries, want %d", e.Load, e.Tries(), m.tries[m.queue[i]])
		}
	}
	m.packs.checkBatch(t, batch, true)
	m.queue = m.queue[n:]
	w.todo = slices.Clone(batch)
}

func (m *inboxModel) holder(t *rapid.T) *modelWorker {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if len(w.todo) == 0 {
		t.Skip()
	}
	return w
}

// done finishes some commands of a batch; they are booked later.
func (m *inboxModel) done(t *rapid.T) {
	w := m.holder(t)
	for range rapid.IntRange(1, len(w.todo)).Draw(t, "done") {
		m.finish(w, rapid.IntRange(0, 2).Draw(t, "how"))
	}
}

func (m *inboxModel) finish(w *modelWorker, how int) {
	e := w.todo[0]
	w.todo = w.todo[1:]
	w.tally.Timed++
	switch how {
	case 0:
		w.tally.OK++
		m.ok++
	case 1:
		w.tally.Forwarded++
		m.forwarded++
	default:
		w.tally.Errors++
		m.errors++
	}
	e.Ticket().Settle(false, nil, nil)
}

func (m *inboxModel) book(t *rapid.T) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	m.inbox.Book(&w.Member, &w.tally, nil)
}

func (m *inboxModel) retryLater(t *rapid.T) {
	w := m.holder(t)
	e := &w.todo[0]
	e.Failed()
	id := e.Load.(int)
	m.tries[id] = e.Tries()
	ok := m.inbox.Book(&w.Member, &w.tally, &Retried{Command: *e})
	want := e.Tries() < 3 && !m.halted
	if ok != want {
		t.Fatalf("RetryLater is %v after %d tries", ok, e.Tries())
	}
	if ok {
		w.todo = w.todo[1:]
		m.delayed = append(m.delayed, id)
	} else {
		m.finish(w, 2)
	}
	m.mayOverfill = true
	synctest.Wait()
}

func (m *inboxModel) crash(t *rapid.T) {
	w := m.holder(t)
	retry := rapid.Bool().Draw(t, "retry")
	var culprit *command.Envelope
	rest := w.todo
	if len(w.todo) == 1 || rapid.Bool().Draw(t, "one") {
		culprit, rest = &w.todo[0], w.todo[1:]
		culprit.Failed()
		m.tries[culprit.Load.(int)] = culprit.Tries()
	} else {
		Narrow(rest)
	}
	retry = retry && culprit != nil && culprit.Tries() < 3
	m.inbox.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: rest, Retry: retry, Err: ErrStopped})
	if retry && !m.halted {
		m.packs.retry(*culprit)
		m.delayed = append(m.delayed, culprit.Load.(int))
	}
	if !m.halted {
		var front []int
		for _, e := range rest {
			id := e.Load.(int)
			front = append(front, id)
			m.packs.add(e)
		}
		m.queue = append(front, m.queue...)
	}
	m.mayOverfill = true
	w.todo = nil
	m.inbox.Workers().Leave(&w.Member)
	w.joined, w.parked = false, false
	if rapid.Bool().Draw(t, "restart") {
		m.start(w)
	}
	synctest.Wait()
}

func (m *inboxModel) join(t *rapid.T) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if w.joined {
		t.Skip()
	}
	m.start(w)
}

func (m *inboxModel) start(w *modelWorker) {
	w.woken.Store(false)
	w.joined, w.parked = true, false
	m.inbox.Workers().Join(&w.Member, false)
}

// carry has a worker carry commands that inboxes ahead have no slots for, until its next turn.
func (m *inboxModel) carry(t *rapid.T) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if !w.joined {
		t.Skip()
	}
	m.inbox.Carry(&w.Member, rapid.IntRange(0, 2).Draw(t, "carried"))
	synctest.Wait()
}

// unload has a worker hand over what it carries.
func (m *inboxModel) unload(t *rapid.T, w *modelWorker) {
	if w.Carried > 0 {
		m.inbox.Carry(&w.Member, 0)
		synctest.Wait()
		m.collectAnswers(t)
	}
}

func (m *inboxModel) leave(t *rapid.T) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if len(w.todo) > 0 {
		t.Skip()
	}
	m.inbox.Book(&w.Member, &w.tally, nil)
	m.inbox.Workers().Leave(&w.Member)
	w.joined, w.parked = false, false
	synctest.Wait()
}

func (m *inboxModel) shrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	idle := slices.Clone(m.inbox.state.workers.Inspect().Idle)
	m.inbox.Workers().Shrink(n)
	for _, w := range m.workers {
		if slices.Contains(idle[:min(n, len(idle))], &w.Member) {
			if !w.woken.Load() {
				t.Fatalf("a worker was asked to leave and was not woken")
			}
		}
	}
	m.excess += n
	synctest.Wait()
}

func (m *inboxModel) unshrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	kept := m.inbox.Workers().Unshrink(n)
	if kept != min(n, m.excess) {
		t.Fatalf("Unshrink took back %d of %d requests", kept, m.excess)
	}
	m.excess -= kept
}

func (m *inboxModel) send(t *rapid.T) {
	m.endLapsed(t)
	back := rapid.IntRange(0, 3).Draw(t, "back") == 0
	e := m.envelope()
	id := e.Load.(int)
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelWaiter{id: id, fromHandler: true, cancel: cancel, result: make(chan error, 1)}
	waits := m.rule == Wait && !m.halted && m.free() <= 0
	space := max(m.free(), 0)
	go func() { x.result <- m.inbox.Senders().Send(ctx, e, nil, back, false) }()
	synctest.Wait()
	if waits && !back {
		m.waiters = append(m.waiters, x)
		return
	}
	select {
	case err := <-x.result:
		if err != nil {
			t.Fatalf("send: %v with %d free", err, m.free())
		}
		m.checkHandedOver(t, []command.Envelope{e}, 1, space, back || m.rule == Wait)
	default:
		t.Fatalf("send waits, and should not")
	}
}

func (m *inboxModel) tick(*rapid.T) {
	m.inbox.mu.Lock()   // for the race detector: what was read so far comes before what the timers will write
	m.inbox.mu.Unlock() //nolint:staticcheck // only for the order
	time.Sleep(time.Second)
	synctest.Wait()
	m.mayOverfill = true
}

func (m *inboxModel) close(*rapid.T) {
	m.mayOverfill = true // retries that waited behind submitters are queued
	m.open = false
	m.inbox.Phases().Close()
	synctest.Wait()
}

func (m *inboxModel) halt(*rapid.T) {
	m.open, m.halted = false, true
	m.inbox.Phases().Halt()()
	m.queue, m.delayed = nil, nil
	clear(m.packs)
	synctest.Wait()
}

// collectAnswers collects the answers of the waiting submitters, and compares the queue with the model.
func (m *inboxModel) collectAnswers(t *rapid.T) {
	m.forget(t)
	var granted []int
	outside := 0
	m.waiters = slices.DeleteFunc(m.waiters, func(x *modelWaiter) bool {
		var err error
		select {
		case err = <-x.result:
		default:
			if x.cancelled {
				t.Fatalf("a waiter that gave up still waits")
			}
			if !m.open && !x.fromHandler {
				t.Fatalf("a submitter waits at a closed inbox")
			}
			return false
		}
		switch {
		case err == nil && m.halted && x.fromHandler:
			m.accepted++ // it has ended already
		case err == nil:
			m.accepted++
			granted = append(granted, x.id)
			if !x.fromHandler {
				outside++
			}
		case !x.cancelled && (m.open || x.fromHandler):
			t.Fatalf("a waiter was refused for no reason: %v", err)
		case x.fromHandler:
			m.countEnd(x.id)
		default:
			m.refused(t, x.id, err)
		}
		return true
	})
	if outside > 0 && slices.ContainsFunc(m.waiters, func(x *modelWaiter) bool { return x.fromHandler }) {
		t.Fatalf("%v were accepted from outside before a handler that waits", granted)
	}
	// Behind the commands that the model knows there are those of waiters that were granted a slot, and retries that
	// were due. The model does not say in which order.
	have := m.ids()
	if len(have) < len(m.queue) || !slices.Equal(have[:len(m.queue)], m.queue) {
		t.Fatalf("the queue is %v, want %v and perhaps more", have, m.queue)
	}
	lost := slices.DeleteFunc(slices.Clone(granted), func(id int) bool { return m.gone[id] })
	for _, id := range have[len(m.queue):] {
		if i := slices.Index(lost, id); i >= 0 {
			lost = slices.Delete(lost, i, i+1)
		} else if i := slices.Index(m.delayed, id); i >= 0 {
			m.delayed = slices.Delete(m.delayed, i, i+1)
		} else {
			t.Fatalf("%d came from nowhere: %v, want %v", id, have, m.queue)
		}
	}
	if len(lost) > 0 {
		t.Fatalf("%v were accepted and are nowhere", lost)
	}
	m.queue = have
}

func (m *inboxModel) ids() []int {
	ids := make([]int, m.inbox.state.queue.Len())
	for i := range ids {
		ids[i] = m.inbox.state.queue.line.At(i).Load.(int)
	}
	return ids
}

// check holds after every step.
func (m *inboxModel) check(t *rapid.T) {
	m.collectAnswers(t)
	s := Snapshot([]*Inbox{m.inbox})[0]
	m.checkLaw(t, s)
	if now := len(m.queue) + m.reserved(); now > m.cap && now > m.was && !m.mayOverfill && !m.halted {
		t.Fatalf("%d queued and %d slots promised, with capacity %d", len(m.queue), m.reserved(), m.cap)
	}
	m.was, m.mayOverfill = len(m.queue)+m.reserved(), false
	in := m.inbox
	if int(in.state.slots.reserved) != m.reserved() || in.state.workers.Excess() != m.excess || in.state.workers.Live() != m.live() {
		t.Fatalf("reserved %d, excess %d, live %d; want %d, %d, %d", in.state.slots.reserved, in.state.workers.Excess(), in.state.workers.Live(), m.reserved(), m.excess, m.live())
	}
	if int(in.state.queue.packed) != m.packed() {
		t.Fatalf("%d in packs, want %d", in.state.queue.packed, m.packed())
	}
	if in.state.queue.Len() > 0 && in.state.workers.Inspect().Waking == 0 && len(in.state.workers.Inspect().Idle) > 0 {
		t.Fatalf("%d queued, %d workers idle, and none on its way", in.state.queue.Len(), len(in.state.workers.Inspect().Idle))
	}
	if in.state.waiters.Len() > 0 && len(in.state.senders.forSlots)+len(in.state.visits.behind) == 0 && in.state.free() > 0 {
		t.Fatalf("%d submitters wait, and %d slots are free", in.state.waiters.Len(), in.state.free())
	}
	m.checkWorkers(t)
}

func (m *inboxModel) packed() int {
	n := 0
	for _, id := range m.queue {
		if m.packs[id] != 0 {
			n++
		}
	}
	return n
}

// checkWorkers compares which workers are parked, woken and busy.
func (m *inboxModel) checkWorkers(t *rapid.T) {
	in := m.inbox
	waking, busy := 0, 0
	for i, w := range m.workers {
		idle := slices.Contains(in.state.workers.Inspect().Idle, &w.Member)
		if idle != (w.joined && w.parked && !w.woken.Load()) {
			t.Fatalf("worker %d: idle %v, parked %v, woken %v", i, idle, w.parked, w.woken.Load())
		}
		looks := !w.parked && w.Member.attendance.Waking() && w.Member.custody.inHand == 0
		if w.joined && (w.parked && w.woken.Load() || looks) {
			waking++
			if !w.Ready() {
				t.Fatalf("worker %d was woken and not ready", i)
			}
		}
		if w.Member.custody.inHand > 0 {
			busy++
		}
	}
	if in.state.workers.Inspect().Waking != waking {
		t.Fatalf("%d workers on their way, want %d", in.state.workers.Inspect().Waking, waking)
	}
	if in.state.counts.busy != busy {
		t.Fatalf("%d busy, want %d", in.state.counts.busy, busy)
	}
	for i, sender := range m.senders {
		if sender.parked && !sender.woken.Load() && sender.Ready() {
			t.Fatalf("sender %d is parked, was not woken, and is ready", i)
		}
	}
	if len(in.state.senders.forSlots) != m.blocked() {
		t.Fatalf("%d blocked, want %d", len(in.state.senders.forSlots), m.blocked())
	}
}

func (m *inboxModel) checkLaw(t *rapid.T, s Accounts) {
	in := s.Counts.Accepted
	out := s.Counts.Ended()
	if in != out+uint64(s.Queue.Load()) {
		t.Fatalf("the law is broken: %+v", s)
	}
	booked, inHand := Tally{}, 0
	for _, w := range m.workers {
		booked.OK += w.tally.OK
		booked.Forwarded += w.tally.Forwarded
		booked.Errors += w.tally.Errors
		inHand += len(w.todo) + w.tally.completed()
	}
	if int(in) != m.accepted || int(s.Counts.Rejected) != m.rejected ||
		int(s.Counts.OK) != m.ok-booked.OK || int(s.Counts.Forwarded) != m.forwarded-booked.Forwarded ||
		int(s.Counts.Errors) != m.errors-booked.Errors || s.Queue.InHand != inHand ||
		s.Queue.Queued != len(m.queue) || s.Queue.Delayed != len(m.delayed) {
		t.Fatalf("accounts: %+v, and the model says accepted %d, rejected %d, ok %d, forwarded %d, errors %d, in hand %d, queued %d, delayed %d",
			s, m.accepted, m.rejected, m.ok, m.forwarded, m.errors, inHand, len(m.queue), len(m.delayed))
	}
	if ended := s.Counts.Shed + s.Counts.DeadLettered; int64(ended) != m.endedByInbox.Load() {
		t.Fatalf("%d ended without an answer, and %d were reported", ended, m.endedByInbox.Load())
	}
}

// settle lets all workers and senders do what they can, until none can do anything. Then nothing may be left waiting.
func (m *inboxModel) settle(t *rapid.T) {
	m.check(t)
	for range 10_000 {
		if !m.move(t) {
			m.checkNothingLeft(t)
			return
		}
		m.check(t)
	}
	t.Fatalf("there is always something to do")
}

// move makes one move that is due, if there is one.
func (m *inboxModel) move(t *rapid.T) bool {
	if m.live() == 0 {
		m.start(m.workers[0])
		return true
	}
	for _, w := range m.workers {
		m.unload(t, w) // which may wake any other
	}
	for _, w := range m.workers {
		switch {
		case len(w.todo) > 0:
			for len(w.todo) > 0 {
				m.finish(w, 0)
			}
			m.inbox.Book(&w.Member, &w.tally, nil)
			return true
		case w.joined && (!w.parked || w.woken.Load()):
			m.takeTurn(t, w, true)
			return true
		}
	}
	for _, sender := range m.senders {
		if len(sender.items) > 0 && (!sender.parked || sender.woken.Load()) {
			m.handOver(t, sender, false, true)
			return true
		}
	}
	if len(m.delayed) > 0 {
		m.tick(t)
		return true
	}
	return false
}

func (m *inboxModel) checkNothingLeft(t *rapid.T) {
	if len(m.queue) > 0 || len(m.waiters) > 0 || m.blocked() > 0 || m.reserved() > 0 {
		t.Fatalf("stranded: %d queued, %d submitters wait, %d workers are blocked, %d slots promised; %d free",
			len(m.queue), len(m.waiters), m.blocked(), m.reserved(), m.free())
	}
	up := map[int]bool{}
	for _, sender := range m.senders {
		for _, e := range sender.items {
			up[e.Load.(int)] = true
		}
	}
	for id := range m.next {
		if !up[id] && m.ends[id] != 1 {
			t.Fatalf("%d ended %d times", id, m.ends[id])
		}
	}
}
