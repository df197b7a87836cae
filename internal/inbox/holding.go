package inbox

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// Tickets counts the queued and delayed commands that somebody waits for. It looks at each
// of them with the lock, so it is for a report. Those in hand are their workers' own: to
// look at them would be a race.
func (in *Inbox) Tickets() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.count(func(e *command.Envelope) bool { return e.Ticket() != nil })
}

// count counts the queued and delayed commands that are so.
func (in *Inbox) count(so func(*command.Envelope) bool) int {
	n := in.queue.count(so)
	for i := range in.delayed.heap {
		if so(&in.delayed.heap[i].e) {
			n++
		}
	}
	for w := in.waiters.first; w != nil; w = w.after {
		if w.retry && so(&w.e) {
			n++
		}
	}
	return n
}

// Has reports whether a command that is so is queued, waits for a retry or is in a worker's hand. It looks at each
// with the lock, so it is for a report. Of handlers that may suspend it does not know those that are under way.
func (in *Inbox) Has(so func(*command.Envelope) bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.count(so) > 0 {
		return true
	}
	for m := in.holding; m != nil; m = m.behind {
		for i := max(len(m.copies)-int(m.inHand), 0); i < len(m.copies); i++ {
			if so(&m.copies[i]) {
				return true
			}
		}
	}
	return false
}

// Parked are the workers that hold commands for the inbox and wait for a free slot.
func (in *Inbox) Parked() (all []*Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range slices.Concat(in.blocked, in.held) {
		all = append(all, p.seat)
	}
	return all
}
