package inbox

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
// that the inbox let go.
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

// Overflow says what a full inbox does with one more command.
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
	// Rest is how long a shared pool leaves the inbox alone after so many crashes too many.
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

// Pipeline is the pipeline that an inbox stands in. A pipeline makes one and gives it
// to all its inboxes.
type Pipeline struct {
	// Base is the zero of the pipeline's clock.
	Base time.Time
	// Reach tells how one inbox leads to another: whether the way closes a
	// loop, and false if the other is not of this house.
	Reach func(from, to *Inbox) (back, ok bool)
	// Keep is told of every command that ended without an answer, or with an error that leaves a letter, before its
	// ticket is: who hears of the end may look for what is kept of it. It does not block. May be nil.
	Keep func(Ending)
	// Ended is told of the same, after the ticket: it may take its time.
	Ended func(Ending)
	// Full is told when an inbox has become full, once until it is not.
	Full func(*Inbox)
	// RoundEnd is called when the first worker has ended a round of a plan, and
	// Visited when as many visits were made as a shared pool was asked to tell of.
	RoundEnd, Visited func(*SharedPool)
	// Draining tells that the whole house is being drained. An inbox that comes to rest rings
	// Quiet then, and also while it is drained by itself.
	Draining atomic.Bool
	// Quiet has room for one ring.
	Quiet chan struct{}
	// InFlight adds up how many commands are in all inboxes.
	InFlight func() int
	// MaxInFlight bounds the commands in flight that back edges may add to; 0: not at all.
	MaxInFlight int

	deadLettered atomic.Uint64

	loops     allowance
	bound     atomic.Int64 // commands in flight up to which commands from outside are let in; 0: any number
	admission Admission
	entrants  entrants
}

// Now reads the pipeline's clock.
func (pl *Pipeline) Now() int64 { return int64(time.Since(pl.Base)) }

// NotifyQuiet rings the bell. It may ring in vain: who hears it looks for himself.
func (pl *Pipeline) NotifyQuiet() {
	select {
	case pl.Quiet <- struct{}{}:
	default:
	}
}

// Ending tells of a command that ended without an answer, or, with ReasonError, with an error that leaves a letter.
type Ending struct {
	Inbox  *Inbox
	Cmd    any
	Reason Reason
	Err    error
	Tries  int
	At     time.Time
	From   int // the place, plus one, of the stage whose handler emitted the command; 0 if it is not known
}

// keep has the host keep what ended.
func (pl *Pipeline) keep(e Ending) {
	if pl.Keep != nil {
		pl.Keep(e)
	}
}

// ReportLost tells the host of a message that was no command yet: nobody has a ticket for it.
func (pl *Pipeline) ReportLost(e Ending) {
	e.At = time.Now()
	pl.keep(e)
	pl.Ended(e)
}

