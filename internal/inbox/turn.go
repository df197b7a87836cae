package inbox

import "github.com/golda-dev/golda/internal/command"

// Turn books what a worker of the stage's own did and moves the next commands
// to its batch. All results of the last batch have been handed over, or the
// worker carries them; see [Inbox.Carry]. Turn returns how many commands: 0 if
// there is nothing to do, and then, with park, the worker is parked until it is
// woken; -1 if the worker must leave, which it need not while it carries
// commands.
func (in *Inbox) Turn(m *Member, t *Tally, park bool) int {
	var fx effects
	in.mu.Lock()
	n := in.state.turn(m, t, park, &fx)
	in.unlock(&fx)
	return n
}

func (s *state) turn(m *Member, t *Tally, park bool, fx *effects) int {
	s.book(m, t, fx)
	s.cancelPermit(m)
	m.finishTime()
	if m.Carried == 0 { // otherwise a worker in its place would overtake the commands that it carries
		s.instances.Exit(&m.Holding)
	}
	s.workers.Arrive(&m.attendance)
	s.unblock(m)
	s.freeLanes(m)
	n := -1
	if m.Carried > 0 || !s.workers.Retires() {
		n = s.take(m, 0)
	}
	switch {
	case n > 0:
		s.callWorker(fx)
	case n < 0:
		s.callWorker(fx)
		s.checkQuiet(fx)
	default:
		s.rest(m, park, fx)
	}
	s.unstallBehind(fx)
	s.grantSlots(fx)
	return n
}

// rest notes that a worker has found nothing to do: it is parked, or looks once
// more.
func (s *state) rest(m *Member, park bool, fx *effects) {
	able := s.canWork(m)
	switch {
	case park:
		m.drop()
		s.workers.Park(&m.attendance)
	case able:
		s.workers.Expect(&m.attendance) // it looks once more, so no other need be woken
	}
	if !able {
		s.callWorker(fx) // another worker that has an instance may have parked since this one was called
	}
	s.checkQuiet(fx)
}

// Carry notes how many commands a worker carries because the inboxes that they
// are for were full. They keep their slots here, so that the capacity bounds
// them. It reports whether the worker may stay parked: it is among the idle,
// and is not to leave now that it carries nothing.
func (in *Inbox) Carry(m *Member, n int) (rests bool) {
	var fx effects
	in.mu.Lock()
	in.state.carry(m, int32(n))
	if n == 0 && m.attendance.Idle() {
		in.state.instances.Exit(&m.Holding)
	}
	in.state.freeLanes(m) // a worker that carries nothing any more may stay parked
	rests = m.attendance.Idle() && (n > 0 || in.state.workers.Excess() == 0)
	in.state.changed(&fx)
	in.state.checkQuiet(&fx)
	in.unlock(&fx)
	return rests
}

// take moves up to a fair share of the queue into a worker's batch, and no more
// than most, if that is not 0.
func (s *state) take(m *Member, most int) int {
	n, laden := s.available(), s.isLaden(m)
	if laden {
		n = min(n, s.runnable())
	}
	if n == 0 || !s.mayCome(m) {
		return 0
	}
	if !m.Owns() && !s.instances.Available(s.knobs.Instances) || s.lingering() {
		return 0
	}
	n = s.share(n)
	if most > 0 {
		n = min(n, most)
	}
	if s.queue.packed > 0 {
		n = s.queue.apart(n)
	}
	m.grow(n+1, s.knobs.Batch+1) // when the last has been handled, the present one is none
	n = s.give(m.Batch[:n], !laden && s.available() > s.runnable())
	if !s.queue.plain {
		m.Part = s.queue.line.Give(m.Part, n)
	}
	if s.queue.packed > 0 {
		s.queue.unpack(m.Batch[:n]...)
	}
	if s.pace.rate != nil {
		s.pace.rate.Take(unstartedOf(m.Batch[:n]))
	}
	if !m.Owns() {
		s.instances.Equip(&m.Holding, s.knobs.Instances)
	}
	m.Sojourn = s.knobs.Sojourn
	s.hold(m)
	s.counts.inHand += n
	m.custody.inHand = int32(n)
	s.keepCopy(m, n)
	s.counts.busy++
	return n
}

// share is how many of n commands a worker takes at once: it leaves commands to
// other workers that could take them as well. Of an inbox with a rate, for
// itself or for keys, it takes one: commands that it took and has not started
// would be started later, in excess of the rate.
func (s *state) share(n int) int {
	if s.knobs.Linger > 0 || s.cfg.Together {
		return min(n, s.knobs.Batch)
	}
	if s.pace.rate != nil || s.queue.line.Singly() {
		return 1
	}
	workers := s.workers.Live()
	switch {
	case s.visits.binding != nil:
		workers = s.visits.pool.Workers()
	case s.isLittle(n):
		workers = 1
	}
	workers = max(min(workers, s.knobs.Instances), 1)
	return min(max((n+workers-1)/workers, 1), s.pace.limit, s.knobs.Batch)
}

// grow makes a batch's slice large enough.
func (m *Member) grow(n, most int) {
	if n > len(m.Batch) {
		m.Batch = make([]command.Envelope, max(n, min(2*len(m.Batch), most)))
	}
}

// Blocked notes that a worker of the stage's own has handled its batch and is
// blocked: it waits until a stage ahead has free slots, and is not at work
// until its next turn. Now is the pipeline's clock. Blocked books how long the
// batch took, since the worker may wait for longer than that.
func (in *Inbox) Blocked(m *Member, t *Tally, now int64) {
	var fx effects
	in.mu.Lock()
	in.state.bookTime(m, t)
	in.state.markBlocked(m, now)
	in.state.callWorker(&fx)
	in.unlock(&fx)
}
