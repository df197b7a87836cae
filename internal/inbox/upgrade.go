package inbox

import "slices"

// Borrow lends a seat, that of no worker, the first instance among the idle instances of which
// that is true. It is given back, or another or none in its place, with [Inbox.ReturnInstance].
func (in *Inbox) Borrow(m *Member, which func(inst any) bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(in.idleInstances, which)
	if i < 0 {
		return false
	}
	m.Instance, m.owns = in.idleInstances[i], true
	in.idleInstances = slices.Delete(in.idleInstances, i, i+1)
	return true
}

// WakeAll has the inbox's idle workers that hold an instance come for a turn, though there may
// be nothing to do: they look to their instances then. The others stay: one that comes
// and can do nothing would be taken for the one who comes for the next command.
func (in *Inbox) WakeAll() {
	in.mu.Lock()
	var woken []*Member
	in.idle = slices.DeleteFunc(in.idle, func(m *Member) bool {
		if m.owns {
			in.markWoken(m)
			woken = append(woken, m)
		}
		return m.owns
	})
	in.mu.Unlock()
	wakeAll(woken)
}

// Stopped reports whether the inbox was open once and takes nothing from outside any more,
// and whether nothing is done in it any more either.
func (in *Inbox) Stopped() (closed, halted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.opened && !in.open, in.halted.Load()
}
