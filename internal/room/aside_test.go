package room

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// suspending is a room whose handlers suspend, against a model of it in lists: commands are
// numbers, and a run is a pointer to one.
type suspending struct {
	*staffed
	t *rapid.T

	tallies        []Tally
	hands          [][]int // what each worker has still to do
	leaves         []bool  // it has crashed, and comes back with its next turn
	next           int
	fresh, woken   []int
	aside          []int
	ok, dead, shed int
	instances      int
	paused, halted bool
	buried         []any
}

func newSuspending(t *rapid.T, workers int) *suspending {
	cfg := Config{
		Name: "r", Capacity: rapid.IntRange(1, 8).Draw(t, "capacity"), Batch: rapid.IntRange(1, 6).Draw(t, "batch"),
		Instances: rapid.IntRange(1, 10).Draw(t, "instances"), Overflow: DropOldest, StreakEnds: time.Minute,
	}
	m := &suspending{t: t, instances: cfg.Instances}
	m.staffed = &staffed{Room: New(cfg)}
	m.limit = cfg.Batch
	m.Suspends()
	m.Adopt(&Host{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(e End) { m.buried = append(m.buried, e.Cmd) }})
	m.Open()
	for range workers {
		m.seats = append(m.seats, &Seat{Wake: func() {}})
	}
	for _, s := range m.seats {
		m.Claim(s)
		m.Join(s, false)
	}
	m.tallies, m.hands, m.leaves = make([]Tally, workers), make([][]int, workers), make([]bool, workers)
	return m
}

func (m *suspending) submit(t *rapid.T) {
	if m.halted {
		return
	}
	if len(m.fresh) >= m.cfg.Capacity {
		m.shed++
		m.fresh = m.fresh[1:]
	}
	m.next++
	require.NoError(t, m.Submit(t.Context(), &command.Envelope{Cmd: m.next}))
	m.fresh = append(m.fresh, m.next)
}

// underWay is what the instances bound.
func (m *suspending) underWay() (n int) {
	for _, h := range m.hands {
		n += len(h)
	}
	return n + len(m.aside) + len(m.woken)
}

func (m *suspending) due() int {
	switch {
	case m.halted:
		return 0
	case m.paused:
		return len(m.woken)
	default:
		return len(m.woken) + max(min(len(m.fresh), m.instances-m.underWay()-m.untold()), 0)
	}
}

// untold is how many commands have ended whose workers have not booked that yet.
func (m *suspending) untold() (n int) {
	for _, t := range m.tallies {
		n += t.OK
	}
	return n
}

// turn has a worker that has done all it had come for more.
func (m *suspending) turn(t *rapid.T) {
	i := m.worker(t, func(h []int) bool { return len(h) == 0 })
	if i < 0 || !m.seats[i].Ready() && !m.leaves[i] {
		return // one that is parked comes when it is woken
	}
	s := m.seats[i]
	if m.leaves[i] {
		m.Restock(s)
		m.Claim(s)
		m.Join(s, true)
		m.leaves[i] = false
	}
	m.Book(s, &m.tallies[i])
	due, going := m.due(), len(m.woken)
	n := m.Turn(s, &m.tallies[i], true)
	if due == 0 {
		require.Zero(t, n)
		return
	}
	if n == 0 {
		require.True(t, m.out >= m.instances || !s.owns && !m.equippable(), "there was something to do")
		return
	}
	require.LessOrEqual(t, n, min(due, m.cfg.Batch))
	took := 0
	for _, e := range s.Hand[:n] {
		if e.Woken() {
			cmd := *e.Cmd.(*int)
			require.Equal(t, m.woken[0], cmd)
			m.woken, took = m.woken[1:], took+1
			m.hands[i] = append(m.hands[i], cmd)
			continue
		}
		require.Equal(t, m.fresh[0], e.Cmd)
		m.fresh = m.fresh[1:]
		m.hands[i] = append(m.hands[i], e.Cmd.(int))
	}
	require.GreaterOrEqual(t, took, min(going, n)-1, "those that were woken come first, but for one place")
}

// worker draws one whose hand is so, -1 if there is none.
func (m *suspending) worker(t *rapid.T, so func([]int) bool) int {
	var fit []int
	for i, h := range m.hands {
		if so(h) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return rapid.SampledFrom(fit).Draw(t, "worker")
}

func busy(h []int) bool { return len(h) > 0 }

func (m *suspending) end(t *rapid.T) {
	if i := m.worker(t, busy); i >= 0 {
		m.hands[i] = m.hands[i][1:]
		m.tallies[i].OK++
		m.ok++
	}
}

func (m *suspending) suspend(t *rapid.T) {
	if i := m.worker(t, busy); i >= 0 {
		m.aside = append(m.aside, m.hands[i][0])
		m.hands[i] = m.hands[i][1:]
		m.tallies[i].Suspended++
	}
}

func (m *suspending) wakeAll(t *rapid.T) {
	for range len(m.aside) {
		m.wake(t)
	}
}

func (m *suspending) wake(t *rapid.T) {
	if len(m.aside) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.aside)-1).Draw(t, "which")
	cmd := m.aside[i]
	m.Wake(command.Envelope{Cmd: &cmd})
	if m.halted {
		return
	}
	m.woken = append(m.woken, cmd)
	m.aside = slices.Delete(m.aside, i, i+1)
}

