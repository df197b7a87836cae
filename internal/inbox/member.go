package inbox

import (
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// Member is a worker as its inbox, or its shared pool, sees it. It outlives the worker's actor.
type Member struct {
	*visit     // of a shared worker; only the worker touches it
	attendance // guarded by the lock of the inbox or shared pool that the worker has joined
	custody    // guarded by the lock of the inbox that the worker is at

	// Wake has the worker come for its turn. Any goroutine may call it; it does not block.
	Wake func()
	// Batch is where a turn puts the commands.
	Batch []command.Envelope
	// Instance is what the worker handles them with. A turn at a shared inbox lends one, or nil: then the worker is to make
	// one. It is the worker's for as long as it is at the inbox, and is returned to the idle instances.
	Instance any
	// Surplus is an instance that the worker is to stop.
	Surplus any
	// Owner is the worker whose member it is, nil if there is none yet; set once.
	Owner any
	// Since is when the present batch started, by the pipeline's clock; the same below zero when the batch is done, and 0
	// before the first. The worker sets it; any goroutine may read it.
	Since atomic.Int64
	// Called is an idle worker that a hand-over of this one has called with DefersWakes, for this one to wake. Only the
	// worker touches the two.
	Called *Member

	own *Inbox // the inbox of whose stage the worker is; nil for a shared worker; set once

	ready atomic.Bool // there may be a turn to take

	// DefersWakes has an idle worker that a hand-over calls stored in Called instead of being woken.
	DefersWakes bool
	// Delivers says that the worker has handled its batch, and is about to hand over what came of it and to take its next
	// turn. The worker sets it under a lock of its own, and the inbox clears it under the inbox's. So code that holds both
	// may read it.
	Delivers bool
}

// attendance says what a worker of a set does. It is working unless it is idle, waking or blocked.
type attendance struct {
	joined  bool
	idle    bool // is among the idle
	waking  bool // is on its way: was woken from idle, or is about to look once more
	blocked bool // waits because a stage ahead is full
}

// custody is what a worker has of the inbox that it is at.
type custody struct {
	inUse     bool // counts in the inbox's busyInstances
	owns      bool // counts in the inbox's made
	listed    bool // is one of those that have been given commands in this visit
	abandoned bool // was given up

	// Carried is how many commands the worker has not been able to hand over, as the inbox knows it; see [Inbox.Carry]. Only
	// the worker changes it.
	Carried        int32
	inHand         int32              // commands in its batch that are not done
	timed          uint32             // when the last batch started whose time has been counted; the low half of it is enough
	credited       time.Duration      // so much of the present batch's time has been counted
	copies         []command.Envelope // what it was given last; see abandon.go
	before, behind *Member            // neighbours among those that are listed
}

// Ready reports whether the worker should come for a turn. Parking makes it false, waking makes it true.
func (m *Member) Ready() bool { return m.ready.Load() }

// MarkReady makes the worker ready for a turn though it is parked somewhere.
func (m *Member) MarkReady() { m.ready.Store(true) }

// Tally is what a worker has done since it last booked. Only the worker touches it until then.
type Tally struct {
	OK, Forwarded, Emitted, Errors int
	Suspended                      int           // commands that were suspended
	Waited                         int32         // commands that Wait stands for
	Timed                          int32         // commands that Busy covers
	Busy                           time.Duration // time in handlers
	Wait                           time.Duration // time in the queue
}

func (t *Tally) completed() int { return t.OK + t.Forwarded + t.Errors }

// Join adds a worker of the stage's own. With again it comes in the place of one that crashed.
func (in *Inbox) Join(m *Member, again bool) {
	m.belong(in)
	var fx effects
	in.mu.Lock()
	if !m.joined { // otherwise it was called
		in.staff(1)
		in.join(m)
	}
	if again {
		in.counts.restarts++
	}
	in.callWorker(&fx) // another may wait for an instance, if few are allowed
	in.unlock(&fx)
}

// belong makes a worker one of the inbox's own. It does so once: other inboxes, where the worker may be parked, read own with
// their own locks.
func (m *Member) belong(in *Inbox) {
	if m.own == nil {
		m.own = in
	}
}

// Leave removes a worker, for good or until it is started afresh. If its instance is still wanted it is taken back;
// otherwise it stays with the worker, which stops it and then calls [Inbox.ReturnInstance].
func (in *Inbox) Leave(m *Member) {
	var fx effects
	in.mu.Lock()
	in.leave(m)
	in.callWorker(&fx)
	in.unlock(&fx)
}

func (s *state) leave(m *Member) {
	s.unlist(m)
	m.drop()
	s.carry(m, 0)
	s.unblock(m)
	s.leaveOwn(m)
	if s.pool != nil && m.Instance != nil {
		s.returnInstance(m)
	}
}

// Yield gives up a worker's place at the inbox after its last batch, when all that came of it has been handed over.
func (in *Inbox) Yield(m *Member) {
	var fx effects
	in.mu.Lock()
	in.yield(m)
	in.callWorker(&fx)
	in.checkQuiet(&fx)
	in.unlock(&fx)
}

// Succeed puts another member in the place of one that is not used any more: if that still held an instance, because its
// worker had something to hand over, its successor does.
func (in *Inbox) Succeed(from, to *Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	from.inUse, to.inUse = false, from.inUse
}

// hold counts a worker as being at the inbox; yield ends that.
func (s *state) hold(m *Member) {
	if !m.inUse {
		m.inUse = true
		s.busyInstances++
		s.counts.mostOut = max(s.counts.mostOut, s.busyInstances)
	}
}

func (s *state) yield(m *Member) {
	if m.inUse {
		m.inUse = false
		s.busyInstances--
	}
}

// ForgetShrink forgets what the workers of a stage that broke had still to do and had done wrong: requests to leave, and the
// streak of their crashes. It is called when none of them is left.
func (in *Inbox) ForgetShrink() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.excess, in.counts.streak = 0, 0
}

// Shrink asks n workers to leave, first those that were not started yet.
func (in *Inbox) Shrink(n int) {
	var fx effects
	in.mu.Lock()
	for _, m := range in.shrink(n - in.dropUnstarted(n)) {
		fx.wakeWorker(m)
	}
	in.unlock(&fx)
}

// Unshrink takes back up to n requests to leave that no worker has followed yet, and returns how many.
func (in *Inbox) Unshrink(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.unshrink(n)
}

// RetireOne reports whether one worker less is wanted, and notes that it is gone: a worker that crashed need not be started
// afresh to be dismissed.
func (in *Inbox) RetireOne() bool { return in.Unshrink(1) == 1 }

// WakeAll wakes the idle workers that have an instance, though there may be nothing to do: they check their instances then.
// The others stay idle: one that comes and can do nothing would be taken for the one that comes for the next command.
func (in *Inbox) WakeAll() {
	var fx effects
	in.mu.Lock()
	idle := in.idle[:0]
	for _, m := range in.idle {
		if m.owns {
			in.markWoken(m)
			fx.wakeWorker(m)
		} else {
			idle = append(idle, m)
		}
	}
	clear(in.idle[len(idle):])
	in.idle = idle
	in.unlock(&fx)
}
