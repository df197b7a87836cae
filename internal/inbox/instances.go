package inbox

import "github.com/golda-dev/golda/behaviour"

// Claim asks for an instance for a worker of the stage's own, before it joins.
// An idle one is lent; with make, the worker must make one. If neither, there
// are as many as there may be, and the worker gets one with its first commands.
func (is Instances) Claim(m *Member) (make bool) {
	is.in.mu.Lock()
	defer is.in.mu.Unlock()
	return is.in.state.instances.Equip(&m.Holding, is.in.state.knobs.Instances)
}

// Return adds a claimed instance to the idle ones, or gives up the claim.
func (is Instances) Return(m *Member) {
	is.in.transition(func(s *state, fx *effects) {
		s.instances.TakeBack(&m.Holding, s.knobs.Instances)
		s.callWorker(fx)
	})
}

// Borrow lends a member, which belongs to no worker, the first idle instance
// that fits. It is given back, or another or none in its place, with
// [Instances.Return].
func (is Instances) Borrow(m *Member, fits func(inst any) bool) bool {
	return ask(is.in, func(s *state) bool { return s.instances.Lend(&m.Holding, fits) })
}

// TakeIdle removes all idle instances, which the caller stops.
func (is Instances) TakeIdle() []any {
	return ask(is.in, func(s *state) []any { return s.instances.TakeIdle() })
}

// hold counts a worker as being at the inbox; yield ends that.
func (s *state) hold(m *Member) {
	s.instances.Enter(&m.Holding)
	s.counts.mostOut = max(s.counts.mostOut, s.instances.Busy())
}

// Set marks the inbox and wakes its workers. A parked worker that has commands
// to hand over must look whether any of them is for an inbox in Mark.To.
func (ms Marks) Set(m *Mark) {
	ms.in.transition(func(s *state, fx *effects) {
		s.marks.Store(m)
		s.instances.Mark()
		for h := s.holding; h != nil; h = h.custody.behind {
			if h.InUse() {
				h.attendance.SetReady(true)
				fx.wakeWorker(h)
			}
		}
	})
}

// Left returns how many of the workers that had commands here when the inbox
// was marked last may still have some of them.
func (ms Marks) Left() int {
	return ask(ms.in, func(s *state) int { return s.instances.Unmarked() })
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
	if ms.in.state.marks.Load() == asked {
		ms.in.state.instances.Pass(&m.Holding)
	}
}

// LeadTo reports whether results of an ordered inbox wait here until
// they may leave for another one.
func (r Results) LeadTo(to *behaviour.Inlet) bool {
	if !r.in.Config().Ordered {
		return false
	}
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	return r.in.state.queue.line.LeadsTo(to)
}