// Inbox is the queue and the accounts of one stage.
type Inbox struct {
	workerSet // its own workers; guarded by mu

	cfg   *Config // not changed
	inlet *behaviour.Inlet
	// StartWorker brings a worker that dozes; set before one does. It is called as [Member].Wake is.
	StartWorker func()

	pipeline      atomic.Pointer[Pipeline] // nil until the pipeline opens the inbox
	ahead         atomic.Pointer[[]*Inbox] // where its ways ahead lead, as far as is known
	tokens        atomic.Int32             // in the shared pool's hands; written with mu
	phase         atomic.Int32             // of its drain; written with mu
	empties       atomic.Uint64            // visits that found nothing to do
	halted        atomic.Bool              // nothing is taken or given out any more; written with mu
	emittedSingly atomic.Uint64            // commands emitted one by one; written with the lock of the inbox that takes the command

	// Owner is what the stage wants to find again; set before the inbox is opened.
	Owner any
	// Place is the stage's in its pipeline; set before the inbox is opened.
	Place int

	admission Admission // for commands from outside

	mu            sync.Mutex // guards all below
	knobs         knobs
	open          bool // commands from outside are taken
	opened        bool // it was open once
	full          bool // it was full, and the host knows
	noted         bool // the token is one that only tells there is work
	stalled       bool // an inbox ahead is full, and has been asked to say when it is not
	resting       bool // its handlers crash; it is left alone for a moment
	outside       bool // the next free slot is for a waiter, not for a parked worker
	ceiling       int  // commands that may be here at once, queued or not; 0: any number
	queue         waiting
	packed        int32       // queued commands that belong to a pack
	untilStamp    int32       // commands to come before the clock is read again
	carried       int32       // commands that its workers could not hand over and that keep their seats
	reserved      int32       // seats promised to parked workers
	pool          *SharedPool // the pool that visits the inbox; nil: it has workers of its own
	era           uint64      // grows when all tokens are taken back: older ones are void
	busyInstances int         // workers that are here, each with an instance
	made          int         // instances that there are
	idleInstances []any       // those that nobody uses
	restTimer     *time.Timer
	crashStreak   *CrashStreak  // nil: no handler has crashed yet
	behind        []*Inbox      // inboxes that asked to be told when there is room here
	passes        *[]*Inbox     // inboxes behind that may be visited once, though this one is full again; nil: none ever were
	blocked       []parked      // first come first served
	promises      []parked      // woken from blocked, with seats of their own
	held          []parked      // may hand nothing over, whether there are seats or not
	unbarred      chan struct{} // closed when who may not hand over may be to; nil if nobody listens
	waiters       line
	delayed       delayed
	retryTimer    *time.Timer
	lingerTimer   *time.Timer
	sole          soleWorker
	spent         spent
	limit         int // commands a worker may take at once, by measured service time
	service       time.Duration
	counts        counts
	unstarted     unstarted
	holding       *Member // the first of the workers that have been given something in this visit; see forsake.go
}

// New returns a closed inbox.
func New(cfg Config) *Inbox {
	in := &Inbox{cfg: &cfg, limit: 1}
	in.knobs = cfg.knobs()
	in.queue.order(cfg.Discipline)
	in.inlet = behaviour.NewInlet(cfg.Name, in)
	return in
}

// Inlet is the inbox's door.
func (in *Inbox) Inlet() *behaviour.Inlet { return in.inlet }

// Name returns the stage's name.
func (in *Inbox) Name() string { return in.cfg.Name }

// Len returns how many commands are queued.
func (in *Inbox) Len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queue.Len()
}

// Waits reports whether the inbox has those wait who find it full.
func (in *Inbox) Waits() bool { return in.cfg.Overflow == Wait }

// Full reports whether there is no seat.
func (in *Inbox) Full() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.free() <= 0
}

// IsOpen reports whether the inbox takes commands from outside.
func (in *Inbox) IsOpen() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.open
}

// Config returns what the inbox was made with. It is not to be changed.
func (in *Inbox) Config() *Config { return in.cfg }

// Pipeline returns the pipeline the inbox was opened in, nil if it was not.
func (in *Inbox) Pipeline() *Pipeline { return in.pipeline.Load() }

// Attach puts the inbox into a house, once. It reports whether it was free.
func (in *Inbox) Attach(pl *Pipeline) bool { return in.pipeline.CompareAndSwap(nil, pl) }

// Detach takes the inbox out of a house that was never started.
func (in *Inbox) Detach(pl *Pipeline) { in.pipeline.CompareAndSwap(pl, nil) }

// Open lets commands in, and ends the inbox's drain if there was one.
func (in *Inbox) Open() {
	in.mu.Lock()
	in.open, in.opened = !in.halted.Load(), true
	in.unblockSenders(inUse)
}

// Close refuses commands from outside from now on; who waits for a seat is
// refused too. What other inboxes hand over is still taken.
func (in *Inbox) Close() {
	in.mu.Lock()
	in.open = false
	in.dismissWaiters()
	next := in.wakeOne() // nobody lingers any more
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
	if pl := in.Pipeline(); pl != nil {
		pl.notifyEntries()
	}
}

