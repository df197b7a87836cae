package room

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// Seat is a worker as its room sees it. It outlives the worker's actor.
type Seat struct {
	// Wake makes the worker come for its turn. It is called without the lock
	// or with it, by anybody, and must not block.
	Wake func()

	ready atomic.Bool // whether there may be a turn to take

	// Guarded by the room's lock.
	joined  bool
	waking  bool // woken from idle, has not come yet
	retired bool // is to leave at its next turn
	hand    int  // commands in hand
}

// Ready reports whether the worker should come for a turn. Parking makes it
// false, waking makes it true.
func (s *Seat) Ready() bool { return s.ready.Load() }

// Tally is what a worker has done since it last told its room. Only the worker
// touches it until it passes it on.
type Tally struct {
	OK, Forwarded, Emitted, Errors int
	Timed                          int           // commands that Busy covers
	Busy                           time.Duration // time in handlers
	Waited                         int           // commands that Wait stands for
	Wait                           time.Duration // time in the queue
}

func (t *Tally) completed() int { return t.OK + t.Forwarded + t.Errors }

// Join seats a worker that has made its instance. With again it comes in the
// place of one that crashed.
func (r *Room) Join(s *Seat, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live++
	r.c.most = max(r.c.most, r.live)
	if again {
		r.c.restarts++
	}
	s.joined, s.retired = true, false
	s.ready.Store(true)
}

