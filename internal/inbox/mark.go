package inbox

import "github.com/golda-dev/golda/behaviour"

// Mark marks the inbox. The workers that are here are woken: those that are parked with something to hand over look whether it is
// for one of the others.
func (in *Inbox) Mark(m *Mark) {
	var fx effects
	in.mu.Lock()
	in.marks.Store(m)
	in.marked = marked{in.marked.mark + 1, int32(in.busyInstances)}
	for h := in.holding; h != nil; h = h.behind {
		if h.inUse {
			h.ready.Store(true)
			fx.wakeWorker(h)
		}
	}
	in.unlock(&fx)
}

// Marked returns how many workers are left of those that had something here when the inbox was marked last.
func (in *Inbox) Marked() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.marked.left)
}

// Unmark ends the wait for a mark.
func (in *Inbox) Unmark() { in.marks.Store(nil) }

// Present returns the mark that is being waited for, nil if there is none. Workers that carry something ask for it.
func (in *Inbox) Present() *Mark { return in.marks.Load() }

// Pass gives a worker the present mark, if that is still the one that it has asked for: the worker has handled its batch, and what it
// carries is for none of the inboxes that the mark is about.
func (in *Inbox) Pass(m *Member, asked *Mark) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if m.inUse && m.mark != in.marked.mark && in.marks.Load() == asked {
		m.mark = in.marked.mark
		in.marked.left--
	}
}

// HasResultsFor reports whether results of an ordered inbox wait here until they may leave for another one.
func (in *Inbox) HasResultsFor(to *behaviour.Inlet) bool {
	if !in.Ordered() {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queue.line.LeadsTo(to)
}
