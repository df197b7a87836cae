package inbox

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/steer"
)

// belong makes a worker one of the inbox's own. It does so once: other inboxes,
// where the worker may be parked, read own with their own locks.
func (m *Member) belong(in *Inbox) {
	if m.own == nil {
		m.own = in
	}
}

// Member is a worker as its inbox, or its shared pool, sees it. It outlives the
// worker's actor.
type Member struct {
	visit      *visit     // of a shared worker; only the worker touches it
	attendance attendance // guarded by the lock of the inbox or shared pool that the worker has joined
	custody    custody    // guarded by the lock of the inbox that the worker is at

	// Wake makes the worker take its turn. Any goroutine may call it; it does
	// not block.
	Wake func()
	// Batch is where a turn puts the commands.
	Batch []command.Envelope
	// Instance is what the worker handles them with. A turn at a shared inbox
	// lends one, or nil: then the worker must make one. It is the worker's for
	// as long as it is at the inbox, and is returned to the idle instances.
	Instance any
	// Part is the worker's part in the line of the stage where it is; nil until
	// a line has one for it.
	Part *line.Part
	// Surplus is an instance that the worker must stop.
	Surplus any
	// Owner is the worker whose member it is, nil if there is none yet; set
	// once.
	Owner any
	// Since is when the present batch started, by the pipeline's clock; the
	// same below zero when the batch is done, and 0 before the first. The
	// worker sets it; any goroutine may read it.
	Since atomic.Int64
	// Begun is one more than the index of the command of the batch that the
	// worker has begun last; [NoneBegun] if it has begun none, and 0 if that is
	// not known, or it has begun all at once. The worker sets it if
	// [Pipeline.Follows] is set, before it looks whether the inbox is halted.
	// Unless it is 0, the inbox sets it to NoneBegun with each batch.
	Begun atomic.Int32
	// Sojourn is how long the commands of the batch may have waited when they
	// are started, in microseconds; 0: for ever. The inbox sets it with each
	// batch.
	Sojourn uint32
	// Called is an idle worker that a hand-over of this one has called with
	// DefersWakes, for this one to wake. Only the worker touches the two.
	Called *Member

	// Carried is how many commands the worker has not been able to hand over,
	// as the inbox knows it; see [Inbox.Carry]. Only the worker changes it, and
	// with the inbox's lock.
	Carried int32

	own *Inbox // the inbox of whose stage the worker is; nil for a shared worker; set once

	ready atomic.Bool // there may be a turn to take

	// DefersWakes has an idle worker that a hand-over calls stored in Called
	// instead of being woken.
	DefersWakes bool
	// Delivers says that the worker has handled its batch, and is about to hand
	// over the results and to take its next turn. The worker sets it under a
	// lock of its own, and the inbox clears it under the inbox's. So code that
	// holds both may read it.
	Delivers bool
}

// NoneBegun is the value of [Member.Begun] of a worker that has begun no
// command of its batch.
const NoneBegun = -1

// attendance says what a worker of a set does. It is working unless it is idle,
// waking or blocked.
type attendance struct {
	joined  bool
	idle    bool // is among the idle
	waking  bool // is on its way: was woken from idle, or is about to look once more
	blocked bool // waits because a stage ahead is full
}

// custody is what a worker has of the inbox that it is at.
type custody struct {
	inUse     bool   // counts in the inbox's busy
	owns      bool   // counts in the inbox's made
	mark      uint32 // the inbox's when the worker came; see marked
	listed    bool   // is in the list of members that have been given commands in this visit
	abandoned bool   // was given up
	fault     fault  // how its last crash counts in the streak

	inHand         int32              // commands in its batch that are not done
	timed          uint32             // when the last batch started whose time has been counted; the low half of it is enough
	credited       time.Duration      // so much of the present batch's time has been counted
	copies         []command.Envelope // the batch that it was given last; see batches.go
	before, behind *Member            // neighbours in that list
}

// fault is how a crash counts in a streak.
type fault uint8

const (
	// faultless does not count: a further try of a command, or the search for
	// the command of a batch that crashes.
	faultless fault = iota
	// charged is a crash of a handler that was charged to a command.
	charged
	// notStarted is a worker that could not start: the stage is to blame, not a
	// command.
	notStarted
)

