// Package stats has the numbers of a stage, in groups. [Queue] and [Workers]
// say how many commands and workers are there now, so their numbers rise and
// fall. [Counts] are totals, which only grow, and [Reasons] splits some of
// them. [Latency] is how long commands take. stage.Snapshot has one value of
// each, and a [Method] for each method of a stage with guards.
package stats

import (
	"time"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/stage/reason"
)

// Queue is how many commands and slots a stage has. Each command is queued, in
// hand or delayed. Queued, Delayed, Carried and Reserved hold the slots.
type Queue struct {
	Queued int // commands in the queue
	Held   int // commands of Queued that a stage.Guard holds back, or whose keys are parked
	// Oldest is for how long the command that is taken next has waited. One
	// command in a batch has a timestamp, so Oldest may be less than the true
	// time, by the time in which a batch was accepted.
	Oldest time.Duration

	InHand    int // commands that workers have taken and not completed
	Suspended int // commands of InHand whose handlers are suspended, and hold no worker

	Delayed int // commands that wait for the time of their next try

	// Capacity is the number of slots. It is exceeded by commands that must not
	// be refused, such as retries.
	Capacity int
	// KeyCapacity is how many slots the commands of one key may hold in a
	// stage.Keyed or stage.Fair stage. It is 0 in other stages.
	KeyCapacity int

	// Reserved is the number of free slots that are promised to workers of
	// other stages.
	Reserved int
	// Carried is the number of commands that were handled here and cannot be
	// handed over yet, because the next stage is full or because of their
	// order.
	Carried int
	// Waiting is the number of results of a stage.Ordered stage that wait until
	// the results of earlier commands have left. They are among Carried.
	Waiting int

	Submitters int // callers and handlers that wait for a free slot here
	Senders    int // workers of other stages that wait to hand over commands here

	// RateKeys is the number of keys whose commands wait for the rate of their
	// key; see stage.RateBy.
	RateKeys int
	// FairKeys is the number of keys of a stage.Fair stage that have commands
	// in the queue, and FairMost how many commands the key has that has the
	// most for its weight, of the 256 keys that are looked at.
	FairKeys, FairMost int
	// ParkedKeys is the number of keys whose commands wait for a letter; see
	// stage.ParkOnFailure. Held is how many commands these are.
	ParkedKeys int
}

// Load returns the number of commands that the stage has.
func (q Queue) Load() int { return q.Queued + q.InHand + q.Delayed }

// Workers is how many workers and instances a stage has. Busy, Blocked and Idle
// are all of its own workers. While a shared pool visits the stage, Busy is the
// number of the pool's workers at the stage, which has no workers of its own
// then, and Live, Blocked and Idle are 0.
type Workers struct {
	Live    int // the stage's own workers
	Busy    int // workers that run a handler, or are about to
	Blocked int // workers that have handled their batch and wait for a free slot in a next stage
	Idle    int // workers without work

	Min  int // fewest workers that the stage may have
	Max  int // most workers that the stage may have
	Most int // most workers that were at the stage at once so far, of its own or of a shared pool

	// Instances is how many workers may be at the stage at once, or how many
	// commands may be in progress if its handlers suspend.
	Instances int
	Keys      int // keys of a stage.Keyed stage that have an instance
	// KeptStates is the number of states of passivated instances that are kept
	// for the next instances of their keys; see stage.KeepStates.
	KeptStates int

	// CrashStreak is the number of crashes since a command was last completed;
	// see stage.RestartPolicy.
	CrashStreak int
	// Abandoned is the number of handlers that were given up, since they did
	// not return in time, and that have not returned yet.
	Abandoned int
}

// Counts are totals of a stage since it was made. Each only grows, so the
// difference between two snapshots has the counts of the time in between.
type Counts struct {
	Accepted  uint64 // accepted commands: Submitted and Received
	Submitted uint64 // commands accepted from outside the pipeline
	Received  uint64 // commands accepted from stages, which forwarded or emitted them
	Rejected  uint64 // commands that were not accepted; see Reasons

	OK           uint64 // commands that ended here with a result
	Forwarded    uint64 // commands that were forwarded to another stage
	Errors       uint64 // commands that ended here with an error
	Shed         uint64 // commands that a full queue, their time to live or a policy ended; see Reasons
	DeadLettered uint64 // commands that ended here without an answer; see Reasons
	Emitted      uint64 // further commands that handlers emitted

	Crashes uint64 // tries that crashed their handler; a command may crash several times
	// Stuck is the number of handlers that did not return in time, so that
	// their workers were abandoned. They are among Crashes, except at a hard
	// stop.
	Stuck          uint64
	Retries        uint64 // further tries of commands
	RetriesRefused uint64 // further tries that the Budget of a stage.RetryPolicy did not allow
	Restarts       uint64 // workers that replaced one that crashed
	Passivated     uint64 // instances of keys that were stopped because they were idle or too many

	Visits      uint64 // visits of workers of shared pools
	EmptyVisits uint64 // visits that found no command

	// BusyTime, BlockedTime and IdleTime are all the time of the stage's own
	// workers, added up. BusyTime includes the time of workers of shared pools
	// in handlers of the stage. The time of a handler that has not returned
	// counts up to now.
	BusyTime    time.Duration // time in handlers
	BlockedTime time.Duration // time of workers that waited for a free slot in a next stage
	IdleTime    time.Duration // time of workers without work

	// RateWait is for how long commands have waited in the queue because of the
	// stage's rate alone; see stage.Rate and stage.RateBy.
	RateWait time.Duration
}

// Handled returns the number of commands with an outcome: OK, Forwarded and
// Errors.
func (c Counts) Handled() uint64 { return c.OK + c.Forwarded + c.Errors }

// Ended returns the number of accepted commands that have left the stage.
func (c Counts) Ended() uint64 { return c.Handled() + c.Shed + c.DeadLettered }

// Reasons are totals of [Counts] by reason, without the reasons that did not
// occur.
type Reasons struct {
	Rejected, Shed, DeadLettered map[reason.Reason]uint64
}

// Latency is how long commands take in a stage.
type Latency struct {
	Wait    Durations // time of a command in the queue, sampled
	Service Durations // time of a command in its handler, measured a batch at a time
}

// Durations are many durations since the stage was made, as a histogram.
//
//	Count    uint64        // measured durations
//	P50, P99 time.Duration // at most an eighth above the true value, and never below it
//	Buckets  []Bucket      // UpTo and Count of each bucket that has samples, shortest first
//
// The bounds of the buckets are the same in all stages and processes: eight for
// each doubling. The method Since(earlier) returns the samples that were added
// after an earlier snapshot, so that P99 of the last minute can be had; Quantile
// and Sum say more about the samples.
type Durations = histogram.Durations

// Method is the state of one method of a stage with guards, see stage.Guard.
type Method struct {
	guard.Counters

	Method   string
	Held     bool          // commands wait, and guards hold back all of them
	Holds    uint64        // how often that began
	HeldTime time.Duration // for how long that was so, in all
	RunTime  time.Duration // for how long commands were current, added up
	// HeldDuring is the part of HeldTime that began while commands of another
	// method, or of the same, were current, by method. It says which methods
	// collide.
	HeldDuring map[string]time.Duration
}
