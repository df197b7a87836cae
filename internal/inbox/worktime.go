package inbox

import "time"

// At any time a worker of the stage's own is in one of three states:
//
//   - Busy: it has commands in hand, and runs its handler or is about to run
//     it.
//   - Blocked: its batch is done, and the results wait for free slots in a
//     stage ahead.
//   - Idle: neither.
//
// Idle time is the rest of the workers' time, so the three always add up. The
// clock is read where a batch is timed anyway, when a worker blocks or resumes,
// when one joins or leaves, and when the accounts are read.
//
// Periods that have not ended are kept as a linear function of the time: n
// workers that have been blocked since s add n·now − n·s, so the BlockedTime of
// the counts has −n·s meanwhile, and their IdleTime lacks now·live −
// BlockedTime. Their BusyTime has a batch that is not done up to when it was
// last credited. [state.times] returns the times as they are meant.
//
// A worker of a shared pool is never blocked, and its idle time belongs to the
// shared pool: only its busy time is the inbox's.

// staff notes that more workers of the stage's own have joined, or have left if
// more is negative. It is called before their number changes.
func (s *state) staff(more int) {
	if pl := s.pipeline.Load(); pl != nil {
		s.counts.IdleTime -= time.Duration(pl.Now() * int64(more))
	}
}

// leaveOwn removes a worker of the stage's own, if it has joined.
func (s *state) leaveOwn(m *Member) {
	if m.attendance.joined {
		s.staff(-1)
	}
	s.workers.depart(m)
}

// markBlocked notes that a worker waits for free slots in a stage ahead.
func (s *state) markBlocked(m *Member, now int64) {
	if m.attendance.blocked {
		return
	}
	m.attendance.blocked = true
	s.counts.blocked++
	s.counts.BlockedTime -= time.Duration(now)
	if m.custody.inHand > 0 {
		s.counts.busy--
	}
}

// unblock notes that a worker takes its turn, or leaves.
func (s *state) unblock(m *Member) {
	if !m.attendance.blocked {
		return
	}
	m.attendance.blocked = false
	s.counts.blocked--
	s.counts.BlockedTime += time.Duration(s.now())
	if m.custody.inHand > 0 {
		s.counts.busy++
	}
}

// credit counts the time of a worker's present batch that was not counted
// before. The batch need not be done.
func (s *state) credit(m *Member, now int64) {
	began, running := m.lastBatch()
	if running || uint32(began) != m.custody.timed {
		s.spend(m, time.Duration(now-began))
	}
}

// spend counts the time of a worker's present batch, which has lasted so long,
// except time that was counted before.
func (s *state) spend(m *Member, lasted time.Duration) {
	fresh := lasted - m.custody.credited
	if fresh <= 0 {
		return
	}
	m.custody.credited = lasted
	s.counts.BusyTime += fresh
	if m.visit == nil {
		s.counts.IdleTime -= fresh
	}
}

// finishTime notes that the time of a worker's last batch has been counted.
func (m *Member) finishTime() {
	began, _ := m.lastBatch()
	m.custody.timed, m.custody.credited = uint32(began), 0
}

// times are the busy, blocked and idle time up to now.
func (s *state) times(now int64) (busy, blocked, idle time.Duration) {
	for m := s.holding; m != nil; m = m.custody.behind {
		if !m.attendance.blocked {
			s.credit(m, now)
		}
	}
	blocked = s.counts.BlockedTime + time.Duration(now*int64(s.counts.blocked))
	idle = s.counts.IdleTime + time.Duration(now*int64(s.workers.live)) - blocked
	return s.counts.BusyTime, blocked, max(idle, 0)
}
