package inbox

// Reason says in one word why a command was refused or ended without an answer. It is a label of metrics, so there are few.
type Reason string

// The reasons.
const (
	ReasonFull      Reason = "full"           // no free slot, and the inbox does not wait
	ReasonClosed    Reason = "closed"         // not open to commands from outside
	ReasonCancelled Reason = "cancelled"      // the submitter gave up waiting for a slot
	ReasonType      Reason = "type"           // sent by PID, and of another type than the stage takes
	ReasonNewest    Reason = "dropped_newest" // dropped on arrival
	ReasonOldest    Reason = "dropped_oldest" // dropped for a command that came later
	ReasonCrash     Reason = "crash"          // its handler crashed, as often as it may be tried
	ReasonStopped   Reason = "stopped"        // the pipeline stopped hard before it was done
	ReasonDisabled  Reason = "disabled"       // a policy has the stage take nothing
	ReasonExpired   Reason = "expired"        // its time to live was over before its handler was called
	ReasonRate      Reason = "rate"           // beyond the rate at which commands are let in
	ReasonPolicy    Reason = "policy"         // refused by a policy's shedding or its gate
	// ReasonMaxInFlight is that of a command that a handler would have added to a loop beyond the pipeline's MaxInFlight.
	ReasonMaxInFlight Reason = "max_in_flight"
	// ReasonError is that of a command whose handler answered with an error. It is counted as failed, and not by reason.
	ReasonError Reason = "error"
)

const (
	rejectedFull = iota
	rejectedClosed
	rejectedCancelled
	rejectedType
	rejectedDisabled
	rejectedRate
	rejectedPolicy
	rejectedMaxInFlight
	rejectedReasons
)

const (
	shedFull = iota
	shedNewest
	shedOldest
	shedDisabled
	shedExpired
	shedReasons
)

const (
	deadCrash = iota
	deadStopped
	deadReasons
)

var (
	rejectedNames = [rejectedReasons]Reason{
		rejectedFull: ReasonFull, rejectedClosed: ReasonClosed, rejectedCancelled: ReasonCancelled, rejectedType: ReasonType,
		rejectedDisabled: ReasonDisabled, rejectedRate: ReasonRate, rejectedPolicy: ReasonPolicy, rejectedMaxInFlight: ReasonMaxInFlight,
	}
	shedNames = [shedReasons]Reason{
		shedFull: ReasonFull, shedNewest: ReasonNewest, shedOldest: ReasonOldest, shedDisabled: ReasonDisabled, shedExpired: ReasonExpired,
	}
	deadNames = [deadReasons]Reason{deadCrash: ReasonCrash, deadStopped: ReasonStopped}
)
