// Package streak follows the crashes of a stage that come one after another,
// without a completed command between them, and says for how long the stage
// pauses. It is arithmetic: the caller has the clock, and a lock.
package streak

import "time"

// Fault is how a crash counts in a streak.
type Fault uint8

const (
	// Faultless does not count: a further try of a command, or the search for
	// the command of a batch that crashes.
	Faultless Fault = iota
	// Charged is a crash of a handler that was charged to a command.
	Charged
	// NotStarted is a worker that could not start: the stage is to blame, not a
	// command.
	NotStarted
)

// Pauses are the pauses of a stage whose workers crash one after another.
type Pauses struct {
	// Crash returns the pause after a crash that was charged to a command,
	// Start the one after a worker that could not start. Beyond is how many of
	// them there were one after another, beyond one for each worker.
	Crash, Start func(beyond int) time.Duration
	// Delay bounds the delay of a waiting command by the pauses after crashes,
	// all of them together: however many commands before it crash. 0 is no
	// bound.
	Delay time.Duration
}

// Streak is the crashes since a command was last completed. Further tries of
// the same command do not lengthen it. Workers that could not start are counted
// apart; a handler that runs shows that instances can be started.
//
// Invariant: unstarted is at most length, and 0 after a crash that was charged
// to a command.
type Streak struct {
	length    int32  // crashes since a command was last completed
	unstarted int32  // those at its end that were workers which could not start
	last      *Facts // the present one, or the last; nil: no handler has crashed. Use facts
}

// Facts describes a streak of crashes, beside its length.
type Facts struct {
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

// Length returns how many crashes have followed one another without a completed
// command between them.
func (k *Streak) Length() int { return int(k.length) }

// Unstarted returns how many crashes at the end of the streak were workers that
// could not start.
func (k *Streak) Unstarted() int { return int(k.unstarted) }

// facts returns the facts of the present streak, or of the last. Most stages
// never have one, so there are none before.
func (k *Streak) facts() *Facts {
	if k.last == nil {
		k.last = new(Facts)
	}
	return k.last
}

// Add counts a crash with an error. A crash that is longer ago than ends ends
// the streak before it.
func (k *Streak) Add(f Fault, err error, now int64, ends time.Duration) {
	c := k.facts()
	if k.length > 0 && now-c.crashed > int64(ends) {
		k.Forget()
	}
	c.crashed = now
	if f == Faultless {
		return
	}
	if k.length == 0 {
		*c = Facts{Number: c.Number + 1, First: err, crashed: now, rested: c.rested, news: c.news}
	}
	k.length++
	if f == Charged {
		k.unstarted = 0
		return
	}
	if k.unstarted == 0 {
		c.unable = now
	}
	k.unstarted++
}

// End ends the streak: a command was completed. It returns the length if a pause
// in the streak was reported; otherwise 0.
func (k *Streak) End() (recovered int) {
	if k.length == 0 {
		return 0
	}
	if k.facts().reported > 0 {
		recovered = int(k.length)
	}
	k.Forget()
	return recovered
}

// Forget ends the streak, and its end is no news.
func (k *Streak) Forget() {
	k.length, k.unstarted = 0, 0
	if k.last != nil {
		k.last.left, k.last.reported = 0, 0
	}
}

// Pause returns how long the stage must pause after a crash. Workers is how many
// workers there are, waiting how many commands.
func (k *Streak) Pause(p *Pauses, f Fault, workers, waiting int) time.Duration {
	beyond := int(k.length) - workers
	switch {
	case p == nil || beyond <= 0:
		return 0
	case f == Charged:
		return k.bound(p.Crash(beyond), p.Delay, waiting)
	case f == NotStarted:
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
func (k *Streak) bound(pause, most time.Duration, waiting int) time.Duration {
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

// Report reports whether a pause in the streak is news, and notes that it was
// reported.
func (k *Streak) Report(now int64) bool {
	c := k.facts()
	if (c.reported > 0 || c.news.length > 0 && now-c.news.at < newsEvery) && int(k.length) < 2*c.news.length {
		return false
	}
	c.reported, c.news = int(k.length), news{now, int(k.length)}
	return true
}

// Rest notes that shared pools leave the inbox alone for a pause. It returns
// false if they do so for longer already.
func (k *Streak) Rest(now int64, pause time.Duration) bool {
	c, until := k.facts(), now+int64(pause)
	if until <= c.rested {
		return false
	}
	c.Rests++
	c.Rested += time.Duration(until - max(now, c.rested))
	c.rested = until
	return true
}

// RestLeft is for how much longer shared pools leave the inbox alone; not above
// 0 if they do not.
func (k *Streak) RestLeft(now int64) time.Duration { return time.Duration(k.facts().rested - now) }

// Unable is for how long workers have not been able to start.
func (k *Streak) Unable(now int64) time.Duration {
	if k.unstarted == 0 {
		return 0
	}
	return time.Duration(now - k.facts().unable)
}

// Facts returns the facts without the part of a rest that has not passed yet.
func (k *Streak) Facts(now int64, resting bool) Facts {
	if k.last == nil {
		return Facts{}
	}
	c := *k.last
	if left := k.RestLeft(now); resting && left > 0 {
		c.Rests = max(c.Rests-1, 0)
		c.Rested = max(c.Rested-left, 0)
	}
	return c
}
