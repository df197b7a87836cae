package pool

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOneUnstartedWorkerIsCalledAtATime(t *testing.T) {
	var s Set[tester]
	s.AddUnstarted(3)
	require.False(t, s.Start(new(tester), new(Attendance[tester])), "none is called")
	require.True(t, s.CallUnstarted())
	require.False(t, s.CallUnstarted(), "one is on its way")
	require.False(t, s.Callable())
	require.Equal(t, 2, s.DropUnstarted(3), "the called one stays")
	w := new(tester)
	require.True(t, s.Start(w, &w.attendance))
	require.True(t, w.attendance.Joined() && w.attendance.Ready() && w.attendance.Waking())
	require.False(t, s.CallUnstarted(), "there is none")
	require.Zero(t, s.DropUnstarted(1))
	require.Equal(t, 1, s.Live())
	require.Equal(t, 3, s.Most())
}

func TestAllUnstartedWorkersAreDroppedWithTheCalledOne(t *testing.T) {
	var s Set[tester]
	s.AddUnstarted(3)
	require.True(t, s.CallUnstarted())
	require.Equal(t, 3, s.DropAllUnstarted())
	require.False(t, s.Start(new(tester), new(Attendance[tester])), "it is not wanted any more")
	require.Zero(t, s.Live())
}

// setModel says what a set should do with a few workers, one step at a time.
type setModel struct {
	Set[tester]
	workers []*tester
	idle    []*tester // in the order in which they were parked
	waking  []*tester
	excess  int
}

func TestASetKnowsWhereEachWorkerIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &setModel{}
		for range 5 {
			m.workers = append(m.workers, new(tester))
		}
		any := func(t *rapid.T) *tester { return m.workers[rapid.IntRange(0, 4).Draw(t, "worker")] }
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if w := any(t); !w.attendance.Joined() {
					m.Join(w, &w.attendance)
				}
			},
			"depart": func(t *rapid.T) {
				w := any(t)
				was := w.attendance.Joined()
				if m.Depart(&w.attendance) != was {
					t.Fatalf("joined: %v", was)
				}
				m.gone(w)
			},
			"turn": func(t *rapid.T) {
				w := any(t)
				if !w.attendance.Joined() {
					t.Skip()
				}
				w.attendance.SetReady(true) // it may have been idle: then something else has made it ready
				m.Arrive(&w.attendance)
				m.gone(w)
				if m.Retires() {
					m.excess--
					m.Depart(&w.attendance)
					return
				}
				switch rapid.IntRange(0, 2).Draw(t, "then") {
				case 0:
					m.Park(&w.attendance)
					m.idle = append(m.idle, w)
				case 1:
					m.Expect(&w.attendance)
					m.waking = append(m.waking, w)
				}
			},
			"call": func(t *rapid.T) {
				fit := any(t)
				w := m.Call(func(w *tester) bool { return w != fit })
				m.called(t, w, func(w *tester) bool { return w != fit })
			},
			"callAny": func(t *rapid.T) { m.called(t, m.CallAny(), func(*tester) bool { return true }) },
			"callAll": func(t *rapid.T) {
				fit := any(t)
				called := m.CallAll(func(w *tester) bool { return w == fit })
				if len(called) > 1 || (len(called) == 1) != slices.Contains(m.idle, fit) {
					t.Fatalf("%d called", len(called))
				}
				for _, w := range called {
					m.gone(w)
					m.waking = append(m.waking, w)
				}
			},
			"shrink": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				called, want := m.Shrink(n), m.idle[:min(n, len(m.idle))]
				if !slices.Equal(called, want) {
					t.Fatalf("not the workers that have been idle for the longest time")
				}
				m.excess += n
				for _, w := range called {
					m.gone(w)
					m.waking = append(m.waking, w)
				}
			},
			"unshrink": func(t *rapid.T) { m.excess -= m.Unshrink(rapid.IntRange(0, 3).Draw(t, "n")) },
			"":         m.check,
		})
	})
}

// gone notes that a worker is neither idle nor on its way.
func (m *setModel) gone(w *tester) {
	is := func(o *tester) bool { return o == w }
	m.idle, m.waking = slices.DeleteFunc(slices.Clone(m.idle), is), slices.DeleteFunc(m.waking, is)
}

// called checks that the right worker was called.
func (m *setModel) called(t *rapid.T, w *tester, fit func(*tester) bool) {
	var want *tester
	for _, o := range m.idle {
		if fit(o) {
			want = o
		}
	}
	if w != want {
		t.Fatalf("not the fit worker that has been idle for the shortest time")
	}
	if w != nil {
		m.gone(w)
		m.waking = append(m.waking, w)
	}
}

func (m *setModel) check(t *rapid.T) {
	inside := m.Inspect()
	if !slices.Equal(inside.Idle, m.idle) || inside.Waking != len(m.waking) || m.Excess() != m.excess {
		t.Fatalf("%d idle, %d waking, %d excess; want %d, %d, %d", len(inside.Idle), inside.Waking, m.Excess(), len(m.idle), len(m.waking), m.excess)
	}
	live := 0
	for _, w := range m.workers {
		a := &w.attendance
		if a.Joined() {
			live++
		}
		if a.Idle() != slices.Contains(m.idle, w) || a.Waking() != slices.Contains(m.waking, w) || a.Idle() == a.Ready() && a.Joined() {
			t.Fatalf("idle %v, waking %v, ready %v", a.Idle(), a.Waking(), a.Ready())
		}
	}
	if m.Live() != live || m.Most() < live || m.Callable() != (len(m.idle) > 0 && len(m.waking) == 0) {
		t.Fatalf("%d live, want %d; at most %d; callable %v", m.Live(), live, m.Most(), m.Callable())
	}
}
