package room

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// Tickets counts the queued and delayed commands that somebody waits for. It looks at each
// of them with the lock, so it is for a report. Those in hand are their workers' own: to
// look at them would be a race.
func (r *Room) Tickets() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count(func(e *command.Envelope) bool { return e.Ticket() != nil })
}

// count counts the queued and delayed commands that are so.
func (r *Room) count(so func(*command.Envelope) bool) int {
	n := r.queue.count(so)
	for i := range r.delayed.heap {
		if so(&r.delayed.heap[i].e) {
			n++
		}
	}
	for w := r.waiters.first; w != nil; w = w.after {
		if w.retry && so(&w.e) {
			n++
		}
	}
	return n
}

// Has reports whether a command that is so is queued, waits for a retry or is in a worker's hand. It looks at each
// with the lock, so it is for a report. Of handlers that may suspend it does not know those that are under way.
func (r *Room) Has(so func(*command.Envelope) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count(so) > 0 {
		return true
	}
	for s := r.inHands; s != nil; s = s.behind {
		for i := max(len(s.kept)-int(s.hand), 0); i < len(s.kept); i++ {
			if so(&s.kept[i]) {
				return true
			}
		}
	}
	return false
}

// Parked are the workers that hold commands for the room and wait for a free slot.
func (r *Room) Parked() (all []*Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range slices.Concat(r.blocked, r.held) {
		all = append(all, p.seat)
	}
	return all
}
