package controller

import "time"

// StageID is the place of a stage in [Snapshot.Stages]. It holds for one
// snapshot only; to remember a stage, remember its name.
type StageID int

// Snapshot is what a controller sees of a pipeline.
type Snapshot struct {
	// At is the time since the pipeline started. It never goes back.
	// Zero is a time like any other, not "never".
	At time.Duration
	// CPUs is how many threads can run at the same time.
	CPUs int
	// Stages are in the order in which the pipeline was put together.
	Stages []StageStats
}

// StageStats is what a controller sees of one stage.
type StageStats struct {
	ID   StageID
	Name string

	// QueueLen commands wait in a queue with room for QueueCap; a QueueCap of
	// zero or less means that no room is stated.
	QueueLen, QueueCap int
	// InHand commands have been taken from the queue and have not ended.
	InHand int

	// Workers is how many workers the stage is set to have: one that crashed and
	// is being started afresh still counts, for its supervisor sees to it.
	// MinWorkers and MaxWorkers are the bounds, both of them allowed.
	Workers, MinWorkers, MaxWorkers int
	// Busy is how many workers have a command in hand.
	Busy int

	// Total counts since the pipeline started and only grows. Window is the
	// part of it since the previous call of this controller.
	Total, Window Counters
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
}

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
	}
}

func since(now, earlier uint64) uint64 {
	if now < earlier {
		return now
	}
	return now - earlier
}