// Halt ends everything that is queued or waits to be retried: it will not be
// done. What is in a worker's hand is for the worker, who finishes the command that it has begun and
// ends the others: see [Inbox.Halted]. Those that were suspended stay so. It returns what tells those
// who wait; that may take its time.
func (in *Inbox) Halt() (tell func()) {
	in.mu.Lock()
	in.open = false
	in.halted.Store(true)
	in.dismissWaiters() // before the queue is emptied: it may fill it
	in.suspendQueued()
	left := make([]command.Envelope, in.queue.Len(), in.queue.Len()+in.delayed.Len())
	in.queue.popInto(left)
	in.packed = 0
	left = append(left, in.delayed.clear()...)
	in.stopTimers()
	in.counts.losses().dead[deadStopped] += uint64(len(left))
	woken := append(in.takeBlocked(), in.wakeAllIdle()...)
	in.voidTokens()
	behind := in.behind
	in.behind = nil
	in.mu.Unlock()
	wakeAll(woken)
	unstall(behind)
	if pl := in.Pipeline(); pl != nil {
		pl.notifyEntries()
	}
	return func() { in.deadLetter(left, ReasonStopped, in.stoppedError()) }
}

// Halted reports whether the inbox is halted. A worker asks before each command, so it asks without the
// lock: one atomic load is all that a hop can bear.
func (in *Inbox) Halted() bool { return in.halted.Load() }

// Halts is where a worker looks whether the inbox is halted, for as long as it is here.
func (in *Inbox) Halts() *atomic.Bool { return &in.halted }

// slots is how many commands hold a slot: those that are queued, and those that wait for the time of their next try.
func (in *Inbox) slots() int { return in.queue.fresh() + in.delayed.Len() }

// free is how many more commands may come in. It is below zero when retries,
// crashes or back edges have overfilled the inbox.
func (in *Inbox) free() int {
	free := in.knobs.Capacity - in.slots()
	if in.ceiling > 0 {
		free = min(free, in.ceiling-in.load())
	}
	return free - int(in.reserved) - int(in.carried)
}

// half is how many free slots are worth to wake those for that wait for many: half of those that are left by commands which
// wait for their next try, and by those that its workers carry.
func (in *Inbox) half() int {
	size := in.knobs.Capacity
	if in.ceiling > 0 {
		size = min(in.ceiling, size)
	}
	return (max(size-in.delayed.Len()-int(in.carried), 1) + 1) / 2
}

// push queues a command, reading the clock for one in so many, or for each if it
// matters how long they have waited.
func (in *Inbox) push(e *command.Envelope, p place) {
	if in.untilStamp--; in.untilStamp < 0 || in.knobs.Linger > 0 || in.cfg.TTL > 0 {
		in.untilStamp = int32(in.limit) - 1
		e.Enter(command.At(in.Pipeline().Now()))
	}
	if e.Pack() > 0 {
		in.packed++
	}
	if in.queue.line != nil {
		in.queue.push(*e, p)
		return
	}
	*in.queue.next() = *e
}

// checkFull tells the host when the inbox has become full. The host neither blocks nor
// asks the inbox for anything.
func (in *Inbox) checkFull() {
	if in.full || in.slots() < in.knobs.Capacity {
		return
	}
	in.full = true
	if f := in.Pipeline().Full; f != nil {
		f(in)
	}
}

// wakeOne sees to it that somebody comes for the work that is here. Of the inbox's own
// workers it picks an idle one to be woken, if none is on its way already; the
// caller wakes it when it has let go of the lock. A shared pool is told.
func (in *Inbox) wakeOne() *Member {
	if in.pool != nil {
		in.addToken()
		return nil
	}
	if len(in.idle)+int(in.unstarted.waiting) == 0 || in.waking > 0 || in.busyInstances >= in.knobs.Instances || in.available() == 0 || in.leftToOne() {
		return nil
	}
	m := in.pickIdle(in.fit)
	if m == nil && in.unstarted.waiting > 0 {
		m = in.callUnstarted()
	}
	return m
}

