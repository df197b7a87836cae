package stage

import (
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage/reason"
)

// Quantiles summarizes many durations. P50 and P99 are at most an eighth above the true value and never below it.
type Quantiles struct {
	Count    uint64
	P50, P99 time.Duration
}

// Snapshot is the state of a stage at one instant. From one snapshot to the next the totals only grow; the numbers of what
// is here now rise and fall.
//
// The law of a stage is that every command it accepted has ended here, was forwarded from here, or is here:
//
//	Accepted = OK + Forwarded + Errors + Shed + DeadLettered + Queued + InHand + Delayed
type Snapshot struct {
	Name string
	// Process is the process that runs the stage, empty if it is this one; see pipeline.RunsHere. Then the commands here are those on
	// their way there, and OK counts those that cannot be lost any more.
	Process string

	Accepted  uint64 // Submitted and Received
	Submitted uint64 // accepted from outside
	Received  uint64 // accepted from stages, forwarded or emitted
	Rejected  uint64 // not accepted

	OK           uint64 // ended here with a result
	Forwarded    uint64 // forwarded to another stage
	Errors       uint64 // ended here with an error
	Shed         uint64 // dropped by a full queue, expired, or turned away by a policy; see ShedBy
	DeadLettered uint64 // ended here without an answer
	Emitted      uint64 // further commands that handlers emitted

	// The same by reason, without the reasons that did not occur.
	RejectedBy, ShedBy, DeadLetteredBy map[reason.Reason]uint64

	Queued    int // in the queue
	InHand    int // taken by workers, and not done
	Suspended int // those of InHand that wait in suspended handlers, and hold no worker
	Delayed   int // waiting for their next try
	Waiting   int // of a stage with [Ordered]: results that wait until those of earlier commands have left
	Held      int // those of Queued that are held back by a [Guard]
	Capacity  int // the slots of the queue
	// KeyCapacity is how many of them the commands of one key may hold in a [Keyed] stage; 0 in others.
	KeyCapacity int

	// What waits for free slots here, and what holds slots beside those that are Queued and Delayed. Together they say why a stage
	// in front of a slow one stands still.
	Submitters int // callers and handlers that wait for a free slot
	Senders    int // workers of stages before this one that wait here to hand over
	Reserved   int // slots that were promised to such workers
	Carried    int // commands that were handled, and cannot be handed over yet; those of Waiting are among them

	Crashes        uint64 // handlers that crashed
	CrashStreak    int    // crashes one after another since a command was last completed; see [RestartPolicy]
	Retries        uint64 // further tries of commands
	RetriesRefused uint64 // further tries that the Budget of a [RetryPolicy] did not allow
	Stuck          uint64 // handlers that did not return, so that their workers were abandoned; also crashes, except at a hard stop
	Restarts       uint64 // workers that replaced one that crashed

	Abandoned int // abandoned handlers that have not returned yet
	// Workers, Busy, Blocked and Idle count the stage's own workers that are there now: Workers = Busy + Blocked + Idle.
	// While a shared pool visits the stage, Busy counts the pool's workers that are here, and the stage has none of its own.
	Workers int
	Busy    int // run a handler, or are about to
	Blocked int // have handled their batch, and wait for a free slot in a next stage
	Idle    int // have nothing to do

	WorkersMin  int // the fewest there may be
	WorkersMax  int // the most there may be
	WorkersMost int // the most there ever were, of its own or of a shared pool

	Version string // the version of the behaviour that new commands go to, as it returns it

	Pool        string // whose workers visit it: its own, which has its name, or a shared pool
	Instances   int    // the most workers that may be here at once, or commands in progress if handlers suspend
	Paused      bool   // nothing is taken from its queue
	Draining    bool   // its entry is closed, because it is being drained or has been
	Drained     bool   // it has been drained, and nothing is here
	Keys        int    // of a keyed stage: the keys that have an instance
	Passivated  uint64 // instances of keys that were stopped because they were idle or too many
	KeptStates  int    // states of such instances that are kept for the next ones
	Visits      uint64 // by workers of shared pools
	EmptyVisits uint64 // those that found nothing to do

	// The time of the stage's own workers, which is all busy, blocked or idle. BusyTime includes that of workers of shared
	// pools here. A handler that has not returned counts up to now.
	BusyTime    time.Duration // in handlers
	BlockedTime time.Duration // waiting for a free slot in a next stage
	IdleTime    time.Duration // without work

	// RateWait is for how long commands have waited in the queue because of the stage's [Rate] or [RateBy] alone.
	RateWait time.Duration
	// RateKeys is how many keys have commands that wait for the rate of their key; see [RateBy].
	RateKeys int
	// Methods are the methods of a stage with a [Guard], by name.
	Methods []MethodSnapshot

	Wait    Quantiles // time of a command in the queue, sampled
	Service Quantiles // time of a command in its handler, measured a batch at a time
}

