package room

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// Seat is a worker as its room sees it. It outlives the worker's actor.
type Seat struct {
	*visit // of one of a crew; only the worker touches it

	// Wake makes the worker come for its turn. It is called without the lock
	// or with it, by anybody, and must not block.
	Wake func()
	// Hand is where a turn puts the commands.
	Hand []command.Envelope
	// Instance is what the worker handles them with. A turn at a shared room lends
	// one, or nil: then the worker is to make one. It is the worker's for as long
	// as it is in the room, and is returned to the shelf.
	Instance any
	// Surplus is an instance that is to be stopped by the worker.
	Surplus any
	// Owner is whose seat it is, nil if there is nobody yet; set once.
	Owner any
	// Since is when the present batch began, by the host's clock; the same below zero when it is done, and 0 before the
	// first. The worker sets it; anybody may look.
	Since atomic.Int64
	// Called is an idle worker whom a hand-over of this one has called with [Seat.Defers], for this one to wake.
	// Only the worker touches the two.
	Called *Seat

	home *Room // whose own worker it is, nil if it is one of a crew; set once

	// From here to forsaken it is a few bytes side by side: a stage that rests keeps the seats of its workers.

	ready atomic.Bool // whether there may be a turn to take

	// Defers has an idle worker whom a hand-over calls not be woken but left in Called.
	Defers bool
	// Delivers is whether the worker has done with its hand, and is about to hand over what came of it and
	// to take its next turn. It says so with a lock of its own, and the room unsays it with the room's. So who
	// has both may ask.
	Delivers bool

	// Guarded by the lock of the room or crew that the worker has joined.
	joined  bool
	idle    bool // is among the idle
	waking  bool // woken from idle, has not come yet
	retired bool // is to leave at its next turn
	looks   bool // found nothing and did not park: it looks once more
	away    bool // is blocked: a stage ahead is full

	// Guarded by the lock of the room that it is in.
	holds    bool // counts in the room's out
	owns     bool // counts in the room's made
	listed   bool // is one of those that have been given something in this visit
	forsaken bool // was given up

	// Carried is how many commands the worker has not been able to hand over, as the room knows it; see
	// [Room.Carry]. Only the worker changes it.
	Carried        int32
	hand           int32              // commands in hand
	timed          uint32             // when the last batch began whose time has been counted; the low half of it is enough
	credited       time.Duration      // so much of the present batch's time has been counted
	kept           []command.Envelope // what it was given last
	before, behind *Seat              // neighbours among those that are listed
}

// Ready reports whether the worker should come for a turn. Parking makes it
// false, waking makes it true.
func (s *Seat) Ready() bool { return s.ready.Load() }

// Call makes the worker ready for a turn though it is parked somewhere.
func (s *Seat) Call() { s.ready.Store(true) }

// call wakes an idle worker, if there is one, or leaves that to the worker at s if it asked for it.
// Of several the last is left to it. A nil seat asks for nothing.
func (s *Seat) call(idle *Seat) {
	if s != nil && s.Defers && idle != nil {
		s.Called, idle = idle, s.Called
	}
	if idle != nil {
		idle.Wake()
	}
}

// Tally is what a worker has done since it last told its room. Only the worker
// touches it until it passes it on.
type Tally struct {
	OK, Forwarded, Emitted, Errors int
	Suspended                      int           // commands that were set aside
	Waited                         int32         // commands that Wait stands for
	Timed                          int32         // commands that Busy covers
	Busy                           time.Duration // time in handlers
	Wait                           time.Duration // time in the queue
}

func (t *Tally) completed() int { return t.OK + t.Forwarded + t.Errors }

// Claim asks for an instance for a worker of the room's own, before it joins. One
// from the shelf is lent; with make, the worker is to make one. If neither, there
// are as many as there may be, and the worker gets one with its first commands.
func (r *Room) Claim(s *Seat) (make bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.equip(s)
}

// equip gives a worker an instance, or the right to make one. It reports whether it
// is to make one; if that is false and the seat has none, there is none to be had.
func (r *Room) equip(s *Seat) (make bool) {
	switch {
	case s.owns:
		return s.Instance == nil
	case len(r.shelf) > 0:
		last := len(r.shelf) - 1
		s.Instance, s.owns = r.shelf[last], true
		r.shelf[last] = nil
		r.shelf = r.shelf[:last]
		return false
	case r.made < r.knobs.Instances:
		r.made++
		s.owns = true
		return true
	}
	return false
}

