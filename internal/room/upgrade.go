package room

import "slices"

// Borrow lends a seat, that of no worker, the first instance on the shelf of which
// that is true. It is given back, or another or none in its place, with [Room.Restock].
func (r *Room) Borrow(s *Seat, which func(inst any) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.shelf, which)
	if i < 0 {
		return false
	}
	s.Instance, s.owns = r.shelf[i], true
	r.shelf = slices.Delete(r.shelf, i, i+1)
	return true
}

// Stir has the room's idle workers that hold an instance come for a turn, though there may
// be nothing to do: they look to their instances then. The others stay: one that comes
// and can do nothing would be taken for the one who comes for the next command.
func (r *Room) Stir() {
	r.mu.Lock()
	var woken []*Seat
	r.idle = slices.DeleteFunc(r.idle, func(s *Seat) bool {
		if s.owns {
			r.summon(s)
			woken = append(woken, s)
		}
		return s.owns
	})
	r.mu.Unlock()
	wakeAll(woken)
}

// Ended reports whether the room was open once and takes nothing from outside any more,
// and whether nothing is done in it any more either.
func (r *Room) Ended() (closed, halted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened && !r.open, r.halted.Load()
}
