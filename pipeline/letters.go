package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/need"
	"github.com/golda-dev/golda/stage"
)

// DefaultLetters is how many letters each of a pipeline's three stores keeps.
const DefaultLetters = 1024

// Why a letter is not retried.
var (
	// ErrNoLetter tells that a letter is not in the store, or no longer.
	ErrNoLetter = errors.New("pipeline: no such letter")
	// ErrRetrying tells that somebody else retries the letter just now.
	ErrRetrying = errors.New("pipeline: the letter is being retried")
)

// Letter is a letter that is kept: of a command that ended without an answer, or that failed. It is a copy, but for the
// command and the stack,
// which are the ones that are kept.
type Letter struct {
	stage.DeadLetter
	// ID is the letter's number, larger than those of all that came before it.
	ID uint64
	// Version is what the behaviour that crashed calls itself; empty if it does not.
	Version string
	// Fingerprint tells causes apart. For a crash it says where the handler crashed; see
	// [github.com/golda-dev/golda/worker.Fingerprint]. For a failure it is the kind of its error: the types of the error
	// and of those that it wraps, and their texts with a # in the place of quotations and of words with a digit or a slash,
	// such as "page #: no such page" or "*url.Error: *net.OpError: …". No method of the error is called for it, so of an error
	// type with no text in a field it has the type only. For other letters it is empty.
	Fingerprint string
	// Seen is how many letters of the same stage, reason and fingerprint there have
	// been, whatever has become of them, First and Last when.
	Seen        uint64
	First, Last time.Time
}

// LetterGroup sums up the letters that have stage, reason and fingerprint in common: for
// crashes and failures, those of one cause.
type LetterGroup struct {
	Stage       string
	Reason      stage.Reason
	Fingerprint string
	Seen        uint64 // how many there have been
	Kept        int    // how many of them are in the store
	First, Last time.Time
	Example     Letter // the newest that is in the store; its ID is 0 if none is
}

// LetterFilter chooses letters. The zero LetterFilter chooses all, the newest first.
type LetterFilter struct {
	Stage       string            // empty: any
	Reason      stage.Reason      // empty: any
	Fingerprint string            // empty: any
	If          func(Letter) bool // nil: all; it may call the store
	OldestFirst bool
	Limit       int // the most to choose; 0: any number
}

func (f LetterFilter) takes(s *slot) bool {
	o := s.cause.origin
	return (f.Stage == "" || f.Stage == o.stage) && (f.Reason == "" || f.Reason == o.reason) &&
		(f.Fingerprint == "" || f.Fingerprint == o.fingerprint)
}

// Letters is a store of letters: dead letters, those in quarantine, or failures. A letter stays, and its command with it, until it
// is retried, dropped, or in the way: the store has a bound. When it is full, the oldest
// letter of the group that has the most gives way to a new one, so that a flood from
// one cause leaves the letters of others where they are. That is counted, see
// [Letters.Dropped], and logged.
//
// To retry a letter is to submit its command to its stage again. The letter's own command
// has ended and stays counted as dead-lettered, shed or failed; a retry is a new command, counted
// as accepted anew, so the law holds. Nobody has a ticket for it. A letter keeps no context: handlers see the values of the
// one that is given to Retry. If the command ends without an answer, or fails, again it is a new letter.
//
// The methods may be called by anybody, at any time, also when the pipeline has
// stopped; only nothing can be retried then. They read commands as they are: nobody else
// should change a command that is in the store.
type Letters struct {
	name  string
	bound int
	log   *slog.Logger
	again func(ctx context.Context, stage string, cmd any) error

	mu      sync.Mutex // guards all below
	slots   []slot     // as many as are in use, or were at once
	free    []int      // those that are not in use
	groups  map[origin]*cause
	last    *cause // the one of the last letter: floods come from one
	largest sizes  // groups with letters
	ids     uint64
	dropped uint64
	untold  uint64    // of those dropped
	told    time.Time // when the log was told last
}

func newLetters(name string, bound int, log *slog.Logger, again func(context.Context, string, any) error) *Letters {
	return &Letters{name: name, bound: bound, log: log, again: again, groups: map[origin]*cause{}}
}

// Len returns how many letters there are.
func (l *Letters) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.slots) - len(l.free)
}

