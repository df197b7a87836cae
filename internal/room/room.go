package room

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/queue"
)

// What a submitter may be told, and what a ticket may be told of a command
// that the room let go.
var (
	ErrFull       = errors.New("stage: full")
	ErrClosed     = errors.New("stage: closed")
	ErrDraining   = fmt.Errorf("%w: draining", ErrClosed)
	ErrNotRunning = errors.New("stage: not running")
	ErrShed       = errors.New("stage: command dropped to make room")
	ErrStopped    = errors.New("stage: stopped before the command was done")
	ErrDisabled   = errors.New("stage: disabled")
	ErrExpired    = errors.New("stage: command expired in the queue")
)

// Overflow says what a full room does with one more command.
type Overflow uint8

// The four choices; stage documents them.
const (
	Wait Overflow = iota
	Reject
	DropNewest
	DropOldest
)

// Config is what a stage asks of its room. It has been checked.
type Config struct {
	Name     string
	Capacity int
	Batch    int
	Linger   time.Duration
	// TTL is how long a command may wait in the queue; 0 is for ever.
	TTL      time.Duration
	Overflow Overflow
	Retry    Retry
	// Instances is how many workers may be here at once.
	Instances int
	// Discipline is the order of the queue; nil is first in, first out.
	Discipline queue.Discipline
	// Rest is how long a crew leaves the room alone after so many crashes too many.
	Rest func(beyond int) time.Duration
	// StreakEnds is how long after a crash the next one begins a new streak.
	StreakEnds time.Duration
}

// Retry says how often and when a command is tried again; see stage.
type Retry struct {
	Attempts     int
	Backoff, Max time.Duration
	Jitter       float64
}

// quantum is how long a batch should take: long enough that the lock and the
// clock cost nothing, short enough that no worker hoards what others could do.
const quantum = 100 * time.Microsecond

// Host is the house that a room stands in. A pipeline makes one and gives it
// to all its rooms.
type Host struct {
	// Base is the zero of the host's clock.
	Base time.Time
	// Reach tells how one room leads to another: whether the way closes a
	// loop, and false if the other is not of this house.
	Reach func(from, to *Room) (back, ok bool)
	// Keep is told of every command that ended without an answer, or with an error that leaves a letter, before its
	// ticket is: who hears of the end may look for what is kept of it. It does not block. May be nil.
	Keep func(End)
	// Ended is told of the same, after the ticket: it may take its time.
	Ended func(End)
	// Full is told when a room has become full, once until it is not.
	Full func(*Room)
	// RoundEnd is called when the first worker has ended a round of a plan, and
	// Visited when as many visits were made as a crew was asked to tell of.
	RoundEnd, Visited func(*Crew)
	// Draining tells that the whole house is being drained. A room that comes to rest rings
	// Quiet then, and also while it is drained by itself.
	Draining atomic.Bool
	// Quiet has room for one ring.
	Quiet chan struct{}
	// InFlight adds up how many commands are in all rooms.
	InFlight func() int
	// MaxInFlight bounds the commands in flight that ways back may add to; 0: not at all.
	MaxInFlight int

	buried atomic.Uint64

	loops allowance
	bound atomic.Int64 // commands in flight up to which commands from outside are let in; 0: any number
	door  Door
	crowd crowd
}

// Now reads the host's clock.
func (h *Host) Now() int64 { return int64(time.Since(h.Base)) }

// Ring rings the bell. It may ring in vain: who hears it looks for himself.
func (h *Host) Ring() {
	select {
	case h.Quiet <- struct{}{}:
	default:
	}
}

// End tells of a command that ended without an answer, or, with ReasonError, with an error that leaves a letter.
type End struct {
	Room   *Room
	Cmd    any
	Reason Reason
	Err    error
	Tries  int
	At     time.Time
	From   int // the place, plus one, of the stage whose handler emitted the command; 0 if it is not known
}

// keep has the host keep what ended.
func (h *Host) keep(e End) {
	if h.Keep != nil {
		h.Keep(e)
	}
}

// Lost tells the host of a message that was no command yet: nobody has a ticket for it.
func (h *Host) Lost(e End) {
	e.At = time.Now()
	h.keep(e)
	h.Ended(e)
}

