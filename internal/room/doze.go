package room

// dozers are workers of a room's own that it counts, and that are nowhere yet: there is
// neither a seat nor an actor of them until they are called. They come after those that are
// idle.
type dozers struct {
	dozing int32 // not called yet
	called int32 // called, and not fetched yet
	coming int32 // fetched; the next who join are they
}

// Doze counts n workers as joined who come when they are called, and not before. Call is
// called for each, and then [Room.Fetch] tells whether it was in vain.
func (r *Room) Doze(n int) {
	r.mu.Lock()
	r.dozers.dozing += int32(n)
	r.staff(n)
	r.live += n
	r.most = max(r.most, r.live)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Fetch reports whether a worker that dozed is to be brought: each that was called once. It
// joins like any other, or else [Room.Miss] tells that it does not.
func (r *Room) Fetch() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dozers.called == 0 {
		return false
	}
	r.dozers.called--
	r.dozers.coming++
	return true
}

// Miss tells that a worker of the room's own could not join.
func (r *Room) Miss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dozers.coming > 0 {
		r.dozers.coming--
		r.waking--
		r.staff(-1)
		r.live--
	}
}

// Dismiss lets all go who doze or were called and have not come.
func (r *Room) Dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	come := int(r.dozers.called + r.dozers.coming)
	r.staff(-int(r.dozers.dozing) - come)
	r.live -= int(r.dozers.dozing) + come
	r.waking -= come
	r.dozers = dozers{}
}

// rouseDozer calls one who dozes. The seat is for the moment until the caller of [Room.rouse]
// has let go of the lock.
func (r *Room) rouseDozer() *Seat {
	if !r.equippable() {
		return nil
	}
	r.dozers.dozing--
	r.dozers.called++
	r.waking++
	return &Seat{Wake: r.Call}
}

// arrive seats a worker that was fetched. It reports false if none was.
func (d *dozers) arrive(s *Seat) bool {
	if d.coming == 0 {
		return false
	}
	d.coming--
	s.joined, s.retired, s.waking = true, false, true
	s.ready.Store(true)
	return true
}

// oversleep has up to n of those who doze leave, and returns how many.
func (r *Room) oversleep(n int) int {
	n = min(n, int(r.dozers.dozing))
	r.dozers.dozing -= int32(n)
	r.staff(-n)
	r.live -= n
	return n
}
