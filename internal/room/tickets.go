package room

import "github.com/golda-dev/golda/internal/command"

// Tickets counts the queued and delayed commands that somebody waits for. It looks at each
// of them with the lock, so it is for a report. Those in hand are their workers' own: to
// look at them would be a race.
func (r *Room) Tickets() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	waited := func(e *command.Envelope) bool { return e.Ticket != nil }
	n := r.queue.count(waited)
	for i := range r.delayed.heap {
		if waited(&r.delayed.heap[i].e) {
			n++
		}
	}
	return n
}