// Balanced reports whether the stage's law holds.
func (s Snapshot) Balanced() bool {
	return s.Accepted == s.Submitted+s.Received &&
		s.Accepted == s.OK+s.Forwarded+s.Errors+s.Shed+s.DeadLettered+
			uint64(s.Queued+s.InHand+s.Delayed)
}

func snapshotOf(c *engine.Core, s *inbox.Accounts) Snapshot {
	least, most := c.Bounds()
	return Snapshot{
		Name: c.Name(), Process: c.Process(),
		Accepted: s.Submitted + s.Received, Submitted: s.Submitted, Received: s.Received,
		Rejected: inbox.Sum(s.Rejected),
		OK:       s.OK, Forwarded: s.Forwarded, Errors: s.Errors, Emitted: s.Emitted,
		Shed: inbox.Sum(s.Shed), DeadLettered: inbox.Sum(s.Dead),
		RejectedBy: s.Rejected, ShedBy: s.Shed, DeadLetteredBy: s.Dead,
		Queued: s.Queued, InHand: s.InHand, Suspended: s.Suspended, Delayed: s.Delayed, Waiting: s.Waiting, Capacity: s.Knobs.Capacity, KeyCapacity: s.KeyCapacity,
		Submitters: s.Submitters, Senders: s.Senders, Reserved: s.Reserved, Carried: s.Carried,
		Crashes: s.Crashes, CrashStreak: s.Streak, Stuck: s.Stuck, Abandoned: s.Abandoned, Restarts: s.Restarts,
		Retries: s.Retries, RetriesRefused: s.RetriesRefused,
		Workers: s.Live, Busy: s.Busy, Blocked: s.Blocked, Idle: s.Idle, WorkersMost: s.Most,
		WorkersMin: least, WorkersMax: most,
		Version: c.Version(),
		Pool:    poolName(c, s), Instances: s.Knobs.Instances, Paused: s.Knobs.Paused,
		Draining: s.Draining, Drained: s.Drained,
		Visits: s.Visits, EmptyVisits: s.Empties,
		BusyTime: s.BusyTime, BlockedTime: s.BlockedTime, IdleTime: s.IdleTime, RateWait: s.RateWait, RateKeys: s.RateKeys,
		Held: s.GuardHeld, Methods: methodSnapshots(s.Guards),
		Wait: quantiles(&s.Wait), Service: quantiles(&s.Work),
	}
}

func poolName(c *engine.Core, s *inbox.Accounts) string {
	if s.Pool != nil {
		return s.Pool.Name()
	}
	return c.Name()
}

func quantiles(h *histogram.Histogram) Quantiles {
	return Quantiles{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
}

// Stuck is a handler that had not returned when a report was made.
//
//	Stage     string        // the stage's name
//	For       time.Duration // how long its worker has been at its present batch
//	Command   string        // the type of command that the stage takes
//	At        string        // the innermost call of the user's code, see [stacks.Place]; empty if the stack was not found
//	Suspended bool          // the handler is suspended: it holds no worker
//	Waits     string        // what the handler waits for, if that is a stage: a free slot, or the answer to a command
//	Awaited   string        // the name of that stage
//	Stack     []byte        // the stack of its goroutine
//
// The handler is stuck at At, or was merely there at that instant.
type Stuck = engine.Stuck
