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

	"github.com/golda-dev/golda/internal/command"
)

// The walk: an inbox and a slice that does the same, driven by chance. Time stands
// still in a bubble, so a submitter either has an answer or waits for good.
func TestARoomDoesWhatASliceWouldDo(t *testing.T) {
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		for _, capacity := range []int{1, 2, 3, 64} {
			t.Run(fmt.Sprintf("%s/%d", ruleNames[rule], capacity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rapid.Check(timeless{t}, func(t *rapid.T) {
						m := newModel(t, rule, capacity)
						defer m.end()
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

// timeless has no deadline, which nobody may ask for in a bubble.
type timeless struct{ *testing.T }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

var ruleNames = map[Overflow]string{Wait: "wait", Reject: "reject", DropNewest: "newest", DropOldest: "oldest"}

// model is an inbox as it should be.
type model struct {
	r    *Inbox
	rule Overflow
	cap  int

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
	ended                           sync.Mutex  // guards ends: those who wait end by themselves
	ends                            map[int]int // how often each ended, by us or by the inbox
	was                             int         // len+reserved after the last step
	mayOverfill                     bool        // this step
	seats                           []*modelSeat
	ups                             []*modelUp
	waiters                         []*modelWaiter
	byRoom                          atomic.Int64
}

type modelSeat struct {
	Member
	joined, parked, retired bool
	woken                   atomic.Bool
	hand                    []command.Envelope
	tally                   Tally
}

// modelUp is a worker of another inbox.
type modelUp struct {
	Member
	parked bool // has nothing to do until it is woken
	inLine bool // is in line here, parked or not
	woken  atomic.Bool
	items  []command.Envelope
}

type modelWaiter struct {
	id     int
	inside bool // from a handler
	cancel context.CancelFunc
	given  bool // cancelled by us
	result chan error
}

func newModel(t *rapid.T, rule Overflow, capacity int) *model {
	m := &model{
		rule: rule, cap: capacity, open: true,
		packs: packs{}, tries: map[int]int{}, ends: map[int]int{},
	}
	m.r = New(Config{
		Name: "r", Capacity: capacity, Batch: 4, Overflow: rule, StreakEnds: time.Minute,
		Retry: Retry{Attempts: 3, Backoff: time.Second, Max: time.Minute},
	})
	m.r.Attach(&Pipeline{
		Base:  time.Now().Add(-time.Second),
		Ended: func(Ending) { m.byRoom.Add(1) },
		Quiet: make(chan struct{}, 1),
	})
	m.r.Open()
	for range rapid.IntRange(1, 4).Draw(t, "seats") {
		s := &modelSeat{}
		s.Wake = func() { s.woken.Store(true) }
		m.seats = append(m.seats, s)
		m.seat(s)
	}
	m.r.limit = rapid.IntRange(1, 4).Draw(t, "limit")
	for range 3 {
		u := &modelUp{}
		u.Wake = func() { u.woken.Store(true) }
		m.ups = append(m.ups, u)
	}
	return m
}

// end sends everybody home, whatever happened.
func (m *model) end() {
	for _, w := range m.waiters {
		w.cancel()
	}
	m.r.Halt()()
	synctest.Wait()
}

// endOf counts an end of one command.
func (m *model) endOf(id int) {
	m.ended.Lock()
	defer m.ended.Unlock()
	m.ends[id]++
}

func (m *model) envelope() command.Envelope {
	id := m.next
	m.next++
	return command.Envelope{Cmd: id, From: command.NewTicket(func(any, error) { m.endOf(id) }).Origin()}
}

// free is how many slots are. Which of the commands that wait for a retry have given theirs up is the inbox's affair.
func (m *model) free() int { return m.cap - len(m.queue) - m.r.delayed.Len() - m.reserved() }

// reserved is how many seats are promised. To whom the inbox promises them is its
// own affair; they are redeemed, or the walk does not come to rest.
func (m *model) reserved() int {
	n := 0
	for _, p := range m.r.promises {
		n += p.n
	}
	return n
}

func (m *model) promised(u *modelUp) int {
	for _, p := range m.r.promises {
		if p.m == &u.Member {
			return p.n
		}
	}
	return 0
}

func (m *model) blocked() int {
	n := 0
	for _, u := range m.ups {
		if u.inLine && !u.woken.Load() {
			n++
		}
	}
	return n
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":          m.check,
		"submit":    m.submit,
		"submit2":   m.submit,
		"cancel":    m.cancel,
		"hand":      m.handNew,
		"handAgain": m.handAgain,
		"reborn":    m.seldom(m.reborn),
		"turn":      m.turn,
		"turn2":     m.turn,
		"turn3":     m.turn,
		"hand2":     m.handNew,
		"crash2":    m.crash,
		"done":      m.done,
		"book":      m.book,
		"again":     m.again,
		"crash":     m.crash,
		"join":      m.join,
		"leave":     m.leave,
		"shrink":    m.shrink,
		"keep":      m.keep,
		"send":      m.send,
		"tick":      m.tick,
		"close":     m.seldom(m.close),
		"halt":      m.seldom(m.halt),
		"settle":    m.seldom(m.settle),
	}
}

// seldom skips an action nine times out of ten.
func (m *model) seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
			t.Skip()
		}
		f(t)
	}
}

func (m *model) submit(t *rapid.T) {
	e := m.envelope()
	id := e.Cmd.(int)
	ctx, cancel := context.WithCancel(context.Background())
	w := &modelWaiter{id: id, cancel: cancel, result: make(chan error, 1)}
	if rapid.IntRange(0, 9).Draw(t, "ended") == 0 {
		cancel()
		w.given = true
	}
	full := m.free() <= 0 || len(m.waiters) > 0 || m.blocked() > 0
	go func() { w.result <- m.r.Submit(ctx, &e) }()
	synctest.Wait()
	if m.open && full && m.rule == Wait && !w.given {
		m.waiters = append(m.waiters, w)
		if len(w.result) > 0 {
			t.Fatalf("submit does not wait, with %d free, %d before it and %d blocked", m.free(), len(m.waiters)-1, m.blocked())
		}
		return
	}
	var err error
	select {
	case err = <-w.result:
	default:
		t.Fatalf("submit waits, and should not")
	}
	switch {
	case !m.open || w.given:
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

func (m *model) accept(t *rapid.T, err error) {
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	m.accepted++
}

func (m *model) refused(t *rapid.T, id int, err error) {
	if err == nil {
		t.Fatalf("accepted %d, and should not", id)
	}
	m.rejected++
	m.endOf(id) // it never was
}

func (m *model) drop(id int) {
	if m.rule == DropNewest || len(m.queue) == 0 {
		return
	}
	m.queue = append(m.queue[1:], id)
}

func (m *model) cancel(t *rapid.T) {
	if len(m.waiters) == 0 {
		t.Skip()
	}
	w := m.waiters[rapid.IntRange(0, len(m.waiters)-1).Draw(t, "waiter")]
	w.given = true
	w.cancel()
	synctest.Wait()
}

func (m *model) handNew(t *rapid.T) {
	u := m.ups[rapid.IntRange(0, len(m.ups)-1).Draw(t, "up")]
	if u.parked && !u.woken.Load() || len(u.items) > 0 {
		t.Skip()
	}
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		u.items = append(u.items, m.envelope())
	}
	m.hand(t, u)
}

func (m *model) handAgain(t *rapid.T) {
	u := m.ups[rapid.IntRange(0, len(m.ups)-1).Draw(t, "up")]
	if u.parked && !u.woken.Load() || len(u.items) == 0 {
		t.Skip()
	}
	m.hand(t, u)
}

func (m *model) hand(t *rapid.T, u *modelUp) {
	back := rapid.IntRange(0, 4).Draw(t, "back") == 0
	m.bring(t, u, back, rapid.Bool().Draw(t, "park"))
}

func (m *model) bring(t *rapid.T, u *modelUp, back, park bool) {
	if u.parked && !u.Ready() {
		t.Fatalf("woken and not ready")
	}
	known, place := u.inLine, m.place(u)
	space := max(m.free()+m.promised(u), 0)
	if place > 0 {
		space = 0 // others were here before
	}
	u.woken.Store(false)
	n := m.r.HandOver(&u.Member, u.items, 0, back, park)
	m.handed(t, u.items, n, space, back)
	u.items = slices.Clone(u.items[n:])
	u.parked = park && len(u.items) > 0
	u.inLine = (park || known) && len(u.items) > 0
	if u.inLine && slices.IndexFunc(m.r.blocked, func(p parked) bool { return p.m == &u.Member }) != place {
		t.Fatalf("its place was %d, and it lost it", place)
	}
	synctest.Wait()
}

// place is how many are in line before a worker.
func (m *model) place(u *modelUp) int {
	if m.promised(u) > 0 {
		return 0
	}
	if i := slices.IndexFunc(m.r.blocked, func(p parked) bool { return p.m == &u.Member }); i >= 0 {
		return i
	}
	return len(m.r.blocked)
}

// handed checks how many were taken where there was space for so many.
func (m *model) handed(t *rapid.T, es []command.Envelope, n, space int, back bool) {
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
			m.queue = append(m.queue, e.Cmd.(int))
		case m.rule != Reject:
			m.drop(e.Cmd.(int))
		}
	}
}

// reborn is a worker of another inbox that was parked, stopped, and followed by a
// new one on the same seat: it comes without being woken.
func (m *model) reborn(t *rapid.T) {
	u := m.ups[rapid.IntRange(0, len(m.ups)-1).Draw(t, "up")]
	if !u.parked {
		t.Skip()
	}
	u.ready.Store(true)
	m.bring(t, u, false, rapid.Bool().Draw(t, "park"))
}

func (m *model) live() int {
	n := 0
	for _, s := range m.seats {
		if s.joined {
			n++
		}
	}
	return n
}

func (m *model) turn(t *rapid.T) {
	s := m.seats[rapid.IntRange(0, len(m.seats)-1).Draw(t, "seat")]
	if !s.joined || s.parked && !s.woken.Load() || len(s.hand) > 0 {
		t.Skip()
	}
	m.takeTurn(t, s, rapid.Bool().Draw(t, "park"))
}

func (m *model) takeTurn(t *rapid.T, s *modelSeat, park bool) int {
	if !s.Ready() {
		t.Fatalf("woken and not ready")
	}
	s.parked = false
	s.woken.Store(false)
	queued := len(m.queue)
	n := m.r.Turn(&s.Member, &s.tally, park)
	if s.tally != (Tally{}) {
		t.Fatalf("a tally was not cleared")
	}
	if !s.retired && m.excess > 0 {
		m.excess--
		s.retired = true
	}
	switch {
	case s.retired:
		if n != -1 {
			t.Fatalf("one too many was given %d", n)
		}
		m.r.Leave(&s.Member)
		s.joined, s.retired = false, false
	case n < 0:
		t.Fatalf("sent away for no reason")
	case n == 0:
		if queued > 0 {
			t.Fatalf("given nothing, and %d are queued", queued)
		}
		s.parked = park
	default:
		m.given(t, s, s.Member.Batch[:n])
	}
	synctest.Wait()
	return n
}

func (m *model) given(t *rapid.T, s *modelSeat, batch []command.Envelope) {
	n := len(batch)
	share := (len(m.queue) + m.live() - 1) / m.live()
	if n > len(m.queue) || n > max(share, 1) {
		t.Fatalf("given %d of %d, with %d at work", n, len(m.queue), m.live())
	}
	for i, e := range batch {
		if e.Cmd.(int) != m.queue[i] {
			t.Fatalf("given %v at place %d, want %d", e.Cmd, i, m.queue[i])
		}
		if e.Tries() != m.tries[m.queue[i]] {
			t.Fatalf("%v has %d tries, want %d", e.Cmd, e.Tries(), m.tries[m.queue[i]])
		}
	}
	m.packs.given(t, batch, true)
	m.queue = m.queue[n:]
	s.hand = slices.Clone(batch)
}

func (m *model) holder(t *rapid.T) *modelSeat {
	s := m.seats[rapid.IntRange(0, len(m.seats)-1).Draw(t, "seat")]
	if len(s.hand) == 0 {
		t.Skip()
	}
	return s
}

// done finishes some of what is in hand; the inbox hears of it later.
func (m *model) done(t *rapid.T) {
	s := m.holder(t)
	for range rapid.IntRange(1, len(s.hand)).Draw(t, "done") {
		m.finish(s, rapid.IntRange(0, 2).Draw(t, "how"))
	}
}

func (m *model) finish(s *modelSeat, how int) {
	e := s.hand[0]
	s.hand = s.hand[1:]
	s.tally.Timed++
	switch how {
	case 0:
		s.tally.OK++
		m.ok++
	case 1:
		s.tally.Forwarded++
		m.forwarded++
	default:
		s.tally.Errors++
		m.errors++
	}
	e.Ticket().Settle(false, nil, nil)
}

func (m *model) book(t *rapid.T) {
	s := m.seats[rapid.IntRange(0, len(m.seats)-1).Draw(t, "seat")]
	m.r.Book(&s.Member, &s.tally)
}

func (m *model) again(t *rapid.T) {
	s := m.holder(t)
	e := &s.hand[0]
	e.Failed()
	id := e.Cmd.(int)
	m.tries[id] = e.Tries()
	ok := m.r.RetryLater(&s.Member, &s.tally, *e)
	want := e.Tries() < 3 && !m.halted
	if ok != want {
		t.Fatalf("again is %v after %d tries", ok, e.Tries())
	}
	if ok {
		s.hand = s.hand[1:]
		m.delayed = append(m.delayed, id)
	} else {
		m.finish(s, 2)
	}
	m.mayOverfill = true
	synctest.Wait()
}

func (m *model) crash(t *rapid.T) {
	s := m.holder(t)
	retry := rapid.Bool().Draw(t, "retry")
	var culprit *command.Envelope
	rest := s.hand
	if len(s.hand) == 1 || rapid.Bool().Draw(t, "one") {
		culprit, rest = &s.hand[0], s.hand[1:]
		culprit.Failed()
		m.tries[culprit.Cmd.(int)] = culprit.Tries()
	} else {
		Narrow(rest)
	}
	retry = retry && culprit != nil && culprit.Tries() < 3
	m.r.Crash(&s.Member, &s.tally, culprit, rest, retry, ErrStopped)
	if retry && !m.halted {
		m.packs.again(*culprit)
		m.delayed = append(m.delayed, culprit.Cmd.(int))
	}
	if !m.halted {
		var front []int
		for _, e := range rest {
			id := e.Cmd.(int)
			front = append(front, id)
			m.packs.add(e)
		}
		m.queue = append(front, m.queue...)
	}
	m.mayOverfill = true
	s.hand = nil
	m.r.Leave(&s.Member)
	s.joined, s.parked, s.retired = false, false, false
	if rapid.Bool().Draw(t, "afresh") {
		m.seat(s)
	}
	synctest.Wait()
}

func (m *model) join(t *rapid.T) {
	s := m.seats[rapid.IntRange(0, len(m.seats)-1).Draw(t, "seat")]
	if s.joined {
		t.Skip()
	}
	m.seat(s)
}

func (m *model) seat(s *modelSeat) {
	s.woken.Store(false)
	s.joined, s.parked, s.retired = true, false, false
	m.r.Join(&s.Member, false)
}

func (m *model) leave(t *rapid.T) {
	s := m.seats[rapid.IntRange(0, len(m.seats)-1).Draw(t, "seat")]
	if len(s.hand) > 0 {
		t.Skip()
	}
	m.r.Book(&s.Member, &s.tally)
	m.r.Leave(&s.Member)
	s.joined, s.parked, s.retired = false, false, false
	synctest.Wait()
}

func (m *model) shrink(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	idle := slices.Clone(m.r.idle)
	m.r.Shrink(n)
	for _, s := range m.seats {
		if slices.Contains(idle[:min(n, len(idle))], &s.Member) {
			s.retired = true
			if !s.woken.Load() {
				t.Fatalf("dismissed and not woken")
			}
		}
	}
	m.excess += max(n-len(idle), 0)
	synctest.Wait()
}

func (m *model) keep(t *rapid.T) {
	n := rapid.IntRange(0, 2).Draw(t, "n")
	kept := m.r.Unshrink(n)
	if kept != min(n, m.excess) {
		t.Fatalf("kept %d of %d", kept, m.excess)
	}
	m.excess -= kept
}

func (m *model) send(t *rapid.T) {
	back := rapid.IntRange(0, 3).Draw(t, "back") == 0
	e := m.envelope()
	id := e.Cmd.(int)
	ctx, cancel := context.WithCancel(context.Background())
	w := &modelWaiter{id: id, inside: true, cancel: cancel, result: make(chan error, 1)}
	waits := m.rule == Wait && !m.halted && m.free() <= 0
	space := max(m.free(), 0)
	go func() { w.result <- m.r.Send(ctx, e, nil, back, false) }()
	synctest.Wait()
	if waits && !back {
		m.waiters = append(m.waiters, w)
		return
	}
	select {
	case err := <-w.result:
		if err != nil {
			t.Fatalf("send: %v with %d free", err, m.free())
		}
		m.handed(t, []command.Envelope{e}, 1, space, back || m.rule == Wait)
	default:
		t.Fatalf("send waits, and should not")
	}
}

func (m *model) tick(*rapid.T) {
	m.r.mu.Lock()   // what we have read so far comes before what the clock will write
	m.r.mu.Unlock() //nolint:staticcheck // on purpose
	time.Sleep(time.Second)
	synctest.Wait()
	m.mayOverfill = true
}

func (m *model) close(*rapid.T) {
	m.mayOverfill = true // retries that waited behind submitters are queued
	m.open = false
	m.r.Close()
	synctest.Wait()
}

func (m *model) halt(*rapid.T) {
	m.open, m.halted = false, true
	m.r.Halt()()
	m.queue, m.delayed = nil, nil
	clear(m.packs)
	synctest.Wait()
}

// hear asks the waiters how it went.
func (m *model) hear(t *rapid.T) {
	var granted []int
	outside := 0
	m.waiters = slices.DeleteFunc(m.waiters, func(w *modelWaiter) bool {
		var err error
		select {
		case err = <-w.result:
		default:
			if w.given {
				t.Fatalf("a waiter that gave up still waits")
			}
			if !m.open && !w.inside {
				t.Fatalf("a submitter waits at a closed door")
			}
			return false
		}
		switch {
		case err == nil && m.halted && w.inside:
			m.accepted++ // it has ended already
		case err == nil:
			m.accepted++
			granted = append(granted, w.id)
			if !w.inside {
				outside++
			}
		case !w.given && (m.open || w.inside):
			t.Fatalf("a waiter was refused for no reason: %v", err)
		case w.inside:
			m.endOf(w.id)
		default:
			m.refused(t, w.id, err)
		}
		return true
	})
	if outside > 0 && slices.ContainsFunc(m.waiters, func(w *modelWaiter) bool { return w.inside }) {
		t.Fatalf("%v came in before one who is inside", granted)
	}
	// What is behind what we know has come from those who waited, and from the
	// retries whose time has come; in which order is not ours to say.
	have := m.ids()
	if len(have) < len(m.queue) || !slices.Equal(have[:len(m.queue)], m.queue) {
		t.Fatalf("the queue is %v, want %v and perhaps more", have, m.queue)
	}
	lost := slices.Clone(granted)
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

func (m *model) ids() []int {
	ids := make([]int, m.r.queue.Len())
	for i := range ids {
		ids[i] = m.r.queue.at(i).Cmd.(int)
	}
	return ids
}

// check holds after every step.
func (m *model) check(t *rapid.T) {
	m.hear(t)
	s := Snapshot([]*Inbox{m.r})[0]
	m.law(t, s)
	if now := len(m.queue) + m.reserved(); now > m.cap && now > m.was && !m.mayOverfill && !m.halted {
		t.Fatalf("%d queued and %d promised in a room for %d", len(m.queue), m.reserved(), m.cap)
	}
	m.was, m.mayOverfill = len(m.queue)+m.reserved(), false
	in := m.r
	if int(in.reserved) != m.reserved() || in.excess != m.excess || in.live != m.live() {
		t.Fatalf("reserved %d, excess %d, live %d; want %d, %d, %d", in.reserved, in.excess, in.live, m.reserved(), m.excess, m.live())
	}
	if int(in.queue.packed) != m.packed() {
		t.Fatalf("%d in packs, want %d", in.queue.packed, m.packed())
	}
	if in.queue.Len() > 0 && in.waking == 0 && len(in.idle) > 0 {
		t.Fatalf("%d queued, %d idle, and nobody is on the way", in.queue.Len(), len(in.idle))
	}
	m.whoIsWhere(t)
}

func (m *model) packed() int {
	n := 0
	for _, id := range m.queue {
		if m.packs[id] != 0 {
			n++
		}
	}
	return n
}

// whoIsWhere compares who is parked, woken and busy.
func (m *model) whoIsWhere(t *rapid.T) {
	in := m.r
	waking, busy := 0, 0
	for i, s := range m.seats {
		idle := slices.Contains(in.idle, &s.Member)
		if idle != (s.joined && s.parked && !s.woken.Load()) {
			t.Fatalf("seat %d: idle %v, parked %v, woken %v", i, idle, s.parked, s.woken.Load())
		}
		if s.joined && s.parked && s.woken.Load() {
			waking++
			if !s.Ready() {
				t.Fatalf("seat %d is woken and not ready", i)
			}
		}
		if s.Member.inHand > 0 {
			busy++
		}
	}
	if in.waking != waking {
		t.Fatalf("%d on the way, want %d", in.waking, waking)
	}
	if in.counts.busy != busy {
		t.Fatalf("%d busy, want %d", in.counts.busy, busy)
	}
	for i, u := range m.ups {
		if u.parked && !u.woken.Load() && u.Ready() {
			t.Fatalf("worker %d is parked and does not rest", i)
		}
	}
	if len(in.blocked) != m.blocked() {
		t.Fatalf("%d blocked, want %d", len(in.blocked), m.blocked())
	}
}

func (m *model) law(t *rapid.T, s Accounts) {
	in := s.Submitted + s.Received
	out := s.OK + s.Forwarded + s.Errors + Sum(s.Shed) + Sum(s.Dead)
	if in != out+uint64(s.Queued+s.InHand+s.Delayed) {
		t.Fatalf("the law is broken: %+v", s)
	}
	booked, inHand := Tally{}, 0
	for _, seat := range m.seats {
		booked.OK += seat.tally.OK
		booked.Forwarded += seat.tally.Forwarded
		booked.Errors += seat.tally.Errors
		inHand += len(seat.hand) + seat.tally.completed()
	}
	if int(in) != m.accepted || int(Sum(s.Rejected)) != m.rejected ||
		int(s.OK) != m.ok-booked.OK || int(s.Forwarded) != m.forwarded-booked.Forwarded ||
		int(s.Errors) != m.errors-booked.Errors || s.InHand != inHand ||
		s.Queued != len(m.queue) || s.Delayed != len(m.delayed) {
		t.Fatalf("accounts: %+v, and the model says accepted %d, rejected %d, ok %d, forwarded %d, errors %d, hand %d, queued %d, delayed %d",
			s, m.accepted, m.rejected, m.ok, m.forwarded, m.errors, inHand, len(m.queue), len(m.delayed))
	}
	if ended := Sum(s.Shed) + Sum(s.Dead); int64(ended) != m.byRoom.Load() {
		t.Fatalf("%d ended without an answer, and %d were told of", ended, m.byRoom.Load())
	}
}

// settle lets everybody do what they can, until nobody can do anything. Then
// nobody may be left waiting.
func (m *model) settle(t *rapid.T) {
	m.check(t)
	for range 10_000 {
		if !m.move(t) {
			m.rest(t)
			return
		}
		m.check(t)
	}
	t.Fatalf("it never comes to rest")
}

// move makes one move that is due, if there is one.
func (m *model) move(t *rapid.T) bool {
	if m.live() == 0 {
		m.seat(m.seats[0])
		return true
	}
	for _, s := range m.seats {
		switch {
		case len(s.hand) > 0:
			for len(s.hand) > 0 {
				m.finish(s, 0)
			}
			m.r.Book(&s.Member, &s.tally)
			return true
		case s.joined && (!s.parked || s.woken.Load()):
			m.takeTurn(t, s, true)
			return true
		}
	}
	for _, u := range m.ups {
		if len(u.items) > 0 && (!u.parked || u.woken.Load()) {
			m.bring(t, u, false, true)
			return true
		}
	}
	if len(m.delayed) > 0 {
		m.tick(t)
		return true
	}
	return false
}

func (m *model) rest(t *rapid.T) {
	if len(m.queue) > 0 || len(m.waiters) > 0 || m.blocked() > 0 || m.reserved() > 0 {
		t.Fatalf("stranded: %d queued, %d submitters wait, %d workers are blocked, %d seats promised; %d free",
			len(m.queue), len(m.waiters), m.blocked(), m.reserved(), m.free())
	}
	up := map[int]bool{}
	for _, u := range m.ups {
		for _, e := range u.items {
			up[e.Cmd.(int)] = true
		}
	}
	for id := range m.next {
		if !up[id] && m.ends[id] != 1 {
			t.Fatalf("%d ended %d times", id, m.ends[id])
		}
	}
}