// crash crashes a worker at its next command; some of the rest had been begun before.
func (m *suspending) crash(t *rapid.T) {
	i := m.worker(t, busy)
	if i < 0 {
		return
	}
	hand, s := m.hands[i], m.seats[i]
	last := 0
	for last < len(s.Hand) && s.Hand[last].Cmd != nil {
		last++
	}
	rest := s.Hand[last-len(hand)+1 : last]
	culprit := command.Envelope{Cmd: hand[0]}
	culprit.Failed()
	var fresh, begun []int
	for _, e := range rest {
		if run, ok := e.Cmd.(*int); ok {
			begun = append(begun, *run)
		} else {
			fresh = append(fresh, e.Cmd.(int))
		}
	}
	m.Crash(s, &m.tallies[i], &culprit, slices.Clone(rest), false, ErrStopped)
	m.Yield(s)
	m.hands[i], m.leaves[i] = nil, true
	m.dead++
	if m.halted {
		m.aside = append(m.aside, begun...)
		m.dead += len(fresh)
		return
	}
	m.fresh, m.woken = append(fresh, m.fresh...), append(begun, m.woken...)
}

func (m *suspending) pause(t *rapid.T) {
	m.paused = rapid.Bool().Draw(t, "paused")
	m.Adjust(func(k *Knobs) { k.Paused = m.paused })
}

func (m *suspending) resize(t *rapid.T) {
	m.instances = rapid.IntRange(1, 10).Draw(t, "instances")
	m.Adjust(func(k *Knobs) { k.Instances = m.instances })
}

// halt stops hard, seldom.
func (m *suspending) halt(t *rapid.T) {
	if m.halted || rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	m.halted = true
	m.Halt()()
	m.dead += len(m.fresh)
	m.aside = append(m.aside, m.woken...)
	m.fresh, m.woken = nil, nil
}

// resumed ends one command of a halted room by somebody who is no worker.
func (m *suspending) resumed(t *rapid.T) {
	if !m.halted || len(m.aside) == 0 {
		return
	}
	var s Seat
	m.Resumed(&s)
	m.Book(&s, &Tally{OK: 1})
	m.ok++
	m.aside = m.aside[1:]
}

func (m *suspending) check(t *rapid.T) {
	s := Snapshot([]*Room{m.Room})[0]
	unbooked, untold := m.untold(), 0
	for i := range m.tallies {
		untold += m.tallies[i].Suspended
	}
	require.Equal(t, len(m.fresh), s.Queued)
	require.Equal(t, m.underWay()+unbooked, s.InHand)
	require.EqualValues(t, m.ok-unbooked, s.OK)
	require.EqualValues(t, m.dead, Sum(s.Dead))
	require.EqualValues(t, m.shed, Sum(s.Shed))
	require.Equal(t, s.Submitted, s.OK+Sum(s.Shed)+Sum(s.Dead)+uint64(s.Queued+s.InHand))
	if untold == 0 {
		require.Equal(t, len(m.aside), s.Suspended)
	}
	require.Equal(t, m.due(), m.Room.due())
	idle := len(m.idle) > 0
	if m.Room.due() > 0 && m.out < m.instances && idle && m.waking == 0 {
		able := slices.ContainsFunc(m.idle, m.fit)
		require.False(t, able, "somebody should be on the way")
	}
	for _, cmd := range m.buried {
		require.IsType(t, 0, cmd, "a dead letter is what was submitted")
	}
}

func TestCommandsThatAreSetAsideAreAccountedForAsAModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSuspending(t, rapid.IntRange(1, 3).Draw(t, "workers"))
		t.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "turn": m.turn, "turn again": m.turn, "end": m.end, "suspend": m.suspend, "wake": m.wake, "wake all": m.wakeAll,
			"suspend again": m.suspend, "crash": m.crash, "pause": m.pause, "resize": m.resize, "halt": m.halt, "resumed": m.resumed, "": m.check,
		})
	})
}

func TestWhatACrashGivesBackGoesBeforeAllOthersOfItsKind(t *testing.T) {
	r := New(Config{Name: "r", Capacity: 8, Batch: 8, Instances: 9, StreakEnds: time.Minute})
	r.limit = 4
	r.Suspends()
	r.Adopt(&Host{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(End) {}})
	r.Open()
	s := &Seat{Wake: func() {}}
	r.Claim(s)
	r.Join(s, false)
	var tally Tally
	for cmd := range 8 {
		require.NoError(t, r.Submit(t.Context(), &command.Envelope{Cmd: cmd}))
	}
	for range 2 {
		tally.Suspended = r.Turn(s, &tally, true)
	}
	require.Zero(t, r.Turn(s, &tally, true))
	for run := range 6 {
		r.Wake(command.Envelope{Cmd: run})
	}
	require.NoError(t, r.Submit(t.Context(), &command.Envelope{Cmd: "a"}))
	require.Equal(t, 4, r.Turn(s, &tally, true))
	require.Equal(t, []any{0, 1, 2, "a"}, commands(s.Hand[:4]))
	r.Crash(s, &tally, &s.Hand[0], slices.Clone(s.Hand[1:4]), false, ErrStopped)
	r.Restock(s)
	r.Claim(s)
	r.Join(s, true)
	require.Equal(t, 4, r.Turn(s, &tally, true))
	require.Equal(t, []any{1, 2, 3, 4}, commands(s.Hand[:4]))
}

func commands(es []command.Envelope) (all []any) {
	for _, e := range es {
		all = append(all, e.Cmd)
	}
	return all
}
