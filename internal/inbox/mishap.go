package inbox

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/streak"
	"github.com/golda-dev/golda/stage/reason"
)

// Mishap says why commands leave a worker's batch that its handler has not
// completed: [Unbegun], [Stopped], [Retried] or [Crashed]. The
// commands may be in the worker's memory: the inbox copies the commands that it
// keeps.
type Mishap interface {
	// locate asks for the places of commands that may return to the queue, or
	// get permits back. It may call user code, so the lock is not held.
	locate(in *Inbox, m *Member)
	// befall takes the commands out of the batch. The tally is booked. It
	// returns false if it leaves them there.
	befall(s *state, m *Member, fx *effects) bool
}

// bookMishap is [Inbox.Book] with a mishap. It is a function of its own because
// its effects are on the heap: the compiler does not know what the methods of
// an interface keep.
func (in *Inbox) bookMishap(m *Member, t *Tally, x Mishap) bool {
	x.locate(in, m)
	var fx effects
	in.mu.Lock()
	ok := !m.custody.abandoned
	if ok {
		in.state.book(m, t, &fx)
		ok = x.befall(&in.state, m, &fx)
		in.state.checkQuiet(&fx)
	}
	in.unlock(&fx)
	return ok
}

// Unbegun are commands that were not started, and end: they fail, because their
// callers' contexts have ended; or, with Expired, they are shed, because their
// time to live is over. Rest, unless it is nil, are the commands that remain in
// the batch, in the worker's order: Commands may be empty if only the order has
// changed.
type Unbegun struct {
	Commands, Rest []command.Envelope
	Expired        bool

	at places
}

func (x *Unbegun) locate(in *Inbox, _ *Member) { x.at = in.payers(x.Commands) }

func (x *Unbegun) befall(s *state, m *Member, fx *effects) bool {
	s.skip(m, x.Commands, x.at, x.Rest, fx)
	if x.Expired {
		s.shed(x.Commands, reason.Expired, ErrExpired, fx)
	} else {
		s.counts.Errors += uint64(len(x.Commands))
	}
	return true
}

// skip takes commands out of a worker's batch that were not started. The caller
// counts their ends.
func (s *state) skip(m *Member, es []command.Envelope, at places, rest []command.Envelope, fx *effects) {
	s.release(m, len(es))
	s.returnPermits(len(es), at)
	if unstartedOf(es) > 0 {
		s.cancelPermit(m)
	}
	s.startOthers(fx)
	if rest != nil {
		m.custody.copies = append(m.custody.copies[:0], rest...)
		if m.Part != nil {
			s.queue.line.Keep(m.Part)
		}
	}
	s.lookAtEntries(fx)
}

// Stopped are the commands at the end of a batch that were not started when the
// inbox was halted. They end as [Phases.Halt] ends queued commands.
type Stopped struct{ Commands []command.Envelope }

func (x *Stopped) locate(*Inbox, *Member) {}

func (x *Stopped) befall(s *state, m *Member, fx *effects) bool {
	s.cancelPermit(m)
	rest := s.suspendWoken(m, x.Commands)
	s.release(m, len(rest))
	s.endStopped(rest, fx)
	return true
}

// Retried is the present command of a worker, whose try ended in an error, and
// which is to be tried once more. It is left in the batch if it has been tried
// often enough, or the inbox is halted. The command waits at least as long as
// Asked. Rest are the commands behind it in the batch. A keyed stage takes them
// back, too, so that no later command of the same key is handled before; see
// [Config.TakesBack].
type Retried struct {
	Command command.Envelope
	Rest    []command.Envelope
	Asked   time.Duration

	at   place
	back places
}

func (x *Retried) locate(in *Inbox, m *Member) {
	x.at = in.placeBack(m, x.Command.Load, len(x.Rest))
	if in.Config().TakesBack() {
		x.back = in.placesBack(m, x.Rest)
	}
}

func (x *Retried) befall(s *state, m *Member, fx *effects) bool {
	if s.halted.Load() || x.Command.Tries() >= s.cfg.Retry.Attempts {
		return false
	}
	if s.cfg.TakesBack() {
		s.giveBack(m, x.Rest, x.back, fx) // first, since the command comes before the rest
		s.release(m, len(x.Rest))
	}
	if m.Part != nil {
		s.queue.line.Lose(m.Part, len(x.Rest))
	}
	x.Command.SetPack(0)
	s.postpone(x.Command, x.at, x.Asked)
	s.endStreak(fx)
	s.release(m, 1)
	s.callWorker(fx)
	return true
}

// Parked is the present command of a worker, whose last try ended in an error,
// and which leaves a letter: its key is parked. The worker has counted the
// error. Rest are the commands behind it in the batch, which the stage takes
// back, as with [Retried].
type Parked struct {
	Command command.Envelope
	Rest    []command.Envelope
	Park    *Park // the hold on the key; nil if the inbox is halted, or the command has no key
	Took    bool  // the stage has taken the rest back

	at   place
	back places
}

