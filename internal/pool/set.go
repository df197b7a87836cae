package pool

import (
	"slices"
	"sync/atomic"
)

// Attendance is a worker as a set sees it. M is what the set's owner knows of the
// worker, most often a struct that has the attendance in it.
//
// A worker of a set is working unless it is idle or on its way. The lock of the
// set guards all but whether the worker is ready.
type Attendance[M any] struct {
	of     *M
	joined bool
	idle   bool // is among the idle
	waking bool // is on its way: was woken from idle, or is about to look once more

	ready atomic.Bool // there may be a turn to take
}

// Ready reports whether the worker should take a turn. Parking makes it false,
// waking makes it true. Any goroutine may ask.
func (a *Attendance[M]) Ready() bool { return a.ready.Load() }

// SetReady says whether a worker that is parked at an inbox should take a turn.
func (a *Attendance[M]) SetReady(ready bool) { a.ready.Store(ready) }

// Joined reports whether the worker is one of a set.
func (a *Attendance[M]) Joined() bool { return a.joined }

// Idle reports whether the worker is parked with nothing to do.
func (a *Attendance[M]) Idle() bool { return a.idle }

// Waking reports whether the worker is on its way.
func (a *Attendance[M]) Waking() bool { return a.waking }

// Set is the set of workers of one inbox, or of a shared pool. The lock of its
// owner guards it. The zero set is empty.
//
// Each worker is working, idle, or on its way; excess workers must leave at
// their next turn. The functions that call workers return them: the caller
// wakes them.
//
// Some workers may be unstarted: they have neither an actor nor a value until
// they are called. They count as workers of the set. They are called after the
// idle workers, one at a time. A stage has a worker for each processor, and
// most stages of a large pipeline rest: a fresh stage takes some 4 KB with any
// number of unstarted workers, and 5, 13 or 76 KB with 1, 8 or 64 started ones.
type Set[M any] struct {
	live   int32            // workers that have joined, and the unstarted ones
	most   int32            // the highest value of live so far
	excess int32            // workers that should leave at their next turn
	waking int32            // workers that are on their way: woken, or about to look once more
	idle   []*Attendance[M] // last in, first out

	unstarted int32 // the called one included
	called    bool  // one of them is called, and has not been started yet
}

// Live returns how many workers there are.
func (s *Set[M]) Live() int { return int(s.live) }

// Most returns the highest value of Live so far.
func (s *Set[M]) Most() int { return int(s.most) }

// Excess returns how many workers must leave.
func (s *Set[M]) Excess() int { return int(s.excess) }

// Join adds a worker.
func (s *Set[M]) Join(m *M, a *Attendance[M]) {
	s.grow(1)
	a.admit(m)
}

func (s *Set[M]) grow(n int) {
	s.live += int32(n)
	s.most = max(s.most, s.live)
}

func (a *Attendance[M]) admit(m *M) {
	a.of, a.joined = m, true
	a.ready.Store(true)
}

// Depart removes a worker. It returns false if it had not joined.
func (s *Set[M]) Depart(a *Attendance[M]) bool {
	if !a.joined {
		return false
	}
	a.joined = false
	s.live--
	s.Arrive(a)
	return true
}

// Callable reports whether there is a worker that can be called, and none is on
// its way.
func (s *Set[M]) Callable() bool {
	return (len(s.idle) > 0 || s.unstarted > 0) && s.waking == 0 && !s.called
}

// Call calls the fit worker that has been idle for the shortest time. It
// returns nil if there is none.
func (s *Set[M]) Call(fit func(*M) bool) *M {
	for i, a := range slices.Backward(s.idle) {
		if fit(a.of) {
			s.idle = slices.Delete(s.idle, i, i+1)
			s.call(a)
			return a.of
		}
	}
	return nil
}

// CallAny calls the worker that has been idle for the shortest time. It returns
// nil if there is none.
func (s *Set[M]) CallAny() *M {
	last := len(s.idle) - 1
	if last < 0 {
		return nil
	}
	a := s.idle[last]
	s.idle[last] = nil
	s.idle = s.idle[:last]
	s.call(a)
	return a.of
}

// CallAll calls all idle workers that are fit.
func (s *Set[M]) CallAll(fit func(*M) bool) (called []*M) {
	idle := s.idle[:0]
	for _, a := range s.idle {
		if fit(a.of) {
			s.call(a)
			called = append(called, a.of)
		} else {
			idle = append(idle, a)
		}
	}
	clear(s.idle[len(idle):])
	s.idle = idle
	return called
}

func (s *Set[M]) call(a *Attendance[M]) {
	a.idle = false
	a.ready.Store(true)
	s.Expect(a)
}

// Expect counts a worker as on its way.
func (s *Set[M]) Expect(a *Attendance[M]) {
	a.waking = true
	s.waking++
}

// Arrive notes that a worker takes its turn: it was woken, or it was idle and
// takes a turn for another reason.
func (s *Set[M]) Arrive(a *Attendance[M]) {
	if a.waking {
		a.waking = false
		s.waking--
	}
	if a.idle {
		a.idle = false
		s.idle = slices.DeleteFunc(s.idle, func(o *Attendance[M]) bool { return o == a })
	}
}

// Park makes a worker idle until it is called.
func (s *Set[M]) Park(a *Attendance[M]) {
	a.ready.Store(false)
	a.idle = true
	s.idle = append(s.idle, a)
}

// Retires reports whether a worker that takes its turn must leave: any worker
// must, while there are excess workers.
func (s *Set[M]) Retires() bool { return s.Unshrink(1) == 1 }

// Shrink asks n workers to leave: the first workers to take a turn will. It
// calls as many idle workers, the longest idle first.
func (s *Set[M]) Shrink(n int) (called []*M) {
	s.excess += int32(n)
	n = min(n, len(s.idle))
	for _, a := range s.idle[:n] {
		s.call(a)
		called = append(called, a.of)
	}
	s.idle = slices.Delete(s.idle, 0, n)
	return called
}

// Unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (s *Set[M]) Unshrink(n int) int {
	n = min(n, int(s.excess))
	s.excess -= int32(n)
	return n
}

// ForgetShrink takes all requests to leave back.
func (s *Set[M]) ForgetShrink() { s.excess = 0 }

// AddUnstarted adds n workers that are started when they are called, and not
// before.
func (s *Set[M]) AddUnstarted(n int) {
	s.unstarted += int32(n)
	s.grow(n)
}

// CallUnstarted calls an unstarted worker. It returns false if there is none,
// or one is called already.
func (s *Set[M]) CallUnstarted() bool {
	if s.unstarted == 0 || s.called {
		return false
	}
	s.called = true
	return true
}

// Start makes a worker join in the place of the unstarted worker that was
// called. It returns false if none was.
func (s *Set[M]) Start(m *M, a *Attendance[M]) bool {
	if !s.called {
		return false
	}
	s.called = false
	s.unstarted--
	a.admit(m)
	s.Expect(a)
	return true
}

// DropUnstarted removes up to n unstarted workers that were not called, and
// returns how many.
func (s *Set[M]) DropUnstarted(n int) int {
	most := int(s.unstarted)
	if s.called {
		most--
	}
	n = min(n, most)
	s.unstarted -= int32(n)
	s.live -= int32(n)
	return n
}

// DropAllUnstarted removes all unstarted workers, the called one too, and
// returns how many.
func (s *Set[M]) DropAllUnstarted() int {
	s.called = false
	return s.DropUnstarted(int(s.unstarted))
}
