package room

import "time"

// A worker of a room's own is busy, blocked or idle, and so is all its time:
//
//   - Busy: it has commands in hand, and runs its handler or is about to.
//   - Blocked: its batch is done, and what came of it waits for room in a stage ahead.
//   - Idle: all the rest.
//
// Idle time is what remains of the workers' time, so the three always add up. The clock is read where a batch is
// timed anyway, when a worker blocks or goes on, when one joins or leaves, and by whoever looks.
//
// A worker of a crew is never blocked, and its idle time belongs to the crew: only its busy time is the room's.

// spent is where the time of the workers went. What goes on is kept as a line through time: n workers that have been blocked
// since s add n·now − n·s, so that blocked holds −n·s meanwhile.
type spent struct {
	busy    time.Duration // in handlers; a batch that is not done counts up to when it was last looked at
	blocked time.Duration // and now·waiting
	idle    time.Duration // of the room's own workers: and now·live − blocked
}

// staff notes that so many workers of the room's own have joined, or have left if it is less than zero. It is called before
// their number changes.
func (r *Room) staff(more int) {
	if h := r.Host(); h != nil {
		r.spent.idle -= time.Duration(h.Now() * int64(more))
	}
}

// join seats a worker of the room's own.
func (r *Room) join(s *Seat) {
	r.staff(1)
	r.gang.join(s)
}

// part takes a worker of the room's own off its seat, if it has one.
func (r *Room) part(s *Seat) {
	if s.joined {
		r.staff(-1)
	}
	r.gang.part(s)
}

// block notes that a worker waits for room in a stage ahead.
func (r *Room) block(s *Seat, now int64) {
	if s.away {
		return
	}
	s.away = true
	r.alone.away++
	r.spent.blocked -= time.Duration(now)
	if s.hand > 0 {
		r.c.busy--
	}
}

// back notes that a worker has come for its turn, or leaves.
func (r *Room) back(s *Seat) {
	r.alone.look(s, false)
	if !s.away {
		return
	}
	s.away = false
	r.alone.away--
	r.spent.blocked += time.Duration(r.Host().Now())
	if s.hand > 0 {
		r.c.busy++
	}
}

// lastBatch is when the worker's last batch began, 0 if it never had one; running tells that it is not done.
func (s *Seat) lastBatch() (began int64, running bool) {
	began = s.Since.Load()
	if began < 0 {
		return -began, false
	}
	return began, began > 0
}

// credit counts what of a worker's present batch was not counted yet. The batch need not be done.
func (r *Room) credit(s *Seat, now int64) {
	began, running := s.lastBatch()
	if running || uint32(began) != s.timed {
		r.spend(s, time.Duration(now-began))
	}
}

// spend counts the time of a worker's present batch, which has lasted so long, but for what was counted before.
func (r *Room) spend(s *Seat, lasted time.Duration) {
	fresh := lasted - s.credited
	if fresh <= 0 {
		return
	}
	s.credited = lasted
	r.spent.busy += fresh
	if s.visit == nil {
		r.spent.idle -= fresh
	}
}

// settle notes that the time of a worker's last batch has been counted.
func (s *Seat) settle() {
	began, _ := s.lastBatch()
	s.timed, s.credited = uint32(began), 0
}

// clocked books how long a batch took, if the tally says it. The batch is done.
func (r *Room) clocked(s *Seat, t *Tally) {
	if t.Timed > 0 {
		r.spend(s, t.Busy)
		s.settle()
		r.time(t)
		t.Timed, t.Busy = 0, 0
	}
}

// times are the busy, blocked and idle time up to now.
func (r *Room) times(now int64) (busy, blocked, idle time.Duration) {
	for s := r.inHands; s != nil; s = s.behind {
		if !s.away {
			r.credit(s, now)
		}
	}
	blocked = r.spent.blocked + time.Duration(now*int64(r.alone.away))
	idle = r.spent.idle + time.Duration(now*int64(r.live)) - blocked
	return r.spent.busy, blocked, max(idle, 0)
}
