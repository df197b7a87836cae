package inbox

import (
	"time"

	"github.com/golda-dev/golda/controller"
)

// Turn books what a worker of the shared pool did, and moves the next commands
// to its batch: from the inbox where it is, if the visit continues, or else
// from the next inbox. The worker has handed over all results of the last
// batch. Turn returns the inbox and how many commands: 0 if there is no work
// anywhere, -1 if the worker must leave. With park, a worker that gets 0 is
// parked until it is woken.
func (sp *SharedPool) Turn(m *Member, t *Tally, park bool) (*Inbox, int) {
	gone := sp.arriveOrRetire(m)
	if in := m.visit.at; in != nil {
		if n := sp.stay(in, m, t, gone); n > 0 {
			return in, n
		}
	}
	if gone {
		return nil, -1
	}
	for {
		if b, era := sp.next(m); b != nil {
			if n := sp.enter(b, era, m); n > 0 {
				return b.inbox, n
			}
			continue
		}
		if !park {
			sp.looksOnceMore(m)
			return nil, 0
		}
		if sp.parked(m) {
			return nil, 0
		}
		if sp.arriveOrRetire(m) {
			return nil, -1
		}
	}
}

// arriveOrRetire notes that a worker takes its turn, and reports whether it
// must leave. If so and there are tokens, it wakes another.
func (sp *SharedPool) arriveOrRetire(m *Member) (gone bool) {
	var fx effects
	sp.mu.Lock()
	sp.arrive(m)
	gone = sp.retires()
	if gone && sp.pending() {
		fx.wakeWorker(sp.callIdle())
	}
	sp.unlock(&fx)
	return gone
}

// looksOnceMore notes that a worker has found no work, and takes another turn
// before it is parked.
func (sp *SharedPool) looksOnceMore(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.expect(m)
}

// parked parks a worker, unless there is a token, or a worker must leave. It
// reports whether it did.
func (sp *SharedPool) parked(m *Member) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.pending() || sp.excess > 0 {
		return false
	}
	sp.park(m)
	m.visit.empty = 0
	return true
}

