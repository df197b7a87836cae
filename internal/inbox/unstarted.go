package inbox

// unstarted are workers of the stage's own that count as its workers, and have neither an actor nor a member until they are
// called. They are called after those that are idle. Most stages of a large pipeline rest, and a worker that was never
// called costs 12 bytes in place of some 1.5 KB.
type unstarted struct {
	waiting int32 // not called yet
	called  int32 // called; StartWorker has not brought them yet
	coming  int32 // being started; the next that join are these
}

// AddUnstarted counts n workers as joined that are started when they are called, and not before. StartWorker is called for
// each, and then [Inbox.TakeCalled] says whether a worker is still wanted.
func (in *Inbox) AddUnstarted(n int) {
	var fx effects
	in.mu.Lock()
	in.unstarted.waiting += int32(n)
	in.staff(n)
	in.live += n
	in.most = max(in.most, in.live)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// TakeCalled reports whether a worker is to be started: one for each that was called. It joins like any other, or else
// [Inbox.StartFailed] is called.
func (in *Inbox) TakeCalled() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.unstarted.called == 0 {
		return false
	}
	in.unstarted.called--
	in.unstarted.coming++
	return true
}

// StartFailed says that a worker that was to be started could not join.
func (in *Inbox) StartFailed() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.unstarted.coming > 0 {
		in.unstarted.coming--
		in.waking--
		in.staff(-1)
		in.live--
	}
}

// DropUnstarted dismisses all workers that were not started, also those that were called and have not joined.
func (in *Inbox) DropUnstarted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	coming := int(in.unstarted.called + in.unstarted.coming)
	in.staff(-int(in.unstarted.waiting) - coming)
	in.live -= int(in.unstarted.waiting) + coming
	in.waking -= coming
	in.unstarted = unstarted{}
}

// callUnstarted calls a worker that was not started. The member stands for it until the effects are applied.
func (s *state) callUnstarted() *Member {
	if !s.equippable() {
		return nil
	}
	s.unstarted.waiting--
	s.unstarted.called++
	s.waking++
	return &Member{Wake: s.self.StartWorker}
}

// arrive adds a worker that was started because it was called. It returns false if there was none.
func (u *unstarted) arrive(m *Member) bool {
	if u.coming == 0 {
		return false
	}
	u.coming--
	m.joined, m.retired, m.waking = true, false, true
	m.ready.Store(true)
	return true
}

// dropUnstarted dismisses up to n workers that were not started, and returns how many.
func (s *state) dropUnstarted(n int) int {
	n = min(n, int(s.unstarted.waiting))
	s.unstarted.waiting -= int32(n)
	s.staff(-n)
	s.live -= n
	return n
}
