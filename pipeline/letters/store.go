package letters

import (
	"context"
	"io"

	"github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/link"
)

// Store has letters of a pipeline: its dead letters, the letters in quarantine,
// or its failures. The methods DeadLetters, Quarantine and Failures of a
// pipeline.Pipeline return them. A letter stays in the store, together with its
// command, until it is retried or dropped. The store is bounded, see [Options]:
// when it is full, a new letter evicts the oldest letter of the group that
// takes the most of the store, so that a flood of one cause leaves the letters
// of other causes in the store. Evictions are counted, see [Store.Dropped], and
// logged.
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
// With a directory, see Dir of [Options], the letters outlive the process: they
// are there again, with their numbers, when the pipeline is started anew. A
// letter that is retried stays in the file until the retry has ended, so it is
// there again if the process is killed before.
type Store struct {
	store  *letters.Store
	codecs letters.Codecs
}

// Len returns how many letters there are.
func (l *Store) Len() int { return l.store.Len() }

// Dropped returns how many letters were evicted since the start.
func (l *Store) Dropped() uint64 { return l.store.Dropped() }

// List returns the letters that a filter selects.
func (l *Store) List(f Filter) []Letter {
	list := l.store.List(f.filter())
	all := make([]Letter, len(list))
	for i := range list {
		all[i] = Letter(list[i])
	}
	return all
}

// Get returns a letter, and whether it is in the store.
func (l *Store) Get(id uint64) (Letter, bool) {
	letter, ok := l.store.Get(id)
	return Letter(letter), ok
}

// Groups returns a summary of the letters by stage, reason and fingerprint, the
// most recently seen first. Groups that have no letter left in the store are
// included as long as there are not too many.
func (l *Store) Groups() []Group {
	groups := l.store.Groups()
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i] = Group{
			Stage: g.Stage, Reason: g.Reason, Fingerprint: g.Fingerprint, Seen: g.Seen, Kept: g.Kept,
			First: g.First, Last: g.Last, Example: Letter(g.Example),
		}
	}
	return all
}

// Retry submits a letter's command to its stage again, as stage.Stage.Submit
// does. If the stage accepts the command, the letter is removed, else it stays.
// The error is [ErrNotFound], [ErrRetrying], pipeline.ErrNotPart, a
// *stage.TypeError, the Missing of the letter, or the stage's refusal.
func (l *Store) Retry(ctx context.Context, id uint64) error {
	link.CheckContext(ctx, "letters: Retry")
	return l.store.Retry(ctx, id)
}

// RetryAs is like [Store.Retry], but submits another command in place of the
// letter's own: a corrected one.
func (l *Store) RetryAs(ctx context.Context, id uint64, cmd any) error {
	link.CheckContext(ctx, "letters: RetryAs")
	return l.store.RetryAs(ctx, id, cmd)
}

// RetryAll retries the letters that a filter selects, the oldest first, and
// returns how many were accepted. A letter that is refused does not hold up the
// others; the error joins the first refusal of each stage. If ctx ends,
// RetryAll stops early and the error says so. Letters that arrive meanwhile are
// not retried.
func (l *Store) RetryAll(ctx context.Context, f Filter) (n int, err error) {
	link.CheckContext(ctx, "letters: RetryAll")
	return l.store.RetryAll(ctx, f.filter())
}

// Drop removes a letter for good, and reports whether it was in the store. With
// a directory letters can be dropped from the start to the end of the
// pipeline only; Drop returns false before and after.
func (l *Store) Drop(id uint64) bool { return l.store.Drop(id) }

// Clear drops the letters that a filter selects, and returns how many.
func (l *Store) Clear(f Filter) (n int) { return l.store.Clear(f.filter()) }

// Export writes all letters as lines of JSON, the oldest first, for
// [Store.Import] and for other programs. Letters that arrive meanwhile are
// left out. A command is written whole, as the field command, or command_data
// if there is a [Type] with an Encode for it; if neither is possible, it is the
// field command_text of [Letter.MarshalJSON].
func (l *Store) Export(w io.Writer) error { return l.store.Export(w, l.codecs) }

// Import puts letters that [Store.Export] has written into the store, with
// new numbers, and returns how many. They count towards the bounds of the
// store, and their errors are texts. A line that is no letter of this store, or
// whose command cannot be decoded for the stage of its name, does not hold up
// the others; the error names these lines. To import the same lines twice makes
// two letters of each. With a directory letters can be imported from the
// start to the end of the pipeline only.
func (l *Store) Import(r io.Reader) (n int, err error) { return l.store.Import(r, l.codecs) }

func init() { //nolint:gochecknoinits // only a pipeline makes stores
	letters.Public = func(inner *letters.Store, codecs letters.Codecs) any { return &Store{inner, codecs} }
}
