package controller

// Policy is a law with its parameters: a plain value that may be copied,
// compared and written to a file. The zero value of a policy is the policy with
// its stated defaults.
type Policy interface {
	// Name is the policy's name, such as "erlda", with the preset if it has one:
	// "seda:cruz". Parameters do not change it. The journal and the metrics show it.
	Name() string
	// Check returns all faults of the parameters at once, or nil. It is called
	// before New, when a pipeline is made or given another policy.
	Check() error
	// New returns a controller with a fresh memory, for one run of a pipeline.
	// It must not return nil.
	New() Controller
}

// Claimer is a policy that says which knobs it turns. A pipeline that is given
// several policies asks each for its claims and refuses two claims on one knob; a
// decision about a knob that was not claimed is then a fault and changes
// nothing. A policy alone owns all knobs and need not say.
type Claimer interface {
	Claims() []Knob
}

// Controller applies a policy to one run of a pipeline.
//
// Control is called serially. It looks at the snapshot and says into d what it
// wants changed; to want nothing is an answer too, and leaves everything as it
// is. It must return soon: no timer ticks while it thinks. It keeps neither s nor d,
// and does not change s.
type Controller interface {
	Control(ev Event, s *Snapshot, d *Decisions)
}

// Event is why a controller is being asked.
type Event struct {
	Kind EventKind
	// Stage is where it happened, for EventQueueFull, EventStarved and
	// EventWorkerDied; [NoStage] otherwise.
	Stage StageID
	// Pool is whose workers it happened to, for EventRoundEnd, EventVisits and
	// EventWorkerDied.
	Pool string
}

// EventKind tells the events apart. More kinds will come; a controller ignores
// those that it does not know.
type EventKind uint8

// The zero EventKind is no event.
const (
	_ EventKind = iota
	// EventStart comes first, once. The counters may already run, if the policy
	// took over from another.
	EventStart
	// EventTick comes again and again, see [Decisions.Every].
	EventTick
	// EventStop comes last. What is wanted now comes to nothing.
	EventStop
	// EventRoundEnd reports that a worker of a polled pool has ended a round: it has
	// visited the last place of the visit plan, or, if the plan has
	// [VisitPlan.FullRounds], gone past it. Each plan has one such event, at its first
	// round. Controllers that asked for it with [Decisions.OnRoundEnd] get it, at most
	// once in each [MinInterval].
	EventRoundEnd
	// EventVisits tells that the workers of the shared pools have made as many
	// visits as was asked for, see [Decisions.OnVisits].
	EventVisits
	// EventTopology tells that a stage came, went, was paused or resumed.
	EventTopology
	// EventQueueFull tells that a queue is full, once until it is not.
	EventQueueFull
	// EventStarved tells that a stage has work that nobody has looked at for
	// [StarvedAfter], once until somebody does.
	EventStarved
	// EventWorkerDied tells that a worker crashed. It is being replaced.
	EventWorkerDied
)

var kinds = [...]string{
	"none", "start", "tick", "stop", "round end", "visits", "topology", "queue full", "starved", "worker died",
}

// String returns the kind in a word or two.
func (k EventKind) String() string {
	if int(k) >= len(kinds) {
		return kinds[0]
	}
	return kinds[k]
}
