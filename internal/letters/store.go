// Package letters keeps and delivers the letters of a pipeline. A letter is a
// record of a command that ended without an answer, or that failed.
//
// [Box] has the three stores of a pipeline, each a [Store] with its bounds; a
// letter can be listed, retried and dropped there. [Notifier] delivers letters
// to the functions that users subscribe. The package calls user code:
// subscribers, filters, and, when it writes a letter as JSON or as a log line,
// the methods of commands and errors.
package letters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// The reasons why a letter is not retried.
var (
	// ErrNotFound reports that the store does not have the letter, or no
	// longer.
	ErrNotFound = errors.New("pipeline: no such letter")
	// ErrRetrying reports that the letter is being retried by another call.
	ErrRetrying = errors.New("pipeline: the letter is being retried")
)

// matches reports whether the fixed fields of the filter match; If is called
// later, without the lock.
func (f Filter) matches(s *slot) bool {
	o := s.group.key
	return (f.Stage == "" || f.Stage == o.stage) && (f.Reason == "" || f.Reason == o.reason) &&
		(f.Fingerprint == "" || f.Fingerprint == o.fingerprint) && (!f.Parked || s.park != nil)
}

// Len returns how many letters there are.
func (l *Store) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.slots) - len(l.free)
}

// Dropped returns how many letters were evicted since the start.
func (l *Store) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// located is a letter with its slot.
type located struct {
	Letter
	slot int
	park *inbox.Park
}

// letterLocked returns a copy of the letter in a slot.
func (l *Store) letterLocked(i int) located {
	s := &l.slots[i]
	return located{Letter{
		ID: s.id, DeadLetter: s.dead, Version: s.version, Fingerprint: s.group.key.fingerprint,
		Seen: s.group.seen, First: s.group.first, Last: s.group.last, Missing: s.missing,
		Parked: s.park != nil,
	}, i, s.park}
}

// choose returns the letters that a filter selects.
func (l *Store) choose(f Filter) []located {
	all := l.matching(f)
	slices.SortFunc(all, func(a, b located) int {
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
		h.Waiting = h.park.Waiting()
		if f.If == nil || f.If(h.Letter) {
			chosen = append(chosen, h)
		}
	}
	return chosen
}

// matching returns the letters that match the fixed fields of a filter.
func (l *Store) matching(f Filter) (all []located) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.slots {
		if s := &l.slots[i]; s.id > 0 && f.matches(s) {
			all = append(all, l.letterLocked(i))
		}
	}
	return all
}

// List returns the letters that a filter selects.
func (l *Store) List(f Filter) []Letter {
	chosen := l.choose(f)
	letters := make([]Letter, len(chosen))
	for i, h := range chosen {
		letters[i] = h.Letter
	}
	return letters
}

// Get returns a letter, and whether it is in the store.
func (l *Store) Get(id uint64) (Letter, bool) {
	l.mu.Lock()
	i, ok := l.findLocked(id)
	var h located
	if ok {
		h = l.letterLocked(i)
	}
	l.mu.Unlock()
	h.Waiting = h.park.Waiting()
	return h.Letter, ok
}

// Groups returns a summary of each group, the most recently seen first. Groups
// that have no letter left are included as long as there are not too many.
func (l *Store) Groups() []Group {
	l.mu.Lock()
	groups := make([]Group, 0, len(l.groups))
	parks := map[uint64]*inbox.Park{} // by the examples
	for k, g := range l.groups {
		sum := Group{
			Stage: k.stage, Reason: k.reason, Fingerprint: k.fingerprint,
			Seen: g.seen, Kept: g.kept, First: g.first, Last: g.last,
		}
		if g.newest != none {
			h := l.letterLocked(g.newest)
			sum.Example = h.Letter
			if h.park != nil {
				parks[h.ID] = h.park
			}
		}
		groups = append(groups, sum)
	}
	l.mu.Unlock()
	for i := range groups {
		groups[i].Example.Waiting = parks[groups[i].Example.ID].Waiting()
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Example.ID, a.Example.ID), cmp.Compare(a.Stage, b.Stage))
	})
	return groups
}

