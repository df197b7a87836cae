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
	keyAlarm                 // the rate of a key lets commands be started
	lapseAlarm               // commands that wait may have lapsed
	alarms
)

// timers are the inbox's timers. A transition sets an alarm with
// [state.setAlarm], which only notes it; [Inbox.unlock] arms the timer before
// it releases the lock, so that two settings cannot overtake one another.
//
// The timers are made with the first alarm: most stages of a large pipeline
// rest and never have one.
type timers struct {
	all *[alarms]alarmTimer // nil: no alarm was ever set
	set uint8               // alarms that must be armed, a bit for each
}

type alarmTimer struct {
	after time.Duration // until the alarm, if it must be armed
	timer Timer         // nil: never armed
}

// setAlarm has an alarm fire after a time. An earlier setting of the same alarm
// is void. A halted inbox has no alarms.
func (s *state) setAlarm(a alarm, after time.Duration) {
	if s.halted.Load() {
		return
	}
	if s.timers.all == nil {
		s.timers.all = new([alarms]alarmTimer)
	}
	s.timers.all[a].after = after
	s.timers.set |= 1 << a
}

// StopTimers stops the inbox's timers: each would keep a stopped pipeline in
// memory until it fires. The inbox must have no workers any more.
func (in *Inbox) StopTimers() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.timers.stop()
}

func (t *timers) stop() {
	t.set = 0
	if t.all == nil {
		return
	}
	for _, a := range t.all {
		if a.timer != nil {
			a.timer.Stop()
		}
	}
}