// Dropped returns how many letters have had to give way to others since the start.
func (l *Letters) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// held is a letter and where it is.
type held struct {
	Letter
	slot int
}

// letter is a copy of what is in a slot.
func (l *Letters) letter(i int) held {
	s := &l.slots[i]
	return held{Letter{
		ID: s.id, DeadLetter: s.dead, Version: s.version, Fingerprint: s.cause.fingerprint,
		Seen: s.cause.seen, First: s.cause.first, Last: s.cause.last,
	}, i}
}

// choose returns the letters that a filter chooses.
func (l *Letters) choose(f LetterFilter) []held {
	all := l.sift(f)
	slices.SortFunc(all, func(a, b held) int {
		if (a.ID < b.ID) == f.OldestFirst {
			return -1
		}
		return 1
	})
	chosen := all[:0]
	for _, h := range all {
		if f.Limit > 0 && len(chosen) == f.Limit {
			break
		}
		if f.If == nil || f.If(h.Letter) {
			chosen = append(chosen, h)
		}
	}
	return chosen
}

// sift returns the letters that a filter may choose.
func (l *Letters) sift(f LetterFilter) (all []held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.slots {
		if s := &l.slots[i]; s.id > 0 && f.takes(s) {
			all = append(all, l.letter(i))
		}
	}
	return all
}

// List returns the letters that a filter chooses.
func (l *Letters) List(f LetterFilter) []Letter {
	chosen := l.choose(f)
	letters := make([]Letter, len(chosen))
	for i, h := range chosen {
		letters[i] = h.Letter
	}
	return letters
}

// Get returns a letter, and whether it is there.
func (l *Letters) Get(id uint64) (Letter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.find(id)
	if !ok {
		return Letter{}, false
	}
	return l.letter(i).Letter, true
}

// find returns a letter's slot. The store is not made for finding, which people do, but
// for keeping, which floods do.
func (l *Letters) find(id uint64) (at int, ok bool) {
	at = slices.IndexFunc(l.slots, func(s slot) bool { return s.id == id })
	return at, at >= 0 && id > 0
}

// Groups sums the letters up by stage, reason and fingerprint, the one that was seen
// last first. It tells of groups that have no letter in the store any more, too, as
// long as there are not too many.
func (l *Letters) Groups() []LetterGroup {
	l.mu.Lock()
	groups := make([]LetterGroup, 0, len(l.groups))
	for o, g := range l.groups {
		sum := LetterGroup{
			Stage: o.stage, Reason: o.reason, Fingerprint: o.fingerprint,
			Seen: g.seen, Kept: g.kept, First: g.first, Last: g.last,
		}
		if g.newest != nowhere {
			sum.Example = l.letter(g.newest).Letter
		}
		groups = append(groups, sum)
	}
	l.mu.Unlock()
	slices.SortFunc(groups, func(a, b LetterGroup) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Example.ID, a.Example.ID), cmp.Compare(a.Stage, b.Stage))
	})
	return groups
}

// Retry submits a letter's command to its stage again, as [stage.Stage.Submit] does. A
// command that was accepted is no letter any more, one that was refused stays one. The
// error is [ErrNoLetter], [ErrRetrying], [ErrNoSuchStage], a [*stage.TypeError], or why
// the stage refused.
func (l *Letters) Retry(ctx context.Context, id uint64) error {
	need.Context(ctx, "pipeline: Retry")
	return l.retry(ctx, id, nil)
}

// RetryAs is [Letters.Retry] with another command in the place of the letter's own: the
// same one, mended.
func (l *Letters) RetryAs(ctx context.Context, id uint64, cmd any) error {
	need.Context(ctx, "pipeline: RetryAs")
	return l.retry(ctx, id, &cmd)
}

func (l *Letters) retry(ctx context.Context, id uint64, instead *any) error {
	l.mu.Lock()
	i, ok := l.find(id)
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("letter %d: %w", id, ErrNoLetter)
	}
	return l.retryAt(ctx, id, i, instead)
}

