package inbox

import (
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// state is all that the lock of an inbox guards. Its methods are the transitions and questions: they need the lock, start
// no goroutine, and call no code of others but a discipline's keys. What is to happen outside they leave in [effects].
//
// Each part has an invariant of its own, written where its type is.
type state struct {
	shared
	workerSet  // the stage's own workers
	instances  // what the workers handle commands with
	slots      // what the capacity bounds
	senders    // workers of other inboxes that cannot hand over
	downstream // what inboxes behind were promised
	served     // by a shared pool
	pace       // how many commands a worker takes at once

	self        *Inbox // whose state it is
	knobs       knobs
	queue       waiting
	waiters     line // commands that wait for a free slot
	delayed     delayed
	sole        soleWorker
	unstarted   unstarted
	spent       worktime
	counts      counts
	crashStreak CrashStreak // the present one, or the last
	holding     *Member     // the first of the workers that were given commands in this visit; see abandon.go
	timers      timers
}

// shared is the part of the state that may be read without the lock, but for opened. It is written with it, unless it says
// otherwise.
type shared struct {
	cfg           *Config                  // not changed
	pipeline      atomic.Pointer[Pipeline] // nil until the pipeline is checked; set without the lock, once
	ahead         atomic.Pointer[[]*Inbox] // where its edges lead, as far as is known, without back edges; grows without the lock
	phases        atomic.Int32             // a phase
	halted        atomic.Bool              // the phase is halted
	opened        bool                     // it was open once; guarded by the lock
	tokens        atomic.Int32             // that the shared pool has
	empties       atomic.Uint64            // visits that found nothing to do; written without the lock
	emittedSingly atomic.Uint64            // commands emitted one by one; written with the lock of the inbox that takes them
}

// instances are the values that handle commands, with the state of user code in them: at most so many as the knob says.
// made = out + len(idle) + claims of workers that hold none at the moment.
type instances struct {
	busyInstances int   // workers that are here, each with an instance
	made          int   // instances that there are, claims included
	idleInstances []any // those that no worker uses
}

// slots are the places for commands that the capacity bounds. Queued commands hold one, and those that wait for their
// next try; so do the carried and the reserved.
type slots struct {
	carried  int32    // commands that the inbox's workers could not hand over; they keep their slots
	reserved int32    // slots promised to parked workers: the sum of promises
	promises []sender // workers that were woken from forSlots, each with slots of its own
	ceiling  int      // commands that may be here at once, queued or not; 0: any number
	outside  bool     // the next free slot is for a submitter, not for a parked worker
	full     bool     // the inbox was full, and the pipeline knows
}

// senders are the workers of other inboxes that wait here until they can hand over.
type senders struct {
	forSlots []sender      // for free slots; first come, first served
	barred   []sender      // until the phase lets them, whether there are free slots or not
	unbarred chan struct{} // closed when barred senders may try again; nil if none waits on it
}

// downstream is what inboxes behind know of this one when it is full. It concerns shared pools only.
type downstream struct {
	stalled bool     // shared pools take nothing from here: an inbox ahead is full, and will say when it is not
	behind  []*Inbox // stalled inboxes that this one will unstall
	passes  []*Inbox // inboxes behind that may be visited once, though this one is full again
}

// served is what a shared pool's visits need. Without a pool the stage's own workers come.
type served struct {
	pool    *SharedPool // nil: the stage's own workers
	era     uint64      // grows when all tokens are taken back: older ones are void
	noted   bool        // the token only says that there is work
	resting bool        // handlers crash, so the pool stays away for a moment
}

// pace fits the size of batches to the time that handlers take.
type pace struct {
	limit   int // commands that a worker may take at once
	service time.Duration
}

// Pipeline returns the pipeline the inbox belongs to, nil if there is none yet.
func (s *shared) Pipeline() *Pipeline { return s.pipeline.Load() }

// now reads the pipeline's clock.
func (s *shared) now() int64 { return s.Pipeline().Now() }

// takenSlots is how many commands hold a slot: those that are queued, and those that wait for the time of their next
// try.
func (s *state) takenSlots() int { return s.queue.fresh() + s.delayed.Len() }

// free is how many more commands may come in. It is below zero when retries, crashes or back edges have overfilled the
// inbox.
func (s *state) free() int {
	free := s.knobs.Capacity - s.takenSlots()
	if s.ceiling > 0 {
		free = min(free, s.ceiling-s.load())
	}
	return free - int(s.reserved) - int(s.carried)
}

// half is how many free slots are worth waking workers for that wait for many: half of those that are left by commands
// that wait for their next try, or are carried.
func (s *state) half() int {
	size := s.knobs.Capacity
	if s.ceiling > 0 {
		size = min(s.ceiling, size)
	}
	return (max(size-s.delayed.Len()-int(s.carried), 1) + 1) / 2
}

// load is how many commands are in the inbox.
func (s *state) load() int { return s.queue.Len() + s.counts.inHand + s.postponed() }

// push queues a command. It reads the clock for one in so many, or for each if it matters how long they have waited.
func (s *state) push(e *command.Envelope, p place) {
	if s.queue.untilStamp--; s.queue.untilStamp < 0 || s.knobs.Linger > 0 || s.cfg.TTL > 0 {
		s.queue.untilStamp = int32(s.limit) - 1
		e.Enter(command.At(s.now()))
	}
	if e.Pack() > 0 {
		s.queue.packed++
	}
	if s.queue.line != nil {
		s.queue.push(*e, p)
		return
	}
	*s.queue.next() = *e
}

// checkFull notes that the inbox has become full, once until half of it is free again.
func (s *state) checkFull(fx *effects) {
	if s.full || s.takenSlots() < s.knobs.Capacity {
		return
	}
	s.full, fx.full, fx.some = true, true, true
}

// checkQuiet notes that a drain may be waiting for the inbox, if the inbox is empty.
func (s *state) checkQuiet(fx *effects) {
	pl := s.Pipeline()
	if pl == nil || !pl.Draining.Load() && s.phase() < draining || s.load() > 0 {
		return
	}
	fx.quiet, fx.some = true, true
}

// changed collects what may have become possible after commands, slots or instances have come or gone: a worker for the
// work that is here, inboxes behind, and free slots for those that wait for them.
func (s *state) changed(fx *effects) {
	s.callWorker(fx)
	s.unstallBehind(fx)
	s.grantSlots(fx)
}

// callWorker picks a worker for the work that is here. Of the stage's own workers that is one that is idle, or one that
// was not started yet, unless another is on its way already. A shared pool gets a token.
func (s *state) callWorker(fx *effects) {
	if s.pool != nil {
		s.addTokens(fx)
		return
	}
	switch {
	case len(s.idle)+s.unstarted.n == 0 || s.waking > 0 || s.unstarted.called, // none can come, or one does
		s.busyInstances >= s.knobs.Instances || s.available() == 0 || s.leftToOne(): // none is needed
		return
	}
	m := s.pickIdle(s.canWork)
	if m == nil && s.unstarted.n > 0 && s.equippable() {
		s.unstarted.called = true
		m = &Member{Wake: s.self.StartWorker}
	}
	fx.wakeWorker(m)
}

// canWork reports whether a worker that comes finds something to do: it has an instance, or will get one, and may take what
// is available.
func (s *state) canWork(m *Member) bool {
	return (m.owns || s.equippable()) && (!s.isLaden(m) || s.runnable() > 0)
}
