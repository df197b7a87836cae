package pipeline

import (
	"context"
	"io"
	"time"

	"github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The reasons why a letter is not retried.
var (
	// ErrNoLetter reports that the store does not have the letter, or no
	// longer.
	ErrNoLetter = letters.ErrNoLetter
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
	// that is larger than the store, see [KeepLetterBytes], is not kept; and
	// one that an earlier process has left, see [KeepLettersIn], could perhaps
	// not be encoded, or cannot be decoded. [Letters.Retry] returns this error,
	// and [Letters.RetryAs] submits another command.
	Missing error
}

// MarshalJSON writes a letter whatever its command is. A command that package
// json can write, and that is not too large, is the field command. Any other is
// the field command_text, as %+v writes it; command_cut says that the text is
// cut.
func (l Letter) MarshalJSON() ([]byte, error) { return letters.Letter(l).MarshalJSON() }

// LetterGroup sums up the letters that have stage, reason and fingerprint in
// common: for crashes and failures, the letters of one cause.
type LetterGroup struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	Seen        uint64 // how many there have been
	Kept        int    // how many of them are in the store
	First, Last time.Time
	Example     Letter // the newest in the store; its ID is 0 if none is
}

// LetterFilter selects letters. The zero LetterFilter selects all, the newest
// first.
type LetterFilter struct {
	Stage       string            // empty: any
	Reason      reason.Reason     // empty: any
	Fingerprint string            // empty: any
	If          func(Letter) bool // nil: all; it may call the store
	OldestFirst bool
	Limit       int // the most letters to select; 0: any number
}

func (f LetterFilter) filter() letters.Filter {
	inner := letters.Filter{
		Stage: f.Stage, Reason: f.Reason, Fingerprint: f.Fingerprint, OldestFirst: f.OldestFirst, Limit: f.Limit,
	}
	if f.If != nil {
		inner.If = func(l letters.Letter) bool { return f.If(Letter(l)) }
	}
	return inner
}

// Letters is a store of letters: dead letters, letters in quarantine, or
// failures; see [Pipeline.DeadLetters], [Pipeline.Quarantine] and
// [Pipeline.Failures]. A letter stays in the store, together with its command,
// until it is retried or dropped. The store is bounded, see [KeepLetters] and
// [KeepLetterBytes]: when it is full, a new letter evicts the oldest letter of
// the group that takes the most of the store, so that a flood of one cause
// leaves the letters of other causes in the store. Evictions are counted, see
// [Letters.Dropped], and logged.
//
// The letter of a window that a window.Aggregate could not pass on has that
// window in place of a command, and its retry passes the window on.
//
// To retry a letter is to submit its command to its stage again. The letter's
// own command has ended and stays counted as dead-lettered, shed or failed; the
// retry is a new command that is counted as accepted, so the accounts stay
// balanced. No ticket waits for it. A letter keeps no context: handlers see the
// values of the context that is given to Retry. If the command ends without an
// answer or fails again, that leaves a new letter.
//
// Any goroutine may call the methods at any time, also after the pipeline has
// stopped; retries are refused then. The methods read commands without copying
// them, so a command must not be changed while it is in the store.
//
// With [KeepLettersIn] the letters outlive the process: they are there again,
// with their numbers, when the pipeline is started anew. A letter that is
// retried stays in the file until the retry has ended, so it is there again if
// the process is killed before.
type Letters struct {
	store  *letters.Store
	codecs letters.Codecs
}

// Len returns how many letters there are.
func (l *Letters) Len() int { return l.store.Len() }

// Dropped returns how many letters were evicted since the start.
func (l *Letters) Dropped() uint64 { return l.store.Dropped() }

// List returns the letters that a filter selects.
func (l *Letters) List(f LetterFilter) []Letter {
	list := l.store.List(f.filter())
	all := make([]Letter, len(list))
	for i := range list {
		all[i] = Letter(list[i])
	}
	return all
}

// Get returns a letter, and whether it is in the store.
func (l *Letters) Get(id uint64) (Letter, bool) {
	letter, ok := l.store.Get(id)
	return Letter(letter), ok
}

// Groups returns a summary of the letters by stage, reason and fingerprint, the
// most recently seen first. Groups that have no letter left in the store are
// included as long as there are not too many.
func (l *Letters) Groups() []LetterGroup {
	groups := l.store.Groups()
	all := make([]LetterGroup, len(groups))
	for i, g := range groups {
		all[i] = LetterGroup{
			Stage: g.Stage, Reason: g.Reason, Fingerprint: g.Fingerprint, Seen: g.Seen, Kept: g.Kept,
			First: g.First, Last: g.Last, Example: Letter(g.Example),
		}
	}
	return all
}

// Retry submits a letter's command to its stage again, as [stage.Stage.Submit]
// does. If the stage accepts the command, the letter is removed, else it stays.
// The error is [ErrNoLetter], [ErrRetrying], [ErrNotPart], a
// [*stage.TypeError], the Missing of the letter, or the stage's refusal.
func (l *Letters) Retry(ctx context.Context, id uint64) error {
	link.CheckContext(ctx, "pipeline: Retry")
	return l.store.Retry(ctx, id)
}

// RetryAs is like [Letters.Retry], but submits another command in place of the
// letter's own: a corrected one.
func (l *Letters) RetryAs(ctx context.Context, id uint64, cmd any) error {
	link.CheckContext(ctx, "pipeline: RetryAs")
	return l.store.RetryAs(ctx, id, cmd)
}

// RetryAll retries the letters that a filter selects, the oldest first, and
// returns how many were accepted. A letter that is refused does not hold up the
// others; the error joins the first refusal of each stage. If ctx ends,
// RetryAll stops early and the error says so. Letters that arrive meanwhile are
// not retried.
func (l *Letters) RetryAll(ctx context.Context, f LetterFilter) (n int, err error) {
	link.CheckContext(ctx, "pipeline: RetryAll")
	return l.store.RetryAll(ctx, f.filter())
}

// Drop removes a letter for good, and reports whether it was in the store. With
// [KeepLettersIn] letters can be dropped from the start to the end of the
// pipeline only; Drop returns false before and after.
func (l *Letters) Drop(id uint64) bool { return l.store.Drop(id) }

// Clear drops the letters that a filter selects, and returns how many.
func (l *Letters) Clear(f LetterFilter) (n int) { return l.store.Clear(f.filter()) }

// Export writes all letters as lines of JSON, the oldest first, for
// [Letters.Import] and for other programs. Letters that arrive meanwhile are
// left out. A command is written whole, as the field command, or command_data
// if the stage has a [LetterCodec]; if neither is possible, it is the field
// command_text of [Letter.MarshalJSON].
func (l *Letters) Export(w io.Writer) error { return l.store.Export(w, l.codecs) }

// Import puts letters that [Letters.Export] has written into the store, with
// new numbers, and returns how many. They count towards the bounds of the
// store, and their errors are texts. A line that is no letter of this store, or
// whose command cannot be decoded for the stage of its name, does not hold up
// the others; the error names these lines. To import the same lines twice makes
// two letters of each. With [KeepLettersIn] letters can be imported from the
// start to the end of the pipeline only.
func (l *Letters) Import(r io.Reader) (n int, err error) { return l.store.Import(r, l.codecs) }
