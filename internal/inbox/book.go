package inbox

import (
	"context"
	"time"

	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
)

// Held returns how many commands guards hold back, as far as is known, or wait
// because their keys are parked.
func (in *Inbox) Held() int {
	if in.state.cfg.Guards == nil && !in.state.cfg.Parks {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.queue.line.Held()
}

// Begin moves the permit of a command to its handler, which begins. The context
// is the handler's. The handler gives the permit back by [Batches.Completed].
func (b Batches) Begin(ctx context.Context) (p line.Permit) {
	h, ok := ctx.Value(link.EmitterKey{}).(interface{ AsMember() *Member })
	if !ok {
		return p
	}
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	return h.AsMember().Part.TakePermit()
}

// Completed gives a permit back when its handler has ended: returned, crashed
// or was given up. It is called once.
func (b Batches) Completed(p line.Permit) {
	var fx effects
	b.in.mu.Lock()
	b.in.state.queue.line.Complete(p)
	b.in.state.callWorker(&fx)
	b.in.unlock(&fx)
}

// cancelPermit gives back the permit that a worker still has: no handler of its
// batch has begun with it, and none will.
func (s *state) cancelPermit(m *Member) {
	if m.Part != nil {
		s.queue.line.Cancel(m.Part)
	}
}

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
	if m.attendance.Joined() {
		s.staff(-1)
	}
	s.workers.Depart(&m.attendance)
}

// markBlocked notes that a worker waits for free slots in a stage ahead.
func (s *state) markBlocked(m *Member, now int64) {
	if m.custody.blocked {
		return
	}
	m.custody.blocked = true
	s.counts.blocked++
	s.counts.BlockedTime -= time.Duration(now)
	if m.custody.inHand > 0 {
		s.counts.busy--
	}
}

// unblock notes that a worker takes its turn, or leaves.
func (s *state) unblock(m *Member) {
	if !m.custody.blocked {
		return
	}
	m.custody.blocked = false
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
		if !m.custody.blocked {
			s.credit(m, now)
		}
	}
	blocked = s.counts.BlockedTime + time.Duration(now*int64(s.counts.blocked))
	idle = s.counts.IdleTime + time.Duration(now*int64(s.workers.Live())) - blocked
	return s.counts.BusyTime, blocked, max(idle, 0)
}

// Book books the work of a worker in the middle of its batch, before a caller
// that may read the accounts learns of it, and a mishap in the batch; nil is
// none. It returns false, and books nothing, if the worker was abandoned. So it
// does if a command is not tried again; see [Retried].
func (in *Inbox) Book(m *Member, t *Tally, x Mishap) bool {
	if x != nil {
		return in.bookMishap(m, t, x)
	}
	var fx effects
	in.mu.Lock()
	ours := !m.custody.abandoned
	if ours {
		in.state.book(m, t, &fx)
		in.state.startOthers(&fx)
		in.state.checkQuiet(&fx)
	}
	in.unlock(&fx)
	return ours
}

// startOthers calls a worker if commands have ended in the middle of a batch,
// and others may be under way in their place.
func (s *state) startOthers(fx *effects) {
	if s.queue.woken != nil {
		s.callWorker(fx)
	}
}

// book adds a tally to the accounts and empties it.
func (s *state) book(m *Member, t *Tally, fx *effects) {
	if done := t.completed(); done > 0 {
		s.counts.OK += uint64(t.OK)
		s.counts.Forwarded += uint64(t.Forwarded)
		s.counts.Errors += uint64(t.Errors)
		s.endStreak(fx)
		s.release(m, done)
		s.lookAtEntries(fx)
	}
	if m.Part != nil {
		s.queue.line.Book(m.Part)
	}
	if t.Suspended > 0 && s.cfg.Holder != nil {
		s.endStreak(fx) // a command that waits for others has been handled without a crash
	}
	s.suspend(m, t.Suspended)
	s.counts.Emitted += uint64(t.Emitted)
	if t.Waited > 0 {
		s.counts.wait.Record(t.Wait, uint64(t.Waited))
	}
	s.bookTime(m, t)
	*t = Tally{}
}

// measure fits the size of the next batches to the time of this one. The size
// at most doubles, so that a stage whose first commands were cheap by chance is
// not given too many expensive ones.
func (s *state) measure(t *Tally) {
	each := t.Busy / time.Duration(t.Timed)
	s.counts.work.Record(each, uint64(t.Timed))
	s.pace.service = (3*s.pace.service + each) / 4
	fit := int(quantum / max(s.pace.service, 1))
	s.pace.limit = min(max(fit, 1), 2*s.pace.limit, s.knobs.Batch)
}

// bookTime books how long a batch took, if the tally has it. The batch is done.
func (s *state) bookTime(m *Member, t *Tally) {
	if t.Timed > 0 {
		s.spend(m, t.Busy)
		m.finishTime()
		s.measure(t)
		t.Timed, t.Busy = 0, 0
	}
}
