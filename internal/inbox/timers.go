package inbox

import "time"

// set sets one of the inbox's timers, which calls f. The caller holds the lock. Nothing is due in an inbox that is halted.
func (in *Inbox) set(t **time.Timer, d time.Duration, f func(*Inbox)) {
	switch {
	case in.halted.Load():
	case *t == nil:
		*t = time.AfterFunc(d, func() { f(in) })
	default:
		(*t).Reset(d)
	}
}

// StopTimers stops the inbox's timers: each would keep a stopped pipeline in memory until it fires. It is for an inbox
// without workers.
func (in *Inbox) StopTimers() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopTimers()
}

func (in *Inbox) stopTimers() {
	for _, t := range []*time.Timer{in.retryTimer, in.lingerTimer, in.restTimer, in.sole.timer} {
		if t != nil {
			t.Stop()
		}
	}
}
