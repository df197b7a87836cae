package letters

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golda-dev/golda/internal/lockfile"
)

// Home is where the letters of a pipeline are kept.
type Home struct {
	Dir      string
	Pipeline string
	Codecs   Codecs
	Log      *slog.Logger
}

// The names of the files in the directory.
const (
	lockName       = "lock"
	deadName       = "dead-letters"
	quarantineName = "quarantine"
	failuresName   = "failures"
)

// Await says that the box will have files. Until [Box.Open] no letter is
// dropped or imported.
func (b *Box) Await() {
	for _, l := range b.stores() {
		l.disk.closed = true
	}
}

// Open reads the letters in a directory, which is made if it is not there, and
// has the stores write theirs to it. The directory is locked until [Box.Close].
// Open is called once, before letters are put into the box.
func (b *Box) Open(home Home) error {
	if err := b.open(home); err != nil {
		return fmt.Errorf("letters in %q: %w", home.Dir, errors.Join(err, b.closeFiles()))
	}
	return nil
}

func (b *Box) open(home Home) (err error) {
	if err := os.MkdirAll(home.Dir, 0o700); err != nil {
		return err
	}
	if b.lock, err = lockfile.Take(filepath.Join(home.Dir, lockName)); err != nil {
		return err
	}
	for name, store := range map[string]*Store{deadName: b.Dead, quarantineName: b.Quarantine, failuresName: b.Failures} {
		if err := store.open(filepath.Join(home.Dir, name), home); err != nil {
			return err
		}
	}
	return nil
}