// fit reports whether a worker that comes finds something to do: it has an instance, or will get one, and may take what is due.
func (in *Inbox) fit(m *Member) bool {
	return (m.owns || in.equippable()) && (!in.isLaden(m) || in.runnable() > 0)
}

// parked is a worker of another inbox that could not leave all its commands
// here, and how many those are, or how many seats it was promised.
type parked struct {
	seat *Member
	n    int
	back bool // it comes along a back edge
}

// grantSlots gives the slots away that have come free. Parked workers wait until half
// of the inbox is free, so that each waking moves many commands. If others wait
// outside, the two take turns: neither can starve the other. So do inboxes behind: see relieve, which is called before.
//
// A command that waits outside is queued at once. A worker for it is among those that are to be woken.
func (in *Inbox) grantSlots() (woken []*Member) {
	free := in.free()
	if len(in.blocked)+len(in.behind) > 0 && free < in.half() {
		return nil
	}
	entered := false
	for free > 0 {
		if in.waiters.first != nil && (len(in.blocked) == 0 || in.outside) {
			in.enqueue(in.waiters.first)
			in.outside = false
			entered = true
			free--
			continue
		}
		if len(in.blocked) == 0 {
			break
		}
		n := min(free, in.blocked[0].n)
		woken = append(woken, in.promise(n))
		free -= n
	}
	if entered {
		in.checkFull()
		if m := in.wakeOne(); m != nil {
			woken = append(woken, m)
		}
	}
	return woken
}

// enqueue queues a command that waits in line.
func (in *Inbox) enqueue(w *waiter) {
	in.waiters.leave(w)
	in.push(&w.e, w.at)
	w.queued = true
	switch {
	case w.retry:
		return
	case w.inside:
		in.counts.received++
		w.emitter.countEmitted()
	default:
		in.counts.submitted++
	}
	w.notify()
}

// promise promises n seats to the worker that has been parked for longest.
func (in *Inbox) promise(n int) *Member {
	m := in.blocked[0].seat
	in.blocked = slices.Delete(in.blocked, 0, 1)
	in.promises = append(in.promises, parked{seat: m, n: n})
	in.reserved += int32(n)
	in.outside = true
	m.ready.Store(true)
	return m
}

// unpark takes a worker out of the line, and gives it the seats that it was
// promised, if it was: they are free now, and the caller, who has the lock, takes
// them at once. Place is where in the line it belongs if it has to wait on: first
// if it was promised seats; where it was, if it comes without having been woken, as
// a new actor in an old slot does; behind all others if it was not known here.
func (in *Inbox) unpark(m *Member) (place int, known bool) {
	is := func(p parked) bool { return p.seat == m }
	if i := slices.IndexFunc(in.promises, is); i >= 0 {
		in.reserved -= int32(in.promises[i].n)
		in.promises = slices.Delete(in.promises, i, i+1)
		return 0, true
	}
	if i := slices.IndexFunc(in.held, is); i >= 0 {
		in.held = slices.Delete(in.held, i, i+1)
		return 0, true
	}
	if i := slices.IndexFunc(in.blocked, is); i >= 0 {
		in.blocked = slices.Delete(in.blocked, i, i+1)
		return i, true
	}
	return len(in.blocked), false
}

// InLine reports whether a worker waits here for seats.
func (in *Inbox) InLine(m *Member) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	is := func(p parked) bool { return p.seat == m }
	return slices.ContainsFunc(in.blocked, is) || slices.ContainsFunc(in.held, is)
}

// Withdraw takes a worker that goes on with other work out of the line for seats, and lets others have those
// that it was promised.
func (in *Inbox) Withdraw(m *Member) {
	in.mu.Lock()
	in.unpark(m)
	woken := in.grantSlots()
	in.mu.Unlock()
	wakeAll(woken)
}