// Room is the queue and the accounts of one stage.
type Room struct {
	gang // its own workers; guarded by mu

	cfg   *Config // not changed
	inlet *behaviour.Inlet
	// Call brings a worker that dozes; set before one does. It is called as [Seat].Wake is.
	Call func()

	host    atomic.Pointer[Host]    // nil until the pipeline opens the room
	ahead   atomic.Pointer[[]*Room] // where its ways ahead lead, as far as is known
	tokens  atomic.Int32            // in the crew's hands; written with mu
	phase   atomic.Int32            // of its drain; written with mu
	empties atomic.Uint64           // visits that found nothing to do
	halted  atomic.Bool             // nothing is taken or given out any more; written with mu
	sent    atomic.Uint64           // commands emitted one by one; written with the lock of the room that takes the command

	// Owner is what the stage wants to find again; set before the room is opened.
	Owner any
	// Place is the stage's in its pipeline; set before the room is opened.
	Place int

	door Door // for commands from outside

	mu       sync.Mutex // guards all below
	knobs    knobs
	open     bool // commands from outside are taken
	opened   bool // it was open once
	brim     bool // it was full, and the host knows
	noted    bool // the token is one that only tells there is work
	stalled  bool // a room ahead is full, and has been asked to say when it is not
	resting  bool // its handlers crash; it is left alone for a moment
	outside  bool // the next free slot is for a waiter, not for a parked worker
	ceiling  int  // commands that may be here at once, queued or not; 0: any number
	queue    waiting
	packed   int32  // queued commands that belong to a pack
	stamp    int32  // commands to come before the clock is read again
	carried  int32  // commands that its workers could not hand over and that keep their seats
	reserved int32  // seats promised to parked workers
	crew     *Crew  // the pool that visits the room; nil: it has workers of its own
	era      uint64 // grows when all tokens are taken back: older ones are void
	out      int    // workers that are here, each with an instance
	made     int    // instances that there are
	shelf    []any  // those that nobody uses
	rests    *time.Timer
	spell    *Spell        // nil: no handler has crashed yet
	behind   []*Room       // rooms that asked to be told when there is room here
	passes   *[]*Room      // rooms behind that may be visited once, though this one is full again; nil: none ever were
	blocked  []parked      // first come first served
	promises []parked      // woken from blocked, with seats of their own
	held     []parked      // may hand nothing over, whether there are seats or not
	lifted   chan struct{} // closed when who may not hand over may be to; nil if nobody listens
	waiters  line
	delayed  delayed
	timer    *time.Timer
	lingers  *time.Timer
	alone    alone
	spent    spent
	limit    int // commands a worker may take at once, by measured service time
	service  time.Duration
	c        counts
	dozers   dozers
	inHands  *Seat // the first of the workers that have been given something in this visit; see forsake.go
}

// New returns a closed room.
func New(cfg Config) *Room {
	r := &Room{cfg: &cfg, limit: 1}
	r.knobs = cfg.knobs()
	r.queue.order(cfg.Discipline)
	r.inlet = behaviour.NewInlet(cfg.Name, r)
	return r
}

// Inlet is the room's door.
func (r *Room) Inlet() *behaviour.Inlet { return r.inlet }

// Name returns the stage's name.
func (r *Room) Name() string { return r.cfg.Name }

// Len returns how many commands are queued.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.Len()
}

// Waits reports whether the room has those wait who find it full.
func (r *Room) Waits() bool { return r.cfg.Overflow == Wait }

// Full reports whether there is no seat.
func (r *Room) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free() <= 0
}

// IsOpen reports whether the room takes commands from outside.
func (r *Room) IsOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// Config returns what the room was made with. It is not to be changed.
func (r *Room) Config() *Config { return r.cfg }

// Host returns the house the room was opened in, nil if it was not.
func (r *Room) Host() *Host { return r.host.Load() }

// Adopt puts the room into a house, once. It reports whether it was free.
func (r *Room) Adopt(h *Host) bool { return r.host.CompareAndSwap(nil, h) }

// Release takes the room out of a house that was never started.
func (r *Room) Release(h *Host) { r.host.CompareAndSwap(h, nil) }

