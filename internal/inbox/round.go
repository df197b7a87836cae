package inbox

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Turn books what a worker of the shared pool did, and moves the next commands to its hand:
// of the inbox where it is, if the visit goes on, or else of the next. All that came
// of the last ones has been handed over. It returns the inbox and how many: 0 if there
// is nothing to do anywhere, and then, with park, the worker is parked until it is
// woken; -1 if the worker is to leave.
func (sp *SharedPool) Turn(m *Member, t *Tally, park bool) (*Inbox, int) {
	gone := sp.report(m)
	if in := m.at; in != nil {
		if n := sp.stay(in, m, t, gone); n > 0 {
			return in, n
		}
	}
	if gone {
		return nil, -1
	}
	for {
		in, era := sp.next(m)
		if in != nil {
			if n := sp.enter(in, era, m); n > 0 {
				return in, n
			}
			continue
		}
		if !park || sp.parked(m) {
			return nil, 0
		}
		if sp.report(m) {
			return nil, -1
		}
	}
}

// report notes that a worker is here, and reports whether it is to leave.
func (sp *SharedPool) report(m *Member) bool {
	sp.mu.Lock()
	sp.arrive(m)
	gone := sp.retires(m)
	var next *Member
	if gone && sp.pending() {
		next = sp.callIdle()
	}
	sp.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	return gone
}

// parked parks a worker, unless a token has come since it looked, or somebody is to leave.
func (sp *SharedPool) parked(m *Member) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.pending() || sp.excess > 0 {
		return false
	}
	sp.park(m)
	m.empty = 0
	return true
}

