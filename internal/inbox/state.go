package inbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/pool"
	"github.com/golda-dev/golda/internal/streak"
)

// state is all that the lock of an inbox guards. Its methods are the
// transitions and questions: they need the lock, and call no code of users but
// a discipline's keys and guards. They read the pipeline's clock, which a test
// may replace. Actions that must be done outside the lock they leave in
// [effects].
//
// Each part has an invariant of its own, written where its type is.
type state struct {
	shared
	workers   pool.Set[Member] // the stage's own workers
	instances pool.Instances   //  what the workers handle commands with
	slots     slots            // what the capacity bounds
	senders   senders          // workers of other inboxes that cannot hand over
	visits    visits           // of a shared pool
	pace      pace             // how many commands a worker takes at once

	self        *Inbox // whose state it is
	knobs       knobs
	queue       waiting
	waiters     waiters // commands that wait for a free slot
	delayed     delayed
	lapsing     lapsing
	retryBudget *backoff.Budget // nil: any number of retries
	sole        soleWorker
	counts      counts
	streak      streak.Streak
	holding     *Member // the first of the workers that were given commands in this visit; see batches.go
	timers      timers
}

// shared is the part of the state that may be read without the lock, but for
// opened. It is written with it, unless it says otherwise.
type shared struct {
	cfg           *Config                  // not changed
	pipeline      atomic.Pointer[Pipeline] // nil until the pipeline is checked; set without the lock, once
	ahead         atomic.Pointer[[]*Inbox] // where its edges lead, as far as is known, without back edges; grows without the lock
	phases        atomic.Int32             // a phase
	halted        atomic.Bool              // the phase is halted
	opened        bool                     // it was open once; guarded by the lock
	marks         atomic.Pointer[Mark]     // the present mark; nil if none is being waited for
	emittedSingly atomic.Uint64            // commands emitted one by one; written with the lock of the inbox that takes them
}

// visits is the state for the visits of a shared pool: whether the pool may
// take from this inbox, and which inboxes behind wait until this one is no
// longer full. Without a pool the stage's own workers serve the inbox.
type visits struct {
	pool    *SharedPool // nil: the stage's own workers
	binding *binding    // to the pool; nil if there is none
	behind  []*Inbox    // stalled inboxes that this one will unstall
	passes  []*Inbox    // inboxes behind that may be visited once, though this one is full again
	era     uint32      // grows when all tokens are taken back: older ones are void
	tokens  int32       // given in this era, and not brought back by a worker
	stalled bool        // the pool takes nothing from here: an inbox ahead is full, and will say when it is not
	resting bool        // handlers crash, so the pool stays away for a moment

	empties atomic.Uint64 // visits that found nothing to do; read and written without the lock
}

// pace fits the size of batches to the time that handlers take, and to the
// inbox's rate.
type pace struct {
	limit   int // commands that a worker may take at once
	service time.Duration
	rate    *limit // of commands that may be started; nil: any number
}

// soleWorker watches over a queue that is left to one worker.
type soleWorker struct {
	done    uint64 // how many commands had been completed when the watch last looked
	watched bool
	over    bool // the watch has seen that the queue is not to be left to one worker
}

// Pipeline returns the pipeline the inbox belongs to, nil if there is none yet.
func (in *Inbox) Pipeline() *Pipeline { return in.state.pipeline.Load() }

// now reads the pipeline's clock.
func (s *shared) now() int64 { return s.pipeline.Load().Now() }

// takenSlots is how many commands hold a slot: the queued commands, and the
// commands that wait for the time of their next try.
func (s *state) takenSlots() int { return s.queue.slotted() + s.delayed.Len() }

// free is how many more commands may be queued. It is below zero when retries,
// crashes or back edges have overfilled the inbox.
func (s *state) free() int {
	free := s.knobs.Capacity - s.takenSlots()
	if s.slots.ceiling > 0 {
		free = min(free, s.slots.ceiling-s.limited())
	}
	return free - int(s.slots.reserved) - int(s.slots.carried)
}

// half is how many slots must be free before workers that wait for many slots
// are woken: half of the slots that are not held by carried commands or by
// commands that wait for their next try.
func (s *state) half() int {
	size := s.knobs.Capacity
	if s.slots.ceiling > 0 {
		size = min(s.slots.ceiling, size)
	}
	return (max(size-s.delayed.Len()-int(s.slots.carried), 1) + 1) / 2
}

// limited is how many commands count against the limit of a policy.
func (s *state) limited() int { return s.load() - s.queue.fresh() + s.queue.slotted() }

// load is how many commands are in the inbox.
func (s *state) load() int { return s.queue.Len() + s.counts.inHand + s.postponed() }

// push queues a command.
func (s *state) push(e *command.Envelope, p place) {
	s.note(e)
	if s.queue.plain {
		*s.queue.next() = *e
		return
	}
	s.queue.push(e, p)
}

