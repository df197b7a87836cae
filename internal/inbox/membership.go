package inbox

import "slices"

// Join adds a worker of the stage's own. With again it replaces a worker that
// crashed.
func (in *Inbox) Join(m *Member, again bool) {
	m.belong(in)
	var fx effects
	in.mu.Lock()
	if !m.attendance.joined { // otherwise it was called
		in.state.staff(1)
		in.state.workers.join(m)
	}
	if again {
		in.state.counts.Restarts++
	}
	in.state.callWorker(&fx) // another may wait for an instance, if few are allowed
	in.unlock(&fx)
}

// Leave removes a worker, for good or until it is started afresh. If its
// instance is still wanted it is taken back; otherwise it stays with the
// worker, which stops it and then calls [Inbox.ReturnInstance].
func (in *Inbox) Leave(m *Member) {
	var fx effects
	in.mu.Lock()
	in.state.leave(m)
	in.state.forgetLanes(m)
	in.state.changed(&fx) // commands that it carried hold no slots here any more
	in.unlock(&fx)
}

func (s *state) leave(m *Member) {
	s.unlist(m)
	s.cancelPermit(m)
	m.drop()
	s.carry(m, 0)
	s.unblock(m)
	s.leaveOwn(m)
	if s.visits.pool != nil && m.Instance != nil {
		s.returnInstance(m)
	}
}

// Yield gives up a worker's place at the inbox after its last batch, when all
// results of the batch have been handed over.
func (in *Inbox) Yield(m *Member) {
	var fx effects
	in.mu.Lock()
	in.state.yield(m)
	in.state.callWorker(&fx)
	in.state.checkQuiet(&fx)
	in.unlock(&fx)
}

// Succeed puts another member in the place of one that is not used any more: if
// that still held an instance, because its worker had something to hand over,
// its successor does.
func (in *Inbox) Succeed(from, to *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	from.custody.inUse, to.custody.inUse, to.custody.mark, to.custody.fault = false, from.custody.inUse, from.custody.mark, from.custody.fault
	in.state.queue.line.Succeed(from.Part, to.Part)
}

// ForgetShrink forgets what the workers of a stage that broke had still to do
// and had done wrong: requests to leave, and the streak of their crashes. It is
// called when none of them is left.
func (in *Inbox) ForgetShrink() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.workers.excess = 0
	in.state.forgetStreak()
}

// Shrink asks n workers to leave, first workers that were not started yet.
func (in *Inbox) Shrink(n int) {
	var fx effects
	in.mu.Lock()
	for _, m := range in.state.workers.shrink(n - in.state.dropUnstarted(n)) {
		fx.wakeWorker(m)
	}
	in.unlock(&fx)
}

// Unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (in *Inbox) Unshrink(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.workers.unshrink(n)
}

// WakeAll wakes the idle workers that have an instance, though there may be
// nothing to do: they check their instances then. The others stay idle: a woken
// worker that cannot work would count as the worker that was called for the
// next command.
func (in *Inbox) WakeAll() {
	var fx effects
	in.mu.Lock()
	idle := in.state.workers.idle[:0]
	for _, m := range in.state.workers.idle {
		if m.custody.owns {
			in.state.workers.markWoken(m)
			fx.wakeWorker(m)
		} else {
			idle = append(idle, m)
		}
	}
	clear(in.state.workers.idle[len(idle):])
	in.state.workers.idle = idle
	in.unlock(&fx)
}

// Claim asks for an instance for a worker of the stage's own, before it joins.
// An idle one is lent; with make, the worker must make one. If neither, there
// are as many as there may be, and the worker gets one with its first commands.
func (in *Inbox) Claim(m *Member) (make bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.equip(m)
}

// ReturnInstance adds a claimed instance to the idle ones, or gives up the
// claim.
func (in *Inbox) ReturnInstance(m *Member) {
	var fx effects
	in.mu.Lock()
	in.state.returnInstance(m)
	in.state.callWorker(&fx)
	in.unlock(&fx)
}

// Borrow lends a member, which belongs to no worker, the first idle instance
// that fits. It is given back, or another or none in its place, with
// [Inbox.ReturnInstance].
func (in *Inbox) Borrow(m *Member, fits func(inst any) bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(in.state.instances.idle, fits)
	if i < 0 {
		return false
	}
	m.Instance, m.custody.owns = in.state.instances.idle[i], true
	in.state.instances.idle = slices.Delete(in.state.instances.idle, i, i+1)
	return true
}