// Leave takes a worker off its seat, for good or until it is started afresh.
func (r *Room) Leave(s *Seat) {
	r.mu.Lock()
	if !s.joined {
		r.mu.Unlock()
		return
	}
	r.leave(s)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

func (r *Room) leave(s *Seat) {
	s.joined = false
	r.live--
	r.come(s)
	r.idle = slices.DeleteFunc(r.idle, func(o *Seat) bool { return o == s })
}

// come notes that a worker which was woken is here.
func (r *Room) come(s *Seat) {
	if s.waking {
		s.waking = false
		r.waking--
	}
}

// Turn books what the worker did and moves the next commands to its batch. It
// returns how many: 0 if there is nothing to do, and then, with park, the worker
// is parked until it is woken; -1 if the worker is to leave.
func (r *Room) Turn(s *Seat, t *Tally, batch []command.Envelope, park bool) int {
	r.mu.Lock()
	r.book(s, t)
	r.come(s)
	if r.dismissed(s) {
		next := r.rouse()
		r.settled()
		r.mu.Unlock()
		if next != nil {
			next.Wake()
		}
		return -1
	}
	n := r.take(s, batch)
	if n == 0 {
		if park {
			s.ready.Store(false)
			r.idle = append(r.idle, s)
		}
		r.settled()
		r.mu.Unlock()
		return 0
	}
	next := r.rouse()
	woken := r.release()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	return n
}

// dismissed reports whether a worker is one too many.
func (r *Room) dismissed(s *Seat) bool {
	if !s.retired && r.excess > 0 {
		r.excess--
		s.retired = true
	}
	return s.retired
}

// take moves up to a fair share of the queue into a batch.
func (r *Room) take(s *Seat, batch []command.Envelope) int {
	n := r.queue.Len()
	if n == 0 {
		return 0
	}
	share := (n + r.live - 1) / max(r.live, 1)
	n = min(len(batch), r.limit, max(share, 1))
	if r.alone > 0 {
		n = r.untilAlone(n)
	}
	n = r.queue.PopInto(batch[:n])
	if r.alone > 0 {
		r.forget(batch[0])
	}
	r.c.inHand += n
	s.hand = n
	r.c.busy++
	return n
}

// untilAlone cuts a batch before a command that wants one of its own.
func (r *Room) untilAlone(n int) int {
	for i := range n {
		if r.queue.At(i).Alone {
			return max(i, 1)
		}
	}
	return n
}

// forget notes that a command has left the queue.
func (r *Room) forget(e command.Envelope) {
	if e.Alone {
		r.alone--
	}
}

// Book books what a worker did in the middle of its batch: before somebody
// hears of it who might look at the accounts.
func (r *Room) Book(s *Seat, t *Tally) {
	r.mu.Lock()
	r.book(s, t)
	r.settled()
	r.mu.Unlock()
}

func (r *Room) book(s *Seat, t *Tally) {
	if done := t.completed(); done > 0 {
		r.c.ok += uint64(t.OK)
		r.c.forwarded += uint64(t.Forwarded)
		r.c.errors += uint64(t.Errors)
		r.c.streak = 0
		r.lay(s, done)
	}
	r.c.emitted += uint64(t.Emitted)
	if t.Waited > 0 {
		r.c.wait.Record(t.Wait, uint64(t.Waited))
	}
	if t.Timed > 0 {
		r.time(t)
	}
	*t = Tally{}
}

// lay notes that n commands have left a worker's hand.
func (r *Room) lay(s *Seat, n int) {
	r.c.inHand -= n
	s.hand -= n
	if n > 0 && s.hand == 0 {
		r.c.busy--
	}
}

// time takes the measure of a batch, and fits the size of the next ones to it.
// The size at most doubles, so that a stage whose first commands were cheap by
// chance is not given too many of the dear ones.
func (r *Room) time(t *Tally) {
	each := t.Busy / time.Duration(t.Timed)
	r.c.busyTime += t.Busy
	r.c.work.Record(each, uint64(t.Timed))
	r.service = (3*r.service + each) / 4
	fit := int(quantum / max(r.service, 1))
	r.limit = min(max(fit, 1), 2*r.limit, r.cfg.Batch)
}

// Again takes back the command in hand, whose try ended in an error, to be
// tried once more. It reports false if the command has been tried often enough,
// and then leaves it in the worker's hand.
func (r *Room) Again(s *Seat, t *Tally, e command.Envelope) bool {
	if int(e.Tries) >= r.cfg.Retry.Attempts {
		return false
	}
	r.mu.Lock()
	r.book(s, t)
	ok := r.postpone(e)
	var next *Seat
	if ok {
		r.c.streak = 0
		r.lay(s, 1)
		next = r.rouse()
	}
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	return ok
}

// Crash books the end of a worker's batch that did not end well: the culprit,
// if one is known, is charged, and with retry tried again; the rest goes
// back to the front of the queue, in order.
func (r *Room) Crash(s *Seat, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry bool, err error) {
	r.mu.Lock()
	r.book(s, t)
	r.crash(culprit == nil || culprit.Tries <= 1)
	if r.halted {
		r.c.dead[deadStopped] += uint64(len(rest))
	} else {
		r.giveBack(rest)
	}
	r.lay(s, s.hand)
	r.leave(s) // it takes no further command, so it is no worker any more
	dies := culprit != nil && !(retry && r.postpone(*culprit))
	if dies {
		r.c.dead[deadCrash]++
	}
	halted := r.halted
	next := r.rouse()
	r.settled()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	if dies {
		r.bury([]command.Envelope{*culprit}, ReasonCrash, err)
	}
	if halted {
		r.bury(rest, ReasonStopped, ErrStopped)
	}
}

func (r *Room) giveBack(es []command.Envelope) {
	r.queue.PushFront(es)
	for _, e := range es {
		if e.Alone {
			r.alone++
		}
	}
}

// CrashIdle counts a crash that happened with no command in hand: an instance
// that did not start.
func (r *Room) CrashIdle() {
	r.mu.Lock()
	r.crash(true)
	r.mu.Unlock()
}

// crash counts a crash. Further tries of the same command do not lengthen the
// streak, so that one poison command alone never breaks a stage; nor does a
// crash long ago.
func (r *Room) crash(first bool) {
	now := r.Host().Now()
	if r.c.streak > 0 && now-r.c.crashed > int64(r.cfg.StreakEnds) {
		r.c.streak = 0
	}
	r.c.crashed = now
	r.c.crashes++
	if first {
		r.c.streak++
	}
}

// Streak returns how many crashes have followed one another without a
// completed command between them.
func (r *Room) Streak() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.c.streak
}

// Muster forgets what the workers of a stage that broke had still to do and had
// done wrong: requests to leave, and the streak of their crashes. It is called
// when none of them is left.
func (r *Room) Muster() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excess, r.c.streak = 0, 0
}

// Shrink asks n workers to leave: idle ones at once, others when they have
// finished what they hold.
func (r *Room) Shrink(n int) {
	r.mu.Lock()
	var woken []*Seat
	for range n {
		if len(r.idle) == 0 {
			r.excess++
			continue
		}
		s := r.idle[0] // the one that has been idle for longest
		r.idle = slices.Delete(r.idle, 0, 1)
		s.retired = true
		r.summon(s)
		woken = append(woken, s)
	}
	r.mu.Unlock()
	wakeAll(woken)
}

// Keep takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (r *Room) Keep(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.excess)
	r.excess -= n
	return n
}

// Spare reports whether one worker less is wanted, and takes note that it is
// gone: a worker that crashed need not be started afresh to be dismissed.
func (r *Room) Spare() bool { return r.Keep(1) == 1 }
