package room

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Turn books what a worker of the crew did, and moves the next commands to its hand:
// of the room where it is, if the visit goes on, or else of the next. All that came
// of the last ones has been handed over. It returns the room and how many: 0 if there
// is nothing to do anywhere, and then, with park, the worker is parked until it is
// woken; -1 if the worker is to leave.
func (c *Crew) Turn(s *Seat, t *Tally, park bool) (*Room, int) {
	gone := c.report(s)
	if r := s.at; r != nil {
		if n := c.stay(r, s, t, gone); n > 0 {
			return r, n
		}
	}
	if gone {
		return nil, -1
	}
	for {
		r, era := c.next(s)
		if r != nil {
			if n := c.enter(r, era, s); n > 0 {
				return r, n
			}
			continue
		}
		if !park || c.parked(s) {
			return nil, 0
		}
		if c.report(s) {
			return nil, -1
		}
	}
}

// report notes that a worker is here, and reports whether it is to leave.
func (c *Crew) report(s *Seat) bool {
	c.mu.Lock()
	c.come(s)
	gone := c.dismissed(s)
	var next *Seat
	if gone && c.pending() {
		next = c.callIdle()
	}
	c.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	return gone
}

// parked parks a worker, unless a token has come since it looked, or somebody is to leave.
func (c *Crew) parked(s *Seat) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending() || c.excess > 0 {
		return false
	}
	c.park(s)
	s.empty = 0
	return true
}

// next finds the room to visit next, nil if there is none.
func (c *Crew) next(s *Seat) (*Room, uint64) {
	if s.walked = c.polled(); s.walked {
		return c.walkOn(s), 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return nil, 0
	}
	t := c.ready.pop()
	return t.room, t.era
}

// walkOn goes on through the plan until it comes to a room with work. After one
// round in vain, with no token in sight, it gives up.
func (c *Crew) walkOn(s *Seat) *Room {
	if s.route == nil {
		s.route = c.route.Load()
	}
	c.turnTo(s, c.route.Load())
	for {
		n := len(s.route.order)
		if n == 0 {
			s.route = c.route.Load()
			return nil
		}
		r := s.route.order[s.walk.At(n)]
		if r.tokens.Load() > 0 {
			return r
		}
		if s.empty >= n && c.noted.Load() == 0 {
			return nil
		}
		r.empties.Add(1)
		c.leave(s, 0, false)
	}
}

// leave ends a visit of a worker that polls.
func (c *Crew) leave(s *Seat, handled int, bounded bool) {
	c.count(handled == 0)
	s.empty++
	if handled > 0 {
		s.empty = 0
	}
	rt, fresh := s.route, c.route.Load()
	restarts := rt.plan.Restarts(handled, bounded)
	round := s.walk.EndsRound(rt.plan, len(rt.order), handled, bounded)
	past := s.walk.Leave(rt.plan, len(rt.order), handled, bounded)
	if past || restarts {
		c.adopt(s, fresh)
	} else {
		c.turnTo(s, fresh)
	}
	if !round {
		return
	}
	c.rounds.Add(1)
	if !rt.ended.Load() && !rt.ended.Swap(true) && c.host.RoundEnd != nil {
		c.host.RoundEnd(c)
	}
}

// turnTo makes a worker leave its route in the middle, if the fresh one is of the same plan
// for other members, or of one for now.
func (c *Crew) turnTo(s *Seat, fresh *route) {
	if fresh.plan == s.route.plan || fresh.plan != nil && fresh.plan.Now {
		c.adopt(s, fresh)
	}
}

// adopt makes a worker follow the fresh route from its first place, unless it follows it
// already.
func (c *Crew) adopt(s *Seat, fresh *route) {
	if fresh != s.route {
		s.route = fresh
		s.walk.Restart()
	}
}

