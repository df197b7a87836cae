package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

// crash is the end of a worker's batch that did not end well.
type crash struct {
	culprit *command.Envelope  // the command that is to blame; nil: not known, or none is
	at      place              // of the culprit, if it is tried again; in an ordered stage, and one with lanes, in any case
	retry   bool               // the culprit may be tried again
	rest    []command.Envelope // what goes back to the queue
	back    places             // of the rest, in a keyed or ordered stage
	streak  bool               // the crash counts in the streak
	unbegun bool               // no handler was called
	err     error
}

// Crash books the end of a worker's batch that did not end well: the culprit, if one is known, is charged, and with retry
// tried again; the rest goes back to the front of the queue, in order. A crash whose culprit is not known yet does not count
// in the streak: it will when the culprit is found; see [Narrow]. What the batch completed before is booked first, so it ends
// an older streak, and this crash is the first of its own. Crash returns false if the worker was abandoned.
func (in *Inbox) Crash(m *Member, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry bool, err error) bool {
	c := crash{culprit: culprit, retry: retry, rest: rest, streak: culprit != nil && culprit.Tries() <= 1, err: err}
	if retry || culprit != nil && (in.Ordered() || in.queue.lanes != nil) { // these are not changed
		c.at = in.placeBack(m, culprit.Load, len(rest))
	}
	return in.endBatch(m, t, &c)
}

// NoInstance books the end of a batch for which no instance could be made: no command is to blame. It counts in the streak
// all the same, for otherwise a stage whose factory fails would never break. It returns false if the worker was abandoned.
func (in *Inbox) NoInstance(m *Member, t *Tally, batch []command.Envelope, err error) bool {
	return in.endBatch(m, t, &crash{rest: batch, streak: true, unbegun: true, err: err})
}

// Unaimed books the end of a batch that crashed when it was decided which version handles a command of it. It is a [Inbox.Crash] that no
// handler has caused: no command is to blame.
func (in *Inbox) Unaimed(m *Member, t *Tally, rest []command.Envelope, err error) bool {
	return in.endBatch(m, t, &crash{rest: rest, unbegun: true, err: err})
}

func (in *Inbox) endBatch(m *Member, t *Tally, c *crash) bool {
	c.back = in.placesBack(m, c.rest)
	var fx effects
	in.mu.Lock()
	ours := !m.abandoned
	if ours {
		in.crashed(m, t, c, &fx)
	}
	in.unlock(&fx)
	if in.Halted() {
		in.Flush()
	}
	return ours
}

func (s *state) crashed(m *Member, t *Tally, c *crash, fx *effects) {
	s.book(m, t, fx)
	s.credit(m, s.now())
	m.finishTime()
	counts := c.streak && !s.excuses(c)
	s.countCrash(counts)
	if counts {
		s.crashStreak.key = c.at.key
	}
	if counts && s.counts.streak == 1 {
		s.crashStreak.First = c.err
	}
	retries := c.retry && !s.halted.Load()
	if c.culprit != nil && !retries {
		s.counts.dead.add(reason.Crash, 1)
		fx.endOne(*c.culprit, reason.Crash, c.err)
		s.endNumbers([]queue.Key{c.at.key})
		s.endHold(m, len(c.rest))
	}
	if c.unbegun {
		s.cancelGuarded(c.rest, c.back)
	}
	s.giveBack(m, c.rest, c.back, fx)
	if c.unbegun {
		s.returnPermits(unstartedOf(c.rest), c.back)
	}
	if retries {
		s.postpone(*c.culprit, c.at) // after giveBack: a keyed stage puts the culprit before the rest
	}
	s.release(m, int(m.inHand))
	m.Instance = nil // it is of no use any more
	s.crashedWorker(m)
	s.forgetLanes(m)
	s.changed(fx)
	s.checkQuiet(fx)
	s.lookAtEntries(fx)
}

// excuses reports whether a crash does not lengthen the streak although no command was completed since the last one. Lanes gather
// the commands of one key, and those without a key: they may crash in a row although many others came between them and were
// handled. So the streak does not grow beyond how many of them came in a row.
func (s *state) excuses(c *crash) bool {
	l, streak := s.queue.lanes, int(s.counts.streak)
	if l == nil || c.culprit == nil || streak == 0 || c.at.key != NoKey && c.at.key != s.crashStreak.key {
		return false
	}
	return streak >= l.runOf(c.at.key)
}

// crashedWorker removes a worker whose handler has crashed: it takes no further command, so it is no worker any more. Of its
// own inbox it keeps inUse until [Inbox.Yield], which it calls when nothing is left in its outboxes. A
// shared pool knows no inboxes, so its next worker is counted as a restart here.
func (s *state) crashedWorker(m *Member) {
	if m.visit == nil || m.at == nil {
		s.leave(m)
		return
	}
	m.at = nil
	s.unlist(m)
	s.counts.restarts++
	s.restAfterCrashes()
}

// restAfterCrashes keeps a shared pool away for a moment if the handlers have crashed more often, one after another, than
// the pool has workers.
func (s *state) restAfterCrashes() {
	if s.pool == nil || s.cfg.Rest == nil {
		return
	}
	if beyond := int(s.counts.streak) - s.pool.workers(); beyond > 0 {
		s.leaveAlone(s.cfg.Rest(beyond))
	}
}

// leaveAlone keeps the workers of shared pools away until a time that only grows: the inbox's handlers crash, and the workers
// have other inboxes to go to.
func (s *state) leaveAlone(pause time.Duration) {
	now := s.now()
	until := now + int64(pause)
	streak := &s.crashStreak
	if until <= streak.rested {
		return
	}
	streak.Rests++
	streak.Rested += time.Duration(until - max(now, streak.rested))
	streak.rested, s.resting = until, true
	s.voidTokens()
	s.setAlarm(restAlarm, pause)
}

// CrashIdle counts a crash of an instance that did not start: there was no batch.
func (in *Inbox) CrashIdle() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.countCrash(true)
}

// CountAbandoned counts handlers that were given up and still run; with a worker more, it counts that one was.
func (in *Inbox) CountAbandoned(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.abandoned += int32(n)
	if n > 0 {
		in.counts.stuck += uint64(n)
	}
}

// AbandonedRunning is how many handlers that were given up still run.
func (in *Inbox) AbandonedRunning() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.counts.abandoned)
}

// countCrash counts a crash, in the streak or not. Further tries of the same command do not lengthen the streak, so that one
// poison command alone never breaks a stage; nor does a crash long ago.
func (s *state) countCrash(inStreak bool) {
	now := s.now()
	streak := &s.crashStreak
	if s.counts.streak > 0 && now-streak.crashed > int64(s.cfg.StreakEnds) {
		s.counts.streak = 0
	}
	streak.crashed = now
	s.counts.crashes++
	if inStreak {
		if s.counts.streak == 0 {
			*streak = CrashStreak{Number: streak.Number + 1, crashed: now, rested: streak.rested}
		}
		s.counts.streak++
	}
}

// CrashStreak returns the present streak, or the last if there is none.
func (in *Inbox) CrashStreak() CrashStreak {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.crashStreak
	if left := c.rested - in.now(); in.resting && left > 0 {
		c.Rests = max(c.Rests-1, 0)
		c.Rested = max(c.Rested-time.Duration(left), 0)
	}
	return c
}

// Streak returns how many crashes have followed one another without a completed command between them.
func (in *Inbox) Streak() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.counts.streak)
}

// ForgetStreak forgets the streak of crashes.
func (in *Inbox) ForgetStreak() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.streak = 0
}
