package letters

import (
	"time"

	"github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The reasons why a letter is not retried.
var (
	// ErrNotFound reports that the store does not have the letter, or no
	// longer.
	ErrNotFound = letters.ErrNotFound
	// ErrRetrying reports that the letter is being retried by another call.
	ErrRetrying = letters.ErrRetrying
)

// Letter is a letter in a store: the record of a command that ended without an
// answer, or that failed. It is a copy, except for the command and the stack,
// which it shares with the store.
type Letter struct {
	stage.DeadLetter
	// ID is the letter's number. It is larger than the numbers of all earlier
	// letters of the store.
	ID uint64
	// Version is the version of the behaviour that crashed, as the behaviour
	// reports it; empty if it does not.
	Version string
	// Fingerprint distinguishes causes. For a crash it says where the handler
	// crashed; see [github.com/golda-dev/golda/worker.CrashError.Fingerprint].
	// For a failure it is the kind of its error: the types of the error and of
	// its wrapped errors, and their texts with a # in place of quotations and
	// of words with a digit or a slash, such as "page #: no such page" or
	// "*url.Error: *net.OpError: …". No method of the error is called for it,
	// so an error type without a text in a field contributes only its type. For
	// other letters it is empty.
	Fingerprint string
	// Seen is how many letters of the same stage, reason and fingerprint there
	// have been, including letters that are gone; First and Last are the times
	// of the first and the last of them.
	Seen        uint64
	First, Last time.Time
	// Missing is why the letter has no command: nil if it has one. A command
	// that is larger than the store, see Bytes of [Options], is not kept; and
	// one that an earlier process has left, see Dir of [Options], could perhaps
	// not be encoded, or cannot be decoded. [Store.Retry] returns this error,
	// and [Store.RetryAs] submits another command.
	Missing error
	// Parked says that the key of the command is parked until the letter is
	// retried, dropped or evicted, and Waiting is how many commands of the key
	// wait for that; see [stage.ParkOnFailure].
	Parked  bool
	Waiting int
}

// MarshalJSON writes a letter whatever its command is. A command that package
// json can write, and that is not too large, is the field command. Any other is
// the field command_text, as %+v writes it; command_cut says that the text is
// cut.
func (l Letter) MarshalJSON() ([]byte, error) { return letters.Letter(l).MarshalJSON() }

// Group sums up the letters that have stage, reason and fingerprint in
// common: for crashes and failures, the letters of one cause.
type Group struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	Seen        uint64 // how many there have been
	Kept        int    // how many of them are in the store
	First, Last time.Time
	Example     Letter // the newest in the store; its ID is 0 if none is
}

// Filter selects letters. The zero Filter selects all, the newest
// first.
type Filter struct {
	Stage       string            // empty: any
	Reason      reason.Reason     // empty: any
	Fingerprint string            // empty: any
	Parked      bool              // only letters that park a key
	If          func(Letter) bool // nil: all; it may call the store
	OldestFirst bool
	Limit       int // the most letters to select; 0: any number
}

func (f Filter) filter() letters.Filter {
	inner := letters.Filter{
		Stage: f.Stage, Reason: f.Reason, Fingerprint: f.Fingerprint, Parked: f.Parked, OldestFirst: f.OldestFirst, Limit: f.Limit,
	}
	if f.If != nil {
		inner.If = func(l letters.Letter) bool { return f.If(Letter(l)) }
	}
	return inner
}
