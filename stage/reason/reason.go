// Package reason lists the reasons for which a stage refuses a command or ends
// it without an answer.
package reason

// Reason says in one word why a command was refused or ended without an answer.
// It is the reason of a stage.DeadLetter and of a stage.Overload, and the key
// of the counts in a stage.Snapshot. There are few reasons, so that they can
// label metrics.
type Reason string

// The reasons for which a command is refused.
const (
	Cancelled   Reason = "cancelled"     // the submitter's context ended while it waited for a free slot; also of the letter of a job in flight that was canceled
	Closed      Reason = "closed"        // the pipeline was draining or had stopped
	Disabled    Reason = "disabled"      // a policy has disabled the stage; it ends accepted commands, too
	Full        Reason = "full"          // no free slot, and the stage does not wait; it ends accepted commands, too
	MaxInFlight Reason = "max_in_flight" // emitted within a loop while the pipeline held as many commands as it may
	Policy      Reason = "policy"        // shed by a policy, or refused by its gate
	Rate        Reason = "rate"          // beyond the rate that a policy allows
	Type        Reason = "type"          // sent by PID, and not of the stage's type
)

// The reasons for which an accepted command is dropped.
const (
	Expired Reason = "expired"        // its time to live was over before its handler was called
	Newest  Reason = "dropped_newest" // dropped on arrival
	Oldest  Reason = "dropped_oldest" // dropped for a command that came later
)

// The reasons for which an accepted command ends without success.
const (
	Crash   Reason = "crash"   // crashed its handler as often as it may be tried
	Error   Reason = "error"   // its handler returned an error; it is counted as failed, and not by reason
	Stopped Reason = "stopped" // not done when the pipeline stopped hard
)

// RetryBudget is the reason of a stage.Overload for a command that failed and
// was not tried again, since the retry budget of its stage was spent. Its
// letter, and the counts, have Crash or Error.
const RetryBudget Reason = "retry_budget"