// open reads the letters of a file, and has the store write its letters there.
func (l *Store) open(path string, home Home) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	r := reading{path: path, pipeline: home.Pipeline, store: l.name, needed: map[uint64]extent{}}
	found, err := f.load(r.take)
	if err == nil {
		err = f.mend(found, home.Log)
	}
	var entries []loaded
	if err == nil {
		entries, err = r.entries(f, home.Codecs, home.Log)
	}
	if err != nil {
		return errors.Join(err, f.f.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disk = disk{codecs: home.Codecs, log: home.Log, pipeline: home.Pipeline, file: f, retried: map[uint64]*claim{}}
	l.restoreLocked(entries)
	l.ids = max(l.ids, r.last)
	switch {
	case f.size == 0:
		_, err = f.add(l.headLocked())
	case found.damaged > 0 || f.wasteful():
		l.rewriteLocked()
		err = l.disk.problem
	}
	return err
}

// mend removes the bytes behind the last record of a file. It copies a file
// with damaged records, so that a person may save them.
func (f *file) mend(found damage, log *slog.Logger) error {
	if found.damaged > 0 {
		copied := f.path + ".damaged"
		if err := f.setAside(copied); err != nil {
			return err
		}
		log.Error("a file of letters is damaged; the letters that can be read are kept",
			"file", f.path, "damaged_records", found.damaged, "copy", copied)
	}
	if found.torn == 0 {
		return nil
	}
	log.Warn("the last record of a file of letters was not written whole, and is removed", "file", f.path, "bytes", found.torn)
	return f.cutOff()
}

// reading is the content of a file's records so far.
type reading struct {
	path, pipeline, store string

	begun  bool // the head was read
	last   uint64
	needed map[uint64]extent // the letters that are not gone, by ID
}

// take takes the next record.
func (r *reading) take(at extent, text []byte) error {
	var x record
	if err := json.Unmarshal(text, &x); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	switch {
	case x.Head != nil:
		r.begun, r.last = true, max(r.last, x.Head.Last)
		return r.check(x.Head)
	case !r.begun:
		return fmt.Errorf("%s: this is no file of letters, or its beginning is lost; move it away to go on without these letters", r.path)
	case x.Put != nil && x.Put.Letter != nil:
		r.last = max(r.last, x.Put.ID)
		r.needed[x.Put.ID] = at
	default:
		delete(r.needed, x.Gone)
	}
	return nil
}

func (r *reading) check(h *head) error {
	switch {
	case h.Format != format:
		return fmt.Errorf("%s: format %d, and this version of the program knows %d", r.path, h.Format, format)
	case h.Pipeline != r.pipeline || h.Store != r.store:
		return fmt.Errorf("%s: has the %s of pipeline %q, and this is pipeline %q; each pipeline needs a directory of its own",
			r.path, h.Store, h.Pipeline, r.pipeline)
	}
	return nil
}

// loaded is a letter that was read.
type loaded struct {
	Entry
	put

	at extent
}

// entries returns the letters that are not gone, the oldest first.
func (r *reading) entries(f *file, codecs Codecs, log *slog.Logger) (all []loaded, err error) {
	for _, at := range r.needed {
		text := make([]byte, at.n)
		if _, err := f.f.ReadAt(text, at.at); err != nil {
			return nil, err
		}
		var x record
		body, _ := parse(text)
		if err := json.Unmarshal(body, &x); err != nil {
			return nil, err
		}
		k := loaded{at: at, put: *x.Put, Entry: entryOf(x.Put.Letter, codecs)}
		if k.missing != nil {
			log.Warn("the command of a letter cannot be read", "stage", k.Stage, "letter", k.ID, "reason", k.missing)
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b loaded) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all, nil
}

// entryOf returns the letter of a line, with its command if that can be read.
func entryOf(x *line, codecs Codecs) Entry {
	e := Entry{DeadLetter: x.letter(), Version: x.Version, Fingerprint: x.Fingerprint}
	c, err := codecs(x.Stage)
	if err == nil {
		e.Command, err = c.read(x)
	}
	if err != nil {
		e.missing = &missing{err, x.Type}
	}
	return e
}

// restoreLocked puts letters that were read into the store.
func (l *Store) restoreLocked(all []loaded) {
	for i := range all {
		k := &all[i]
		l.disk.file.live += int64(k.at.n)
		g := l.groupOfLocked(groupKey{k.Stage, k.Reason, k.Fingerprint}, k.At)
		g.seen = max(g.seen, k.Seen)
		if k.First.Before(g.first) {
			g.first = k.First
		}
		l.ids = k.put.ID
		if l.bound.Letters == 0 {
			l.eraseLocked(k.put.ID, k.at)
			continue
		}
		k.size = int64(k.at.n)
		l.addLocked(&k.Entry, g).where = k.at
		l.boundLocked()
	}
}

// Sync makes sure that the letters survive the process and a power cut, or
// returns why they would not. It does nothing for stores without a file.
func (b *Box) Sync() error {
	var errs []error
	for _, l := range b.stores() {
		l.completeAll()
		errs = append(errs, l.sync())
	}
	return errors.Join(errs...)
}

// Close closes the files, and returns how many letters could not be written to
// them. Stores without files log how many letters they have.
func (b *Box) Close() (unwritten int, err error) {
	for _, l := range b.stores() {
		l.Flush()
		l.logDiscarded()
	}
	err = b.closeFiles()
	for _, l := range b.stores() {
		unwritten += l.unwritten()
	}
	return unwritten, err
}

// unwritten returns how many letters could not be written to the file.
func (l *Store) unwritten() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.slots {
		if l.slots[i].unwritten != nil {
			n++
		}
	}
	return n
}

func (b *Box) closeFiles() error {
	var errs []error
	for _, l := range b.stores() {
		errs = append(errs, l.close())
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
		b.lock = nil
	}
	return errors.Join(errs...)
}

// close closes the file of the store. The store keeps its letters, which cannot
// be dropped any more.
func (l *Store) close() error {
	l.completeAll()
	err := l.sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.disk.file
	if f == nil {
		return nil
	}
	l.disk.file, l.disk.closed = nil, true
	return errors.Join(err, f.close())
}

// logDiscarded logs how many letters end with the process, because the store
// has no file.
func (l *Store) logDiscarded() {
	if l.disk.codecs != nil {
		return
	}
	of := map[string]int{}
	n := 0
	l.mu.Lock()
	for i := range l.slots {
		if s := &l.slots[i]; s.id > 0 && !s.heard {
			n++
			of[fmt.Sprintf("%s (%s)", s.dead.Stage, s.dead.Reason)]++
		}
	}
	l.mu.Unlock()
	if n > 0 {
		l.log.Warn("stopped with letters that end with the process; see pipeline.KeepLetters", "store", l.name, "letters", n, "of", summary(of))
	}
}

// mostNamed is how many stages and reasons a summary names.
const mostNamed = 8

// summary returns counts by name as a text, the largest first.
func summary(of map[string]int) string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for i, name := range names {
		if i == mostNamed {
			parts = append(parts, fmt.Sprintf("%d more stages or reasons", len(names)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}
