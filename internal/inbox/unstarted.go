package inbox

// AddUnstarted counts n workers as joined that are started when they are
// called, and not before. StartWorker is called for each, and then
// [Inbox.TakeCalled] says whether the worker is still wanted.
func (in *Inbox) AddUnstarted(n int) {
	var fx effects
	in.mu.Lock()
	in.state.staff(n)
	in.state.unstarted.n += int32(n)
	in.state.workers.live += n
	in.state.workers.most = max(in.state.workers.most, in.state.workers.live)
	in.state.callWorker(&fx)
	in.unlock(&fx)
}

// TakeCalled makes a worker that is about to be started join in the place of
// the called worker. It reports whether one was called.
func (in *Inbox) TakeCalled(m *Member) bool {
	m.belong(in)
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.state.unstarted.called {
		return false
	}
	in.state.unstarted.called = false
	in.state.unstarted.n--
	m.attendance.joined = true
	m.ready.Store(true)
	in.state.workers.expect(m)
	return true
}

// DropUnstarted dismisses all workers that were not started, the called one
// too.
func (in *Inbox) DropUnstarted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.unstarted.called = false
	in.state.dropUnstarted(int(in.state.unstarted.n))
}

// dropUnstarted dismisses up to n workers that were not called, and returns how
// many.
func (s *state) dropUnstarted(n int) int {
	most := int(s.unstarted.n)
	if s.unstarted.called {
		most--
	}
	n = min(n, most)
	s.staff(-n)
	s.unstarted.n -= int32(n)
	s.workers.live -= n
	return n
}
