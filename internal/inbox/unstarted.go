package inbox

// unstarted are workers of the stage's own that count as its workers, and have neither an actor nor a member until they are
// called. They are called after those that are idle, one at a time. A stage has a worker for each processor, and most stages
// of a large pipeline rest: a fresh stage takes 3.8 KB with any number of unstarted workers, and 5, 13 or 76 KB with 1, 8 or
// 64 started ones.
type unstarted struct {
	n      int  // the called one included
	called bool // one is called; StartWorker has not brought it yet
}

// AddUnstarted counts n workers as joined that are started when they are called, and not before. StartWorker is called for
// each, and then [Inbox.TakeCalled] says whether the worker is still wanted.
func (in *Inbox) AddUnstarted(n int) {
	var fx effects
	in.mu.Lock()
	in.staff(n)
	in.unstarted.n += n
	in.live += n
	in.most = max(in.most, in.live)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// TakeCalled has a worker, which is about to be started, join as the one that was called, and reports whether one was.
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

// DropUnstarted dismisses all workers that were not started, the called one too.
func (in *Inbox) DropUnstarted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unstarted.called = false
	in.dropUnstarted(in.unstarted.n)
}

// dropUnstarted dismisses up to n workers that were not called, and returns how many.
func (s *state) dropUnstarted(n int) int {
	most := s.unstarted.n
	if s.unstarted.called {
		most--
	}
	n = min(n, most)
	s.staff(-n)
	s.unstarted.n -= n
	s.live -= n
	return n
}