// next takes a token, and returns the inbox to visit, nil if there is none, and
// the token's era.
func (sp *SharedPool) next(m *Member) (*binding, uint64) {
	if m.visit.walked = sp.polled(); m.visit.walked {
		return sp.walk(m)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if len(sp.ready) == 0 {
		return nil, 0
	}
	t := sp.ready.pop()
	return t.of, t.era
}

// walk follows the plan to the next inbox with a token, and takes that. It
// returns nil after one round of empty visits if there is no token.
func (sp *SharedPool) walk(m *Member) (*binding, uint64) {
	if m.visit.route == nil {
		m.visit.route = sp.route.Load()
	}
	sp.turnTo(m, sp.route.Load())
	for {
		n := len(m.visit.route.order)
		if n == 0 {
			m.visit.route = sp.route.Load()
			return nil, 0
		}
		b := m.visit.route.order[m.visit.walk.At(n)]
		if era, ok := b.takeNote(); ok {
			return b, era
		}
		if m.visit.empty >= n && sp.noted.Load() == 0 {
			return nil, 0
		}
		b.inbox.state.visits.empties.Add(1)
		sp.endVisit(m, 0, false)
	}
}

// endVisit ends a visit of a worker that polls.
func (sp *SharedPool) endVisit(m *Member, handled int, bounded bool) {
	sp.count(handled == 0)
	m.visit.empty++
	if handled > 0 {
		m.visit.empty = 0
	}
	rt, fresh := m.visit.route, sp.route.Load()
	restarts := rt.plan.Restarts(handled, bounded)
	round := m.visit.walk.EndsRound(rt.plan, len(rt.order), handled, bounded)
	past := m.visit.walk.Leave(rt.plan, len(rt.order), handled, bounded)
	if past || restarts {
		sp.adopt(m, fresh)
	} else {
		sp.turnTo(m, fresh)
	}
	if !round {
		return
	}
	sp.rounds.Add(1)
	if !rt.ended.Load() && !rt.ended.Swap(true) && sp.pipeline.RoundEnd != nil {
		sp.pipeline.RoundEnd(sp)
	}
}

// turnTo makes a worker leave its route in the middle if the fresh route is of
// the same plan, for other inboxes, or of a plan with Now.
func (sp *SharedPool) turnTo(m *Member, fresh *route) {
	if fresh.plan == m.visit.route.plan || fresh.plan != nil && fresh.plan.Now {
		sp.adopt(m, fresh)
	}
}

// adopt makes a worker follow the fresh route from its first place, unless it
// follows it already.
func (sp *SharedPool) adopt(m *Member, fresh *route) {
	if fresh != m.visit.route {
		m.visit.route = fresh
		m.visit.walk.Restart()
	}
}

// count counts a visit.
func (sp *SharedPool) count(empty bool) {
	if empty {
		sp.empties.Add(1)
	}
	n := sp.visits.Add(1)
	if every := uint64(sp.reportEvery.Load()); every > 0 && n%every == 0 && sp.pipeline.Visited != nil {
		sp.pipeline.Visited(sp)
	}
}

// enter starts a visit of a worker that brings a token. It returns how many
// commands the worker got.
func (sp *SharedPool) enter(b *binding, era uint64, m *Member) int {
	in := b.inbox
	aheadFull := in.aheadFull()
	var fx effects
	in.mu.Lock()
	n := in.state.visited(b, era, m, aheadFull, &fx)
	in.unlock(&fx)
	if m.visit.walked && n == 0 {
		in.state.visits.empties.Add(1)
		sp.endVisit(m, 0, false)
	}
	return n
}

// visited starts a visit of a shared worker and gives it its first commands.
func (s *state) visited(b *binding, era uint64, m *Member, aheadFull bool, fx *effects) int {
	n := 0
	if s.claimToken(b, era) && !aheadFull && !s.visits.resting {
		s.counts.Visits++
		m.visit.handled, m.visit.queued, m.visit.began = 0, s.queue.Len(), 0
		n = s.take(m, b.pool.left(s, m))
	}
	if n > 0 {
		m.visit.at = s.self
		m.visit.handled = n
	}
	s.changed(fx)
	s.checkQuiet(fx)
	return n
}

// claimToken takes the token that a worker brings. It returns false if the
// token is void.
func (s *state) claimToken(b *binding, era uint64) bool {
	if s.visits.binding != b || s.visits.era != era {
		return false
	}
	s.visits.tokens--
	return true
}

// stay continues a visit or ends it. If the worker is gone it ends the visit.
// It returns how many commands the worker got.
func (sp *SharedPool) stay(in *Inbox, m *Member, t *Tally, gone bool) int {
	polled := m.visit.walked && sp.polled()
	ends := !polled || gone || in.aheadFull()
	var fx effects
	in.mu.Lock()
	n, bounded := in.state.goOn(sp, m, t, ends, &fx)
	in.unlock(&fx)
	switch {
	case n > 0:
	case polled:
		sp.endVisit(m, m.visit.handled, bounded)
	default:
		sp.count(false)
	}
	return n
}

// goOn books a shared worker's batch and gives it the next, unless the visit
// ends. Bounded says that the visit plan ended the visit though there was more
// to do.
func (s *state) goOn(sp *SharedPool, m *Member, t *Tally, ends bool, fx *effects) (n int, bounded bool) {
	s.book(m, t, fx)
	s.cancelPermit(m)
	m.finishTime()
	s.instances.exit(m)
	s.freeLanes(m)
	if !ends && s.pool() == sp && !s.visits.resting {
		most := sp.left(s, m)
		if bounded = most < 0; !bounded {
			n = s.take(m, most)
		}
		bounded = bounded && s.queue.Len() > 0
	}
	if n > 0 {
		m.visit.handled += n
	} else {
		m.visit.at = nil
		s.unlist(m)
		m.drop()
		s.instances.takeBack(m, s.knobs.Instances)
	}
	s.changed(fx)
	s.checkQuiet(fx)
	return n, bounded
}

// left is how many commands a worker may still take in its visit: 0 for any
// number, -1 for none.
func (sp *SharedPool) left(s *state, m *Member) int {
	rt := m.visit.route
	if rt == nil || !sp.polled() {
		rt = sp.route.Load()
	}
	if rt.plan == nil {
		return 0
	}
	left := 0
	switch rt.plan.Gating {
	case controller.Gated:
		left = m.visit.queued - m.visit.handled
	case controller.Bounded:
		left = rt.plan.BoundOf(controller.StageID(s.self.Place)) - m.visit.handled
	case controller.TimeBounded: // the only gating that needs a clock
		now := s.now()
		if m.visit.handled == 0 {
			m.visit.began = now
		}
		if time.Duration(now-m.visit.began) < rt.plan.Quantum || m.visit.handled == 0 {
			return 0
		}
	default:
		return 0
	}
	if left <= 0 {
		return -1
	}
	return left
}
