package stage

import (
	"time"

	"github.com/golda-dev/golda/internal/inbox"
)

// Reason says in a word why a command was refused or ended without an answer. There are few reasons, so that they can label
// metrics.
type Reason string

// The reasons.
const (
	ReasonFull        = Reason(inbox.ReasonFull)        // no free slot, and the stage does not wait
	ReasonClosed      = Reason(inbox.ReasonClosed)      // the pipeline was draining or had stopped
	ReasonCancelled   = Reason(inbox.ReasonCancelled)   // the submitter's context ended while it waited for a free slot
	ReasonType        = Reason(inbox.ReasonType)        // sent by PID, and not of the stage's type
	ReasonNewest      = Reason(inbox.ReasonNewest)      // dropped on arrival
	ReasonOldest      = Reason(inbox.ReasonOldest)      // dropped for a command that came later
	ReasonCrash       = Reason(inbox.ReasonCrash)       // crashed its handler as often as it may be tried
	ReasonStopped     = Reason(inbox.ReasonStopped)     // not done when the pipeline stopped hard
	ReasonDisabled    = Reason(inbox.ReasonDisabled)    // a policy has disabled the stage
	ReasonExpired     = Reason(inbox.ReasonExpired)     // its time to live was over before its handler was called
	ReasonRate        = Reason(inbox.ReasonRate)        // beyond the rate that a policy allows
	ReasonPolicy      = Reason(inbox.ReasonPolicy)      // shed by a policy, or refused by its gate
	ReasonMaxInFlight = Reason(inbox.ReasonMaxInFlight) // emitted within a loop while the pipeline held as many commands as it may
	ReasonError       = Reason(inbox.ReasonError)       // its handler returned an error; the law counts it as failed
)

// DeadLetter is a command that ended without an answer, one that an actor sent and the stage refused, or, with
// [ReasonError], one that failed.
type DeadLetter struct {
	Pipeline string
	Stage    string
	Command  any
	Reason   Reason
	Err      error     // why; for a crash a *CrashError, for a failure the error that the handler returned
	Attempts int       // how often it was tried in this stage, counted to 65,535
	Stack    []byte    // where its handler crashed last, nil if it did not
	At       time.Time // when it ended
	// EmittedBy is the stage whose handler emitted the command, or emitted the command that was forwarded to become this
	// one. It is empty for commands that come from a submitted one by forwarding alone. Only the first 255 stages of a
	// pipeline are recorded, and none for a command whose batch crashed.
	EmittedBy string
}
