package letters

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// encode makes the body of a letter for the file. It is about as large as the
// command.
func (l *Store) encode(e *Entry) {
	e.body = l.disk.encode(e)
	e.size = max(e.size, int64(len(e.body)))
	if l.limit(e) {
		e.body = l.disk.encode(e)
	}
}

// writeLocked writes a letter to the file. A letter that cannot be written is
// written by [Store.sync].
func (l *Store) writeLocked(s *slot) {
	if s.unwritten == nil {
		return
	}
	f := l.disk.file
	if f == nil {
		l.disk.problem = errLate
		return
	}
	at, err := f.add(lineOfPut(s.id, s.group.seen, s.group.first, s.unwritten))
	if err != nil {
		l.disk.problem = err
		return
	}
	f.live += int64(at.n - s.where.n) // the record is the first, or replaces one
	s.where, s.unwritten = at, nil
}

// eraseLocked notes in the file that a letter is gone.
func (l *Store) eraseLocked(id uint64, at extent) {
	f := l.disk.file
	if at.n == 0 || f == nil {
		return
	}
	f.live -= int64(at.n)
	if _, err := f.add(lineOfGone(id)); err != nil {
		l.disk.problem = err
	}
}

// shrinkLocked rewrites the file if much of it is not needed any more.
func (l *Store) shrinkLocked() {
	if f := l.disk.file; f != nil && f.wasteful() {
		l.rewriteLocked()
	}
}

// retriedLocked notes that the letter in a slot is retried. It stays in the
// file until the retry has ended, and so is there again if the process is
// killed before.
func (l *Store) retriedLocked(i int, c *claim) {
	s := &l.slots[i]
	if s.where.n > 0 && !c.ended && l.disk.file != nil {
		c.where = s.where
		l.disk.retried[s.id] = c
		s.where = extent{}
	}
}

// end notes that the retry of a letter has ended.
func (l *Store) end(id uint64, c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ended = true
	l.forgetLocked(id, c)
}

// forgetLocked removes a letter from the file that is only there because of its
// retry.
func (l *Store) forgetLocked(id uint64, c *claim) {
	if l.disk.retried[id] == c {
		delete(l.disk.retried, id)
		l.eraseLocked(id, c.where)
		l.shrinkLocked()
	}
}

// rewriteLocked rewrites the file without the records that are not needed any
// more.
func (l *Store) rewriteLocked() {
	type needed struct {
		id uint64
		at *extent
	}
	var all []needed
	for i := range l.slots {
		if s := &l.slots[i]; s.where.n > 0 {
			all = append(all, needed{s.id, &s.where})
		}
	}
	for id, c := range l.disk.retried {
		all = append(all, needed{id, &c.where})
	}
	slices.SortFunc(all, func(a, b needed) int { return cmp.Compare(a.id, b.id) })
	extents := make([]*extent, len(all))
	for i, n := range all {
		extents[i] = n.at
	}
	if err := l.disk.file.rewrite(l.headLocked(), extents); err != nil {
		l.disk.problem = fmt.Errorf("rewrite: %w", err)
	}
}

func (l *Store) headLocked() []byte {
	text, _ := json.Marshal(record{Head: &head{format, l.disk.pipeline, l.name, l.ids}}) // it has no value that JSON lacks
	return lineOfRecord(text)
}

// sync makes sure that the letters survive the process and a power cut, or
// returns why they would not.
func (l *Store) sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disk.file == nil {
		return nil
	}
	for i := range l.slots {
		s := &l.slots[i]
		if l.writeLocked(s); s.unwritten != nil {
			return fmt.Errorf("letters of the store %q: %w", l.name, l.disk.problem)
		}
	}
	return l.disk.file.sync()
}
