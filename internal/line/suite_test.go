package line

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/stage/queue"
)

// suiteKeys is how many keys, methods or priorities the commands of the suite
// have. A command is a number, and its key the rest of the division.
const suiteKeys = 4

func suiteKey(load any) uint64 { return 1 + uint64(link.Bare(load).(int)%suiteKeys) }

// suiteLine is a line, and what the suite must know of it.
type suiteLine struct {
	Line

	byKey bool   // commands of different keys know nothing of one another
	pass  func() // time passes, so that what waits for it may be taken
}

// lines makes a line of each kind.
var lines = map[string]func() suiteLine{
	"first in, first out": func() suiteLine { return suiteLine{Line: FIFO(new(Ring))} },
	"last in, first out":  func() suiteLine { return suiteLine{Line: disciplined(queue.LIFO{})} },
	"adaptive":            func() suiteLine { return suiteLine{Line: disciplined(queue.AdaptiveLIFO{Above: 2})} },
	"priority": func() suiteLine {
		return suiteLine{Line: disciplined(queue.PriorityOf(func(n int) int { return n % suiteKeys }))}
	},
	"keyed": func() suiteLine { return suiteLine{Line: Keyed(Keys{Of: suiteKey, InTurn: true}), byKey: true} },
	"keyed, with a bound": func() suiteLine {
		return suiteLine{Line: Keyed(Keys{Of: suiteKey, InTurn: true, Most: QuarterOfCapacity}), byKey: true}
	},
	"keyed, with parks": func() suiteLine {
		return suiteLine{Line: Keyed(Keys{Of: suiteKey, InTurn: true, Most: QuarterOfCapacity, Parks: true}), byKey: true}
	},
	"keyed, handlers suspend": func() suiteLine {
		l := Keyed(Keys{Of: suiteKey, InTurn: true})
		HoldByCommand(l)
		return suiteLine{Line: l, byKey: true}
	},
	"keyed, with a rate":                  func() suiteLine { return rated(Keys{Of: suiteKey, InTurn: true}) },
	"with a rate":                         func() suiteLine { return rated(Keys{Of: suiteKey}) },
	"fair":                                func() suiteLine { return shared(0, false) },
	"fair, two at once":                   func() suiteLine { return shared(2, false) },
	"fair, two at once, handlers suspend": func() suiteLine { return shared(2, true) },
	"in sequence":                         func() suiteLine { return suiteLine{Line: Sequenced()} },
	"guarded": func() suiteLine {
		method := func(load any) string { return string(rune('a' + load.(int)%suiteKeys)) }
		alone := StateGuard{Method: "a", Guard: func(count func(string) guard.Counters) bool { return count("b").Current == 0 }}
		l := Guarded("s", &Guards{Method: method, State: []StateGuard{alone}}, func() int64 { return 0 }, func() {})
		return suiteLine{Line: l, byKey: true}
	},
}

func disciplined(d queue.Discipline) Line {
	l, _ := Reorder(FIFO(new(Ring)), d, func(ranker func(any) Rank, load any) Rank { return ranker(load) })
	return l
}

// shared returns a fair line, whose keys have weights from 1.
func shared(atOnce int, suspends bool) suiteLine {
	rank := func(load any) Rank { k := suiteKey(load); return Rank{Key: k, Order: int64(k)} }
	l := Fair(Shares{Rank: rank, AtOnce: atOnce, Most: QuarterOfCapacity})
	if suspends {
		HoldByCommand(l)
	}
	return suiteLine{Line: l, byKey: true}
}

func rated(k Keys) suiteLine {
	k.Rate = rate.Limit{N: 1, Per: 10, Burst: 2}
	l, now := Keyed(k), int64(0)
	return suiteLine{Line: l, byKey: true, pass: func() {
		now += 10
		if due, alarm := RatesOf(l).Advance(now); alarm && due <= now {
			panic("an alarm for the past")
		}
	}}
}

// Every line keeps this suite, so that the inbox need not know which it has.
func TestEveryLineKeepsItsCommands(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &suiteModel{line: lines[name](), waiting: map[int]state{}, to: link.NewInlet("ahead", nil)}
				m.line.Resize(rapid.IntRange(1, 20).Draw(t, "capacity"))
				t.Repeat(map[string]func(*rapid.T){
					"push": m.push, "take": m.take, "finish": m.finish, "come back": m.comeBack, "retry": m.retry,
					"drop": m.drop, "remove": m.remove, "drain": m.drain, "pass": m.pass, "resize": m.resize, "": m.check,
				})
				m.settle(t)
			})
		})
	}
}

// state is where a command comes from that waits.
type state int

const (
	fresh    state = iota // it was not given out
	returned              // it has come back unhandled
	retried               // it was tried before
)

