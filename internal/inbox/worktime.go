package inbox

import "time"

// A worker of an inbox's own is busy, blocked or idle, and so is all its time:
//
//   - Busy: it has commands in hand, and runs its handler or is about to.
//   - Blocked: its batch is done, and what came of it waits for room in a stage ahead.
//   - Idle: all the rest.
//
// Idle time is what remains of the workers' time, so the three always add up. The clock is read where a batch is
// timed anyway, when a worker blocks or goes on, when one joins or leaves, and by whoever looks.
//
// A worker of a shared pool is never blocked, and its idle time belongs to the shared pool: only its busy time is the inbox's.

// spent is where the time of the workers went. What goes on is kept as a line through time: n workers that have been blocked
// since s add n·now − n·s, so that blocked holds −n·s meanwhile.
type spent struct {
	busy    time.Duration // in handlers; a batch that is not done counts up to when it was last looked at
	blocked time.Duration // and now·waiting
	idle    time.Duration // of the inbox's own workers: and now·live − blocked
}

// staff notes that so many workers of the inbox's own have joined, or have left if it is less than zero. It is called before
// their number changes.
func (in *Inbox) staff(more int) {
	if pl := in.Pipeline(); pl != nil {
		in.spent.idle -= time.Duration(pl.Now() * int64(more))
	}
}

// join seats a worker of the inbox's own.
func (in *Inbox) join(m *Member) {
	in.staff(1)
	in.workerSet.join(m)
}

// part takes a worker of the inbox's own off its seat, if it has one.
func (in *Inbox) part(m *Member) {
	if m.joined {
		in.staff(-1)
	}
	in.workerSet.depart(m)
}

// markBlocked notes that a worker waits for room in a stage ahead.
func (in *Inbox) markBlocked(m *Member, now int64) {
	if m.blocked {
		return
	}
	m.blocked = true
	in.sole.away++
	in.spent.blocked -= time.Duration(now)
	if m.inHand > 0 {
		in.counts.busy--
	}
}

// unblock notes that a worker has come for its turn, or leaves.
func (in *Inbox) unblock(m *Member) {
	in.sole.setLooking(m, false)
	if !m.blocked {
		return
	}
	m.blocked = false
	in.sole.away--
	in.spent.blocked += time.Duration(in.Pipeline().Now())
	if m.inHand > 0 {
		in.counts.busy++
	}
}

// lastBatch is when the worker's last batch began, 0 if it never had one; running tells that it is not done.
func (m *Member) lastBatch() (began int64, running bool) {
	began = m.Since.Load()
	if began < 0 {
		return -began, false
	}
	return began, began > 0
}

// credit counts what of a worker's present batch was not counted yet. The batch need not be done.
func (in *Inbox) credit(m *Member, now int64) {
	began, running := m.lastBatch()
	if running || uint32(began) != m.timed {
		in.spend(m, time.Duration(now-began))
	}
}

// spend counts the time of a worker's present batch, which has lasted so long, but for what was counted before.
func (in *Inbox) spend(m *Member, lasted time.Duration) {
	fresh := lasted - m.credited
	if fresh <= 0 {
		return
	}
	m.credited = lasted
	in.spent.busy += fresh
	if m.visit == nil {
		in.spent.idle -= fresh
	}
}

// settle notes that the time of a worker's last batch has been counted.
func (m *Member) settle() {
	began, _ := m.lastBatch()
	m.timed, m.credited = uint32(began), 0
}

// bookTime books how long a batch took, if the tally says it. The batch is done.
func (in *Inbox) bookTime(m *Member, t *Tally) {
	if t.Timed > 0 {
		in.spend(m, t.Busy)
		m.settle()
		in.measure(t)
		t.Timed, t.Busy = 0, 0
	}
}

// times are the busy, blocked and idle time up to now.
func (in *Inbox) times(now int64) (busy, blocked, idle time.Duration) {
	for m := in.holding; m != nil; m = m.behind {
		if !m.blocked {
			in.credit(m, now)
		}
	}
	blocked = in.spent.blocked + time.Duration(now*int64(in.sole.away))
	idle = in.spent.idle + time.Duration(now*int64(in.live)) - blocked
	return in.spent.busy, blocked, max(idle, 0)
}
