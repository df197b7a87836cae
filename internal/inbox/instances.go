package inbox

import "slices"

// Claim asks for an instance for a worker of the stage's own, before it joins. An idle one is lent; with make, the worker
// is to make one. If neither, there are as many as there may be, and the worker gets one with its first commands.
func (in *Inbox) Claim(m *Member) (make bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.equip(m)
}

// equip gives a worker an instance, or the right to make one, and reports whether it is to make one. If that is false and
// the worker has none, there is none to be had.
func (s *state) equip(m *Member) (make bool) {
	switch {
	case m.owns:
		return m.Instance == nil
	case len(s.idleInstances) > 0:
		last := len(s.idleInstances) - 1
		m.Instance, m.owns = s.idleInstances[last], true
		s.idleInstances[last] = nil
		s.idleInstances = s.idleInstances[:last]
		return false
	case s.made < s.knobs.Instances:
		s.made++
		m.owns = true
		return true
	}
	return false
}

// equippable reports whether a worker that comes will have an instance.
func (s *state) equippable() bool { return len(s.idleInstances) > 0 || s.made < s.knobs.Instances }

// returnInstance takes a worker's instance back, if the worker has one that is fit.
func (s *state) returnInstance(m *Member) {
	if !m.owns {
		return
	}
	m.owns = false
	switch inst := m.Instance; {
	case inst == nil: // it was never made, or crashed
		s.made--
	case s.made > s.knobs.Instances:
		s.made--
		m.Surplus = inst
	default:
		s.idleInstances = append(s.idleInstances, inst)
	}
	m.Instance = nil
}

// ReturnInstance adds a claimed instance to the idle ones, or gives up the claim.
func (in *Inbox) ReturnInstance(m *Member) {
	var fx effects
	in.mu.Lock()
	in.returnInstance(m)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// Borrow lends a member, which belongs to no worker, the first idle instance that fits. It is given back,
// or another or none in its place, with [Inbox.ReturnInstance].
func (in *Inbox) Borrow(m *Member, fits func(inst any) bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(in.idleInstances, fits)
	if i < 0 {
		return false
	}
	m.Instance, m.owns = in.idleInstances[i], true
	in.idleInstances = slices.Delete(in.idleInstances, i, i+1)
	return true
}

// surplusInstances removes the idle instances that are more than there should be.
func (s *state) surplusInstances() []any {
	n := min(max(s.made-s.knobs.Instances, 0), len(s.idleInstances))
	if n == 0 {
		return nil
	}
	left := len(s.idleInstances) - n
	gone := append([]any(nil), s.idleInstances[left:]...)
	clear(s.idleInstances[left:])
	s.idleInstances, s.made = s.idleInstances[:left], s.made-n
	return gone
}

// TakeIdleInstances removes all idle instances, which the caller stops.
func (in *Inbox) TakeIdleInstances() []any {
	in.mu.Lock()
	defer in.mu.Unlock()
	gone := in.idleInstances
	in.idleInstances, in.made = nil, in.made-len(gone)
	return gone
}

// Stopped reports whether the inbox was open once and takes nothing from outside any more, and whether it is halted.
func (in *Inbox) Stopped() (closed, halted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.opened && in.phase() != open, in.halted.Load()
}