// visit is what a worker of a shared pool knows about its route.
type visit struct {
	at      *Inbox // the inbox that it visits; nil between visits
	route   *route
	walk    steer.Walk
	empty   int  // places in a row without work
	walked  bool // it came along its route, not with a token
	handled int  // commands, in this visit
	queued  int  // commands in the inbox's queue when the visit began
	began   int64
}

// Ready reports whether the worker should take a turn. Parking makes it false,
// waking makes it true.
func (m *Member) Ready() bool { return m.ready.Load() }

// MarkReady makes the worker ready for a turn though it is parked somewhere.
func (m *Member) MarkReady() { m.ready.Store(true) }

// lastBatch is when the worker's last batch began, 0 if it never had one;
// running reports that it is not done.
func (m *Member) lastBatch() (began int64, running bool) {
	began = m.Since.Load()
	if began < 0 {
		return -began, false
	}
	return began, began > 0
}

// Tally is what a worker has done since it last booked. Only the worker touches
// it until then.
type Tally struct {
	OK, Forwarded, Emitted, Errors int
	Suspended                      int           // commands that were suspended
	Waited                         int32         // commands that Wait stands for
	Timed                          int32         // commands that Busy covers
	Busy                           time.Duration // time in handlers
	Wait                           time.Duration // time in the queue
}

func (t *Tally) completed() int { return t.OK + t.Forwarded + t.Errors }

// workerSet is the set of workers of one inbox, or of a shared pool. The lock
// of the inbox or pool guards it.
//
// Each worker is working, idle, or on its way (waking); excess workers must
// leave at their next turn.
type workerSet struct {
	live   int // workers that have joined
	most   int // the highest value of live so far
	excess int // workers that should leave at their next turn
	waking int // workers that are on their way: woken, or about to look once more
	idle   []*Member
}

// join adds a worker.
func (ws *workerSet) join(m *Member) {
	ws.live++
	ws.most = max(ws.most, ws.live)
	m.attendance.joined = true
	m.ready.Store(true)
}

// depart removes a worker. It returns false if it had not joined.
func (ws *workerSet) depart(m *Member) bool {
	if !m.attendance.joined {
		return false
	}
	m.attendance.joined = false
	ws.live--
	ws.arrive(m)
	return true
}

// pickIdle picks the fit worker that has been idle for the shortest time, nil
// if there is none. The caller wakes it.
func (ws *workerSet) pickIdle(fit func(*Member) bool) *Member {
	for i, m := range slices.Backward(ws.idle) {
		if fit(m) {
			ws.idle = slices.Delete(ws.idle, i, i+1)
			ws.markWoken(m)
			return m
		}
	}
	return nil
}

// markWoken marks a worker that was idle as on its way.
func (ws *workerSet) markWoken(m *Member) {
	m.attendance.idle = false
	m.ready.Store(true)
	ws.expect(m)
}

// expect counts a worker as on its way.
func (ws *workerSet) expect(m *Member) {
	m.attendance.waking = true
	ws.waking++
}

// arrive notes that a worker takes its turn: it was woken, or it was idle and
// takes a turn for another reason.
func (ws *workerSet) arrive(m *Member) {
	if m.attendance.waking {
		m.attendance.waking = false
		ws.waking--
	}
	if m.attendance.idle {
		m.attendance.idle = false
		ws.idle = slices.DeleteFunc(ws.idle, func(o *Member) bool { return o == m })
	}
}

// park makes a worker idle until it is woken.
func (ws *workerSet) park(m *Member) {
	m.ready.Store(false)
	m.attendance.idle = true
	ws.idle = append(ws.idle, m)
}

// retires reports whether a worker that takes its turn must leave: any worker
// must, while there are excess workers.
func (ws *workerSet) retires() bool { return ws.unshrink(1) == 1 }

// shrink asks n workers to leave: the first workers to take a turn will. It
// returns as many idle workers, the longest idle first. The caller wakes them.
func (ws *workerSet) shrink(n int) []*Member {
	ws.excess += n
	return ws.wakeIdle(n)
}

