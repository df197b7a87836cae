package line

// Inside is how a line is inside. It is for tests that check how an inbox and
// its line belong together.
type Inside struct {
	Lanes   []LaneInside // that are not kept for another key
	Kept    int          // lanes without commands
	Ready   int          // lanes that are listed as ready
	Taken   int          // lanes that no worker was given
	Pending int          // numbers that have not left
	Ended   bool         // the first of them has ended
	Results int          // of all of them, counted anew
	Leads   bool         // there is a leaver
}

// LaneInside is how a lane is.
type LaneInside struct {
	*Lane

	Key                  uint64
	Len, Again, Reserved int
	Held, Blocked, Ready bool
}

// Inspect returns how a line is inside.
func Inspect(l Line) (in Inside) {
	switch l := l.(type) {
	case *lanes:
		in.Kept, in.Ready, in.Taken = l.empty.n, l.ready.n, len(l.taken)
		for ln := range l.byKey.all() {
			if ln.in != &l.empty {
				in.Lanes = append(in.Lanes, LaneInside{
					ln, ln.key, ln.ring.Len(), int(ln.again), int(ln.reserved), ln.held, ln.blocked, ln.in == &l.ready,
				})
			}
		}
	case *sequence:
		in.Pending, in.Leads = l.pending.Len(), l.leaver != nil
		for i := range l.pending.Len() {
			in.Results += l.pending.At(i).n
		}
		in.Ended = in.Pending > 0 && l.pending.At(0).ended
	}
	return in
}

// Lanes returns how many lanes the worker holds.
func (p *Part) Lanes() int {
	if p == nil {
		return 0
	}
	return len(p.lanes)
}
