package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// countCrash counts a crash of a worker. Further tries of the same command do
// not lengthen the streak. A crash long ago ends it. Workers that could not
// start are counted apart; a handler that runs shows that instances can be
// started.
func (s *state) countCrash(m *Member, f fault) {
	now := s.now()
	streak := s.lastStreak()
	if s.counts.streak > 0 && now-streak.crashed > int64(s.cfg.StreakEnds) {
		s.forgetStreak()
	}
	streak.crashed, m.custody.fault = now, f
	s.counts.Crashes++
	if f == faultless {
		return
	}
	if s.counts.streak == 0 {
		*streak = CrashStreak{Number: streak.Number + 1, crashed: now, rested: streak.rested, news: streak.news}
	}
	s.counts.streak++
	if f == charged {
		s.counts.unstarted = 0
		return
	}
	if s.counts.unstarted == 0 {
		streak.unable = now
	}
	s.counts.unstarted++
}

// lastStreak returns the present streak, or the last. Most stages never have
// one, so it is not part of the state before.
func (s *state) lastStreak() *CrashStreak {
	if s.crashStreak == nil {
		s.crashStreak = new(CrashStreak)
	}
	return s.crashStreak
}

// endStreak ends a streak of crashes: a command was completed.
func (s *state) endStreak(fx *effects) {
	if s.counts.streak == 0 {
		return
	}
	if s.lastStreak().reported > 0 {
		fx.other().recovered = int(s.counts.streak)
	}
	s.forgetStreak()
}

// slowDown returns how long the stage must pause after the crash of a worker.
// Workers is how many workers there are.
func (s *state) slowDown(f fault, workers int, fx *effects) (pause time.Duration) {
	p := s.cfg.Pauses
	if p == nil {
		return 0
	}
	beyond := int(s.counts.streak) - workers
	switch {
	case beyond <= 0:
	case f == charged:
		pause = s.bound(p.Crash(beyond))
	case f == notStarted:
		pause = p.Start(max(int(s.counts.unstarted)-workers, 1))
	}
	streak := s.lastStreak()
	if length, now := int(s.counts.streak), s.now(); pause > 0 && streak.isNews(length, now) {
		streak.reported, streak.news = length, news{now, length}
		fx.other().slowed = length
	}
	return pause
}

// newsEvery is for how long after a report a later streak is reported only if
// it is twice as long: a stage that crashes and completes commands in turn has
// many short ones.
const newsEvery = int64(time.Minute)

// isNews reports whether a streak of a length must be reported.
func (c *CrashStreak) isNews(length int, now int64) bool {
	if c.reported > 0 || c.news.length > 0 && now-c.news.at < newsEvery {
		return length >= 2*c.news.length
	}
	return true
}

// bound shortens a pause, so that a command that waits is delayed by no more
// than Delay, however many of those before it crash. Half of Delay is shared
// out among as many crashes as there are commands here, and then anew. So no
// command waits for more than the rest of one such round and the whole of the
// next.
func (s *state) bound(pause time.Duration) time.Duration {
	most := s.cfg.Pauses.Delay
	if most == 0 {
		return pause
	}
	c := s.lastStreak()
	if c.left == 0 {
		c.left = s.load() + 1
		c.share = most / 2 / time.Duration(c.left)
	}
	c.left--
	return min(pause, c.share)
}

// Verdict is what a supervisor has to know of a crash.
type Verdict struct {
	Streak    int           // crashes one after another, without a completed command between them
	Unstarted int           // those at the end of the streak that were workers which could not start
	Since     time.Duration // the time since the first of these
	Pause     time.Duration // how long to wait before the worker is replaced
}

// Judge returns the facts for the supervisor of a worker that has crashed: the
// length of the streak, and the pause before a restart. It is called once for
// each crash that the worker's supervisor learns of. The workers of a shared
// pool do not pause: the pool leaves the inbox alone instead.
func (ws Workers) Judge(m *Member, workers int) Verdict {
	var fx effects
	ws.in.mu.Lock()
	v := Verdict{Streak: int(ws.in.state.counts.streak), Unstarted: int(ws.in.state.counts.unstarted)}
	if v.Unstarted > 0 {
		v.Since = time.Duration(ws.in.state.now() - ws.in.state.lastStreak().unable)
	}
	if m.visit == nil {
		v.Pause = ws.in.state.slowDown(m.custody.fault, workers, &fx)
	}
	ws.in.unlock(&fx)
	return v
}

// CrashStreak returns the present streak, or the last if there is none.
func (ws Workers) CrashStreak() CrashStreak {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	if ws.in.state.crashStreak == nil {
		return CrashStreak{}
	}
	c := *ws.in.state.crashStreak
	if left := c.rested - ws.in.state.now(); ws.in.state.visits.resting && left > 0 {
		c.Rests = max(c.Rests-1, 0)
		c.Rested = max(c.Rested-time.Duration(left), 0)
	}
	return c
}

// Streak returns how many crashes have followed one another without a completed
// command between them.
func (ws Workers) Streak() int {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	return int(ws.in.state.counts.streak)
}

// forgetCrashes forgets the streak of crashes.
func (in *Inbox) forgetCrashes() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.forgetStreak()
}

func (s *state) forgetStreak() {
	s.counts.streak, s.counts.unstarted = 0, 0
	if s.crashStreak != nil {
		s.crashStreak.left, s.crashStreak.reported = 0, 0
	}
}

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
	if in.Phases().Halted() {
		in.Results().Flush()
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
func (ws Workers) CrashIdle(m *Member) {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	ws.in.state.countCrash(m, notStarted)
}

// AddAbandoned counts a handler that was given up and still runs. It returns
// true if there are now as many as there may be.
func (b Batches) AddAbandoned() (most bool) {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.in.state.counts.abandoned++
	b.in.state.counts.Stuck++
	return b.in.state.counts.abandoned == mostAbandoned
}

// EndAbandoned counts that a handler which was given up has returned.
func (b Batches) EndAbandoned() {
	var fx effects
	b.in.mu.Lock()
	b.in.state.counts.abandoned--
	b.in.state.callWorker(&fx)
	b.in.unlock(&fx)
}