func (x *Parked) locate(in *Inbox, m *Member) {
	x.at = in.placeBack(m, x.Command.Load, len(x.Rest))
	if in.Config().TakesBack() {
		x.back = in.placesBack(m, x.Rest)
	}
}

func (x *Parked) befall(s *state, m *Member, fx *effects) bool {
	if s.halted.Load() {
		return true
	}
	if s.cfg.TakesBack() {
		s.giveBack(m, x.Rest, x.back, fx)
		s.release(m, len(x.Rest))
		x.Took = true
	}
	x.Park = s.park(x.at, fx)
	s.changed(fx)
	return true
}

// SpendRetry takes a retry out of the budget, and reports whether there was
// one. If not, it counts that. The tally is what the worker has not booked yet.
func (in *Inbox) SpendRetry(t *Tally) bool {
	if in.state.cfg.Retry.Budget == 0 {
		return true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	ended := in.state.counts.Handled() + in.state.counts.byReason().DeadLettered[reason.Crash] + uint64(t.completed())
	if in.state.retryBudget.Spend(int64(ended)) {
		return true
	}
	in.state.counts.RetriesRefused++
	return false
}

// Crashed is the end of a batch that did not end well: the culprit, if one is
// known, is charged, and with Retry tried again; the rest returns to the front
// of the queue, in order. A crash whose culprit is not known yet does not count
// in the streak: it will when the culprit is found; see [Narrow]. What the batch
// completed before is booked first, so it ends an older streak, and this crash
// is the first of its own.
type Crashed struct {
	Culprit *command.Envelope // the command that the crash is charged to; nil: not known, or none is
	Retry   bool              // the culprit may be tried again
	Rest    []command.Envelope
	Err     error

	at         place  // of the culprit, if it is tried again, or its key is parked
	parks      bool   // the key of the culprit is parked, unless that is tried again
	back       places // of the rest, in a keyed or ordered stage
	unequipped bool   // no handler was called
}

// Unequipped is the end of a batch for which no instance could be made: no
// command is to blame. It counts in the streak all the same, for otherwise a
// stage whose factory fails would never break.
func Unequipped(batch []command.Envelope, err error) *Crashed {
	return &Crashed{Rest: batch, Err: err, unequipped: true}
}

func (x *Crashed) locate(in *Inbox, m *Member) {
	x.parks = x.Culprit != nil && !x.Retry && in.Batches().ParksFor(x.Culprit, true)
	if x.Retry || x.parks {
		x.at = in.placeBack(m, x.Culprit.Load, len(x.Rest))
	}
	x.back = in.placesBack(m, x.Rest)
}

// fault says how the crash counts in the streak.
func (x *Crashed) fault() streak.Fault {
	switch {
	case x.unequipped:
		return streak.NotStarted
	case x.Culprit != nil && x.Culprit.Tries() <= 1:
		return streak.Charged
	default:
		return streak.Faultless
	}
}

func (x *Crashed) befall(s *state, m *Member, fx *effects) bool {
	s.credit(m, s.now())
	m.finishTime()
	s.countCrash(m, x.fault(), x.Err)
	retries := x.Retry && !s.halted.Load()
	if x.Culprit != nil && !retries {
		s.counts.addDeadLettered(reason.Crash, 1)
		fx.endOne(*x.Culprit, reason.Crash, x.Err)
		if m.Part != nil {
			s.queue.line.End(m.Part, len(x.Rest))
		}
	}
	s.cancelPermit(m)
	s.giveBack(m, x.Rest, x.back, fx)
	if x.unequipped {
		s.returnPermits(unstartedOf(x.Rest), x.back)
	}
	if retries {
		s.postpone(*x.Culprit, x.at, 0) // after giveBack: a keyed stage puts the culprit before the rest
	}
	if x.parks && !s.halted.Load() { // after giveBack, too
		fx.parks(s.park(x.at, fx))
	}
	s.release(m, int(m.custody.inHand))
	m.Instance = nil // it is of no use any more
	s.crashedWorker(m, fx)
	s.forgetLanes(m)
	s.changed(fx)
	s.lookAtEntries(fx)
	if s.halted.Load() && s.cfg.Ordered {
		fx.other().flush = true
	}
	return true
}

// crashedWorker removes a worker whose handler has crashed: it takes no further
// command, so it is no worker any more. Of its own inbox it keeps inUse until
// [Inbox.Yield], which it calls when nothing is left in its outboxes. A shared
// pool knows no inboxes, so its next worker is counted as a restart here.
func (s *state) crashedWorker(m *Member, fx *effects) {
	if m.visit == nil || m.visit.at == nil {
		s.leave(m)
		return
	}
	m.visit.at = nil
	s.unlist(m)
	s.counts.Restarts++
	if s.visits.binding == nil {
		return
	}
	if pause := s.slowDown(m.custody.fault, s.visits.pool.Workers(), fx); pause > 0 {
		s.leaveAlone(pause, fx)
	}
}

// leaveAlone keeps the workers of shared pools away until a time that only
// grows: the inbox's handlers crash, and the workers have other inboxes to go
// to.
func (s *state) leaveAlone(pause time.Duration, fx *effects) {
	if !s.streak.Rest(s.now(), pause) {
		return
	}
	s.visits.resting = true
	s.voidTokens(fx)
	s.setAlarm(restAlarm, pause)
}

// countCrash counts a crash of a worker.
func (s *state) countCrash(m *Member, f streak.Fault, err error) {
	s.counts.Crashes++
	m.custody.fault = f
	s.streak.Add(f, err, s.now(), s.cfg.StreakEnds)
}

// endStreak ends a streak of crashes: a command was completed.
func (s *state) endStreak(fx *effects) {
	if recovered := s.streak.End(); recovered > 0 {
		fx.other().recovered = recovered
	}
}

// slowDown returns how long the stage must pause after the crash of a worker.
// Workers is how many workers there are.
func (s *state) slowDown(f streak.Fault, workers int, fx *effects) (pause time.Duration) {
	pause = s.streak.Pause(s.cfg.Pauses, f, workers, s.load())
	if pause > 0 && s.streak.Report(s.now()) {
		fx.other().slowed = s.streak.Length()
	}
	return pause
}

// giveBack returns the rest of a batch to the front of the queue. A halted
// inbox takes nothing back: the rest ends.
func (s *state) giveBack(m *Member, rest []command.Envelope, at places, fx *effects) {
	if s.halted.Load() {
		s.endStopped(s.suspendWoken(m, rest), fx)
		s.queue.line.Release(at.ranks...)
		return
	}
	s.watchLapses(rest)
	s.queue.pushFront(rest, at)
	s.queue.countPacked(rest)
}

// mostYielding is how many commands may have given up their slot while they
// wait for their next try, in a small stage; in a larger one it is its
// capacity. Beyond that they keep it.
const mostYielding = 1024

// postpone keeps a command until its next try. Meanwhile it holds a slot, so
// retries are never refused: an inbox that is full of them takes nothing else.
// The caller has checked that the command may be tried again, and that the
// inbox is not halted.
//
// The pause is at least as long as asked.
func (s *state) postpone(e command.Envelope, at place, asked time.Duration) {
	s.counts.Retries++
	e.SetPack(min(e.Pack(), 1)) // it leaves its pack; a pack of one stays
	pause := max(s.cfg.Retry.pause(e.Tries()+e.Refusals(), s.pipeline.Load().chance()), asked)
	s.queue.line.Block(at.rank)
	if pause <= 0 {
		s.requeueRetry(&e, at)
		return
	}
	if !s.lapsing.watched {
		s.watchLapse(&e)
	}
	s.delayed.seq++
	heap.Push(&s.delayed, due{s.now() + int64(pause), s.delayed.seq, e, at})
	if s.delayed.heap[0].seq == s.delayed.seq {
		s.setAlarm(retryAlarm, pause)
	}
}

// pause is how long to wait after a number of tries and refusals. The backoff
// doubles up to its maximum; then a share of it, at most Jitter, is subtracted
// or added. Die is random, in [0, 1).
func (p Retry) pause(tries int, die float64) time.Duration {
	return backoff.Pause(p.Backoff, p.Max, tries, p.Jitter*(2*die-1))
}

// requeueRetry queues a command whose next try is due. If other commands wait
// for a slot, it is queued behind them and gives up its own: commands that fail
// again and again keep no other from ever being tried. The caller grants the
// slot.
func (s *state) requeueRetry(e *command.Envelope, at place) {
	if !s.lapsing.watched {
		s.watchLapse(e)
	}
	if s.queue.line.Unblock(*e, at.rank) {
		return
	}
	if s.yieldsSlot() {
		s.waiters.join(s.waiters.waiter(entrant{e: *e, at: at, retry: true}, false), false)
		return
	}
	s.push(e, at)
}

// yieldsSlot reports whether a command that is due gives up its slot. Under a
// limit of a policy it does not: it counts against the limit wherever it is, so
// it would wait for a command that waits for it.
func (s *state) yieldsSlot() bool {
	others := s.waiters.Len() > 0 || len(s.senders.forSlots) > 0
	return others && !s.queue.line.Awaited() && s.slots.ceiling == 0 && int(s.waiters.retries) < max(mostYielding, s.knobs.Capacity)
}

// recallRetries queues the commands that gave up their slot.
func (s *state) recallRetries(fx *effects) {
	for w := s.waiters.first; w != nil && s.waiters.retries > 0; {
		next := w.after
		if w.retry {
			s.enqueue(w, fx)
		}
		w = next
	}
}

// dismissWaiters has all submitters that wait for a slot submit again: the
// inbox has changed. Commands that wait in line for their next try are queued.
func (s *state) dismissWaiters(fx *effects) {
	s.recallRetries(fx)
	for w := s.waiters.first; w != nil; w = s.waiters.first {
		s.leaveLine(w)
		fx.signal(w)
	}
	s.dismissAtLanes(fx)
}