// Retry submits a letter's command again, and removes the letter if the stage
// accepts it.
func (l *Store) Retry(ctx context.Context, id uint64) error { return l.retry(ctx, id, nil, nil) }

// RetryThen is like [Store.Retry], and calls ended when the command has ended
// with all that was emitted on its way, with its error.
func (l *Store) RetryThen(ctx context.Context, id uint64, ended func(error)) error {
	return l.retry(ctx, id, nil, ended)
}

// RetryAs is like [Store.Retry], but submits another command in place of the
// letter's own.
func (l *Store) RetryAs(ctx context.Context, id uint64, cmd any) error {
	return l.retry(ctx, id, &cmd, nil)
}

func (l *Store) retry(ctx context.Context, id uint64, instead *any, ended func(error)) error {
	l.mu.Lock()
	i, ok := l.findLocked(id)
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("letter %d: %w", id, ErrNotFound)
	}
	return l.retryAt(ctx, id, i, instead, ended)
}

// RetryAll retries the letters that a filter selects, the oldest first, and
// returns how many were accepted. The error joins the first refusal of each
// stage. If ctx ends, RetryAll stops early and the error says so.
func (l *Store) RetryAll(ctx context.Context, f Filter) (n int, err error) {
	f.OldestFirst = true
	var errs []error
	refused := map[string]bool{}
	chosen := l.choose(f)
	for i, h := range chosen {
		err := l.retryAt(ctx, h.ID, h.slot, nil, nil)
		switch {
		case err == nil:
			n++
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrRetrying): // another call was faster
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

// retryAt retries the letter in a slot if it is still there.
func (l *Store) retryAt(ctx context.Context, id uint64, i int, instead *any, ended func(error)) error {
	dead, missing, park, c, err := l.claim(id, i)
	if err != nil {
		return fmt.Errorf("letter %d: %w", id, err)
	}
	accepted := false
	defer func() { l.settle(id, i, c, accepted) }() // even if a policy's gate panics
	cmd := dead.Command
	if instead != nil {
		cmd = *instead
	} else if missing != nil {
		return fmt.Errorf("letter %d: %w", id, missing)
	}
	if then := ended; c.filed {
		ended = func(err error) {
			l.end(id, c)
			if then != nil {
				then(err)
			}
		}
	}
	if err := l.submit(ctx, dead.Stage, cmd, park, ended); err != nil {
		return fmt.Errorf("letter %d: %w", id, err)
	}
	accepted = true
	return nil
}

// claim makes sure that a letter is retried by one call at a time. The letter
// stays in the store meanwhile.
func (l *Store) claim(id uint64, i int) (dead stage.DeadLetter, missing error, park *inbox.Park, c *claim, err error) { //nolint:revive // it is no error of claim
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.slots[i]
	switch {
	case s.id != id:
		return dead, nil, nil, nil, ErrNotFound
	case s.claim != nil:
		return dead, nil, nil, nil, ErrRetrying
	}
	s.claim = &claim{stage: s.dead.Stage, filed: s.where.n > 0}
	return s.dead, s.missing, s.park, s.claim, nil
}

// settle ends a claim. A key that the letter has parked goes on after the
// command was accepted, so that this one comes first.
func (l *Store) settle(id uint64, i int, c *claim, accepted bool) {
	defer l.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s := &l.slots[i]; {
	case s.id == id && accepted:
		l.retriedLocked(i, c)
		l.dropLocked(i)
	case s.id == id:
		s.claim = nil
	case c.evicted && !accepted:
		l.forgetLocked(id, c)
		l.loseLocked(c.park, c.stage)
	}
	l.releaseLocked(c.park)
}

// Drop removes a letter, and reports whether it was in the store and could be
// removed: not from a file that is closed.
func (l *Store) Drop(id uint64) bool {
	defer l.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.findLocked(id)
	if !ok || l.disk.closed {
		return false
	}
	l.dropLocked(i)
	return true
}

// Clear removes the letters that a filter selects, and returns how many.
func (l *Store) Clear(f Filter) (n int) {
	chosen := l.choose(f)
	defer l.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range chosen {
		if l.slots[h.slot].id == h.ID && !l.disk.closed {
			l.dropLocked(h.slot)
			n++
		}
	}
	return n
}

// Box has the stores of a pipeline.
type Box struct {
	Dead, Quarantine, Failures *Store

	lock *os.File // of the directory; nil if the letters are in memory only
}

// NewBox returns three empty stores with the same bound. Each logs the letters
// that it drops; the quarantine does so like the dead letters.
func NewBox(bound Bound, dead, failures *slog.Logger, submit Submit) *Box {
	store := func(name string, log *slog.Logger) *Store { return NewStore(name, bound, log, submit) }
	return &Box{Dead: store(deadStore, dead), Quarantine: store(quarantineStore, dead), Failures: store(failuresStore, failures)}
}

// Measure has the stores ask how large commands are. It is called before
// letters are put into the box.
func (b *Box) Measure(sizes Measure) {
	for _, l := range b.stores() {
		l.sizes = sizes
	}
}

// Parks has letters that are read from files or imported park keys, as a
// function says. Unparked is called when keys go on because their letters were
// evicted. Parks is called before there are letters.
func (b *Box) Parks(parks Parks, unparked func(stage string, keys uint64)) {
	for _, l := range []*Store{b.Failures, b.Quarantine} {
		l.parks, l.unparked = parks, unparked
	}
}

// Park has the letters of the files park the keys of their commands. It is
// called before the stages take commands.
func (b *Box) Park() {
	b.Failures.park()
	b.Quarantine.park()
}

func (b *Box) stores() [3]*Store { return [3]*Store{b.Dead, b.Quarantine, b.Failures} }

// Keep puts a letter into its store: of a crash into the quarantine, of a
// failure into the failures, and any other into the dead letters. The crash
// belongs to the letter's command; it may be nil. If heard, the source of the
// command handles its end, and keeps the command if needed. Keep returns the
// number of the letter in its store. The letter has the hold on the key of the
// command, if that is parked.
func (b *Box) Keep(d *stage.DeadLetter, crash *stage.CrashError, heard bool, park *inbox.Park) (id uint64) {
	e := Entry{DeadLetter: *d, Heard: heard, Park: park}
	e.takeUse()
	if crash != nil {
		e.Version = crash.Version
	}
	switch d.Reason {
	case reason.Error:
		e.Version, e.Fingerprint = "", kindOf(d.Err)
		return b.Failures.Put(&e)
	case reason.Crash:
		if crash != nil {
			e.Fingerprint = crash.Fingerprint()
		}
		return b.Quarantine.Put(&e)
	default:
		return b.Dead.Put(&e)
	}
}

// The names of the stores.
const (
	deadStore       = "dead letters"
	quarantineStore = "quarantine"
	failuresStore   = "failures"
)

// park has the letters park the keys of their commands that have not, as a
// function says. It is called when letters were read from a file.
func (l *Store) park() {
	if l.parks == nil {
		return
	}
	for _, h := range l.choose(Filter{OldestFirst: true}) {
		if h.park != nil {
			continue
		}
		p := l.parks(&h.Letter)
		l.mu.Lock()
		if s := &l.slots[h.slot]; s.id == h.ID && s.park == nil {
			s.park = p
		} else {
			l.releaseLocked(p)
		}
		l.mu.Unlock()
	}
	l.release()
}

// Public returns a store as users know it: a *letters.Store of package
// pipeline/letters, which sets it, so that it has no function that makes stores.
var Public func(inner *Store, codecs Codecs) any
