package controller

import "time"

// StageID is the index of a stage in [Snapshot.Stages]. It is valid for one
// snapshot only; to remember a stage, remember its name.
type StageID int

const (
	// NoStage is no stage.
	NoStage StageID = -1
	// Entry stands for the whole pipeline as the scope of an admission
	// decision: for everything that is submitted from outside, to any stage.
	Entry StageID = -2
)

// Snapshot is a controller's view of a pipeline.
type Snapshot struct {
	// At is the time since the pipeline started. It never goes back. Zero is an
	// ordinary time and does not mean "never".
	At time.Duration
	// CPUs is how many threads of the process can run at the same time:
	// GOMAXPROCS, which may be less than the number of CPUs of the machine.
	CPUs int
	// CPUUsage is the share of these CPUs, from 0 to 1, that this process used,
	// not counting other processes of the machine: during the last second, or
	// since the last call of a controller if that is longer ago. All
	// controllers of a pipeline see the same value. It is 0 if it is not known,
	// as in the first call.
	CPUUsage float64
	// MachineUsage is the share of all CPUs of the machine, from 0 to 1, that
	// this and all other processes used, in the same time. It is 0 unless a
	// controller has called [Decisions.WatchMachine] before, and where the
	// system does not say it; only Linux does. In a container it is the host's.
	MachineUsage float64
	// Group is the name of the group that the controller governs, empty for the
	// controller of a pipeline. A group's controller sees only the stages of
	// the group, their own pools and the group's pool; the controller of a
	// pipeline sees all stages and pools except the ones in groups that have a
	// controller of their own. Decisions about anything else are refused. For a
	// stage with a controller of its own it is the name of the stage, which is
	// then a group of one.
	Group string
	// InFlight is the number of commands that have been accepted and have not
	// ended. A group's controller sees how many are queued or in hand in the
	// group.
	InFlight int
	// Entry is how the pipeline admits commands from outside. A group's
	// controller cannot change it and sees the zero Admission.
	Entry Admission
	// Priorities are the priorities of about 1,000 commands that the Shed of the
	// Entry has lately looked at, in no order. They are nil while it is zero.
	Priorities []int
	// Stages are in the order in which the pipeline was put together.
	Stages []StageStats
	// Pools lists the pools of workers: first each stage's own, in the order of
	// the stages and under their names, then the groups that the pipeline
	// declares, then the pools that policies have made. It includes pools to
	// which no stage is bound.
	Pools []PoolStats
	// Taken lists the names of pools that other controllers govern. A policy
	// that makes a pool must give it a name that is neither in Taken nor in
	// Pools.
	Taken []string
}

