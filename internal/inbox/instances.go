package inbox

// equip gives a worker an instance, or the right to make one, and reports
// whether it must make one. If that is false and the worker has none, there is
// none to be had.
func (s *state) equip(m *Member) (make bool) {
	switch {
	case m.custody.owns:
		return m.Instance == nil
	case len(s.instances.idle) > 0:
		last := len(s.instances.idle) - 1
		m.Instance, m.custody.owns = s.instances.idle[last], true
		s.instances.idle[last] = nil
		s.instances.idle = s.instances.idle[:last]
		return false
	case s.instances.made < s.knobs.Instances:
		s.instances.made++
		m.custody.owns = true
		return true
	}
	return false
}

// equippable reports whether a called worker will have an instance.
func (s *state) equippable() bool {
	return len(s.instances.idle) > 0 || s.instances.made < s.knobs.Instances
}

// returnInstance takes a worker's instance back, if the worker has one that is
// fit.
func (s *state) returnInstance(m *Member) {
	if !m.custody.owns {
		return
	}
	m.custody.owns = false
	switch inst := m.Instance; {
	case inst == nil: // it was never made, or crashed
		s.instances.made--
	case s.instances.made > s.knobs.Instances:
		s.instances.made--
		m.Surplus = inst
	default:
		s.instances.idle = append(s.instances.idle, inst)
	}
	m.Instance = nil
}

// surplusInstances removes the idle instances that are more than there should
// be.
func (s *state) surplusInstances() []any {
	n := min(max(s.instances.made-s.knobs.Instances, 0), len(s.instances.idle))
	if n == 0 {
		return nil
	}
	left := len(s.instances.idle) - n
	gone := append([]any(nil), s.instances.idle[left:]...)
	clear(s.instances.idle[left:])
	s.instances.idle, s.instances.made = s.instances.idle[:left], s.instances.made-n
	return gone
}

// TakeIdleInstances removes all idle instances, which the caller stops.
func (in *Inbox) TakeIdleInstances() []any {
	in.mu.Lock()
	defer in.mu.Unlock()
	gone := in.state.instances.idle
	in.state.instances.idle, in.state.instances.made = nil, in.state.instances.made-len(gone)
	return gone
}

// Stopped reports whether the inbox was open once and takes nothing from
// outside any more, and whether it is halted.
func (in *Inbox) Stopped() (closed, halted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.opened && in.state.phase() != open, in.state.halted.Load()
}

// hold counts a worker as being at the inbox; yield ends that.
func (s *state) hold(m *Member) {
	if !m.custody.inUse {
		m.custody.inUse = true
		m.custody.mark = s.instances.marked.mark
		s.instances.busy++
		s.counts.mostOut = max(s.counts.mostOut, s.instances.busy)
	}
}

func (s *state) yield(m *Member) {
	if m.custody.inUse {
		m.custody.inUse = false
		s.instances.busy--
		if m.custody.mark != s.instances.marked.mark {
			s.instances.marked.left--
		}
	}
}
