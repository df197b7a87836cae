package controller

import "time"

// StageID is the place of a stage in [Snapshot.Stages]. It holds for one
// snapshot only; to remember a stage, remember its name.
type StageID int

const (
	// NoStage is no stage.
	NoStage StageID = -1
	// Entry stands for the door of the whole pipeline, as the scope of a
	// decision on admission: what is submitted from outside, to whatever stage.
	Entry StageID = -2
)

// Snapshot is what a controller sees of a pipeline.
type Snapshot struct {
	// At is the time since the pipeline started. It never goes back.
	// Zero is a time like any other, not "never".
	At time.Duration
	// CPUs is how many threads of the process can run at the same time: GOMAXPROCS, which may be less than the
	// machine has.
	CPUs int
	// CPUUsage is the share of these CPUs, from 0 to 1, that this process used, other
	// processes of the machine aside: during the last second, or since a controller was last called if that
	// is longer ago. All controllers of a pipeline see the same. It is 0 if it is not known, as in the first call.
	CPUUsage float64
	// Group is the name of the group that the controller governs, empty for the controller of a pipeline. A group's controller
	// sees the stages of the group, their own pools and the group's pool, and no others; the controller of a pipeline
	// sees all but those of groups that have a controller of their own. Decisions about anything else are refused.
	Group string
	// InFlight commands have been accepted and have not ended. A group's controller sees how many wait or are in hand in the group.
	InFlight int
	// Entry is how the pipeline admits what is submitted from outside. A group's controller cannot change that, and sees the zero
	// Admission.
	Entry Admission
	// Stages are in the order in which the pipeline was put together.
	Stages []StageStats
	// Pools are the pools of workers: first each stage's own, in the order of
	// the stages and under their names, then the groups that the pipeline
	// declares, then those that policies have made. All of them are there even if
	// no stage is bound to them.
	Pools []PoolStats
	// Taken are the names of pools that other controllers govern. A policy that makes a pool gives it a name that is neither here
	// nor in Pools.
	Taken []string
}