// Open lets commands in, and ends the room's drain if there was one.
func (r *Room) Open() {
	r.mu.Lock()
	r.open, r.opened = !r.halted.Load(), true
	r.readmit(inUse)
}

// Close refuses commands from outside from now on; who waits for a seat is
// refused too. What other rooms hand over is still taken.
func (r *Room) Close() {
	r.mu.Lock()
	r.open = false
	r.dismissWaiters()
	next := r.rouse() // nobody lingers any more
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	if h := r.Host(); h != nil {
		h.ended()
	}
}

// Halt ends everything that is queued or waits to be retried: it will not be
// done. What is in a worker's hand is for the worker, who finishes the command that it has begun and
// ends the others: see [Room.Halted]. Those that were set aside stay so. It returns what tells those
// who wait; that may take its time.
func (r *Room) Halt() (tell func()) {
	r.mu.Lock()
	r.open = false
	r.halted.Store(true)
	r.dismissWaiters() // before the queue is emptied: it may fill it
	r.sidelineQueued()
	left := make([]command.Envelope, r.queue.Len(), r.queue.Len()+r.delayed.Len())
	r.queue.popInto(left)
	r.packed = 0
	left = append(left, r.delayed.clear()...)
	r.stopTimers()
	r.c.losses().dead[deadStopped] += uint64(len(left))
	woken := append(r.takeBlocked(), r.takeIdle()...)
	r.void()
	behind := r.behind
	r.behind = nil
	r.mu.Unlock()
	wakeAll(woken)
	unstall(behind)
	if h := r.Host(); h != nil {
		h.ended()
	}
	return func() { r.bury(left, ReasonStopped, r.stopped()) }
}

// Halted reports whether the room is halted. A worker asks before each command, so it asks without the
// lock: one atomic load is all that a hop can bear.
func (r *Room) Halted() bool { return r.halted.Load() }

// Halts is where a worker looks whether the room is halted, for as long as it is here.
func (r *Room) Halts() *atomic.Bool { return &r.halted }

// slots is how many commands hold a slot: those that are queued, and those that wait for the time of their next try.
func (r *Room) slots() int { return r.queue.fresh() + r.delayed.Len() }

// free is how many more commands may come in. It is below zero when retries,
// crashes or ways back have overfilled the room.
func (r *Room) free() int {
	free := r.knobs.Capacity - r.slots()
	if r.ceiling > 0 {
		free = min(free, r.ceiling-r.load())
	}
	return free - int(r.reserved) - int(r.carried)
}

// half is how many free slots are worth to wake those for that wait for many: half of those that are left by commands which
// wait for their next try, and by those that its workers carry.
func (r *Room) half() int {
	size := r.knobs.Capacity
	if r.ceiling > 0 {
		size = min(r.ceiling, size)
	}
	return (max(size-r.delayed.Len()-int(r.carried), 1) + 1) / 2
}

// push queues a command, reading the clock for one in so many, or for each if it
// matters how long they have waited.
func (r *Room) push(e *command.Envelope, p place) {
	if r.stamp--; r.stamp < 0 || r.knobs.Linger > 0 || r.cfg.TTL > 0 {
		r.stamp = int32(r.limit) - 1
		e.Enter(command.At(r.Host().Now()))
	}
	if e.Pack() > 0 {
		r.packed++
	}
	if r.queue.line != nil {
		r.queue.push(*e, p)
		return
	}
	*r.queue.next() = *e
}

// brimming tells the host when the room has become full. The host neither blocks nor
// asks the room for anything.
func (r *Room) brimming() {
	if r.brim || r.slots() < r.knobs.Capacity {
		return
	}
	r.brim = true
	if f := r.Host().Full; f != nil {
		f(r)
	}
}

// rouse sees to it that somebody comes for the work that is here. Of the room's own
// workers it picks an idle one to be woken, if none is on its way already; the
// caller wakes it when it has let go of the lock. A crew is told.
func (r *Room) rouse() *Seat {
	if r.crew != nil {
		r.note()
		return nil
	}
	if len(r.idle)+int(r.dozers.dozing) == 0 || r.waking > 0 || r.out >= r.knobs.Instances || r.due() == 0 || r.left() {
		return nil
	}
	s := r.call(r.fit)
	if s == nil && r.dozers.dozing > 0 {
		s = r.rouseDozer()
	}
	return s
}

