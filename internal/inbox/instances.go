package inbox

import (
	"github.com/golda-dev/golda/behaviour"
)

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

// TakeIdle removes all idle instances, which the caller stops.
func (is Instances) TakeIdle() []any {
	is.in.mu.Lock()
	defer is.in.mu.Unlock()
	gone := is.in.state.instances.idle
	is.in.state.instances.idle, is.in.state.instances.made = nil, is.in.state.instances.made-len(gone)
	return gone
}

// Stopped reports whether the inbox was open once and takes nothing from
// outside any more, and whether it is halted.
func (ph Phases) Stopped() (closed, halted bool) {
	ph.in.mu.Lock()
	defer ph.in.mu.Unlock()
	return ph.in.state.opened && ph.in.state.phase() != open, ph.in.state.halted.Load()
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

// Set marks the inbox and wakes its workers. A parked worker that has commands
// to hand over must look whether any of them is for an inbox in Mark.To.
func (ms Marks) Set(m *Mark) {
	var fx effects
	ms.in.mu.Lock()
	ms.in.state.marks.Store(m)
	ms.in.state.instances.marked = marked{ms.in.state.instances.marked.mark + 1, int32(ms.in.state.instances.busy)}
	for h := ms.in.state.holding; h != nil; h = h.custody.behind {
		if h.custody.inUse {
			h.ready.Store(true)
			fx.wakeWorker(h)
		}
	}
	ms.in.unlock(&fx)
}

// Left returns how many of the workers that had commands here when the inbox
// was marked last may still have some of them.
func (ms Marks) Left() int {
	ms.in.mu.Lock()
	defer ms.in.mu.Unlock()
	return int(ms.in.state.instances.marked.left)
}

// Clear ends the wait for a mark.
func (ms Marks) Clear() { ms.in.state.marks.Store(nil) }

// Present returns the mark that is being waited for, nil if there is none.
// Workers that carry something ask for it.
func (ms Marks) Present() *Mark { return ms.in.state.marks.Load() }

// Pass gives a worker the present mark, if that is still the mark that it asked
// for. The worker has handled its batch, and none of the commands that it
// carries is for an inbox in Mark.To.
func (ms Marks) Pass(m *Member, asked *Mark) {
	ms.in.mu.Lock()
	defer ms.in.mu.Unlock()
	if m.custody.inUse && m.custody.mark != ms.in.state.instances.marked.mark && ms.in.state.marks.Load() == asked {
		m.custody.mark = ms.in.state.instances.marked.mark
		ms.in.state.instances.marked.left--
	}
}

// HasResultsFor reports whether results of an ordered inbox wait here until
// they may leave for another one.
func (r Results) LeadTo(to *behaviour.Inlet) bool {
	if !r.in.Config().Ordered {
		return false
	}
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	return r.in.state.queue.line.LeadsTo(to)
}
