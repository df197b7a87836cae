package inbox

import "time"

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

// CrashIdle counts a worker that did not start: there was no batch.
func (ws Workers) CrashIdle(m *Member) {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	ws.in.state.countCrash(m, notStarted)
}
