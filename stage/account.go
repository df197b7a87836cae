package stage

import (
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/inbox"
)

// Reason says in a word why a command was refused or ended without an answer.
// There are few, so that they can label metrics.
type Reason string

// The reasons.
const (
	ReasonFull      = Reason(inbox.ReasonFull)      // no room, and the stage does not wait
	ReasonClosed    = Reason(inbox.ReasonClosed)    // the pipeline was draining or had stopped
	ReasonCancelled = Reason(inbox.ReasonCancelled) // the submitter gave up waiting for room
	ReasonType      = Reason(inbox.ReasonType)      // sent by PID, and not of the stage's type
	ReasonNewest    = Reason(inbox.ReasonNewest)    // dropped on arrival
	ReasonOldest    = Reason(inbox.ReasonOldest)    // dropped for one that came later
	ReasonCrash     = Reason(inbox.ReasonCrash)     // crashed its handler as often as it may be tried
	ReasonStopped   = Reason(inbox.ReasonStopped)   // not done when the pipeline stopped hard
	ReasonDisabled  = Reason(inbox.ReasonDisabled)  // a policy has the stage take nothing
	ReasonExpired   = Reason(inbox.ReasonExpired)   // its time to live was over before its handler was called
	ReasonRate      = Reason(inbox.ReasonRate)      // beyond the rate at which commands are let in
	ReasonPolicy    = Reason(inbox.ReasonPolicy)    // turned away by a policy's shedding or its gate
	// ReasonMaxInFlight is that of a command on a way that closes a loop, for which the pipeline had no place.
	ReasonMaxInFlight = Reason(inbox.ReasonMaxInFlight)
	ReasonError       = Reason(inbox.ReasonError) // its handler answered with an error; the law counts it as failed
)

// DeadLetter is a command that ended without an answer, one that an actor sent and nobody took, or, with
// [ReasonError], one that failed.
type DeadLetter struct {
	Pipeline string
	Stage    string
	Command  any
	Reason   Reason
	Err      error     // why; for a crash, a *CrashError, and for a failure what the handler answered
	Attempts int       // how often it was tried in this stage, counted to 65,535
	Stack    []byte    // where its handler crashed last, nil if it did not
	At       time.Time // when it ended
	// EmittedBy is the stage whose handler emitted the command, or the one that it came of by being forwarded. It is empty
	// if none did: the command was submitted. Of a pipeline's stages only the first 255 are
	// remembered, and of a command whose batch crashed none is.
	EmittedBy string
}

// Quantiles sums up many durations. P50 and P99 are at most an eighth above the
// truth and never below it.
type Quantiles struct {
	Count    uint64
	P50, P99 time.Duration
}

