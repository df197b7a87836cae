package inbox

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// Member is a worker as its room sees it. It outlives the worker's actor.
type Member struct {
	*visit // of one of a shared pool; only the worker touches it

	// Wake makes the worker come for its turn. It is called without the lock
	// or with it, by anybody, and must not block.
	Wake func()
	// Batch is where a turn puts the commands.
	Batch []command.Envelope
	// Instance is what the worker handles them with. A turn at a shared inbox lends
	// one, or nil: then the worker is to make one. It is the worker's for as long
	// as it is in the inbox, and is returned to the idle instances.
	Instance any
	// Surplus is an instance that is to be stopped by the worker.
	Surplus any
	// Owner is whose seat it is, nil if there is nobody yet; set once.
	Owner any
	// Since is when the present batch began, by the pipeline's clock; the same below zero when it is done, and 0 before the
	// first. The worker sets it; anybody may look.
	Since atomic.Int64
	// Called is an idle worker whom a hand-over of this one has called with [Member.DefersWakes], for this one to wake.
	// Only the worker touches the two.
	Called *Member

	own *Inbox // whose own worker it is, nil if it is one of a shared pool; set once

	// From here to abandoned it is a few bytes side by side: a stage that rests keeps the seats of its workers.

	ready atomic.Bool // whether there may be a turn to take

	// DefersWakes has an idle worker whom a hand-over calls not be woken but left in Called.
	DefersWakes bool
	// Delivers is whether the worker has done with its hand, and is about to hand over what came of it and
	// to take its next turn. It says so with a lock of its own, and the inbox unsays it with the inbox's. So who
	// has both may ask.
	Delivers bool

	// Guarded by the lock of the inbox or shared pool that the worker has joined.
	joined  bool
	idle    bool // is among the idle
	waking  bool // woken from idle, has not come yet
	retired bool // is to leave at its next turn
	looking bool // found nothing and did not park: it looks once more
	blocked bool // is blocked: a stage ahead is full

	// Guarded by the lock of the inbox that it is in.
	inUse     bool // counts in the inbox's out
	owns      bool // counts in the inbox's made
	listed    bool // is one of those that have been given something in this visit
	abandoned bool // was given up

	// Carried is how many commands the worker has not been able to hand over, as the inbox knows it; see
	// [Inbox.Carry]. Only the worker changes it.
	Carried        int32
	inHand         int32              // commands in hand
	timed          uint32             // when the last batch began whose time has been counted; the low half of it is enough
	credited       time.Duration      // so much of the present batch's time has been counted
	copies         []command.Envelope // what it was given last
	before, behind *Member            // neighbours among those that are listed
}

// Ready reports whether the worker should come for a turn. Parking makes it
// false, waking makes it true.
func (m *Member) Ready() bool { return m.ready.Load() }

// MarkReady makes the worker ready for a turn though it is parked somewhere.
func (m *Member) MarkReady() { m.ready.Store(true) }

// wakeOrDefer wakes an idle worker, if there is one, or leaves that to the worker at s if it asked for it.
// Of several the last is left to it. A nil seat asks for nothing.
func (m *Member) wakeOrDefer(idle *Member) {
	if m != nil && m.DefersWakes && idle != nil {
		m.Called, idle = idle, m.Called
	}
	if idle != nil {
		idle.Wake()
	}
}

// Tally is what a worker has done since it last told its room. Only the worker
// touches it until it passes it on.
type Tally struct {
	OK, Forwarded, Emitted, Errors int
	Suspended                      int           // commands that were suspended
	Waited                         int32         // commands that Wait stands for
	Timed                          int32         // commands that Busy covers
	Busy                           time.Duration // time in handlers
	Wait                           time.Duration // time in the queue
}

func (t *Tally) completed() int { return t.OK + t.Forwarded + t.Errors }

// Claim asks for an instance for a worker of the inbox's own, before it joins. One
// from the idle instances is lent; with make, the worker is to make one. If neither, there
// are as many as there may be, and the worker gets one with its first commands.
func (in *Inbox) Claim(m *Member) (make bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.equip(m)
}

// equip gives a worker an instance, or the right to make one. It reports whether it
// is to make one; if that is false and the seat has none, there is none to be had.
func (in *Inbox) equip(m *Member) (make bool) {
	switch {
	case m.owns:
		return m.Instance == nil
	case len(in.idleInstances) > 0:
		last := len(in.idleInstances) - 1
		m.Instance, m.owns = in.idleInstances[last], true
		in.idleInstances[last] = nil
		in.idleInstances = in.idleInstances[:last]
		return false
	case in.made < in.knobs.Instances:
		in.made++
		m.owns = true
		return true
	}
	return false
}