// suiteModel is the commands that are in a line.
type suiteModel struct {
	line    suiteLine
	waiting map[int]state
	workers [3]suiteWorker
	delayed []suiteRetry
	next    int
	to      *behaviour.Inlet
	given   []int // of a line in sequence: each command when it was given out first
	left    []int // the results that have left
}

type suiteWorker struct {
	part  *Part
	batch []command.Envelope
	at    int // of the batch: the first command that is not done
}

type suiteRetry struct {
	e    command.Envelope
	rank Rank
}

func (m *suiteModel) rank(load any) (r Rank) {
	if f := m.line.Ranker(); f != nil {
		r = f(load)
	}
	return r
}

func (m *suiteModel) push(t *rapid.T) {
	es := make([]command.Envelope, rapid.IntRange(1, 5).Draw(t, "n"))
	var ranks []Rank
	for i := range es {
		es[i].Load = suiteKeys*m.next + rapid.IntRange(0, suiteKeys-1).Draw(t, "key")
		m.waiting[es[i].Load.(int)] = fresh
		m.next++
		if m.line.Ranker() != nil {
			ranks = append(ranks, m.rank(es[i].Load))
		}
	}
	if len(es) == 1 {
		m.line.Push(es[0], m.rank(es[0].Load))
		return
	}
	m.line.PushAll(es, ranks)
}

func (m *suiteModel) take(t *rapid.T) {
	w := &m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if len(w.batch) == 0 {
		m.takeUpTo(t, w, rapid.IntRange(1, 4).Draw(t, "n"))
	}
}

func (m *suiteModel) takeUpTo(t *rapid.T, w *suiteWorker, n int) {
	if m.line.Singly() {
		n = 1
	}
	n = min(n, m.line.Takeable())
	if n == 0 {
		return
	}
	w.batch = make([]command.Envelope, n)
	if got := m.line.PopInto(w.batch); got != n {
		t.Fatalf("%d commands came, and %d could be taken", got, n)
	}
	w.part, w.at = m.line.Give(w.part, n), 0
	for _, e := range w.batch {
		m.came(t, e.Load.(int))
	}
}

// came checks a command that was given out.
func (m *suiteModel) came(t *rapid.T, id int) {
	was, known := m.waiting[id]
	if !known {
		t.Fatalf("%d was not here", id)
	}
	delete(m.waiting, id)
	if was != fresh {
		return
	}
	m.given = append(m.given, id)
	for other, s := range m.waiting {
		if s == returned && (!m.line.byKey || other%suiteKeys == id%suiteKeys) {
			t.Fatalf("%d comes before %d, which has come back and keeps its turn", id, other)
		}
	}
}

// busy returns a worker with a batch.
func (m *suiteModel) busy(t *rapid.T) *suiteWorker {
	w := &m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	if len(w.batch) == 0 {
		return nil
	}
	return w
}

func (m *suiteModel) finish(t *rapid.T) {
	if w := m.busy(t); w != nil {
		for w.at < len(w.batch) {
			m.done(w)
		}
		m.end(w)
	}
}

// done has a handler return, with a result.
func (m *suiteModel) done(w *suiteWorker) {
	m.line.Complete(w.part.TakePermit())
	if m.line.Knows() {
		w.part.Add(int32(w.at), m.to).Load = w.batch[w.at].Load
		w.part.End(int32(w.at))
	}
	w.at++
}

// end is the end of a batch.
func (m *suiteModel) end(w *suiteWorker) {
	if w.part != nil {
		m.line.Book(w.part)
		m.line.Cancel(w.part)
		m.leave(w.part)
		m.line.Free(w.part)
	}
	w.batch = nil
}

// leave has a worker hand over the results that may leave.
func (m *suiteModel) leave(p *Part) {
	for results := m.line.Leave(p, nil); len(results) > 0; results = m.line.Leave(p, nil) {
		for _, r := range results {
			m.left = append(m.left, r.Envelope.Load.(int))
		}
	}
}

// comeBack ends a batch in its middle: some commands are done, one perhaps is
// tried again later, and the rest comes back.
func (m *suiteModel) comeBack(t *rapid.T) {
	w := m.busy(t)
	if w == nil {
		return
	}
	for range rapid.IntRange(0, len(w.batch)-1).Draw(t, "done") {
		m.done(w)
	}
	again := rapid.Bool().Draw(t, "tried again")
	if again {
		w.at++
	}
	rest := w.batch[w.at:]
	ranks := m.ranksBack(w, rest)
	var retry suiteRetry
	if again {
		retry = suiteRetry{w.batch[w.at-1], m.rank(w.batch[w.at-1].Load)}
		if m.line.Knows() {
			retry.rank = w.part.Before(len(rest))
		}
	}
	if w.part != nil {
		m.line.Book(w.part)
		m.line.Cancel(w.part)
	}
	m.line.Return(rest, ranks)
	for _, e := range rest {
		m.waiting[e.Load.(int)] = returned
	}
	if again {
		if w.part != nil {
			m.line.Lose(w.part, len(rest))
		}
		m.line.Block(retry.rank)
		m.delayed = append(m.delayed, retry)
	}
	m.end(w)
}

