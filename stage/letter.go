package stage

import (
	"time"

	"github.com/golda-dev/golda/stage/reason"
)

// DeadLetter is a command that ended without an answer, one that an actor sent
// and the stage refused, or, with [reason.Error], one that failed.
type DeadLetter struct {
	Pipeline string
	Stage    string
	Command  any
	Reason   reason.Reason
	Err      error     // why; for a crash a *CrashError, for a failure the error that the handler returned
	Attempts int       // how often it was tried in this stage, counted to 65,535
	Stack    []byte    // where its handler crashed last, nil if it did not
	At       time.Time // when it ended
	// EmittedBy is the stage whose handler emitted the command, or emitted the
	// command that was forwarded to become this one. It is empty for commands
	// that come from a submitted one by forwarding alone. Only the first 255
	// stages of a pipeline are recorded, and none for a command whose batch
	// crashed.
	EmittedBy string
}