// Pool returns the pool of that name, nil if there is none.
func (s *Snapshot) Pool(name string) *PoolStats {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// StageStats is what a controller sees of one stage.
type StageStats struct {
	ID   StageID
	Name string

	// Rank is how far from the sources the stage is: the most ways ahead that
	// lead to it, 0 for a source. Stages of one loop may have any ranks, and are
	// Cyclic.
	Rank int
	// Cyclic tells that commands may come back to the stage.
	Cyclic bool
	// Next are the stages that its declared or known ways ahead lead to; ways
	// back are left out, so that following Next comes to an end. A way past stages that the controller does not see leads to
	// the next one that it sees.
	Next []StageID

	// QueueLen commands wait in a queue with room for QueueCap; a QueueCap of
	// zero or less means that no room is stated. Of a stage whose handlers suspend
	// only those are counted that a further worker could handle now: those that were woken, and
	// others as far as Instances allows. So workers are added only when workers are short.
	QueueLen, QueueCap int
	// OldestWait is how long the next command has waited, as far as is known:
	// the clock is not read for every command.
	OldestWait time.Duration
	// InHand commands have been taken from the queue and have not ended; those that
	// are suspended, and hold no worker, are not counted.
	InHand int

	// Workers is how many workers the stage's own pool is set to have: one that
	// crashed and is being started afresh still counts, for its supervisor sees
	// to it. MinWorkers and MaxWorkers are the bounds, both of them allowed. While
	// the stage is bound to another pool all three are 0.
	Workers, MinWorkers, MaxWorkers int
	// Busy workers run a handler, or are about to. Blocked ones have done so and wait until a stage ahead has room
	// for what came of it; more workers would only join them. The others are idle; see [StageStats.Idle].
	Busy, Blocked int
	// Stalled tells that a shared pool takes nothing from the stage, because a stage ahead is full.
	Stalled bool
	// Bound tells that stages ahead, and not the workers of this one, bound what the stage gets done, so that another worker
	// would be of no use: its workers were blocked for a tenth or more of the time that they had something in hand, or it
	// is stalled; and since then the queue of a stage ahead has always been half full or more. See [Windows.Fill].
	Bound bool

	// Needs is how many workers the stage's options ask for at the least, whatever pool it is bound to: the first number of
	// stage.Workers, or its instances if they are fewer. It is 0 if the options leave the number to the default. Policies that
	// share workers leave a stage its own that needs more than the shared pool has.
	Needs int

	// Pool is the name of the pool whose workers visit the stage: its own, which
	// has the stage's name, or a shared one.
	Pool string
	// Instances is how many workers may be at the stage at once, FreeInstances
	// how many more than are. Of a stage whose handlers suspend it is how many commands may be
	// under way.
	Instances, FreeInstances int
	// Priority orders the stages of a [SharedPriority] pool, higher first.
	Priority int
	// Discipline is the name of the queue's order.
	Discipline string
	// Batch bounds what a worker takes at once.
	Batch Batch
	// Enabled tells that the queue takes commands.
	Enabled bool
	// Paused tells that no worker may visit the stage. Policies leave it out.
	Paused bool
	// Blocking tells that its handlers wait rather than compute. Policies that
	// share workers leave such a stage its own.
	Blocking bool
	// Quality is what handlers are asked for, from 0 to 1; see [Decisions.Degrade].
	Quality float64
	// Admission is how the stage admits what is submitted to it.
	Admission Admission

	// Total counts since the pipeline started and only grows. Window is the
	// part of it since the previous call of this controller.
	Total, Window Counters
}

// Idle is how many of the stage's own workers have nothing to do.
func (st *StageStats) Idle() int { return max(st.Workers-max(st.Busy, 0)-max(st.Blocked, 0), 0) }

// Service is the mean time of a command in its handler, in the window if any was
// handled in it, else since the start; 0 if none ever was.
func (st *StageStats) Service() time.Duration {
	for _, c := range []Counters{st.Window, st.Total} {
		if n := c.Handled(); n > 0 && c.Busy > 0 {
			return c.Busy / time.Duration(n)
		}
	}
	return 0
}

// Admission is how commands are let in. The zero Admission lets all in for which
// there is room.
type Admission struct {
	Rate  Rate
	Limit int // commands in flight behind the door; 0: no limit
	Shed  Shed
	Gate  Gate // nil: none
}

// PoolStats is what a controller sees of a pool of workers.
type PoolStats struct {
	Name string
	// Own tells that it is a stage's own pool.
	Own bool
	// Group tells that the pipeline declares it.
	Group bool
	// Stages are bound to the pool, in the order of the pipeline.
	Stages []StageID
	// Dispatch is how the workers choose among several stages.
	Dispatch Dispatch
	// Plan is what was last decided with [Decisions.Visit], nil if nothing was.
	Plan *VisitPlan
	// Workers is how many workers the pool is set to have; MinWorkers and
	// MaxWorkers are the bounds.
	Workers, MinWorkers, MaxWorkers int
	// Busy and Blocked are how many of them are so, see [StageStats]. Workers of shared pools are never blocked.
	Busy, Blocked int
	// Rounds, Visits and EmptyVisits count since the pipeline started: how often a
	// worker ended a round of the plan (see [EventRoundEnd]), went to a stage, and
	// found nothing to do there.
	Rounds, Visits, EmptyVisits uint64
}

// Counters count commands. Each only grows.
type Counters struct {
	Accepted     uint64 // taken in, from outside and from other stages
	OK           uint64 // ended with a result
	Forwarded    uint64 // passed on
	Errors       uint64 // answered with a reason
	Crashes      uint64 // tries that crashed the handler; one command may crash several times
	Shed         uint64 // refused after acceptance
	DeadLettered uint64 // ended without an answer
	Rejected     uint64 // never taken in

	Busy        time.Duration // time in handlers, of all workers together
	Blocked     time.Duration // time that the stage's own workers waited for room in a stage ahead
	Idle        time.Duration // time that they had nothing to do; with Busy and Blocked it is all their time
	Visits      uint64        // by workers of shared pools
	EmptyVisits uint64        // the visits that found nothing to do
}

// Handled is how many commands handlers have answered.
func (c Counters) Handled() uint64 { return c.OK + c.Forwarded + c.Errors }

// blocked reports whether workers that had something in hand waited for room in a stage ahead for a tenth of that time or
// more.
func (c Counters) blocked() bool { return c.Blocked > 0 && c.Blocked >= c.Busy/busyForBlocked }

// busyForBlocked is how many times longer than blocked workers have to be busy so that they do not count as blocked.
const busyForBlocked = 9

// Sub returns what was counted since earlier. A counter that is less than
// it was has started afresh, a stage made anew under its old name; all that it
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