// RetryAll retries the letters that a filter chooses, the oldest first, and returns how
// many were accepted. A letter that is refused keeps no other back; the error joins
// the first refusal of each stage. It ends early if ctx does, and says so. Letters that
// come meanwhile are not retried.
func (l *Letters) RetryAll(ctx context.Context, f LetterFilter) (n int, err error) {
	need.Context(ctx, "pipeline: RetryAll")
	f.OldestFirst = true
	var errs []error
	refused := map[string]bool{}
	chosen := l.choose(f)
	for i, h := range chosen {
		err := l.retryAt(ctx, h.ID, h.slot, nil)
		switch {
		case err == nil:
			n++
		case errors.Is(err, ErrNoLetter), errors.Is(err, ErrRetrying): // somebody else was faster
		case !refused[h.Stage]:
			refused[h.Stage] = true
			errs = append(errs, err)
		}
		if left := len(chosen) - i - 1; left > 0 && ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("letters that were not tried: %d: %w", left, context.Cause(ctx)))
			break
		}
	}
	return n, errors.Join(errs...)
}

// retryAt retries the letter in a slot, if it still is there.
func (l *Letters) retryAt(ctx context.Context, id uint64, i int, instead *any) error {
	dead, c, err := l.claim(id, i)
	if err != nil {
		return fmt.Errorf("letter %d: %w", id, err)
	}
	accepted := false
	defer func() { l.settle(id, i, c, accepted) }() // even if a policy's gate panics
	cmd := dead.Command
	if instead != nil {
		cmd = *instead
	}
	if err := l.again(ctx, dead.Stage, cmd); err != nil {
		return fmt.Errorf("letter %d: %w", id, err)
	}
	accepted = true
	return nil
}

// claim makes sure that nobody else retries a letter. It stays in the store meanwhile.
func (l *Letters) claim(id uint64, i int) (stage.DeadLetter, *claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.slots[i]
	switch {
	case s.id != id:
		return stage.DeadLetter{}, nil, ErrNoLetter
	case s.claim != nil:
		return stage.DeadLetter{}, nil, ErrRetrying
	}
	s.claim = new(claim)
	return s.dead, s.claim, nil
}

// settle ends a claim.
func (l *Letters) settle(id uint64, i int, c *claim, accepted bool) {
	l.mu.Lock()
	switch s := &l.slots[i]; {
	case s.id == id && accepted:
		l.remove(i)
	case s.id == id:
		s.claim = nil
	case c.evicted && !accepted:
		l.lose()
	}
	l.mu.Unlock()
}

// Drop takes a letter out of the store, for good, and reports whether it was there.
func (l *Letters) Drop(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.find(id)
	if ok {
		l.remove(i)
	}
	return ok
}

// Clear drops the letters that a filter chooses, and returns how many.
func (l *Letters) Clear(f LetterFilter) (n int) {
	chosen := l.choose(f)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range chosen {
		if l.slots[h.slot].id == h.ID {
			l.remove(h.slot)
			n++
		}
	}
	return n
}

// Export writes all letters as lines of JSON, the oldest first. What comes meanwhile is
// left out.
func (l *Letters) Export(w io.Writer) error {
	for _, letter := range l.List(LetterFilter{OldestFirst: true}) {
		line, err := letter.MarshalJSON()
		if err != nil {
			return fmt.Errorf("letter %d: %w", letter.ID, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("letter %d: %w", letter.ID, err)
		}
	}
	return nil
}

// letterbox is where a pipeline keeps its letters.
type letterbox struct {
	dead, quarantine, failures *Letters
}

func newLetterbox(bound int, log *slog.Logger, again func(context.Context, string, any) error) letterbox {
	store := func(name string) *Letters { return newLetters(name, bound, log, again) }
	return letterbox{store("dead letters"), store("quarantine"), store("failures")}
}

// keep puts a letter where it belongs. The crash is that of its command; nil if it did not.
func (b *letterbox) keep(d *stage.DeadLetter, crash *stage.CrashError) {
	var version, where string
	if crash != nil {
		version, where = crash.Version, crash.Fingerprint()
	}
	switch d.Reason {
	case stage.ReasonError:
		b.failures.put(d, "", kindOf(d.Err))
	case stage.ReasonCrash:
		b.quarantine.put(d, version, where)
	default:
		b.dead.put(d, version, "")
	}
}

// rest tells the log what it has not heard of.
func (b *letterbox) rest() {
	b.dead.rest()
	b.quarantine.rest()
	b.failures.rest()
}