// count counts a visit.
func (c *Crew) count(empty bool) {
	if empty {
		c.empties.Add(1)
	}
	n := c.visits.Add(1)
	if every := uint64(c.tell.Load()); every > 0 && n%every == 0 && c.host.Visited != nil {
		c.host.Visited(c)
	}
}

// enter begins a visit. It returns how many commands the worker got.
func (c *Crew) enter(r *Room, era uint64, s *Seat) int {
	hindered := r.hindered()
	r.mu.Lock()
	n := 0
	if fits := r.claimToken(c, era, s.walked); fits && !hindered && !r.resting {
		r.c.visits++
		s.handled, s.queued, s.began = 0, r.queue.Len(), 0
		n = r.take(s, c.left(r, s))
	}
	if n > 0 {
		s.at = r
		s.handled = n
	}
	c.goOn(r)
	if s.walked && n == 0 {
		r.empties.Add(1)
		c.leave(s, 0, false)
	}
	return n
}

// claimToken takes the token with which a worker comes, or, if it polls, the one
// that it finds. It reports false if the room is no longer the crew's, or the token
// was taken back.
func (r *Room) claimToken(c *Crew, era uint64, walked bool) bool {
	switch {
	case r.crew != c:
		return false
	case walked:
		if r.noted {
			r.unnote()
			r.tokens.Add(-1)
		}
		return true
	case r.era != era:
		return false
	default:
		r.tokens.Add(-1)
		return true
	}
}