// fit reports whether a worker that comes finds something to do: it has an instance, or will get one, and may take what is due.
func (r *Room) fit(s *Seat) bool {
	return (s.owns || r.equippable()) && (!r.laden(s) || r.going() > 0)
}

// parked is a worker of another room that could not leave all its commands
// here, and how many those are, or how many seats it was promised.
type parked struct {
	seat *Seat
	n    int
	back bool // it comes along a way back
}

// release gives the slots away that have come free. Parked workers wait until half
// of the room is free, so that each waking moves many commands. If others wait
// outside, the two take turns: neither can starve the other. So do rooms behind: see relieve, which is called before.
//
// A command that waits outside is queued at once. A worker for it is among those that are to be woken.
func (r *Room) release() (woken []*Seat) {
	free := r.free()
	if len(r.blocked)+len(r.behind) > 0 && free < r.half() {
		return nil
	}
	entered := false
	for free > 0 {
		if r.waiters.first != nil && (len(r.blocked) == 0 || r.outside) {
			r.enqueue(r.waiters.first)
			r.outside = false
			entered = true
			free--
			continue
		}
		if len(r.blocked) == 0 {
			break
		}
		n := min(free, r.blocked[0].n)
		woken = append(woken, r.promise(n))
		free -= n
	}
	if entered {
		r.brimming()
		if s := r.rouse(); s != nil {
			woken = append(woken, s)
		}
	}
	return woken
}

// enqueue queues a command that waits in line.
func (r *Room) enqueue(w *waiter) {
	r.waiters.leave(w)
	r.push(&w.e, w.at)
	w.queued = true
	switch {
	case w.retry:
		return
	case w.inside:
		r.c.received++
		w.emitter.emits()
	default:
		r.c.submitted++
	}
	w.notify()
}

// promise promises n seats to the worker that has been parked for longest.
func (r *Room) promise(n int) *Seat {
	s := r.blocked[0].seat
	r.blocked = slices.Delete(r.blocked, 0, 1)
	r.promises = append(r.promises, parked{seat: s, n: n})
	r.reserved += int32(n)
	r.outside = true
	s.ready.Store(true)
	return s
}

// unpark takes a worker out of the line, and gives it the seats that it was
// promised, if it was: they are free now, and the caller, who has the lock, takes
// them at once. Place is where in the line it belongs if it has to wait on: first
// if it was promised seats; where it was, if it comes without having been woken, as
// a new actor in an old slot does; behind all others if it was not known here.
func (r *Room) unpark(s *Seat) (place int, known bool) {
	is := func(p parked) bool { return p.seat == s }
	if i := slices.IndexFunc(r.promises, is); i >= 0 {
		r.reserved -= int32(r.promises[i].n)
		r.promises = slices.Delete(r.promises, i, i+1)
		return 0, true
	}
	if i := slices.IndexFunc(r.held, is); i >= 0 {
		r.held = slices.Delete(r.held, i, i+1)
		return 0, true
	}
	if i := slices.IndexFunc(r.blocked, is); i >= 0 {
		r.blocked = slices.Delete(r.blocked, i, i+1)
		return i, true
	}
	return len(r.blocked), false
}

// InLine reports whether a worker waits here for seats.
func (r *Room) InLine(s *Seat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := func(p parked) bool { return p.seat == s }
	return slices.ContainsFunc(r.blocked, is) || slices.ContainsFunc(r.held, is)
}

// Withdraw takes a worker that goes on with other work out of the line for seats, and lets others have those
// that it was promised.
func (r *Room) Withdraw(s *Seat) {
	r.mu.Lock()
	r.unpark(s)
	woken := r.release()
	r.mu.Unlock()
	wakeAll(woken)
}

