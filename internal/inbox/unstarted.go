package inbox

// unstarted are workers of an inbox's own that it counts, and that are nowhere yet: there is
// neither a seat nor an actor of them until they are called. They come after those that are
// idle.
type unstarted struct {
	waiting int32 // not called yet
	called  int32 // called, and not fetched yet
	coming  int32 // fetched; the next who join are they
}

// AddUnstarted counts n workers as joined who come when they are called, and not before. Call is
// called for each, and then [Inbox.TakeCalled] tells whether it was in vain.
func (in *Inbox) AddUnstarted(n int) {
	in.mu.Lock()
	in.unstarted.waiting += int32(n)
	in.staff(n)
	in.live += n
	in.most = max(in.most, in.live)
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// TakeCalled reports whether a worker that dozed is to be brought: each that was called once. It
// joins like any other, or else [Inbox.StartFailed] tells that it does not.
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

// StartFailed tells that a worker of the inbox's own could not join.
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

// DropUnstarted lets all go who doze or were called and have not come.
func (in *Inbox) DropUnstarted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	come := int(in.unstarted.called + in.unstarted.coming)
	in.staff(-int(in.unstarted.waiting) - come)
	in.live -= int(in.unstarted.waiting) + come
	in.waking -= come
	in.unstarted = unstarted{}
}

// callUnstarted calls one who dozes. The seat is for the moment until the caller of [Inbox.wakeOne]
// has let go of the lock.
func (in *Inbox) callUnstarted() *Member {
	if !in.equippable() {
		return nil
	}
	in.unstarted.waiting--
	in.unstarted.called++
	in.waking++
	return &Member{Wake: in.StartWorker}
}

// arrive seats a worker that was fetched. It reports false if none was.
func (u *unstarted) arrive(m *Member) bool {
	if u.coming == 0 {
		return false
	}
	u.coming--
	m.joined, m.retired, m.waking = true, false, true
	m.ready.Store(true)
	return true
}

// dropUnstarted has up to n of those who doze leave, and returns how many.
func (in *Inbox) dropUnstarted(n int) int {
	n = min(n, int(in.unstarted.waiting))
	in.unstarted.waiting -= int32(n)
	in.staff(-n)
	in.live -= n
	return n
}
