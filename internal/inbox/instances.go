package inbox

// equip gives a worker an instance, or the right to make one, and reports
// whether it must make one. If that is false and the worker has none, there is
// none to be had.
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

// equippable reports whether a called worker will have an instance.
func (s *state) equippable() bool { return len(s.idleInstances) > 0 || s.made < s.knobs.Instances }

// returnInstance takes a worker's instance back, if the worker has one that is
// fit.
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

// surplusInstances removes the idle instances that are more than there should
// be.
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

// Stopped reports whether the inbox was open once and takes nothing from
// outside any more, and whether it is halted.
func (in *Inbox) Stopped() (closed, halted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.opened && in.phase() != open, in.halted.Load()
}

// hold counts a worker as being at the inbox; yield ends that.
func (s *state) hold(m *Member) {
	if !m.inUse {
		m.inUse = true
		m.mark = s.marked.mark
		s.busyInstances++
		s.counts.mostOut = max(s.counts.mostOut, s.busyInstances)
	}
}

func (s *state) yield(m *Member) {
	if m.inUse {
		m.inUse = false
		s.busyInstances--
		if m.mark != s.marked.mark {
			s.marked.left--
		}
	}
}
