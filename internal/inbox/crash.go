package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// crash is the end of a worker's batch that did not end well.
type crash struct {
	culprit *command.Envelope  // the command that the crash is charged to; nil: not known, or none is
	at      place              // of the culprit, if it is tried again
	retry   bool               // the culprit may be tried again
	rest    []command.Envelope // the commands that return to the queue
	back    places             // of the rest, in a keyed or ordered stage
	fault   fault              // how the crash counts in the streak
	unbegun bool               // no handler was called
	err     error
}

// Crash books the end of a worker's batch that did not end well: the culprit,
// if one is known, is charged, and with retry tried again; the rest returns to
// the front of the queue, in order. A crash whose culprit is not known yet does
// not count in the streak: it will when the culprit is found; see [Narrow].
// What the batch completed before is booked first, so it ends an older streak,
// and this crash is the first of its own. Crash returns false if the worker was
// abandoned.
func (in *Inbox) Crash(m *Member, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry bool, err error) bool {
	c := crash{culprit: culprit, retry: retry, rest: rest, err: err}
	if culprit != nil && culprit.Tries() <= 1 {
		c.fault = charged
	}
	if retry {
		c.at = in.placeBack(m, culprit.Load, len(rest))
	}
	return in.endBatch(m, t, &c)
}

// NoInstance books the end of a batch for which no instance could be made: no
// command is to blame. It counts in the streak all the same, for otherwise a
// stage whose factory fails would never break. It returns false if the worker
// was abandoned.
func (in *Inbox) NoInstance(m *Member, t *Tally, batch []command.Envelope, err error) bool {
	return in.endBatch(m, t, &crash{rest: batch, fault: notStarted, unbegun: true, err: err})
}

func (in *Inbox) endBatch(m *Member, t *Tally, c *crash) bool {
	c.back = in.placesBack(m, c.rest)
	var fx effects
	in.mu.Lock()
	ours := !m.custody.abandoned
	if ours {
		in.state.crashed(m, t, c, &fx)
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
	s.countCrash(m, c.fault)
	if c.fault != faultless && s.counts.streak == 1 {
		s.lastStreak().First = c.err
	}
	retries := c.retry && !s.halted.Load()
	if c.culprit != nil && !retries {
		s.counts.addDeadLettered(reason.Crash, 1)
		fx.endOne(*c.culprit, reason.Crash, c.err)
		if m.Part != nil {
			s.queue.line.End(m.Part, len(c.rest))
		}
	}
	s.cancelPermit(m)
	s.giveBack(m, c.rest, c.back, fx)
	if c.unbegun {
		s.returnPermits(unstartedOf(c.rest), c.back)
	}
	if retries {
		s.postpone(*c.culprit, c.at, 0) // after giveBack: a keyed stage puts the culprit before the rest
	}
	s.release(m, int(m.custody.inHand))
	m.Instance = nil // it is of no use any more
	s.crashedWorker(m, fx)
	s.forgetLanes(m)
	s.changed(fx)
	s.checkQuiet(fx)
	s.lookAtEntries(fx)
}

// crashedWorker removes a worker whose handler has crashed: it takes no further
// command, so it is no worker any more. Of its own inbox it keeps inUse until
// [Inbox.Yield], which it calls when nothing is left in its outboxes. A shared
// pool knows no inboxes, so its next worker is counted as a restart here.
func (s *state) crashedWorker(m *Member, fx *effects) {
	if m.visit == nil || m.visit.at == nil {
		s.leave(m)
		return
	}
	m.visit.at = nil
	s.unlist(m)
	s.counts.Restarts++
	if s.visits.pool == nil {
		return
	}
	if pause := s.slowDown(m.custody.fault, s.visits.pool.workers(), fx); pause > 0 {
		s.leaveAlone(pause)
	}
}

// leaveAlone keeps the workers of shared pools away until a time that only
// grows: the inbox's handlers crash, and the workers have other inboxes to go
// to.
func (s *state) leaveAlone(pause time.Duration) {
	now := s.now()
	until := now + int64(pause)
	streak := s.lastStreak()
	if until <= streak.rested {
		return
	}
	streak.Rests++
	streak.Rested += time.Duration(until - max(now, streak.rested))
	streak.rested, s.visits.resting = until, true
	s.voidTokens()
	s.setAlarm(restAlarm, pause)
}

// CrashIdle counts a worker that did not start: there was no batch.
func (in *Inbox) CrashIdle(m *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.countCrash(m, notStarted)
}

// AddAbandoned counts a handler that was given up and still runs. It returns
// true if there are now as many as there may be.
func (in *Inbox) AddAbandoned() (most bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.counts.abandoned++
	in.state.counts.Stuck++
	return in.state.counts.abandoned == mostAbandoned
}

// EndAbandoned counts that a handler which was given up has returned.
func (in *Inbox) EndAbandoned() {
	var fx effects
	in.mu.Lock()
	in.state.counts.abandoned--
	in.state.callWorker(&fx)
	in.unlock(&fx)
}