// takeBlocked sends all parked workers on their way; the room is halted.
func (r *Room) takeBlocked() (woken []*Seat) {
	for _, p := range slices.Concat(r.held, r.blocked) {
		p.seat.ready.Store(true)
		woken = append(woken, p.seat)
	}
	for _, p := range r.promises {
		r.reserved -= int32(p.n)
	}
	r.held, r.blocked, r.promises = nil, nil, nil
	if r.lifted != nil {
		close(r.lifted)
		r.lifted = nil
	}
	return woken
}

// dismissWaiters sends all away that wait for a slot; they look again what the room does with them. Commands that
// wait there for their next try are queued.
func (r *Room) dismissWaiters() {
	r.recall()
	for w := r.waiters.first; w != nil; w = r.waiters.first {
		r.waiters.leave(w)
		w.notify()
	}
}

// settled rings the host's bell if it listens and the room has come to rest.
func (r *Room) settled() {
	h := r.Host()
	if h == nil || !h.Draining.Load() && r.InUse() || r.load() > 0 {
		return
	}
	h.Ring()
}

// bury has the house keep commands that ended unanswered, and tells the tickets and
// then the house: it may have a subscriber that takes its time.
func (r *Room) bury(es []command.Envelope, why Reason, err error) {
	if len(es) == 0 {
		return
	}
	h, now := r.Host(), time.Now()
	end := func(e *command.Envelope) End {
		return End{Room: r, Cmd: e.Cmd, Reason: why, Err: err, Tries: e.Tries(), At: now, From: 1 + e.Emitter()}
	}
	for i := range es {
		h.keep(end(&es[i]))
		es[i].Ticket().Settle(es[i].Child(), nil, err)
	}
	for i := range es {
		h.Ended(end(&es[i]))
	}
	h.buried.Add(uint64(len(es)))
}

// Buried returns how many commands that the accounts have as shed or dead-lettered the host was told of.
func (h *Host) Buried() uint64 { return h.buried.Load() }

// Answer tells the ticket of a command that ended with an error, if there is one.
func (r *Room) Answer(e *command.Envelope, err error) {
	if t := e.Ticket(); t != nil {
		t.Settle(e.Child(), nil, plain.Wrap(fmt.Sprintf("stage %q", r.cfg.Name), err))
	}
}

// Fail tells the end of a command that ended with an error and is booked as such. It leaves a letter unless somebody has
// both the command and the error: whoever submitted it with a ticket, if it was not tried again in vain. Nor does it if
// the caller's context has ended: the caller has given up the command, and all that comes of it.
func (r *Room) Fail(e *command.Envelope, err error) {
	if e.Ticket() != nil && (!e.Child() && !r.usedUp(e) || e.From.Ended() != nil) {
		r.Answer(e, err)
		return
	}
	h := r.Host()
	end := End{Room: r, Cmd: e.Cmd, Reason: ReasonError, Err: err, Tries: e.Tries(), At: time.Now(), From: 1 + e.Emitter()}
	h.keep(end)
	r.Answer(e, err)
	h.Ended(end)
}

// usedUp reports whether a command was tried again, and as often as it may be.
func (r *Room) usedUp(e *command.Envelope) bool {
	most := r.cfg.Retry.Attempts
	return most > 1 && e.Tries() >= most
}

func wakeAll(seats []*Seat) {
	for _, s := range seats {
		s.Wake()
	}
}

// losses are the accounts of what was not taken, or had no answer.
type losses struct {
	rejected [rejectedReasons]uint64
	shed     [shedReasons]uint64
	dead     [deadReasons]uint64
}

// losses are those that are counted, to be changed: many a stage has none.
func (c *counts) losses() *losses {
	if c.lost == nil {
		c.lost = new(losses)
	}
	return c.lost
}

// counts are the accounts. All but the gauges only grow.
type counts struct {
	submitted, received            uint64
	ok, forwarded, emitted, errors uint64
	lost                           *losses // nil: none yet
	crashes, retries, restarts     uint64
	streak                         int32  // crashes since a command was last completed
	abandoned                      int32  // handlers that were given up and still run
	stuck                          uint64 // handlers that were given up
	visits                         uint64
	inHand, busy, mostOut          int
	aside                          int // of those in hand, in nobody's; below 0 while a worker has not told yet
	wait, work                     histogram.Histogram
}
