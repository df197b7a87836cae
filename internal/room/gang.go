package room

import "slices"

// gang is who works for a room, or for a crew of several; that one's lock guards
// it.
type gang struct {
	live   int // workers that have joined
	most   int // the most there ever were
	excess int // workers that should leave at their next turn
	waking int // idle workers that were woken and have not come yet
	idle   []*Seat
}

// join seats a worker.
func (g *gang) join(s *Seat) {
	g.live++
	g.most = max(g.most, g.live)
	s.joined, s.retired = true, false
	s.ready.Store(true)
}

// part takes a worker off its seat. It reports false if it had none.
func (g *gang) part(s *Seat) bool {
	if !s.joined {
		return false
	}
	s.joined = false
	g.live--
	g.come(s)
	return true
}

// call picks the worker that is fit and has been idle for the shortest time, nil if
// there is none. It is to be woken.
func (g *gang) call(fit func(*Seat) bool) *Seat {
	for i, s := range slices.Backward(g.idle) {
		if fit(s) {
			g.idle = slices.Delete(g.idle, i, i+1)
			g.summon(s)
			return s
		}
	}
	return nil
}

// summon marks a worker that was idle as on its way.
func (g *gang) summon(s *Seat) {
	s.idle, s.waking = false, true
	g.waking++
	s.ready.Store(true)
}

// come notes that a worker is here: it was woken, or it was idle and something else has woken it.
func (g *gang) come(s *Seat) {
	if s.waking {
		s.waking = false
		g.waking--
	}
	if s.idle {
		s.idle = false
		g.idle = slices.DeleteFunc(g.idle, func(o *Seat) bool { return o == s })
	}
}

// park lets a worker rest until it is called.
func (g *gang) park(s *Seat) {
	s.ready.Store(false)
	s.idle = true
	g.idle = append(g.idle, s)
}

// dismissed reports whether a worker is one too many.
func (g *gang) dismissed(s *Seat) bool {
	if !s.retired && g.excess > 0 {
		g.excess--
		s.retired = true
	}
	return s.retired
}

// takeIdle sends all idle workers on their way.
func (g *gang) takeIdle() []*Seat {
	woken := g.idle
	g.idle = nil
	for _, s := range woken {
		g.summon(s)
	}
	return woken
}

// shrink asks n workers to leave: idle ones at once, those that have been idle for
// longest first; others when they have finished what they hold.
func (g *gang) shrink(n int) (woken []*Seat) {
	for range n {
		if len(g.idle) == 0 {
			g.excess++
			continue
		}
		s := g.idle[0]
		g.idle = slices.Delete(g.idle, 0, 1)
		s.retired = true
		g.summon(s)
		woken = append(woken, s)
	}
	return woken
}

// keep takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (g *gang) keep(n int) int {
	n = min(n, g.excess)
	g.excess -= n
	return n
}