// note notes that a command is about to be queued. It reads the clock for one
// command in each batch only, or for each command if it matters how long
// commands have waited.
func (s *state) note(e *command.Envelope) {
	if s.queue.untilStamp--; s.queue.untilStamp < 0 || s.knobs.Linger > 0 || s.ttl() > 0 {
		s.queue.untilStamp = int32(s.pace.limit) - 1
		now := s.now()
		if _, aged := e.Waited(now); !aged || s.cfg.TTL == 0 { // it may have waited elsewhere
			e.Enter(command.At(now))
		}
		if s.ttl() > 0 && !s.lapsing.watched {
			s.watchLapse(e)
		}
	}
	if e.Pack() > 0 {
		s.queue.packed++
	}
	if e.From != s.lapsing.lasts && !s.lapsing.watched {
		s.watchLapse(e)
	}
}

// change changes the phase.
func (s *state) change(ev event) {
	next := transitions[ev][s.phase()]
	s.phases.Store(int32(next))
	if next == halted {
		s.halted.Store(true)
	}
}

// phase returns the present phase. It may be called without the lock, but may
// change at once.
func (s *shared) phase() phase { return phase(s.phases.Load()) }

// InUse reports whether the stage is neither being drained nor has been.
func (ph Phases) InUse() bool { return ph.in.state.phase().inUse() }

// Halted reports whether the inbox is halted. Workers ask before each command,
// so it is one atomic load, without the lock.
func (ph Phases) Halted() bool { return ph.in.state.halted.Load() }

// Halts returns the flag that says whether the inbox is halted. A worker reads
// it for as long as it is here.
func (ph Phases) Halts() *atomic.Bool { return &ph.in.state.halted }

// wrap says which stage an error is about.
func (s *shared) wrap(err error) error { return plain.Wrap(fmt.Sprintf("stage %q", s.cfg.Name), err) }

// waitError returns the error of a submitter whose wait with ctx failed.
func (s *shared) waitError(ctx context.Context, why error) error {
	return &WaitError{Stage: s.cfg.Name, Err: command.EndedBy(ctx, why)}
}

// WaitError says why a command was not accepted whose submitter's context ended
// before the inbox had a free slot.
type WaitError struct {
	Stage string
	Err   error // the context's error, joined with its cause
}

// Error says which stage, and why the context ended.
func (e *WaitError) Error() string { return fmt.Sprintf("stage %q: not submitted: %v", e.Stage, e.Err) }

// Unwrap returns why the context ended.
func (e *WaitError) Unwrap() error { return e.Err }

// postponed is how many commands wait for their next try, including commands
// that have given up their slot.
func (s *state) postponed() int { return s.delayed.Len() + int(s.waiters.retries) }

// release notes that n commands have left a worker's batch.
func (s *state) release(m *Member, n int) {
	s.counts.inHand -= n
	m.custody.inHand -= int32(n)
	if n > 0 && m.custody.inHand == 0 && !m.custody.blocked {
		s.counts.busy--
	}
}

// bars reports whether workers at an inbox cannot hand over to this one in its
// present phase. Nil stands for a shared worker, which always can.
func (s *shared) bars(from *Inbox, back bool) bool {
	switch s.phase() {
	case barring:
		return from != nil && !back && from.Phases().InUse()
	case drained:
		return from != nil && from.Phases().InUse()
	default:
		return false
	}
}

// count counts the queued and delayed commands for which so is true.
func (s *state) count(so func(*command.Envelope) bool) int {
	n := s.queue.line.Count(so)
	for i := range s.delayed.heap {
		if so(&s.delayed.heap[i].e) {
			n++
		}
	}
	for w := s.waiters.first; w != nil; w = w.after {
		if w.retry && so(&w.e) {
			n++
		}
	}
	return n
}

// ttl is how long a command may wait in the queue: by the option, or by a
// policy; 0 is for ever.
func (s *state) ttl() time.Duration {
	if bound := time.Duration(s.knobs.Sojourn) * time.Microsecond; bound > 0 && (s.cfg.TTL == 0 || bound < s.cfg.TTL) {
		return bound
	}
	return s.cfg.TTL
}

// watchLapse sets the alarm if an arriving command may lapse. It is called
// unless the alarm is set.
func (s *state) watchLapse(e *command.Envelope) {
	if s.ttl() == 0 && !e.From.MayEnd() {
		s.lapsing.lasts = e.From
		return
	}
	s.lapsing.watched = true
	s.setAlarm(lapseAlarm, lookEvery)
	if pl := s.pipeline.Load(); !pl.lapses.Load() {
		pl.lapses.Store(true)
	}
}

// watchLapses is watchLapse for commands that arrive together, from another
// stage of the pipeline or from a worker.
func (s *state) watchLapses(es []command.Envelope) {
	if s.lapsing.watched || s.ttl() == 0 && !s.pipeline.Load().lapses.Load() {
		return
	}
	for i := range es {
		if s.ttl() > 0 || es[i].From.MayEnd() {
			s.watchLapse(&es[i])
			return
		}
	}
}

// looksFor reports whether lapsed commands should be ended now because there
// are fewer than n free slots.
func (s *state) looksFor(n int) bool {
	return s.free() < n && s.mayLook()
}

// mayLook reports whether commands may have lapsed, and the last look is long
// ago.
func (s *state) mayLook() bool {
	return s.lapsing.watched && !s.lapsing.looking && s.now() >= s.lapsing.next
}

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
func (ph Phases) StopTimers() {
	ph.in.mu.Lock()
	defer ph.in.mu.Unlock()
	ph.in.state.timers.stop()
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
