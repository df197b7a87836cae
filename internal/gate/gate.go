// Package gate has the gates that a command from outside passes before a stage
// takes it: the rules that a policy sets for a stage or for a whole pipeline,
// and the entry of a pipeline, which bounds the commands in flight.
//
// A [Gate] decides on one command, which is given by value: otherwise each
// submitted command would be on the heap. Its methods are called by any number
// of goroutines at once, without the lock of an inbox, so a gate may call code
// of users. A gate knows nothing of inboxes but the [Door].
//
// Most stages have no gate, and pay one atomic load for each command.
package gate

import (
	"context"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// Door is the inbox into which a command asks to be let.
type Door interface {
	// Filled returns how many commands are queued, and how many may be.
	Filled() (queued, capacity int)
	// Clock reads the clock of the pipeline, in nanoseconds.
	Clock() int64
	// MayWait reports whether a caller with a context may wait at the door, and
	// Wait waits until the channel is closed, or returns why the context ended.
	MayWait(ctx context.Context) bool
	Wait(ctx context.Context, closed <-chan struct{}) error
	// Chance returns a random number from 0 to less than 1.
	Chance() float64
	// IsOpen reports whether the inbox takes commands from outside.
	IsOpen() bool
}

// Gate lets commands in or refuses them.
type Gate interface {
	// Admit returns a nil error to let a command in. Otherwise it returns why
	// not, and the reason under which the refusal is counted.
	Admit(at Door, e command.Envelope) (reason.Reason, error)
}