// takeBlocked sends all parked workers on their way; the inbox is halted.
func (in *Inbox) takeBlocked() (woken []*Member) {
	for _, p := range slices.Concat(in.held, in.blocked) {
		p.seat.ready.Store(true)
		woken = append(woken, p.seat)
	}
	for _, p := range in.promises {
		in.reserved -= int32(p.n)
	}
	in.held, in.blocked, in.promises = nil, nil, nil
	if in.unbarred != nil {
		close(in.unbarred)
		in.unbarred = nil
	}
	return woken
}

// dismissWaiters sends all away that wait for a slot; they look again what the inbox does with them. Commands that
// wait there for their next try are queued.
func (in *Inbox) dismissWaiters() {
	in.recallRetries()
	for w := in.waiters.first; w != nil; w = in.waiters.first {
		in.waiters.leave(w)
		w.notify()
	}
}

// notifyIfQuiet rings the host's bell if it listens and the inbox has come to rest.
func (in *Inbox) notifyIfQuiet() {
	pl := in.Pipeline()
	if pl == nil || !pl.Draining.Load() && in.InUse() || in.load() > 0 {
		return
	}
	pl.NotifyQuiet()
}

// deadLetter has the pipeline keep commands that ended unanswered, and tells the tickets and
// then the pipeline: it may have a subscriber that takes its time.
func (in *Inbox) deadLetter(es []command.Envelope, why Reason, err error) {
	if len(es) == 0 {
		return
	}
	pl, now := in.Pipeline(), time.Now()
	end := func(e *command.Envelope) Ending {
		return Ending{Inbox: in, Cmd: e.Cmd, Reason: why, Err: err, Tries: e.Tries(), At: now, From: 1 + e.Emitter()}
	}
	for i := range es {
		pl.keep(end(&es[i]))
		es[i].Ticket().Settle(es[i].Child(), nil, err)
	}
	for i := range es {
		pl.Ended(end(&es[i]))
	}
	pl.deadLettered.Add(uint64(len(es)))
}

// DeadLettered returns how many commands that the accounts have as shed or dead-lettered the host was told of.
func (pl *Pipeline) DeadLettered() uint64 { return pl.deadLettered.Load() }

// Answer tells the ticket of a command that ended with an error, if there is one.
func (in *Inbox) Answer(e *command.Envelope, err error) {
	if t := e.Ticket(); t != nil {
		t.Settle(e.Child(), nil, plain.Wrap(fmt.Sprintf("stage %q", in.cfg.Name), err))
	}
}

// Fail tells the end of a command that ended with an error and is booked as such. It leaves a letter unless somebody has
// both the command and the error: whoever submitted it with a ticket, if it was not tried again in vain. Nor does it if
// the caller's context has ended: the caller has given up the command, and all that comes of it.
func (in *Inbox) Fail(e *command.Envelope, err error) {
	if e.Ticket() != nil && (!e.Child() && !in.usedUp(e) || e.From.Ended() != nil) {
		in.Answer(e, err)
		return
	}
	pl := in.Pipeline()
	end := Ending{Inbox: in, Cmd: e.Cmd, Reason: ReasonError, Err: err, Tries: e.Tries(), At: time.Now(), From: 1 + e.Emitter()}
	pl.keep(end)
	in.Answer(e, err)
	pl.Ended(end)
}

// usedUp reports whether a command was tried again, and as often as it may be.
func (in *Inbox) usedUp(e *command.Envelope) bool {
	most := in.cfg.Retry.Attempts
	return most > 1 && e.Tries() >= most
}

func wakeAll(members []*Member) {
	for _, m := range members {
		m.Wake()
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
	suspended                      int // of those in hand, in nobody's; below 0 while a worker has not told yet
	wait, work                     histogram.Histogram
}
