package inbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/plain"
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
	workers   workerSet // the stage's own workers
	instances instances // what the workers handle commands with
	slots     slots     // what the capacity bounds
	senders   senders   // workers of other inboxes that cannot hand over
	visits    visits    // of a shared pool
	pace      pace      // how many commands a worker takes at once

	self        *Inbox // whose state it is
	knobs       knobs
	queue       waiting
	waiters     waiters // commands that wait for a free slot
	delayed     delayed
	lapsing     lapsing
	retryBudget *budget // nil: any number of retries
	sole        soleWorker
	unstarted   unstarted
	counts      counts
	crashStreak *CrashStreak // the present one, or the last; nil: no handler has crashed. Use lastStreak
	holding     *Member      // the first of the workers that were given commands in this visit; see abandon.go
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

// instances are the values that handle commands, with the state of user code in
// them: at most as many as the knob says. made = out + len(idle) + claims of
// workers that hold none at the moment.
type instances struct {
	busy   int   // workers that are here, each with an instance
	made   int   // instances that there are, claims included
	idle   []any // instances that no worker uses
	marked marked
}

// marked counts the workers that may still hold commands sent before the mark.
// A worker gets the present mark with its first batch, and is uncounted when it
// has handed over every command of its batches, also if it crashes, is
// abandoned or is replaced. A worker that carries commands for longer gets the
// new mark as soon as none of them is for an inbox in Mark.To. So when left is
// 0, no command that a handler sent before the mark is on its way to these
// inboxes, except commands of suspended handlers and results of an ordered
// inbox.
//
// Invariant: left is how many of busy have another mark.
type marked struct {
	mark uint32
	left int32
}

// Mark is a mark of an inbox. It asks for the commands that are on their way to
// the inboxes in To.
type Mark struct{ To []*Inbox }

// slots are the places for commands that the capacity bounds. A command holds a
// slot while it is queued, waits for its next try, or is carried by a worker. A
// reserved slot counts as held, too.
type slots struct {
	carried  int32    // commands that the inbox's workers could not hand over; they keep their slots
	reserved int32    // slots promised to parked workers: the sum of promises
	promises []sender // workers that were woken from forSlots, each with slots of its own
	ceiling  int      // commands that may be here at once, queued or not; 0: any number
	outside  bool     // the next free slot is for a submitter, not for a parked worker
	full     bool     // the inbox was full, and the pipeline knows
}

// sender is a worker of another inbox that could not hand over all its commands
// here: how many are left, or how many slots it was promised.
type sender struct {
	m      *Member
	n      int
	back   bool       // it comes along a back edge
	lane   *line.Lane // of which it waits for places, or has some; nil: of none
	places int        // that it has
}

// senders are the workers of other inboxes that wait here until they can hand
// over.
type senders struct {
	forSlots     []sender               // for free slots; first come, first served
	forPlaces    []sender               // for places of keys; see key_places.go
	atLanes      map[*line.Lane]*atLane // by lane, the waiters for places of its key
	linedAtLanes int                    // how many of these
	overKeys     []overKey              // inboxes behind that wait until a key has a place
	barred       []sender               // until the phase lets them, whether there are free slots or not
	unbarred     chan struct{}          // closed when barred senders may try again; nil if none waits on it
}

// visits is the state for the visits of a shared pool: whether the pool may
// take from this inbox, and which inboxes behind wait until this one is no
// longer full. Without a pool the stage's own workers serve the inbox.
type visits struct {
	pool    *SharedPool // nil: the stage's own workers
	behind  []*Inbox    // stalled inboxes that this one will unstall
	passes  []*Inbox    // inboxes behind that may be visited once, though this one is full again
	era     uint64      // grows when all tokens are taken back: older ones are void
	stalled bool        // the pool takes nothing from here: an inbox ahead is full, and will say when it is not
	noted   bool        // the token only says that there is work
	resting bool        // handlers crash, so the pool stays away for a moment

	tokens  atomic.Int32  // that the pool has; read without the lock, too
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

// unstarted are the stage's own workers that have neither an actor nor a member
// until they are called. They count as workers of the stage. They are called
// after the idle workers, one at a time. A stage has a worker for each
// processor, and most stages of a large pipeline rest: a fresh stage takes some
// 4 KB with any number of unstarted workers, and 5, 13 or 76 KB with 1, 8 or 64
// started ones.
type unstarted struct {
	n      int32 // the called one included
	called bool  // one is called; StartWorker has not brought it yet
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

// atLane has the waiters for a place of one key.
type atLane struct {
	line    waiters // callers, and handlers that emit
	senders int     // workers, which are in forPlaces
	stalls  bool    // inboxes behind, which are in overKeys
	outside bool    // the next place is for one in line, not for a worker
}

// overKey is a key with commands beyond its bound, which a shared pool has
// brought, and the inbox that sent them.
type overKey struct {
	lane *line.Lane
	from *Inbox
}

func (w *atLane) isEmpty() bool { return w.line.n == 0 && w.senders == 0 && !w.stalls }

// Pipeline returns the pipeline the inbox belongs to, nil if there is none yet.
func (in *Inbox) Pipeline() *Pipeline { return in.state.pipeline.Load() }

// now reads the pipeline's clock.
func (s *shared) now() int64 { return s.pipeline.Load().Now() }

// takenSlots is how many commands hold a slot: the queued commands, and the
// commands that wait for the time of their next try.
func (s *state) takenSlots() int { return s.queue.fresh() + s.delayed.Len() }

// free is how many more commands may be queued. It is below zero when retries,
// crashes or back edges have overfilled the inbox.
func (s *state) free() int {
	free := s.knobs.Capacity - s.takenSlots()
	if s.slots.ceiling > 0 {
		free = min(free, s.slots.ceiling-s.load())
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
	if s.queue.untilStamp--; s.queue.untilStamp < 0 || s.knobs.Linger > 0 || s.cfg.TTL > 0 {
		s.queue.untilStamp = int32(s.pace.limit) - 1
		now := s.now()
		if _, aged := e.Waited(now); !aged || s.cfg.TTL == 0 { // it may have waited elsewhere
			e.Enter(command.At(now))
		}
		if s.cfg.TTL > 0 && !s.lapsing.watched {
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
func (in *Inbox) InUse() bool { return in.state.phase().inUse() }

// Halted reports whether the inbox is halted. Workers ask before each command,
// so it is one atomic load, without the lock.
func (in *Inbox) Halted() bool { return in.state.halted.Load() }

// Halts returns the flag that says whether the inbox is halted. A worker reads
// it for as long as it is here.
func (in *Inbox) Halts() *atomic.Bool { return &in.state.halted }

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
	if n > 0 && m.custody.inHand == 0 && !m.attendance.blocked {
		s.counts.busy--
	}
}

// bars reports whether workers at an inbox cannot hand over to this one in its
// present phase. Nil stands for a shared worker, which always can.
func (s *shared) bars(from *Inbox, back bool) bool {
	switch s.phase() {
	case barring:
		return from != nil && !back && from.InUse()
	case drained:
		return from != nil && from.InUse()
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

// watchLapse sets the alarm if an arriving command may lapse. It is called
// unless the alarm is set.
func (s *state) watchLapse(e *command.Envelope) {
	if s.cfg.TTL == 0 && !e.From.MayEnd() {
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
	if s.lapsing.watched || s.cfg.TTL == 0 && !s.pipeline.Load().lapses.Load() {
		return
	}
	for i := range es {
		if s.cfg.TTL > 0 || es[i].From.MayEnd() {
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
