package controller

// Policy is a control law with its parameters: a plain value that may be
// copied, compared and written to a file. The zero value of a policy is the
// policy with its documented defaults.
type Policy interface {
	// Name returns the policy's name, such as "erlda", followed by the preset
	// if it has one: "seda:cruz". Parameters do not change it. The journal and
	// the metrics show it.
	Name() string
	// Check returns all faults of the parameters at once, or nil. It is called
	// before New, when a pipeline is made or gets another policy.
	Check() error
	// New returns a controller with an empty memory, for one run of a pipeline.
	// It must not return nil.
	New() Controller
}

// Claimer is implemented by a policy that declares which knobs it changes. A
// pipeline with several policies asks each of them for its claims and refuses
// two claims on one knob; a decision about an unclaimed knob is then a fault
// and changes nothing. A single policy owns all knobs and need not be a
// Claimer.
type Claimer interface {
	Claims() []Knob
}

// Controller applies a policy to one run of a pipeline.
//
// Control is called serially. It reads the snapshot and writes its decisions
// into d; an empty d leaves everything as it is. Control must return soon: no
// timer ticks while it runs. It must not keep s or d, and must not change s.
type Controller interface {
	Control(ev Event, s *Snapshot, d *Decisions)
}

// Event is the reason why a controller is called.
type Event struct {
	Kind EventKind
	// Stage is the stage that EventQueueFull, EventStarved or EventWorkerDied
	// is about; [NoStage] otherwise.
	Stage StageID
	// Pool is the pool of the workers that EventRoundEnd, EventVisits or
	// EventWorkerDied is about.
	Pool string
}

// EventKind distinguishes the events. Later versions may add kinds; a
// controller ignores the kinds that it does not know.
type EventKind uint8

// The zero EventKind is not an event.
const (
	_ EventKind = iota
	// EventStart is the first event and comes once. The counters may already
	// have counted, if the policy replaced another one.
	EventStart
	// EventTick comes periodically, see [Decisions.Every].
	EventTick
	// EventStop is the last event. Decisions made now have no effect.
	EventStop
	// EventRoundEnd reports that a worker of a polled pool has ended a round:
	// it has visited the last place of the visit plan, or, if the plan has
	// [VisitPlan.FullRounds], gone past it. Each plan has one such event, at
	// the end of its first round. Only controllers that asked for it with
	// [Decisions.OnRoundEnd] get it, at most once a millisecond.
	EventRoundEnd
	// EventVisits reports that the workers of the shared pools have made as
	// many visits as the controller asked for, see [Decisions.OnVisits].
	EventVisits
	// EventTopology reports that a stage was added, removed, paused or resumed.
	EventTopology
	// EventQueueFull reports that a queue is full. It comes once until the
	// queue is no longer full.
	EventQueueFull
	// EventStarved reports that a stage has had work for a second that no
	// worker has taken. It comes once until a worker takes some.
	EventStarved
	// EventWorkerDied reports that a worker crashed. The worker is being
	// replaced.
	EventWorkerDied
)

var kinds = [...]string{
	"none", "start", "tick", "stop", "round end", "visits", "topology", "queue full", "starved", "worker died",
}

// String returns the kind as one or two words.
func (k EventKind) String() string {
	if int(k) >= len(kinds) {
		return kinds[0]
	}
	return kinds[k]
}