// wakeIdle marks up to n idle workers as on their way, and returns them. The
// caller wakes them.
func (ws *workerSet) wakeIdle(n int) []*Member {
	n = min(n, len(ws.idle))
	woken := slices.Clone(ws.idle[:n])
	ws.idle = slices.Delete(ws.idle, 0, n)
	for _, m := range woken {
		ws.markWoken(m)
	}
	return woken
}

// unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (ws *workerSet) unshrink(n int) int {
	n = min(n, ws.excess)
	ws.excess -= n
	return n
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

// equip gives a worker an instance, or the right to make one, and reports
// whether it must make one. If that is false and the worker has none, there is
// none to be had. Most is how many there may be.
func (x *instances) equip(m *Member, most int) (make bool) {
	switch {
	case m.custody.owns:
		return m.Instance == nil
	case len(x.idle) > 0:
		last := len(x.idle) - 1
		m.Instance, m.custody.owns = x.idle[last], true
		x.idle[last] = nil
		x.idle = x.idle[:last]
		return false
	case x.made < most:
		x.made++
		m.custody.owns = true
		return true
	}
	return false
}

// available reports whether a worker without an instance will get one.
func (x *instances) available(most int) bool {
	return len(x.idle) > 0 || x.made < most
}

// takeBack takes a worker's instance back, if the worker has one that is
// fit.
func (x *instances) takeBack(m *Member, most int) {
	if !m.custody.owns {
		return
	}
	m.custody.owns = false
	switch inst := m.Instance; {
	case inst == nil: // it was never made, or crashed
		x.made--
	case x.made > most:
		x.made--
		m.Surplus = inst
	default:
		x.idle = append(x.idle, inst)
	}
	m.Instance = nil
}

// surplus removes the idle instances that are more than there should
// be.
func (x *instances) surplus(most int) []any {
	n := min(max(x.made-most, 0), len(x.idle))
	if n == 0 {
		return nil
	}
	left := len(x.idle) - n
	gone := append([]any(nil), x.idle[left:]...)
	clear(x.idle[left:])
	x.idle, x.made = x.idle[:left], x.made-n
	return gone
}

// takeIdle removes all idle instances.
func (x *instances) takeIdle() []any {
	gone := x.idle
	x.idle, x.made = nil, x.made-len(gone)
	return gone
}

// lend gives a member the first idle instance that fits.
func (x *instances) lend(m *Member, fits func(inst any) bool) bool {
	i := slices.IndexFunc(x.idle, fits)
	if i < 0 {
		return false
	}
	m.Instance, m.custody.owns = x.idle[i], true
	x.idle = slices.Delete(x.idle, i, i+1)
	return true
}

// enter counts a worker as being here; exit ends that.
func (x *instances) enter(m *Member) {
	if !m.custody.inUse {
		m.custody.inUse, m.custody.mark = true, x.marked.mark
		x.busy++
	}
}

func (x *instances) exit(m *Member) {
	if m.custody.inUse {
		m.custody.inUse = false
		x.busy--
		if m.custody.mark != x.marked.mark {
			x.marked.left--
		}
	}
}

// mark begins a mark: all workers that are here count as marked.
func (x *instances) mark() { x.marked = marked{x.marked.mark + 1, int32(x.busy)} }

// pass uncounts a worker, and gives it the present mark.
func (x *instances) pass(m *Member) {
	if m.custody.inUse && m.custody.mark != x.marked.mark {
		m.custody.mark = x.marked.mark
		x.marked.left--
	}
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

// call calls one of the workers. It returns false if there is none, or one is
// called already.
func (u *unstarted) call() bool {
	if u.n == 0 || u.called {
		return false
	}
	u.called = true
	return true
}

// take takes the called worker out: it has been started. It returns false if
// none is called.
func (u *unstarted) take() bool {
	if !u.called {
		return false
	}
	u.called = false
	u.n--
	return true
}

// drop takes up to n workers out that were not called, and returns how many.
func (u *unstarted) drop(n int) int {
	most := int(u.n)
	if u.called {
		most--
	}
	n = min(n, most)
	u.n -= int32(n)
	return n
}