// equippable reports whether a worker that comes will have an instance.
func (r *Room) equippable() bool { return len(r.shelf) > 0 || r.made < r.knobs.Instances }

// shelve takes a worker's instance back, if it has one that is fit.
func (r *Room) shelve(s *Seat) {
	if !s.owns {
		return
	}
	s.owns = false
	switch inst := s.Instance; {
	case inst == nil: // it was never made, or crashed
		r.made--
	case r.made > r.knobs.Instances:
		r.made--
		s.Surplus = inst
	default:
		r.shelf = append(r.shelf, inst)
	}
	s.Instance = nil
}

// Restock puts a claimed instance on the shelf, or lets go of the claim.
func (r *Room) Restock(s *Seat) {
	r.mu.Lock()
	r.shelve(s)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Join seats a worker of the room's own. With again it comes in the place of one
// that crashed.
func (r *Room) Join(s *Seat, again bool) {
	if s.home == nil {
		s.home = r
	}
	r.mu.Lock()
	if !r.dozers.arrive(s) { // one that dozed counts already
		r.join(s)
	}
	if again {
		r.c.restarts++
	}
	next := r.rouse() // one may wait for another's seat, if few instances are allowed
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Leave takes a worker off its seat, for good or until it is started afresh. If
// its instance is still wanted it is taken back; else it stays with the worker, who
// stops it and then tells so with [Room.Restock].
func (r *Room) Leave(s *Seat) {
	r.mu.Lock()
	r.leave(s)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

func (r *Room) leave(s *Seat) {
	r.unlist(s)
	s.drop()
	r.carry(s, 0)
	r.back(s)
	r.part(s)
	if r.crew != nil && s.Instance != nil {
		r.shelve(s)
	}
}

// Quit ends what a worker of a crew still has in the room where it crashed, when its
// instance has been stopped: its place, and its right to an instance.
func (r *Room) Quit(s *Seat) {
	r.mu.Lock()
	r.yield(s)
	r.shelve(s)
	next := r.rouse()
	r.settled()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Yield lets go of what a worker held in the room after its last batch, when all
// that came of it has been handed over.
func (r *Room) Yield(s *Seat) {
	r.mu.Lock()
	r.yield(s)
	next := r.rouse()
	r.settled()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Succeed puts another seat in the place of one that is not used any more: if that
// still held the room, because it had something to hand over, its successor does.
func (r *Room) Succeed(from, to *Seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from.holds, to.holds = false, from.holds
}

// hold counts a worker as being in the room; yield ends that.
func (r *Room) hold(s *Seat) {
	if !s.holds {
		s.holds = true
		r.out++
		r.c.mostOut = max(r.c.mostOut, r.out)
	}
}

func (r *Room) yield(s *Seat) {
	if s.holds {
		s.holds = false
		r.out--
	}
}

// Turn books what a worker of the room's own did and moves the next commands to its
// hand. All that came of the last ones has been handed over, or the worker [Room.Carry]s it. It
// returns how many: 0 if there is nothing to do, and then, with park, the worker is parked until it is
// woken; -1 if the worker is to leave, which it need not while it carries something.
func (r *Room) Turn(s *Seat, t *Tally, park bool) int {
	r.mu.Lock()
	r.book(s, t)
	s.settle()
	r.yield(s)
	r.come(s)
	r.back(s)
	n := -1
	if s.Carried > 0 || !r.dismissed(s) {
		n = r.take(s, 0)
	}
	var next *Seat
	switch {
	case n > 0:
		next = r.rouse()
	case n < 0:
		next = r.rouse()
		r.settled()
	default:
		if park {
			s.drop()
			r.park(s)
		} else {
			r.alone.look(s, true)
		}
		if !r.fit(s) {
			next = r.rouse() // who has an instance may have gone to rest, since this one was called
		}
		r.settled()
	}
	rooms, woken := r.relieve(), r.release()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
	r.Host().ended()
	return n
}

// carry notes how many commands a worker carries.
func (r *Room) carry(s *Seat, n int32) {
	r.carried += n - s.Carried
	s.Carried = n
}

// Carry notes how many commands a worker carries because the rooms that they are for were full. They keep
// their slots here, so that they are bounded by the capacity. It reports whether the worker is among the idle.
func (r *Room) Carry(s *Seat, n int) (idle bool) {
	r.mu.Lock()
	r.carry(s, int32(n))
	idle = s.idle
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	r.settled()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
	return idle
}

// take moves up to a fair share of the queue into a worker's hand, and no more than
// most, if that is not 0.
func (r *Room) take(s *Seat, most int) int {
	n, laden := r.due(), r.laden(s)
	if laden {
		n = min(n, r.going())
	}
	if n == 0 || r.out >= r.knobs.Instances {
		return 0
	}
	if !s.owns && !r.equippable() || r.lingering() {
		return 0
	}
	n = r.share(n)
	if most > 0 {
		n = min(n, most)
	}
	if r.packed > 0 {
		n = r.apart(n)
	}
	s.grow(n+1, r.knobs.Batch+1) // when the last has been handled, the one in hand is none
	n = r.give(s.Hand[:n], !laden && r.due() > r.going())
	if r.packed > 0 {
		r.unpack(s.Hand[:n])
	}
	if !s.owns {
		r.equip(s)
	}
	r.hold(s)
	r.c.inHand += n
	s.hand = int32(n)
	r.retain(s, n)
	r.c.busy++
	return n
}

// share is how many of n commands a worker takes at once: what its colleagues could
// do as well is left to them.
func (r *Room) share(n int) int {
	if r.knobs.Linger > 0 {
		return min(n, r.knobs.Batch) // they are to be done together
	}
	hands := r.live
	switch {
	case r.crew != nil:
		hands = r.crew.hands()
	case r.little(n):
		hands = 1
	}
	hands = max(min(hands, r.knobs.Instances), 1)
	return min(max((n+hands-1)/hands, 1), r.limit, r.knobs.Batch)
}

// grow makes a hand large enough.
func (s *Seat) grow(n, most int) {
	if n > len(s.Hand) {
		s.Hand = make([]command.Envelope, max(n, min(2*len(s.Hand), most)))
	}
}

// mostLinger is for how long a batch lingers at most: envelopes do not know for how long they have waited when it is
// more than a day and a half.
const mostLinger = 24 * time.Hour

// lingering reports whether the queue is to fill up before anybody takes of it.
func (r *Room) lingering() bool {
	linger := min(r.knobs.Linger, mostLinger)
	if linger <= 0 || r.queue.Len() >= min(r.knobs.Batch, r.knobs.Capacity) || r.going() > 0 {
		return false
	}
	if r.host.Load().Draining.Load() || !r.InUse() {
		return false
	}
	waited, known := r.queue.oldest().Waited(r.Host().Now())
	if !known || waited >= linger {
		return false
	}
	r.set(&r.lingers, linger-waited, (*Room).ripen)
	return true
}

// ripen has somebody look at a queue that has lingered.
func (r *Room) ripen() {
	r.mu.Lock()
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Book books what a worker did in the middle of its batch: before somebody
// hears of it who might look at the accounts. It reports false, and books nothing, if the worker was forsaken.
func (r *Room) Book(s *Seat, t *Tally) bool {
	r.mu.Lock()
	ours := !s.forsaken
	if ours {
		r.book(s, t)
		r.settled()
	}
	r.mu.Unlock()
	return ours
}

// Unbegun books commands of a worker's hand as failed that are not begun, because their callers' contexts have ended.
// Rest, unless it is nil, are the commands that remain in the hand, in the worker's order: n may be 0 if only the order
// has changed. It reports false if the worker was forsaken.
func (r *Room) Unbegun(s *Seat, t *Tally, n int, rest []command.Envelope) bool {
	return r.skip(s, t, n, rest, func() { r.c.errors += uint64(n) })
}

// Expire sheds commands of a worker's hand that are not begun, because their time to live is over. Rest and the result are
// as for [Room.Unbegun].
func (r *Room) Expire(s *Seat, t *Tally, es, rest []command.Envelope) bool {
	ours := r.skip(s, t, len(es), rest, func() { r.c.losses().shed[shedExpired] += uint64(len(es)) })
	if ours {
		r.bury(es, ReasonExpired, fmt.Errorf("stage %q: %w", r.cfg.Name, ErrExpired))
	}
	return ours
}

// skip takes n commands out of a worker's hand that are not begun, and counts them.
func (r *Room) skip(s *Seat, t *Tally, n int, rest []command.Envelope, count func()) bool {
	r.mu.Lock()
	ours := !s.forsaken
	if ours {
		r.book(s, t)
		count()
		r.lay(s, n)
		if rest != nil {
			s.kept = append(s.kept[:0], rest...)
		}
		r.settled()
	}
	r.mu.Unlock()
	if ours {
		r.Host().ended()
	}
	return ours
}

func (r *Room) book(s *Seat, t *Tally) {
	if done := t.completed(); done > 0 {
		r.c.ok += uint64(t.OK)
		r.c.forwarded += uint64(t.Forwarded)
		r.c.errors += uint64(t.Errors)
		r.c.streak = 0
		r.lay(s, done)
	}
	r.setAside(s, t.Suspended)
	r.c.emitted += uint64(t.Emitted)
	if t.Waited > 0 {
		r.c.wait.Record(t.Wait, uint64(t.Waited))
	}
	r.clocked(s, t)
	*t = Tally{}
}

// lay notes that n commands have left a worker's hand.
func (r *Room) lay(s *Seat, n int) {
	r.c.inHand -= n
	s.hand -= int32(n)
	if n > 0 && s.hand == 0 && !s.away {
		r.c.busy--
	}
}

// time takes the measure of a batch, and fits the size of the next ones to it.
// The size at most doubles, so that a stage whose first commands were cheap by
// chance is not given too many of the dear ones.
func (r *Room) time(t *Tally) {
	each := t.Busy / time.Duration(t.Timed)
	r.c.work.Record(each, uint64(t.Timed))
	r.service = (3*r.service + each) / 4
	fit := int(quantum / max(r.service, 1))
	r.limit = min(max(fit, 1), 2*r.limit, r.knobs.Batch)
}

// Again takes back the command in hand, whose try ended in an error, to be
// tried once more. It reports false if the command has been tried often enough,
// and then leaves it in the worker's hand, or if the worker was forsaken.
func (r *Room) Again(s *Seat, t *Tally, e command.Envelope) bool {
	if e.Tries() >= r.cfg.Retry.Attempts {
		return false
	}
	at := r.queue.place(e.Cmd)
	r.mu.Lock()
	if s.forsaken {
		r.mu.Unlock()
		return false
	}
	r.book(s, t)
	e.SetPack(0)
	ok := r.postpone(e, at)
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
// back to the front of the queue, in order. A crash whose culprit is still looked for is
// not one of a row: it will be when the culprit is found. See [Narrow]. It reports false if the worker was
// forsaken.
func (r *Room) Crash(s *Seat, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry bool, err error) bool {
	return r.fell(s, t, culprit, rest, retry, culprit != nil && culprit.Tries() <= 1, err)
}

// Unmade books the end of a batch for which no instance could be made: nobody is to
// blame. It reports false if the worker was forsaken.
func (r *Room) Unmade(s *Seat, t *Tally, batch []command.Envelope, err error) bool {
	return r.fell(s, t, nil, batch, false, true, err)
}

// fell is [Room.Crash] and [Room.Unmade]; row says whether the crash is one of a row.
func (r *Room) fell(s *Seat, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry, row bool, err error) bool {
	var at place
	if retry {
		at = r.queue.place(culprit.Cmd)
	}
	r.mu.Lock()
	if s.forsaken {
		r.mu.Unlock()
		return false
	}
	r.book(s, t)
	r.credit(s, r.Host().Now())
	s.settle()
	r.crash(row)
	if row && r.c.streak == 1 {
		r.spelled().First = err
	}
	if r.halted.Load() {
		rest = r.sideline(s, rest)
		r.c.losses().dead[deadStopped] += uint64(len(rest))
	} else {
		r.giveBack(rest)
	}
	r.lay(s, int(s.hand))
	s.Instance = nil // it is of no use any more
	if s.visit == nil || s.at == nil {
		r.leave(s) // it takes no further command, so it is no worker any more
	} else {
		s.at = nil
		r.unlist(s)
		r.c.restarts++ // a crew knows no rooms, so its next worker is counted here
		r.tire()
	}
	dies := culprit != nil && !(retry && r.postpone(*culprit, at))
	if dies {
		r.c.losses().dead[deadCrash]++
	}
	halted := r.halted.Load()
	next := r.rouse()
	rooms, woken := r.relieve(), r.release()
	r.settled()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(rooms)
	r.Host().ended()
	if dies {
		r.bury([]command.Envelope{*culprit}, ReasonCrash, err)
	}
	if halted {
		r.bury(rest, ReasonStopped, r.stopped())
	}
	return true
}

// tire lets the room rest if its handlers have crashed more often, one after another,
// than there are workers in the crew.
func (r *Room) tire() {
	if r.crew == nil || r.cfg.Rest == nil {
		return
	}
	if beyond := int(r.c.streak) - r.crew.hands(); beyond > 0 {
		r.rest(r.cfg.Rest(beyond))
	}
}

func (r *Room) giveBack(es []command.Envelope) {
	r.queue.pushFront(es)
	r.pack(es)
}

// CrashIdle counts a crash that happened with no command in hand: an instance
// that did not start.
func (r *Room) CrashIdle() {
	r.mu.Lock()
	r.crash(true)
	r.mu.Unlock()
}

// Abandoned counts handlers that were given up and still run; with a worker more, it
// counts that one was.
func (r *Room) Abandoned(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.abandoned += int32(n)
	if n > 0 {
		r.c.stuck += uint64(n)
	}
}

// StillStuck is how many handlers that were given up still run.
func (r *Room) StillStuck() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.c.abandoned)
}

// crash counts a crash, as one of a row or not. Further tries of the same command do
// not lengthen the streak, so that one poison command alone never breaks a stage; nor
// does a crash long ago.
func (r *Room) crash(row bool) {
	now := r.Host().Now()
	spell := r.spelled()
	if r.c.streak > 0 && now-spell.crashed > int64(r.cfg.StreakEnds) {
		r.c.streak = 0
	}
	spell.crashed = now
	r.c.crashes++
	if row {
		if r.c.streak == 0 {
			*spell = Spell{Number: spell.Number + 1, crashed: now, rested: spell.rested}
		}
		r.c.streak++
	}
}

// Spell is what is known of a streak of crashes beside its length.
type Spell struct {
	Number uint64        // tells it from the one before
	First  error         // how it began
	Rests  int           // how often crews have left the room alone; those that are over
	Rested time.Duration // for how long in all

	crashed int64 // when a handler crashed last
	rested  int64 // until when the room is left alone
}

// spelled is what is known of the present streak, or the last, to be changed. The room's lock is held.
func (r *Room) spelled() *Spell {
	if r.spell == nil {
		r.spell = new(Spell)
	}
	return r.spell
}

// Spell returns the present streak, or the last if there is none.
func (r *Room) Spell() Spell {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s Spell
	if r.spell != nil {
		s = *r.spell
	}
	if left := s.rested - r.Host().Now(); r.resting && left > 0 {
		s.Rests = max(s.Rests-1, 0)
		s.Rested = max(s.Rested-time.Duration(left), 0)
	}
	return s
}

// Streak returns how many crashes have followed one another without a
// completed command between them.
func (r *Room) Streak() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.c.streak)
}

// Muster forgets what the workers of a stage that broke had still to do and had
// done wrong: requests to leave, and the streak of their crashes. It is called
// when none of them is left.
func (r *Room) Muster() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excess, r.c.streak = 0, 0
}

// Forgive forgets the streak of crashes.
func (r *Room) Forgive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.streak = 0
}

// Shrink asks n workers to leave, those who doze first.
func (r *Room) Shrink(n int) {
	r.mu.Lock()
	woken := r.shrink(n - r.oversleep(n))
	r.mu.Unlock()
	wakeAll(woken)
}

// Keep takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (r *Room) Keep(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keep(n)
}

// Spare reports whether one worker less is wanted, and takes note that it is
// gone: a worker that crashed need not be started afresh to be dismissed.
func (r *Room) Spare() bool { return r.Keep(1) == 1 }
