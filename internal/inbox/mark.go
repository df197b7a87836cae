package inbox

import "github.com/golda-dev/golda/behaviour"

// Mark marks the inbox and wakes its workers. A parked worker that has commands
// to hand over must look whether any of them is for an inbox in Mark.To.
func (in *Inbox) Mark(m *Mark) {
	var fx effects
	in.mu.Lock()
	in.state.marks.Store(m)
	in.state.instances.marked = marked{in.state.instances.marked.mark + 1, int32(in.state.instances.busy)}
	for h := in.state.holding; h != nil; h = h.custody.behind {
		if h.custody.inUse {
			h.ready.Store(true)
			fx.wakeWorker(h)
		}
	}
	in.unlock(&fx)
}

// Marked returns how many of the workers that had commands here when the inbox
// was marked last may still have some of them.
func (in *Inbox) Marked() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.state.instances.marked.left)
}

// Unmark ends the wait for a mark.
func (in *Inbox) Unmark() { in.state.marks.Store(nil) }

// Present returns the mark that is being waited for, nil if there is none.
// Workers that carry something ask for it.
func (in *Inbox) Present() *Mark { return in.state.marks.Load() }

// Pass gives a worker the present mark, if that is still the mark that it asked
// for. The worker has handled its batch, and none of the commands that it
// carries is for an inbox in Mark.To.
func (in *Inbox) Pass(m *Member, asked *Mark) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if m.custody.inUse && m.custody.mark != in.state.instances.marked.mark && in.state.marks.Load() == asked {
		m.custody.mark = in.state.instances.marked.mark
		in.state.instances.marked.left--
	}
}

// HasResultsFor reports whether results of an ordered inbox wait here until
// they may leave for another one.
func (in *Inbox) HasResultsFor(to *behaviour.Inlet) bool {
	if !in.Ordered() {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.queue.line.LeadsTo(to)
}
