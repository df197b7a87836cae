package inbox

// Join adds a worker.
func (sp *SharedPool) Join(m *Member) {
	m.visit = new(visit)
	sp.Pool.Join(m, &m.attendance)
}

// Leave removes a worker, and ends its visit if it is at an inbox. If there is
// something to do, another worker is called for it.
func (sp *SharedPool) Leave(m *Member, t *Tally) {
	if m.visit != nil && m.visit.at != nil {
		sp.stay(m.visit.at, m, t, true)
	}
	sp.Pool.Leave(&m.attendance)
}

// Abandon removes a worker that was given up from the shared pool.
func (sp *SharedPool) Abandon(m *Member) { sp.Pool.Abandon(&m.attendance) }

// ForgetShrink forgets requests to leave, and the inboxes' streaks of crashes.
// It is called when no worker is left.
func (sp *SharedPool) ForgetShrink() {
	sp.Pool.ForgetShrink()
	for _, in := range sp.Inboxes() {
		in.forgetCrashes()
	}
}

// CrashIdle is for a worker that ended between two inboxes: no inbox counts it.
func (sp *SharedPool) CrashIdle(*Member) {}

// Turn books what a worker of the shared pool did, and moves the next commands
// to its batch: from the inbox where it is, if the visit continues, or else
// from the next inbox. The worker has handed over all results of the last
// batch. Turn returns the inbox and how many commands: 0 if there is no work
// anywhere, -1 if the worker must leave. With park, a worker that gets 0 is
// parked until it is woken.
func (sp *SharedPool) Turn(m *Member, t *Tally, park bool) (*Inbox, int) {
	leaves := sp.Arrive(&m.attendance)
	if in := m.visit.at; in != nil {
		if n := sp.stay(in, m, t, leaves); n > 0 {
			return in, n
		}
	}
	if leaves {
		return nil, -1
	}
	for {
		if b, era := sp.Next(&m.visit.way); b != nil {
			if n := sp.enter(b, era, m); n > 0 {
				return b.Inbox(), n
			}
			continue
		}
		if !park {
			sp.LooksOnceMore(&m.attendance)
			return nil, 0
		}
		if sp.Park(&m.attendance, &m.visit.way) {
			return nil, 0
		}
		if sp.Arrive(&m.attendance) {
			return nil, -1
		}
	}
}

// enter starts a visit of a worker that brings a token. It returns how many
// commands the worker got.
func (sp *SharedPool) enter(b *binding, era uint32, m *Member) int {
	in := b.Inbox()
	aheadFull := in.aheadFull()
	var fx effects
	in.mu.Lock()
	n := in.state.visited(b, era, m, aheadFull, &fx)
	in.unlock(&fx)
	if n == 0 {
		sp.Passed(b, &m.visit.way)
	}
	return n
}

// visited starts a visit of a shared worker and gives it its first commands.
func (s *state) visited(b *binding, era uint32, m *Member, aheadFull bool, fx *effects) int {
	n := 0
	if s.claimToken(b, era) && !aheadFull && !s.visits.resting {
		s.counts.Visits++
		m.visit.way.Begin(b, s.queue.Len())
		n = s.take(m, s.visits.pool.Left(&m.visit.way, s.now))
	}
	if n > 0 {
		m.visit.at = s.self
		m.visit.way.Took(n)
	}
	s.changed(fx)
	s.checkQuiet(fx)
	return n
}

// claimToken takes the token that a worker brings. It returns false if the
// token is void.
func (s *state) claimToken(b *binding, era uint32) bool {
	if s.visits.binding != b || s.visits.era != era {
		return false
	}
	s.visits.tokens--
	return true
}

// stay continues a visit or ends it. It ends the visit of a worker that leaves.
// It returns how many commands the worker got.
func (sp *SharedPool) stay(in *Inbox, m *Member, t *Tally, leaves bool) int {
	continues := sp.Continues(&m.visit.way)
	ends := !continues || leaves || in.aheadFull()
	var fx effects
	in.mu.Lock()
	n, bounded := in.state.goOn(sp, m, t, ends, &fx)
	in.unlock(&fx)
	if n == 0 {
		sp.EndVisit(&m.visit.way, continues, bounded)
	}
	return n
}

// goOn books a shared worker's batch and gives it the next, unless the visit
// ends. Bounded says that the visit plan ended the visit though there was more
// to do.
func (s *state) goOn(sp *SharedPool, m *Member, t *Tally, ends bool, fx *effects) (n int, bounded bool) {
	s.book(m, t, fx)
	s.cancelPermit(m)
	m.finishTime()
	s.instances.Exit(&m.Holding)
	s.freeLanes(m)
	if !ends && s.visits.pool == sp && !s.visits.resting {
		most := sp.Left(&m.visit.way, s.now)
		if bounded = most < 0; !bounded {
			n = s.take(m, most)
		}
		bounded = bounded && s.queue.Len() > 0
	}
	if n > 0 {
		m.visit.way.Took(n)
	} else {
		m.visit.at = nil
		s.unlist(m)
		m.drop()
		s.instances.TakeBack(&m.Holding, s.knobs.Instances)
	}
	s.changed(fx)
	s.checkQuiet(fx)
	return n, bounded
}