// equippable reports whether a worker that comes will have an instance.
func (in *Inbox) equippable() bool { return len(in.idleInstances) > 0 || in.made < in.knobs.Instances }

// returnInstance takes a worker's instance back, if it has one that is fit.
func (in *Inbox) returnInstance(m *Member) {
	if !m.owns {
		return
	}
	m.owns = false
	switch inst := m.Instance; {
	case inst == nil: // it was never made, or crashed
		in.made--
	case in.made > in.knobs.Instances:
		in.made--
		m.Surplus = inst
	default:
		in.idleInstances = append(in.idleInstances, inst)
	}
	m.Instance = nil
}

// ReturnInstance puts a claimed instance among the idle instances, or lets go of the claim.
func (in *Inbox) ReturnInstance(m *Member) {
	in.mu.Lock()
	in.returnInstance(m)
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Join seats a worker of the inbox's own. With again it comes in the place of one
// that crashed.
func (in *Inbox) Join(m *Member, again bool) {
	if m.own == nil {
		m.own = in
	}
	in.mu.Lock()
	if !in.unstarted.arrive(m) { // one that dozed counts already
		in.join(m)
	}
	if again {
		in.counts.restarts++
	}
	next := in.wakeOne() // one may wait for another's seat, if few instances are allowed
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Leave takes a worker off its seat, for good or until it is started afresh. If
// its instance is still wanted it is taken back; else it stays with the worker, who
// stops it and then tells so with [Inbox.ReturnInstance].
func (in *Inbox) Leave(m *Member) {
	in.mu.Lock()
	in.leave(m)
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

func (in *Inbox) leave(m *Member) {
	in.unlist(m)
	m.drop()
	in.carry(m, 0)
	in.unblock(m)
	in.part(m)
	if in.pool != nil && m.Instance != nil {
		in.returnInstance(m)
	}
}

// Quit ends what a worker of a shared pool still has in the inbox where it crashed, when its
// instance has been stopped: its place, and its right to an instance.
func (in *Inbox) Quit(m *Member) {
	in.mu.Lock()
	in.yield(m)
	in.returnInstance(m)
	next := in.wakeOne()
	in.notifyIfQuiet()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Yield lets go of what a worker held in the inbox after its last batch, when all
// that came of it has been handed over.
func (in *Inbox) Yield(m *Member) {
	in.mu.Lock()
	in.yield(m)
	next := in.wakeOne()
	in.notifyIfQuiet()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Succeed puts another seat in the place of one that is not used any more: if that
// still held the inbox, because it had something to hand over, its successor does.
func (in *Inbox) Succeed(from, to *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	from.inUse, to.inUse = false, from.inUse
}

// hold counts a worker as being in the inbox; yield ends that.
func (in *Inbox) hold(m *Member) {
	if !m.inUse {
		m.inUse = true
		in.busyInstances++
		in.counts.mostOut = max(in.counts.mostOut, in.busyInstances)
	}
}

func (in *Inbox) yield(m *Member) {
	if m.inUse {
		m.inUse = false
		in.busyInstances--
	}
}

// Turn books what a worker of the inbox's own did and moves the next commands to its
// hand. All that came of the last ones has been handed over, or the worker [Inbox.Carry]s it. It
// returns how many: 0 if there is nothing to do, and then, with park, the worker is parked until it is
// woken; -1 if the worker is to leave, which it need not while it carries something.
func (in *Inbox) Turn(m *Member, t *Tally, park bool) int {
	in.mu.Lock()
	in.book(m, t)
	m.settle()
	in.yield(m)
	in.arrive(m)
	in.unblock(m)
	n := -1
	if m.Carried > 0 || !in.retires(m) {
		n = in.take(m, 0)
	}
	var next *Member
	switch {
	case n > 0:
		next = in.wakeOne()
	case n < 0:
		next = in.wakeOne()
		in.notifyIfQuiet()
	default:
		if park {
			m.drop()
			in.park(m)
		} else {
			in.sole.setLooking(m, true)
		}
		if !in.fit(m) {
			next = in.wakeOne() // who has an instance may have gone to rest, since this one was called
		}
		in.notifyIfQuiet()
	}
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
	in.Pipeline().notifyEntries()
	return n
}

// carry notes how many commands a worker carries.
func (in *Inbox) carry(m *Member, n int32) {
	in.carried += n - m.Carried
	m.Carried = n
}

// Carry notes how many commands a worker carries because the inboxes that they are for were full. They keep
// their slots here, so that they are bounded by the capacity. It reports whether the worker is among the idle.
func (in *Inbox) Carry(m *Member, n int) (idle bool) {
	in.mu.Lock()
	in.carry(m, int32(n))
	idle = m.idle
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.notifyIfQuiet()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
	return idle
}

// take moves up to a fair share of the queue into a worker's hand, and no more than
// most, if that is not 0.
func (in *Inbox) take(m *Member, most int) int {
	n, laden := in.available(), in.isLaden(m)
	if laden {
		n = min(n, in.runnable())
	}
	if n == 0 || in.busyInstances >= in.knobs.Instances {
		return 0
	}
	if !m.owns && !in.equippable() || in.lingering() {
		return 0
	}
	n = in.share(n)
	if most > 0 {
		n = min(n, most)
	}
	if in.packed > 0 {
		n = in.apart(n)
	}
	m.grow(n+1, in.knobs.Batch+1) // when the last has been handled, the one in hand is none
	n = in.give(m.Batch[:n], !laden && in.available() > in.runnable())
	if in.packed > 0 {
		in.unpack(m.Batch[:n])
	}
	if !m.owns {
		in.equip(m)
	}
	in.hold(m)
	in.counts.inHand += n
	m.inHand = int32(n)
	in.keepCopy(m, n)
	in.counts.busy++
	return n
}

// share is how many of n commands a worker takes at once: what its colleagues could
// do as well is left to them.
func (in *Inbox) share(n int) int {
	if in.knobs.Linger > 0 {
		return min(n, in.knobs.Batch) // they are to be done together
	}
	hands := in.live
	switch {
	case in.pool != nil:
		hands = in.pool.workers()
	case in.isLittle(n):
		hands = 1
	}
	hands = max(min(hands, in.knobs.Instances), 1)
	return min(max((n+hands-1)/hands, 1), in.limit, in.knobs.Batch)
}

// grow makes a hand large enough.
func (m *Member) grow(n, most int) {
	if n > len(m.Batch) {
		m.Batch = make([]command.Envelope, max(n, min(2*len(m.Batch), most)))
	}
}

// mostLinger is for how long a batch lingers at most: envelopes do not know for how long they have waited when it is
// more than a day and a half.
const mostLinger = 24 * time.Hour

// lingering reports whether the queue is to fill up before anybody takes of it.
func (in *Inbox) lingering() bool {
	linger := min(in.knobs.Linger, mostLinger)
	if linger <= 0 || in.queue.Len() >= min(in.knobs.Batch, in.knobs.Capacity) || in.runnable() > 0 {
		return false
	}
	if in.pipeline.Load().Draining.Load() || !in.InUse() {
		return false
	}
	waited, known := in.queue.oldest().Waited(in.Pipeline().Now())
	if !known || waited >= linger {
		return false
	}
	in.set(&in.lingerTimer, linger-waited, (*Inbox).lingerOver)
	return true
}

// lingerOver has somebody look at a queue that has lingered.
func (in *Inbox) lingerOver() {
	in.mu.Lock()
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Book books what a worker did in the middle of its batch: before somebody
// hears of it who might look at the accounts. It reports false, and books nothing, if the worker was abandoned.
func (in *Inbox) Book(m *Member, t *Tally) bool {
	in.mu.Lock()
	ours := !m.abandoned
	if ours {
		in.book(m, t)
		in.notifyIfQuiet()
	}
	in.mu.Unlock()
	return ours
}

// Unbegun books commands of a worker's hand as failed that are not begun, because their callers' contexts have ended.
// Rest, unless it is nil, are the commands that remain in the hand, in the worker's order: n may be 0 if only the order
// has changed. It reports false if the worker was abandoned.
func (in *Inbox) Unbegun(m *Member, t *Tally, n int, rest []command.Envelope) bool {
	return in.skip(m, t, n, rest, func() { in.counts.errors += uint64(n) })
}

// Expire sheds commands of a worker's hand that are not begun, because their time to live is over. Rest and the result are
// as for [Inbox.Unbegun].
func (in *Inbox) Expire(m *Member, t *Tally, es, rest []command.Envelope) bool {
	ours := in.skip(m, t, len(es), rest, func() { in.counts.losses().shed[shedExpired] += uint64(len(es)) })
	if ours {
		in.deadLetter(es, ReasonExpired, fmt.Errorf("stage %q: %w", in.cfg.Name, ErrExpired))
	}
	return ours
}

// skip takes n commands out of a worker's hand that are not begun, and counts them.
func (in *Inbox) skip(m *Member, t *Tally, n int, rest []command.Envelope, count func()) bool {
	in.mu.Lock()
	ours := !m.abandoned
	if ours {
		in.book(m, t)
		count()
		in.release(m, n)
		if rest != nil {
			m.copies = append(m.copies[:0], rest...)
		}
		in.notifyIfQuiet()
	}
	in.mu.Unlock()
	if ours {
		in.Pipeline().notifyEntries()
	}
	return ours
}

func (in *Inbox) book(m *Member, t *Tally) {
	if done := t.completed(); done > 0 {
		in.counts.ok += uint64(t.OK)
		in.counts.forwarded += uint64(t.Forwarded)
		in.counts.errors += uint64(t.Errors)
		in.counts.streak = 0
		in.release(m, done)
	}
	in.suspend(m, t.Suspended)
	in.counts.emitted += uint64(t.Emitted)
	if t.Waited > 0 {
		in.counts.wait.Record(t.Wait, uint64(t.Waited))
	}
	in.bookTime(m, t)
	*t = Tally{}
}

// release notes that n commands have left a worker's hand.
func (in *Inbox) release(m *Member, n int) {
	in.counts.inHand -= n
	m.inHand -= int32(n)
	if n > 0 && m.inHand == 0 && !m.blocked {
		in.counts.busy--
	}
}

// measure takes the measure of a batch, and fits the size of the next ones to it.
// The size at most doubles, so that a stage whose first commands were cheap by
// chance is not given too many of the dear ones.
func (in *Inbox) measure(t *Tally) {
	each := t.Busy / time.Duration(t.Timed)
	in.counts.work.Record(each, uint64(t.Timed))
	in.service = (3*in.service + each) / 4
	fit := int(quantum / max(in.service, 1))
	in.limit = min(max(fit, 1), 2*in.limit, in.knobs.Batch)
}

// RetryLater takes back the command in hand, whose try ended in an error, to be
// tried once more. It reports false if the command has been tried often enough,
// and then leaves it in the worker's hand, or if the worker was abandoned.
func (in *Inbox) RetryLater(m *Member, t *Tally, e command.Envelope) bool {
	if e.Tries() >= in.cfg.Retry.Attempts {
		return false
	}
	at := in.queue.place(e.Cmd)
	in.mu.Lock()
	if m.abandoned {
		in.mu.Unlock()
		return false
	}
	in.book(m, t)
	e.SetPack(0)
	ok := in.postpone(e, at)
	var next *Member
	if ok {
		in.counts.streak = 0
		in.release(m, 1)
		next = in.wakeOne()
	}
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	return ok
}

// Crash books the end of a worker's batch that did not end well: the culprit,
// if one is known, is charged, and with retry tried again; the rest goes
// back to the front of the queue, in order. A crash whose culprit is still looked for is
// not one of a row: it will be when the culprit is found. See [Narrow]. It reports false if the worker was
// abandoned.
func (in *Inbox) Crash(m *Member, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry bool, err error) bool {
	return in.crashBatch(m, t, culprit, rest, retry, culprit != nil && culprit.Tries() <= 1, err)
}

// NoInstance books the end of a batch for which no instance could be made: nobody is to
// blame. It reports false if the worker was abandoned.
func (in *Inbox) NoInstance(m *Member, t *Tally, batch []command.Envelope, err error) bool {
	return in.crashBatch(m, t, nil, batch, false, true, err)
}

// crashBatch is [Inbox.Crash] and [Inbox.NoInstance]; row says whether the crash is one of a row.
func (in *Inbox) crashBatch(m *Member, t *Tally, culprit *command.Envelope, rest []command.Envelope, retry, row bool, err error) bool {
	var at place
	if retry {
		at = in.queue.place(culprit.Cmd)
	}
	in.mu.Lock()
	if m.abandoned {
		in.mu.Unlock()
		return false
	}
	in.book(m, t)
	in.credit(m, in.Pipeline().Now())
	m.settle()
	in.crash(row)
	if row && in.counts.streak == 1 {
		in.crashStreakLocked().First = err
	}
	if in.halted.Load() {
		rest = in.suspendWoken(m, rest)
		in.counts.losses().dead[deadStopped] += uint64(len(rest))
	} else {
		in.giveBack(rest)
	}
	in.release(m, int(m.inHand))
	m.Instance = nil // it is of no use any more
	if m.visit == nil || m.at == nil {
		in.leave(m) // it takes no further command, so it is no worker any more
	} else {
		m.at = nil
		in.unlist(m)
		in.counts.restarts++ // a shared pool knows no inboxes, so its next worker is counted here
		in.restAfterCrashes()
	}
	dies := culprit != nil && !(retry && in.postpone(*culprit, at))
	if dies {
		in.counts.losses().dead[deadCrash]++
	}
	halted := in.halted.Load()
	next := in.wakeOne()
	inboxes, woken := in.unstallBehind(), in.grantSlots()
	in.notifyIfQuiet()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	wakeAll(woken)
	unstall(inboxes)
	in.Pipeline().notifyEntries()
	if dies {
		in.deadLetter([]command.Envelope{*culprit}, ReasonCrash, err)
	}
	if halted {
		in.deadLetter(rest, ReasonStopped, in.stoppedError())
	}
	return true
}

// restAfterCrashes lets the inbox rest if its handlers have crashed more often, one after another,
// than there are workers in the shared pool.
func (in *Inbox) restAfterCrashes() {
	if in.pool == nil || in.cfg.Rest == nil {
		return
	}
	if beyond := int(in.counts.streak) - in.pool.workers(); beyond > 0 {
		in.rest(in.cfg.Rest(beyond))
	}
}

func (in *Inbox) giveBack(es []command.Envelope) {
	in.queue.pushFront(es)
	in.pack(es)
}

// CrashIdle counts a crash that happened with no command in hand: an instance
// that did not start.
func (in *Inbox) CrashIdle() {
	in.mu.Lock()
	in.crash(true)
	in.mu.Unlock()
}

// CountAbandoned counts handlers that were given up and still run; with a worker more, it
// counts that one was.
func (in *Inbox) CountAbandoned(n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.abandoned += int32(n)
	if n > 0 {
		in.counts.stuck += uint64(n)
	}
}

// AbandonedRunning is how many handlers that were given up still run.
func (in *Inbox) AbandonedRunning() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.counts.abandoned)
}

// crash counts a crash, as one of a row or not. Further tries of the same command do
// not lengthen the streak, so that one poison command alone never breaks a stage; nor
// does a crash long ago.
func (in *Inbox) crash(row bool) {
	now := in.Pipeline().Now()
	spell := in.crashStreakLocked()
	if in.counts.streak > 0 && now-spell.crashed > int64(in.cfg.StreakEnds) {
		in.counts.streak = 0
	}
	spell.crashed = now
	in.counts.crashes++
	if row {
		if in.counts.streak == 0 {
			*spell = CrashStreak{Number: spell.Number + 1, crashed: now, rested: spell.rested}
		}
		in.counts.streak++
	}
}

// CrashStreak is what is known of a streak of crashes beside its length.
type CrashStreak struct {
	Number uint64        // tells it from the one before
	First  error         // how it began
	Rests  int           // how often shared pools have left the inbox alone; those that are over
	Rested time.Duration // for how long in all

	crashed int64 // when a handler crashed last
	rested  int64 // until when the inbox is left alone
}

// crashStreakLocked is what is known of the present streak, or the last, to be changed. The inbox's lock is held.
func (in *Inbox) crashStreakLocked() *CrashStreak {
	if in.crashStreak == nil {
		in.crashStreak = new(CrashStreak)
	}
	return in.crashStreak
}

// CrashStreak returns the present streak, or the last if there is none.
func (in *Inbox) CrashStreak() CrashStreak {
	in.mu.Lock()
	defer in.mu.Unlock()
	var s CrashStreak
	if in.crashStreak != nil {
		s = *in.crashStreak
	}
	if left := s.rested - in.Pipeline().Now(); in.resting && left > 0 {
		s.Rests = max(s.Rests-1, 0)
		s.Rested = max(s.Rested-time.Duration(left), 0)
	}
	return s
}

// Streak returns how many crashes have followed one another without a
// completed command between them.
func (in *Inbox) Streak() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return int(in.counts.streak)
}

// ForgetShrink forgets what the workers of a stage that broke had still to do and had
// done wrong: requests to leave, and the streak of their crashes. It is called
// when none of them is left.
func (in *Inbox) ForgetShrink() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.excess, in.counts.streak = 0, 0
}

// ForgetStreak forgets the streak of crashes.
func (in *Inbox) ForgetStreak() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts.streak = 0
}

// Shrink asks n workers to leave, those who doze first.
func (in *Inbox) Shrink(n int) {
	in.mu.Lock()
	woken := in.shrink(n - in.dropUnstarted(n))
	in.mu.Unlock()
	wakeAll(woken)
}

// Unshrink takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (in *Inbox) Unshrink(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.unshrink(n)
}

// RetireOne reports whether one worker less is wanted, and takes note that it is
// gone: a worker that crashed need not be started afresh to be dismissed.
func (in *Inbox) RetireOne() bool { return in.Unshrink(1) == 1 }
