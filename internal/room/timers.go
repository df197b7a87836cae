package room

import "time"

// set sets one of the room's timers, which calls f. The caller holds the lock. Nothing is due in a room that is halted.
func (r *Room) set(t **time.Timer, in time.Duration, f func(*Room)) {
	switch {
	case r.halted.Load():
	case *t == nil:
		*t = time.AfterFunc(in, func() { f(r) })
	default:
		(*t).Reset(in)
	}
}

// StopTimers stops the room's timers: each would keep a stopped pipeline in memory until it fires. It is for a room
// without workers.
func (r *Room) StopTimers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopTimers()
}

func (r *Room) stopTimers() {
	for _, t := range []*time.Timer{r.timer, r.lingers, r.rests, r.alone.timer} {
		if t != nil {
			t.Stop()
		}
	}
}