// Pool returns the pool of that name, or nil if there is none.
func (s *Snapshot) Pool(name string) *PoolStats {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// StageStats is a controller's view of one stage.
type StageStats struct {
	ID   StageID
	Name string

	// Rank is the distance of the stage from the sources: the length of the
	// longest path of forward edges that leads to it, 0 for a source. Stages of
	// a loop may have any rank, and are Cyclic.
	Rank int
	// Cyclic reports that commands may reach the stage again after they left
	// it.
	Cyclic bool
	// Next lists the stages that the declared or known forward edges lead to.
	// Back edges are left out, so that following Next ends. An edge to a stage
	// that the controller does not see is replaced by edges to the next stages
	// that it sees.
	Next []StageID
	// Before lists the stages from which known edges lead here, back edges
	// included, and Inflows, of the same length, how many commands have come
	// along each of these edges. All else that the stage has accepted came from
	// outside, from stages that the controller does not see, or from handlers
	// that submitted it. The counts are read without the lock of the stage, and
	// may be a batch ahead of Total.
	Before  []StageID
	Inflows []uint64

	// QueueLen is the number of queued commands and QueueCap the capacity of
	// the queue; a QueueCap of zero or less means that no capacity is stated.
	// For a stage whose handlers suspend, QueueLen counts only the commands
	// that a further worker could handle now: the woken ones, and others as far
	// as Instances allows. So a policy adds workers only when workers are
	// short.
	QueueLen, QueueCap int
	// Submitters is the number of callers outside the pipeline that wait for a
	// free slot.
	Submitters int
	// OldestWait is how long the next command has waited. It is approximate:
	// the clock is not read for every command.
	OldestWait time.Duration
	// InHand is the number of commands that have been taken from the queue and
	// have not ended, not counting suspended ones, which hold no worker.
	InHand int

	// Workers is the set number of workers of the stage's own pool: one that
	// crashed and is being restarted still counts, since its supervisor
	// replaces it. MinWorkers and MaxWorkers are the inclusive bounds. While
	// the stage is bound to another pool all three are 0.
	Workers, MinWorkers, MaxWorkers int
	// Busy is the number of workers that run a handler or are about to. Blocked
	// is the number of workers that have run one and wait for a free slot in a
	// stage ahead; more workers would only wait there, too. The other workers
	// are idle; see [StageStats.Idle].
	Busy, Blocked int
	// Stalled reports that a shared pool takes nothing from the stage, because
	// a stage ahead is full.
	Stalled bool
	// Bound reports that stages ahead, and not the workers of this one, limit
	// the throughput of the stage, so that another worker would be of no use. A
	// stage becomes bound when its workers were blocked for a tenth or more of
	// the time in which they had commands, or when it is stalled; it stays
	// bound as long as the queue of a stage ahead is half full or more.
	Bound bool

	// Needs is the least number of workers that the stage's options ask for, in
	// whatever pool: the first number of stage.Workers, or its instances if
	// they are fewer. It is 0 if the options leave the number to the default. A
	// policy that shares workers should leave a stage that needs more than the
	// shared pool has in its own pool.
	Needs int

	// Pool is the name of the pool whose workers visit the stage: its own,
	// which has the stage's name, or a shared one.
	Pool string
	// Instances is how many workers may be at the stage at once, and
	// FreeInstances how many more may come now. For a stage whose handlers
	// suspend, Instances is how many commands may be under way.
	Instances, FreeInstances int
	// Priority orders the stages of a [SharedPriority] pool, higher first.
	Priority int
	// Discipline is the name of the queue's order.
	Discipline string
	// Batch bounds the batches that workers take.
	Batch Batch
	// Enabled reports that the queue takes commands.
	Enabled bool
	// Paused reports that no worker may visit the stage. Policies leave such a
	// stage alone.
	Paused bool
	// Blocking reports that the stage's handlers wait rather than compute.
	// Policies that share workers leave such a stage in its own pool.
	Blocking bool
	// Quality is the quality that the handlers are asked for, from 0 to 1; see
	// [KnobQuality].
	Quality float64
	// Sojourn is how long a command may wait in the queue, if a policy bounds
	// that; 0: it does not. See [KnobSojourn].
	Sojourn time.Duration
	// Admission is how the stage admits submitted commands, and Priorities are
	// the priorities of about 1,000 commands that its Shed has lately looked
	// at, in no order; nil while it is zero.
	Admission  Admission
	Priorities []int

	// Total counts since the pipeline started and only grows. Window is the
	// part of Total that was counted since the previous call of this
	// controller.
	Total, Window Counters

	// Wait is how long commands waited in the queue, and Work how long they
	// were in their handlers: the commands since the previous [EventTick] of
	// this controller. Both are empty at other events, and unless the
	// controller has called [Decisions.WatchTimes] before. The values are at
	// most an eighth above the true ones. Not every command is measured: the
	// clock is read once for a batch.
	Wait, Work struct {
		Count            uint64 // measured commands
		Least, Mean, P90 time.Duration
	}
}

// Idle returns how many of the stage's own workers have nothing to do.
func (st *StageStats) Idle() int { return max(st.Workers-max(st.Busy, 0)-max(st.Blocked, 0), 0) }

// Service returns the mean time of a command in its handler: in the window if
// any command was handled in it, else since the start; 0 if none was ever
// handled.
func (st *StageStats) Service() time.Duration {
	for _, c := range []Counters{st.Window, st.Total} {
		if n := c.Handled(); n > 0 && c.Busy > 0 {
			return c.Busy / time.Duration(n)
		}
	}
	return 0
}

// Admission is how commands are admitted. The zero Admission admits all
// commands as long as the queue has a free slot.
type Admission struct {
	Rate  Rate
	Limit int // commands in flight; 0: no limit
	Shed  Shed
	Gate  Gate // nil: none
}

// PoolStats is a controller's view of a pool of workers.
type PoolStats struct {
	Name string
	// Own reports that it is a stage's own pool.
	Own bool
	// Group reports that the pipeline declares the pool.
	Group bool
	// Stages lists the stages that are bound to the pool, in the order of the
	// pipeline.
	Stages []StageID
	// Dispatch is how the workers choose among several stages.
	Dispatch Dispatch
	// Plan is the plan last set with [KnobVisit], or nil.
	Plan *VisitPlan
	// Workers is the set number of workers of the pool; MinWorkers and
	// MaxWorkers are the bounds.
	Workers, MinWorkers, MaxWorkers int
	// Busy and Blocked count busy and blocked workers, see [StageStats].
	// Workers of shared pools are never blocked.
	Busy, Blocked int
	// Rounds, Visits and EmptyVisits count since the pipeline started how often
	// a worker ended a round of the plan (see [EventRoundEnd]), visited a
	// stage, and found nothing to do there.
	Rounds, Visits, EmptyVisits uint64
}

// Counters count commands. Each counter only grows.
type Counters struct {
	Accepted     uint64 // accepted, from outside and from other stages
	OK           uint64 // ended with a result
	Forwarded    uint64 // passed on to a stage
	Errors       uint64 // answered with a reason
	Crashes      uint64 // tries that crashed the handler; one command may crash several times
	Shed         uint64 // refused after acceptance
	DeadLettered uint64 // ended without an answer
	Rejected     uint64 // never accepted

	Busy        time.Duration // time in handlers, of all workers together
	Blocked     time.Duration // time that the stage's own workers waited for a free slot in a stage ahead
	Idle        time.Duration // time that the stage's own workers had nothing to do; Busy, Blocked and Idle add up to all their time
	Visits      uint64        // by workers of shared pools
	EmptyVisits uint64        // the visits that found nothing to do
}

// Handled returns how many commands handlers have answered.
func (c Counters) Handled() uint64 { return c.OK + c.Forwarded + c.Errors }

// Sub returns the counts since earlier. A counter that is lower than before was
// restarted, because a new stage has the name of an old one; then everything it
// shows was counted since.
func (c Counters) Sub(earlier Counters) Counters {
	return Counters{
		Accepted:     since(c.Accepted, earlier.Accepted),
		OK:           since(c.OK, earlier.OK),
		Forwarded:    since(c.Forwarded, earlier.Forwarded),
		Errors:       since(c.Errors, earlier.Errors),
		Crashes:      since(c.Crashes, earlier.Crashes),
		Shed:         since(c.Shed, earlier.Shed),
		DeadLettered: since(c.DeadLettered, earlier.DeadLettered),
		Rejected:     since(c.Rejected, earlier.Rejected),
		Busy:         since(c.Busy, earlier.Busy),
		Blocked:      since(c.Blocked, earlier.Blocked),
		Idle:         since(c.Idle, earlier.Idle),
		Visits:       since(c.Visits, earlier.Visits),
		EmptyVisits:  since(c.EmptyVisits, earlier.EmptyVisits),
	}
}

func since[N uint64 | time.Duration](now, earlier N) N {
	if now < earlier {
		return now
	}
	return now - earlier
}
