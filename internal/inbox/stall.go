package inbox

import "slices"

// A shared worker never waits for a free slot, so its pool does not take from
// an inbox while an inbox ahead is full: the inbox is *stalled*. The full one
// keeps a list of the inboxes that it stalls, and unstalls them when half of it
// is free.

// Ahead notes that an edge leads to another inbox. Back edges are not noted: no
// worker waits along them.
func (in *Inbox) Ahead(to *Inbox) {
	for {
		old := in.state.ahead.Load()
		var known []*Inbox
		if old != nil {
			known = *old
		}
		if to == in || slices.Contains(known, to) {
			return
		}
		grown := append(slices.Clip(known), to)
		if in.state.ahead.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// NotAhead notes that no edge leads to another inbox any more. No lock is held.
func (in *Inbox) NotAhead(to *Inbox) {
	for {
		old := in.state.ahead.Load()
		if old == nil || !slices.Contains(*old, to) {
			return
		}
		rest := slices.DeleteFunc(slices.Clone(*old), func(o *Inbox) bool { return o == to })
		if in.state.ahead.CompareAndSwap(old, &rest) {
			in.unstall() // it may have been the other that had it wait; if not, the next visit stalls it again
			return
		}
	}
}

// Forks reports whether edges lead to several inboxes ahead, as far as is
// known.
func (in *Inbox) Forks() bool {
	ahead := in.state.ahead.Load()
	return ahead != nil && len(*ahead) > 1
}

// aheadFull reports whether an inbox ahead is full, or takes nothing from this
// one, so that no shared pool may take from this one. If so, the inbox ahead
// will unstall it. No lock is held.
func (in *Inbox) aheadFull() bool {
	ahead := in.state.ahead.Load()
	if ahead == nil {
		return false
	}
	for _, other := range *ahead {
		if !other.isFullFor(in) || !in.stallBehind(other) {
			continue
		}
		if slices.Contains(*in.state.ahead.Load(), other) {
			return true
		}
		in.unstall() // no edge leads there any more, and NotAhead may have come too early to do this
	}
	return false
}

// isFullFor reports whether an inbox behind must wait. One that has waited has
// a pass for one visit, for submitters may have filled the inbox again
// meanwhile.
func (in *Inbox) isFullFor(behind *Inbox) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.bars(behind, false) && !in.state.halted.Load() {
		return true
	}
	return in.state.isOverFor(behind) || in.state.isFull() && !in.state.usePass(behind)
}

// stallBehind stalls the inbox until another, ahead, has free slots. It returns
// false if that has some already.
func (in *Inbox) stallBehind(other *Inbox) bool {
	in.mu.Lock()
	in.state.visits.stalled = true // before the other is asked, so that it cannot unstall this one too early
	in.mu.Unlock()
	other.mu.Lock()
	waits := other.state.isFull() || other.state.isOverFor(in) || other.state.bars(in, false) && !other.state.halted.Load()
	if waits && !slices.Contains(other.state.visits.behind, in) {
		other.state.visits.behind = append(other.state.visits.behind, in)
	}
	other.mu.Unlock()
	if !waits {
		in.unstall()
	}
	return waits
}

// unstall lets the shared pool take from the inbox again.
func (in *Inbox) unstall() {
	var fx effects
	in.mu.Lock()
	in.state.visits.stalled = false
	in.state.callWorker(&fx)
	in.unlock(&fx)
}