func (m *suiteModel) ranksBack(w *suiteWorker, rest []command.Envelope) (ranks []Rank) {
	switch {
	case m.line.Knows():
		return w.part.Ranks(len(rest))
	case m.line.Asks():
		for i := range rest {
			ranks = append(ranks, m.rank(rest[i].Load))
		}
	}
	return ranks
}

func (m *suiteModel) retry(*rapid.T) {
	if len(m.delayed) == 0 {
		return
	}
	r := m.delayed[0]
	m.delayed = m.delayed[1:]
	if !m.line.Unblock(r.e, r.rank) {
		m.line.Push(r.e, r.rank)
	}
	m.waiting[r.e.Load.(int)] = retried
}

// gone notes that commands left the line which no worker has.
func (m *suiteModel) gone(t *rapid.T, es ...command.Envelope) {
	for i := range es {
		id := es[i].Load.(int)
		if _, known := m.waiting[id]; !known {
			t.Fatalf("%d was not here", id)
		}
		delete(m.waiting, id)
	}
}

func (m *suiteModel) drop(t *rapid.T) {
	if m.line.Droppable() > 0 {
		m.gone(t, m.line.Drop())
	}
}

func (m *suiteModel) remove(t *rapid.T) {
	odd := rapid.IntRange(0, 1).Draw(t, "odd")
	match := func(e *command.Envelope) bool { return e.Load.(int)/suiteKeys%2 == odd }
	asked := map[int]int{}
	m.gone(t, m.line.Remove(func(e *command.Envelope) bool { asked[e.Load.(int)]++; return match(e) })...)
	for id, n := range asked {
		if n > 1 {
			t.Fatalf("asked %d times about %d", n, id)
		}
	}
	if n := m.line.Count(match); n > 0 && !m.line.Awaited() {
		t.Fatalf("%d commands are left that match", n)
	}
}

func (m *suiteModel) drain(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "one in ten") == 0 {
		m.gone(t, m.line.Drain()...)
		m.leave(new(Part)) // results may have waited for the end of a drained command
		if len(m.waiting) > 0 {
			t.Fatalf("left: %v", m.waiting)
		}
	}
}

func (m *suiteModel) pass(*rapid.T) {
	if m.line.pass != nil {
		m.line.pass()
	}
}

func (m *suiteModel) resize(t *rapid.T) { m.line.Resize(rapid.IntRange(1, 20).Draw(t, "capacity")) }

// check holds after every step.
func (m *suiteModel) check(t *rapid.T) {
	var ids []int
	n := m.line.Count(func(e *command.Envelope) bool { ids = append(ids, e.Load.(int)); return true })
	slices.Sort(ids)
	require.Equal(t, slices.Sorted(maps.Keys(m.waiting)), ids)
	require.Equal(t, len(ids), n)
	require.Equal(t, n, m.line.Len())
	if m.line.Takeable() < 0 || m.line.Takeable() > n || m.line.Droppable() < 0 || m.line.Droppable() > n {
		t.Fatalf("%d may be taken and %d dropped, of %d", m.line.Takeable(), m.line.Droppable(), n)
	}
	if n > 0 {
		require.Contains(t, ids, m.line.Oldest().Load)
		require.Contains(t, ids, m.line.At(0).Load)
	}
	if want := m.given; m.line.Awaited() && !inOrder(m.left, want) {
		t.Fatalf("the results %v left, and the commands were given out in the order %v", m.left, want)
	}
}

// inOrder reports whether numbers are in a list in the same order.
func inOrder(some, all []int) bool {
	for _, id := range some {
		at := slices.Index(all, id)
		if at < 0 {
			return false
		}
		all = all[at+1:]
	}
	return true
}

// settle has the workers do all that is left: nothing is kept from them for
// ever.
func (m *suiteModel) settle(t *rapid.T) {
	for len(m.delayed) > 0 {
		m.retry(t)
	}
	m.line.Resize(1 << 20)
	for round := 0; len(m.waiting)+m.inHand() > 0; round++ {
		for i := range m.workers {
			w := &m.workers[i]
			if len(w.batch) == 0 {
				m.takeUpTo(t, w, 4)
			}
			for w.at < len(w.batch) {
				m.done(w)
			}
			m.end(w)
		}
		m.pass(t)
		m.check(t)
		if round > 10_000 {
			t.Fatalf("%d commands are left", len(m.waiting))
		}
	}
	require.Zero(t, m.line.Takeable())
	var a Accounts
	m.line.Account(0, &a)
	require.Zero(t, a.Results, "all results have left")
}

func (m *suiteModel) inHand() (n int) {
	for i := range m.workers {
		n += len(m.workers[i].batch)
	}
	return n
}
