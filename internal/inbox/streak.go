package inbox

import "time"

// streak is the crashes since a command was last completed. Further tries of
// the same command do not lengthen it. Workers that could not start are counted
// apart; a handler that runs shows that instances can be started.
//
// Invariant: unstarted is at most length, and 0 after a crash that was charged
// to a command.
type streak struct {
	length    int32        // crashes since a command was last completed
	unstarted int32        // those at its end that were workers which could not start
	last      *CrashStreak // the present one, or the last; nil: no handler has crashed. Use facts
}

// CrashStreak describes a streak of crashes, beside its length.
type CrashStreak struct {
	Number uint64        // distinguishes it from the streak before
	First  error         // how it started
	Rests  int           // how often shared pools have left the inbox alone; the rests that are over
	Rested time.Duration // for how long in all

	crashed  int64         // when a handler crashed last
	unable   int64         // when the first of the workers at its end could not start
	rested   int64         // until when the inbox is left alone
	share    time.Duration // the longest pause after a crash, for the next crashes
	left     int           // how many crashes share is for
	reported int           // the length at which Slowed was called last; 0: not in this streak
	news     news          // of all streaks
}

// news is the last streak that was reported.
type news struct {
	at     int64 // when
	length int   // 0: there was none
}

// facts returns the facts of the present streak, or of the last. Most stages
// never have one, so there are none before.
func (k *streak) facts() *CrashStreak {
	if k.last == nil {
		k.last = new(CrashStreak)
	}
	return k.last
}

// add counts a crash with an error. A crash that is longer ago than ends ends
// the streak before it.
func (k *streak) add(f fault, err error, now int64, ends time.Duration) {
	c := k.facts()
	if k.length > 0 && now-c.crashed > int64(ends) {
		k.forget()
	}
	c.crashed = now
	if f == faultless {
		return
	}
	if k.length == 0 {
		*c = CrashStreak{Number: c.Number + 1, First: err, crashed: now, rested: c.rested, news: c.news}
	}
	k.length++
	if f == charged {
		k.unstarted = 0
		return
	}
	if k.unstarted == 0 {
		c.unable = now
	}
	k.unstarted++
}

// end ends the streak: a command was completed. It returns the length if a pause
// in the streak was reported; otherwise 0.
func (k *streak) end() (recovered int) {
	if k.length == 0 {
		return 0
	}
	if k.facts().reported > 0 {
		recovered = int(k.length)
	}
	k.forget()
	return recovered
}

// forget ends the streak, and its end is no news.
func (k *streak) forget() {
	k.length, k.unstarted = 0, 0
	if k.last != nil {
		k.last.left, k.last.reported = 0, 0
	}
}

// pause returns how long the stage must pause after a crash. Workers is how many
// workers there are, waiting how many commands.
func (k *streak) pause(p *Pauses, f fault, workers, waiting int) time.Duration {
	beyond := int(k.length) - workers
	switch {
	case p == nil || beyond <= 0:
		return 0
	case f == charged:
		return k.bound(p.Crash(beyond), p.Delay, waiting)
	case f == notStarted:
		return p.Start(max(int(k.unstarted)-workers, 1))
	default:
		return 0
	}
}

// bound shortens a pause, so that a command that waits is delayed by no more
// than most, however many of the commands before it crash; 0 is no bound. Half
// of most is shared out among as many crashes as there are commands here, and
// then anew. So no command waits for more than the rest of one such round and
// the whole of the next.
func (k *streak) bound(pause, most time.Duration, waiting int) time.Duration {
	if most == 0 {
		return pause
	}
	c := k.facts()
	if c.left == 0 {
		c.left = waiting + 1
		c.share = most / 2 / time.Duration(c.left)
	}
	c.left--
	return min(pause, c.share)
}

// newsEvery is for how long after a report a later streak is reported only if
// it is twice as long: a stage that crashes and completes commands in turn has
// many short ones.
const newsEvery = int64(time.Minute)

// report reports whether a pause in the streak is news, and notes that it was
// reported.
func (k *streak) report(now int64) bool {
	c := k.facts()
	if (c.reported > 0 || c.news.length > 0 && now-c.news.at < newsEvery) && int(k.length) < 2*c.news.length {
		return false
	}
	c.reported, c.news = int(k.length), news{now, int(k.length)}
	return true
}

// rest notes that shared pools leave the inbox alone for a pause. It returns
// false if they do so for longer already.
func (k *streak) rest(now int64, pause time.Duration) bool {
	c, until := k.facts(), now+int64(pause)
	if until <= c.rested {
		return false
	}
	c.Rests++
	c.Rested += time.Duration(until - max(now, c.rested))
	c.rested = until
	return true
}

// restLeft is for how much longer shared pools leave the inbox alone; not above
// 0 if they do not.
func (k *streak) restLeft(now int64) time.Duration { return time.Duration(k.facts().rested - now) }

// unable is for how long workers have not been able to start.
func (k *streak) unable(now int64) time.Duration {
	if k.unstarted == 0 {
		return 0
	}
	return time.Duration(now - k.facts().unable)
}

// copy returns the facts without the part of a rest that has not passed yet.
func (k *streak) copy(now int64, resting bool) CrashStreak {
	if k.last == nil {
		return CrashStreak{}
	}
	c := *k.last
	if left := k.restLeft(now); resting && left > 0 {
		c.Rests = max(c.Rests-1, 0)
		c.Rested = max(c.Rested-left, 0)
	}
	return c
}