// next finds the inbox to visit next, nil if there is none.
func (sp *SharedPool) next(m *Member) (*Inbox, uint64) {
	if m.walked = sp.polled(); m.walked {
		return sp.walk(m), 0
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if len(sp.ready) == 0 {
		return nil, 0
	}
	t := sp.ready.pop()
	return t.room, t.era
}

// walk goes on through the plan until it comes to an inbox with work. After one
// round in vain, with no token in sight, it gives up.
func (sp *SharedPool) walk(m *Member) *Inbox {
	if m.route == nil {
		m.route = sp.route.Load()
	}
	sp.turnTo(m, sp.route.Load())
	for {
		n := len(m.route.order)
		if n == 0 {
			m.route = sp.route.Load()
			return nil
		}
		in := m.route.order[m.walk.At(n)]
		if in.tokens.Load() > 0 {
			return in
		}
		if m.empty >= n && sp.noted.Load() == 0 {
			return nil
		}
		in.empties.Add(1)
		sp.leave(m, 0, false)
	}
}

// leave ends a visit of a worker that polls.
func (sp *SharedPool) leave(m *Member, handled int, bounded bool) {
	sp.count(handled == 0)
	m.empty++
	if handled > 0 {
		m.empty = 0
	}
	rt, fresh := m.route, sp.route.Load()
	restarts := rt.plan.Restarts(handled, bounded)
	round := m.walk.EndsRound(rt.plan, len(rt.order), handled, bounded)
	past := m.walk.Leave(rt.plan, len(rt.order), handled, bounded)
	if past || restarts {
		sp.adopt(m, fresh)
	} else {
		sp.turnTo(m, fresh)
	}
	if !round {
		return
	}
	sp.rounds.Add(1)
	if !rt.ended.Load() && !rt.ended.Swap(true) && sp.host.RoundEnd != nil {
		sp.host.RoundEnd(sp)
	}
}

// turnTo makes a worker leave its route in the middle, if the fresh one is of the same plan
// for other members, or of one for now.
func (sp *SharedPool) turnTo(m *Member, fresh *route) {
	if fresh.plan == m.route.plan || fresh.plan != nil && fresh.plan.Now {
		sp.adopt(m, fresh)
	}
}

// adopt makes a worker follow the fresh route from its first place, unless it follows it
// already.
func (sp *SharedPool) adopt(m *Member, fresh *route) {
	if fresh != m.route {
		m.route = fresh
		m.walk.Restart()
	}
}

// count counts a visit.
func (sp *SharedPool) count(empty bool) {
	if empty {
		sp.empties.Add(1)
	}
	n := sp.visits.Add(1)
	if every := uint64(sp.tell.Load()); every > 0 && n%every == 0 && sp.host.Visited != nil {
		sp.host.Visited(sp)
	}
}

// enter begins a visit. It returns how many commands the worker got.
func (sp *SharedPool) enter(in *Inbox, era uint64, m *Member) int {
	hindered := in.aheadFull()
	in.mu.Lock()
	n := 0
	if fits := in.claimToken(sp, era, m.walked); fits && !hindered && !in.resting {
		in.counts.visits++
		m.handled, m.queued, m.began = 0, in.queue.Len(), 0
		n = in.take(m, sp.left(in, m))
	}
	if n > 0 {
		m.at = in
		m.handled = n
	}
	sp.continueWalk(in)
	if m.walked && n == 0 {
		in.empties.Add(1)
		sp.leave(m, 0, false)
	}
	return n
}

// claimToken takes the token with which a worker comes, or, if it polls, the one
// that it finds. It reports false if the inbox is no longer the shared pool's, or the token
// was taken back.
func (in *Inbox) claimToken(sp *SharedPool, era uint64, walked bool) bool {
	switch {
	case in.pool != sp:
		return false
	case walked:
		if in.noted {
			in.removeTokens()
			in.tokens.Add(-1)
		}
		return true
	case in.era != era:
		return false
	default:
		in.tokens.Add(-1)
		return true
	}
}

// continueWalk lets go of an inbox's lock, and has others come for what is left and what has
// become possible.
func (sp *SharedPool) continueWalk(in *Inbox) {
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.notifyIfQuiet()
	in.mu.Unlock()
	if next != nil { // the inbox has been given back to its own workers
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
	in.Pipeline().notifyEntries()
}

// stay goes on with a visit or ends it, surely so if the worker is gone. It returns how
// many commands the worker got.
func (sp *SharedPool) stay(in *Inbox, m *Member, t *Tally, gone bool) int {
	polled := m.walked && sp.polled()
	hindered := polled && in.aheadFull()
	in.mu.Lock()
	in.book(m, t)
	m.settle()
	in.yield(m)
	n, bounded := 0, false
	if polled && in.pool == sp && !hindered && !gone && !in.resting {
		most := sp.left(in, m)
		if bounded = most < 0; !bounded {
			n = in.take(m, most)
		}
		bounded = bounded && in.queue.Len() > 0
	}
	if n > 0 {
		m.handled += n
	} else {
		m.at = nil
		in.unlist(m)
		m.drop()
		in.returnInstance(m)
	}
	sp.continueWalk(in)
	switch {
	case n > 0:
	case polled:
		sp.leave(m, m.handled, bounded)
	default:
		sp.count(false)
	}
	return n
}

// left is how many commands a worker may still take in its visit: 0 for any number,
// -1 for none.
func (sp *SharedPool) left(in *Inbox, m *Member) int {
	rt := m.route
	if rt == nil || !sp.polled() {
		rt = sp.route.Load()
	}
	if rt.plan == nil {
		return 0
	}
	left := 0
	switch rt.plan.Gating {
	case controller.Gated:
		left = m.queued - m.handled
	case controller.Bounded:
		left = rt.plan.BoundOf(controller.StageID(in.Place)) - m.handled
	case controller.TimeBounded: // the one that needs a clock
		now := in.Pipeline().Now()
		if m.handled == 0 {
			m.began = now
		}
		if time.Duration(now-m.began) < rt.plan.Quantum || m.handled == 0 {
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

// Ahead tells the inbox where a way ahead leads. Ways back are not told: nobody waits
// along them.
func (in *Inbox) Ahead(to *Inbox) {
	for {
		old := in.ahead.Load()
		var known []*Inbox
		if old != nil {
			known = *old
		}
		if to == in || slices.Contains(known, to) {
			return
		}
		grown := append(slices.Clip(known), to)
		if in.ahead.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// Forks reports whether ways ahead lead to several inboxes, as far as is known.
func (in *Inbox) Forks() bool {
	rooms := in.ahead.Load()
	return rooms != nil && len(*rooms) > 1
}

// aheadFull reports whether an inbox ahead is full, or takes nothing from this one, so that no
// shared pool is to take from this one. If so, that room will say when it is not.
func (in *Inbox) aheadFull() bool {
	rooms := in.ahead.Load()
	if rooms == nil {
		return false
	}
	for _, other := range *rooms {
		if other.isFullFor(in) && in.waitFor(other) {
			return true
		}
	}
	return false
}

// isFullFor reports whether an inbox behind is to wait. One that has waited has a pass for one visit, for commands from outside
// may have filled the inbox again meanwhile.
func (in *Inbox) isFullFor(behind *Inbox) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.blocks(behind, false) && !in.halted.Load() {
		return true
	}
	if !in.isFull() {
		return false
	}
	return !in.pass(behind)
}

// pass uses up the pass of an inbox behind. It reports false if that has none.
func (in *Inbox) pass(behind *Inbox) bool {
	if in.passes == nil {
		return false
	}
	i := slices.Index(*in.passes, behind)
	if i >= 0 {
		*in.passes = slices.Delete(*in.passes, i, i+1)
	}
	return i >= 0
}

// isFull reports whether commands hold all slots of the inbox, and it is waited for. Seats that
// are promised do not count: nobody would tell when they come free.
func (in *Inbox) isFull() bool {
	full := in.slots() >= in.knobs.Capacity || in.ceiling > 0 && in.load() >= in.ceiling
	return full && in.cfg.Overflow == Wait && !in.halted.Load()
}

// waitFor stalls the inbox until there is room in x. It reports false if there is
// already.
func (in *Inbox) waitFor(other *Inbox) bool {
	in.mu.Lock()
	in.stalled = true // before x is asked, so that x cannot answer too early
	in.mu.Unlock()
	other.mu.Lock()
	waits := other.isFull() || other.blocks(in, false) && !other.halted.Load()
	if waits && !slices.Contains(other.behind, in) {
		other.behind = append(other.behind, in)
	}
	other.mu.Unlock()
	if !waits {
		unstall([]*Inbox{in})
	}
	return waits
}

// unstallBehind returns the inboxes behind that wait for room here, if half of it is free.
func (in *Inbox) unstallBehind() []*Inbox {
	if !in.full && len(in.behind) == 0 || in.queue.fresh() > max(in.knobs.Capacity-in.delayed.Len(), 0)/2 || in.isFull() {
		return nil
	}
	in.full = false
	inboxes := in.behind
	in.behind = nil
	if in.waiters.Len() > 0 {
		passes := slices.Clone(inboxes)
		in.passes = &passes
	}
	if in.phase.Load() < turned {
		return inboxes
	}
	return slices.DeleteFunc(inboxes, func(other *Inbox) bool {
		barred := in.blocks(other, false)
		if barred {
			in.behind = append(in.behind, other)
		}
		return barred
	})
}

// unstall has workers come to inboxes that were stalled.
func unstall(inboxes []*Inbox) {
	for _, in := range inboxes {
		in.mu.Lock()
		in.stalled = false
		next := in.wakeOne()
		in.mu.Unlock()
		if next != nil {
			next.Wake()
		}
	}
}

// rest keeps the workers of shared pools away until a time that only grows: the inbox's handlers
// crash, and the workers have other inboxes to go to. The inbox's lock is held.
func (in *Inbox) rest(pause time.Duration) {
	now := in.Pipeline().Now()
	until := now + int64(pause)
	spell := in.crashStreakLocked()
	if until <= spell.rested {
		return
	}
	spell.Rests++
	spell.Rested += time.Duration(until - max(now, spell.rested))
	spell.rested, in.resting = until, true
	in.voidTokens()
	in.set(&in.restTimer, pause, (*Inbox).restOver)
}

// restOver ends a rest, if it is over.
func (in *Inbox) restOver() {
	in.mu.Lock()
	if left := in.crashStreak.rested - in.Pipeline().Now(); left > 0 {
		in.set(&in.restTimer, time.Duration(left), (*Inbox).restOver)
		in.mu.Unlock()
		return
	}
	in.resting = false
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}