// Snapshot is the state of a stage at one instant. Its counts only grow from
// one snapshot to the next; what is here now may rise and fall.
//
// The law of a stage is that every command it accepted has ended here, went on
// from here, or is here:
//
//	Accepted = OK + Forwarded + Errors + Shed + DeadLettered + Queued + InHand + Delayed
type Snapshot struct {
	Name string

	Accepted  uint64 // Submitted and Received
	Submitted uint64 // accepted from outside
	Received  uint64 // accepted from stages, forwarded or emitted
	Rejected  uint64 // not accepted

	OK           uint64 // ended here with a result
	Forwarded    uint64 // went on to another stage
	Errors       uint64 // ended here with an error
	Shed         uint64 // dropped for want of room, expired, or turned away by a policy; see ShedBy
	DeadLettered uint64 // ended here without an answer
	Emitted      uint64 // further commands that handlers sent out

	// The same by reason; reasons that did not happen are left out.
	RejectedBy, ShedBy, DeadLetteredBy map[Reason]uint64

	Queued int // in the queue
	InHand int // taken by workers, and not done
	// Suspended is how many of those in hand wait, in handlers that suspended, and hold no
	// worker.
	Suspended int
	Delayed   int // waiting to be tried again
	Capacity  int // room in the queue

	Crashes  uint64 // handlers that crashed
	Retries  uint64 // further tries of a command
	Stuck    uint64 // handlers that did not return, so that their workers were given up: crashes, but at a hard stop
	Restarts uint64 // workers that took the place of one that crashed

	Abandoned int // handlers that were given up and have not returned yet
	// Workers of the stage's own are there now, busy, blocked or idle: Workers = Busy + Blocked + Idle. While a
	// shared pool visits the stage, Busy counts the pool's workers that are here, and the stage has none of its own.
	Workers int
	Busy    int // run a handler, or are about to
	Blocked int // have handled their batch, and wait until a stage ahead has room for what came of it
	Idle    int // have nothing to do

	WorkersMin  int // the fewest there may be
	WorkersMax  int // the most there may be
	WorkersMost int // the most there ever were, of its own or of a shared pool

	Version string         // which version of the behaviour new commands go to, as it calls itself; in a canary's trial the old one
	Rollout *RolloutStatus // the canary that is on trial; nil if there is none

	Pool        string // whose workers visit it: its own, which has its name, or a shared one
	Instances   int    // the most workers that may be here at once, or commands under way if handlers suspend
	Paused      bool   // nothing is taken from its queue
	Draining    bool   // its entry is closed, because it is being drained or has been
	Drained     bool   // it has been drained, and nothing is here
	Visits      uint64 // by workers of shared pools
	EmptyVisits uint64 // those that found nothing to do

	// The time of the stage's own workers, which is all busy, blocked or idle. BusyTime has that of shared pools' workers
	// here, too. A handler that has not returned counts up to now.
	BusyTime    time.Duration // in handlers
	BlockedTime time.Duration // waiting until a stage ahead had room
	IdleTime    time.Duration // without work

	Wait    Quantiles // time of a command in the queue, sampled
	Service Quantiles // time of a command in its handler, a batch at a time
}

// Balanced reports whether the stage's law holds.
func (s Snapshot) Balanced() bool {
	return s.Accepted == s.Submitted+s.Received &&
		s.Accepted == s.OK+s.Forwarded+s.Errors+s.Shed+s.DeadLettered+
			uint64(s.Queued+s.InHand+s.Delayed)
}

// snapshotOf returns a snapshot of the accounts of a stage.
func snapshotOf(c *engine.Core, s *inbox.Accounts) Snapshot {
	least, most := c.Bounds()
	return Snapshot{
		Name:     c.Name(),
		Accepted: s.Submitted + s.Received, Submitted: s.Submitted, Received: s.Received,
		Rejected: inbox.Sum(s.Rejected),
		OK:       s.OK, Forwarded: s.Forwarded, Errors: s.Errors, Emitted: s.Emitted,
		Shed: inbox.Sum(s.Shed), DeadLettered: inbox.Sum(s.Dead),
		RejectedBy: byReason(s.Rejected), ShedBy: byReason(s.Shed), DeadLetteredBy: byReason(s.Dead),
		Queued: s.Queued, InHand: s.InHand, Suspended: s.Suspended, Delayed: s.Delayed, Capacity: s.Knobs.Capacity,
		Crashes: s.Crashes, Stuck: s.Stuck, Abandoned: s.Abandoned, Retries: s.Retries, Restarts: s.Restarts,
		Workers: s.Live, Busy: s.Busy, Blocked: s.Blocked, Idle: s.Idle, WorkersMost: s.Most,
		WorkersMin: least, WorkersMax: most,
		Version: c.Version(), Rollout: statusOf(c.Trial()),
		Pool: poolName(c, s), Instances: s.Knobs.Instances, Paused: s.Knobs.Paused,
		Draining: s.Draining, Drained: s.Drained,
		Visits: s.Visits, EmptyVisits: s.Empties,
		BusyTime: s.BusyTime, BlockedTime: s.BlockedTime, IdleTime: s.IdleTime,
		Wait: quantiles(&s.Wait), Service: quantiles(&s.Work),
	}
}

func poolName(c *engine.Core, s *inbox.Accounts) string {
	if s.Crew != nil {
		return s.Crew.Name()
	}
	return c.Name()
}

func byReason(by map[inbox.Reason]uint64) map[Reason]uint64 {
	if by == nil {
		return nil
	}
	m := make(map[Reason]uint64, len(by))
	for why, n := range by {
		m[Reason(why)] = n
	}
	return m
}

func quantiles(h *histogram.Histogram) Quantiles {
	return Quantiles{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
}
