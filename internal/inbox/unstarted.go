package inbox

// AddUnstarted counts n workers as joined that are started when they are
// called, and not before. StartWorker is called for each, and then
// [Inbox.TakeCalled] says whether the worker is still wanted.
func (in *Inbox) AddUnstarted(n int) {
	var fx effects
	in.mu.Lock()
	in.staff(n)
	in.unstarted.n += int32(n)
	in.live += n
	in.most = max(in.most, in.live)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// TakeCalled makes a worker that is about to be started join in the place of
// the called worker. It reports whether one was called.
func (in *Inbox) TakeCalled(m *Member) bool {
	m.belong(in)
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.unstarted.called {
		return false
	}
	in.unstarted.called = false
	in.unstarted.n--
	m.joined = true
	m.ready.Store(true)
	in.expect(m)
	return true
}

// DropUnstarted dismisses all workers that were not started, the called one
// too.
func (in *Inbox) DropUnstarted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unstarted.called = false
	in.dropUnstarted(int(in.unstarted.n))
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
	s.live -= n
	return n
}
