package inbox

import (
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/pool"
	"github.com/golda-dev/golda/internal/streak"
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
	pool.Holding // what the worker handles commands with; the lock of the inbox that it is at guards the rest of it

	visit      *visit                  // of a shared worker; only the worker touches it
	attendance pool.Attendance[Member] // guarded by the lock of the inbox or shared pool that the worker has joined
	custody    custody                 // guarded by the lock of the inbox that the worker is at

	// Wake makes the worker take its turn. Any goroutine may call it; it does
	// not block.
	Wake func()
	// Batch is where a turn puts the commands.
	Batch []command.Envelope
	// Part is the worker's part in the line of the stage where it is; nil until
	// a line has one for it.
	Part *line.Part
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
	// Carried is how many commands the worker has not been able to hand over,
	// as the inbox knows it; see [Inbox.Carry]. Only the worker changes it, and
	// with the inbox's lock.
	Carried int32
	// Called is an idle worker that a hand-over of this one has called with
	// DefersWakes, for this one to wake. Only the worker touches the two.
	Called *Member

	own *Inbox // the inbox of whose stage the worker is; nil for a shared worker; set once

	// Sojourn is how long the commands of the batch may have waited when they
	// are started, in microseconds; 0: for ever. The inbox sets it with each
	// batch.
	Sojourn uint32
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

// custody is what a worker has of the inbox that it is at.
type custody struct {
	listed    bool         // is in the list of members that have been given commands in this visit
	abandoned bool         // was given up
	blocked   bool         // a stage's own: waits because a stage ahead is full
	fault     streak.Fault // how its last crash counts in the streak

	inHand         int32              // commands in its batch that are not done
	timed          uint32             // when the last batch started whose time has been counted; the low half of it is enough
	credited       time.Duration      // so much of the present batch's time has been counted
	copies         []command.Envelope // the batch that it was given last; see batches.go
	before, behind *Member            // neighbours in that list
}

// visit is what a worker of a shared pool knows about the inbox where it is, and
// about its way there.
type visit struct {
	at  *Inbox // nil between visits
	way pool.Visit[Member, *Inbox]
}

// Ready reports whether the worker should take a turn. Parking makes it false,
// waking makes it true.
func (m *Member) Ready() bool { return m.attendance.Ready() }

// MarkReady makes the worker ready for a turn though it is parked somewhere.
func (m *Member) MarkReady() { m.attendance.SetReady(true) }

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

// Mark is a mark of an inbox. It asks for the commands that are on their way to
// the inboxes in To.
type Mark struct{ To []*Inbox }
