package inbox

import "time"

// alarm is one of the times that an inbox waits for.
type alarm int

const (
	retryAlarm  alarm = iota // the next try of a command is due
	lingerAlarm              // a batch that is not full has waited long enough
	restAlarm                // an inbox whose handlers crash is served again
	soleAlarm                // a queue is no longer left to one worker
	rateAlarm                // the rate lets commands be started
	keyAlarm                 // and that of a key does
	alarms
)

// timers are the inbox's timers. A transition sets an alarm with [timers.set], which only notes it; [Inbox.unlock] arms
// the timer before it releases the lock, so that two settings cannot overtake one another.
type timers struct {
	asked [alarms]time.Duration // by those that are in set
	set   uint8                 // alarms that are to be armed, a bit for each
	armed [alarms]Timer         // nil: never armed
}

// setAlarm has an alarm fire after a time. An earlier setting of the same alarm is void. A halted inbox has no alarms.
func (s *state) setAlarm(a alarm, after time.Duration) {
	if !s.halted.Load() {
		s.timers.asked[a] = after
		s.timers.set |= 1 << a
	}
}

// StopTimers stops the inbox's timers: each would keep a stopped pipeline in memory until it fires. The inbox must have
// no workers any more.
func (in *Inbox) StopTimers() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.timers.stop()
}

func (t *timers) stop() {
	t.set = 0
	for _, timer := range t.armed {
		if timer != nil {
			timer.Stop()
		}
	}
}