// goOn lets go of a room's lock, and has others come for what is left and what has
// become possible.
func (c *Crew) goOn(r *Room) {
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	r.settled()
	r.mu.Unlock()
	if next != nil { // the room has been given back to its own workers
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
	r.Host().ended()
}

// stay goes on with a visit or ends it, surely so if the worker is gone. It returns how
// many commands the worker got.
func (c *Crew) stay(r *Room, s *Seat, t *Tally, gone bool) int {
	polled := s.walked && c.polled()
	hindered := polled && r.hindered()
	r.mu.Lock()
	r.book(s, t)
	s.settle()
	r.yield(s)
	n, bounded := 0, false
	if polled && r.crew == c && !hindered && !gone && !r.resting {
		most := c.left(r, s)
		if bounded = most < 0; !bounded {
			n = r.take(s, most)
		}
		bounded = bounded && r.queue.Len() > 0
	}
	if n > 0 {
		s.handled += n
	} else {
		s.at = nil
		r.unlist(s)
		s.drop()
		r.shelve(s)
	}
	c.goOn(r)
	switch {
	case n > 0:
	case polled:
		c.leave(s, s.handled, bounded)
	default:
		c.count(false)
	}
	return n
}

// left is how many commands a worker may still take in its visit: 0 for any number,
// -1 for none.
func (c *Crew) left(r *Room, s *Seat) int {
	rt := s.route
	if rt == nil || !c.polled() {
		rt = c.route.Load()
	}
	if rt.plan == nil {
		return 0
	}
	left := 0
	switch rt.plan.Gating {
	case controller.Gated:
		left = s.queued - s.handled
	case controller.Bounded:
		left = rt.plan.BoundOf(controller.StageID(r.Place)) - s.handled
	case controller.TimeBounded: // the one that needs a clock
		now := r.Host().Now()
		if s.handled == 0 {
			s.began = now
		}
		if time.Duration(now-s.began) < rt.plan.Quantum || s.handled == 0 {
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

// Ahead tells the room where a way ahead leads. Ways back are not told: nobody waits
// along them.
func (r *Room) Ahead(to *Room) {
	for {
		old := r.ahead.Load()
		var known []*Room
		if old != nil {
			known = *old
		}
		if to == r || slices.Contains(known, to) {
			return
		}
		grown := append(slices.Clip(known), to)
		if r.ahead.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// Forks reports whether ways ahead lead to several rooms, as far as is known.
func (r *Room) Forks() bool {
	rooms := r.ahead.Load()
	return rooms != nil && len(*rooms) > 1
}

// hindered reports whether a room ahead is full, or takes nothing from this one, so that no
// crew is to take from this one. If so, that room will say when it is not.
func (r *Room) hindered() bool {
	rooms := r.ahead.Load()
	if rooms == nil {
		return false
	}
	for _, x := range *rooms {
		if x.hinders(r) && r.waitFor(x) {
			return true
		}
	}
	return false
}

// hinders reports whether a room behind is to wait. One that has waited has a pass for one visit, for commands from outside
// may have filled the room again meanwhile.
func (r *Room) hinders(behind *Room) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bars(behind, false) && !r.halted.Load() {
		return true
	}
	if !r.filled() {
		return false
	}
	return !r.pass(behind)
}

// pass uses up the pass of a room behind. It reports false if that has none.
func (r *Room) pass(behind *Room) bool {
	if r.passes == nil {
		return false
	}
	i := slices.Index(*r.passes, behind)
	if i >= 0 {
		*r.passes = slices.Delete(*r.passes, i, i+1)
	}
	return i >= 0
}

// filled reports whether commands hold all slots of the room, and it is waited for. Seats that
// are promised do not count: nobody would tell when they come free.
func (r *Room) filled() bool {
	full := r.slots() >= r.knobs.Capacity || r.ceiling > 0 && r.load() >= r.ceiling
	return full && r.cfg.Overflow == Wait && !r.halted.Load()
}

// waitFor stalls the room until there is room in x. It reports false if there is
// already.
func (r *Room) waitFor(x *Room) bool {
	r.mu.Lock()
	r.stalled = true // before x is asked, so that x cannot answer too early
	r.mu.Unlock()
	x.mu.Lock()
	waits := x.filled() || x.bars(r, false) && !x.halted.Load()
	if waits && !slices.Contains(x.behind, r) {
		x.behind = append(x.behind, r)
	}
	x.mu.Unlock()
	if !waits {
		unstall([]*Room{r})
	}
	return waits
}

// relieve returns the rooms behind that wait for room here, if half of it is free.
func (r *Room) relieve() []*Room {
	if !r.brim && len(r.behind) == 0 || r.queue.fresh() > max(r.knobs.Capacity-r.delayed.Len(), 0)/2 || r.filled() {
		return nil
	}
	r.brim = false
	rooms := r.behind
	r.behind = nil
	if r.waiters.Len() > 0 {
		passes := slices.Clone(rooms)
		r.passes = &passes
	}
	if r.phase.Load() < turned {
		return rooms
	}
	return slices.DeleteFunc(rooms, func(x *Room) bool {
		barred := r.bars(x, false)
		if barred {
			r.behind = append(r.behind, x)
		}
		return barred
	})
}

// unstall has workers come to rooms that were stalled.
func unstall(rooms []*Room) {
	for _, r := range rooms {
		r.mu.Lock()
		r.stalled = false
		next := r.rouse()
		r.mu.Unlock()
		if next != nil {
			next.Wake()
		}
	}
}

// rest keeps the workers of crews away until a time that only grows: the room's handlers
// crash, and the workers have other rooms to go to. The room's lock is held.
func (r *Room) rest(pause time.Duration) {
	now := r.Host().Now()
	until := now + int64(pause)
	spell := r.spelled()
	if until <= spell.rested {
		return
	}
	spell.Rests++
	spell.Rested += time.Duration(until - max(now, spell.rested))
	spell.rested, r.resting = until, true
	r.void()
	r.set(&r.rests, pause, (*Room).wakeUp)
}

// wakeUp ends a rest, if it is over.
func (r *Room) wakeUp() {
	r.mu.Lock()
	if left := r.spell.rested - r.Host().Now(); left > 0 {
		r.set(&r.rests, time.Duration(left), (*Room).wakeUp)
		r.mu.Unlock()
		return
	}
	r.resting = false
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}
