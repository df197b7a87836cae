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
)

// String returns the kind in a word.
func (k EventKind) String() string {
	switch k {
	case EventStart:
		return "start"
	case EventTick:
		return "tick"
	case EventStop:
		return "stop"
	default:
		return "none"
	}
}
