package letters

import (
	"container/heap"
	"errors"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
)

// Put adds a letter, and returns its number. It is called for every command
// that is dropped, which may be very many a second.
func (l *Store) Put(e *Entry) (id uint64) {
	l.measure(e)
	if l.disk.codecs != nil && !e.Heard {
		c := *e // a copy, since it escapes
		l.encode(&c)
		*e = c
	}
	l.mu.Lock()
	g := l.groupOfLocked(groupKey{e.Stage, e.Reason, e.Fingerprint}, e.At)
	l.ids++
	id = l.ids
	if errors.Is(e.missing, errTooLarge) {
		l.unreported.cut++
	}
	if l.bound.Letters > 0 {
		l.writeLocked(l.addLocked(e, g))
	} else {
		l.dropped++ // the user asked for a store that keeps none, so there is nothing to log
		l.releaseLocked(e.Park)
	}
	l.boundLocked()
	lost := l.lostToReportLocked(e.At)
	problem := l.disk.problemLocked(e.At)
	released := l.takeReleasedLocked()
	l.mu.Unlock()
	endAll(released)
	l.reportLost(lost)
	l.disk.report(l.name, problem)
	if h := e.awaits; h != nil {
		h.AfterReturn(func() { l.complete(id) })
	}
	return id
}

// groupOfLocked returns a letter's group and counts the letter there.
func (l *Store) groupOfLocked(k groupKey, at time.Time) *group {
	g := l.last
	if g == nil || g.key != k {
		g = l.groups[k]
	}
	if g == nil {
		g = &group{key: k, first: at, oldest: none, newest: none, index: none}
		l.forgetGroupLocked()
		l.groups[k] = g
	}
	l.last = g
	g.seen++
	g.last = at
	return g
}

// minGroups is how many groups even a small store remembers.
const minGroups = 64

// forgetGroupLocked removes the least recently seen group that has no letters,
// if there are too many groups for one more.
func (l *Store) forgetGroupLocked() {
	if len(l.groups) < max(l.bound.Letters, minGroups) {
		return
	}
	var empty *group
	for _, g := range l.groups {
		if g.kept == 0 && (empty == nil || g.last.Before(empty.last)) {
			empty = g
		}
	}
	if empty != nil {
		delete(l.groups, empty.key)
	}
}

// addLocked puts a letter into a slot, as the newest of its group.
func (l *Store) addLocked(e *Entry, g *group) (at *slot) {
	i := len(l.slots)
	if n := len(l.free); n > 0 {
		i = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[i]
	s.id, s.dead, s.version, s.group = l.ids, e.DeadLetter, e.Version, g
	s.missing, s.heard, s.unwritten, s.size, s.awaits = e.missing, e.Heard, e.body, e.size, e.awaits
	s.park = e.Park
	s.older, s.newer = g.newest, none
	if g.newest != none {
		l.slots[g.newest].newer = i
	}
	g.newest = i
	l.weighLocked(g, 1, s.size)
	if g.kept == 1 {
		g.oldest, g.oldestID = i, s.id
		heap.Push(&l.largest, g)
	} else {
		heap.Fix(&l.largest, g.index)
	}
	return s
}

// dropLocked takes the letter out of a slot, and out of the file.
func (l *Store) dropLocked(i int) {
	l.eraseLocked(l.slots[i].id, l.slots[i].where)
	l.removeLocked(i)
	l.shrinkLocked()
}

// removeLocked takes the letter out of a slot.
func (l *Store) removeLocked(i int) {
	s := &l.slots[i]
	g := s.group
	if s.older != none {
		l.slots[s.older].newer = s.newer
	} else {
		g.oldest = s.newer
	}
	if s.newer != none {
		l.slots[s.newer].older = s.older
	} else {
		g.newest = s.older
	}
	l.weighLocked(g, -1, -s.size)
	if s.claim != nil {
		s.claim.park = s.park // until it is known whether the retry was accepted
	} else {
		l.releaseLocked(s.park)
	}
	*s = slot{}
	l.free = append(l.free, i)
	if g.kept == 0 {
		heap.Remove(&l.largest, g.index)
		return
	}
	g.oldestID = l.slots[g.oldest].id
	heap.Fix(&l.largest, g.index)
}

// weighLocked counts letters and their bytes that a group has got or lost.
func (l *Store) weighLocked(g *group, letters int, bytes int64) {
	g.kept += letters
	g.bytes += bytes
	l.bytes += bytes
	g.weight = max(int64(g.kept)*l.bound.unit(), g.bytes)
}

// boundLocked evicts letters until the store is within its bound.
func (l *Store) boundLocked() {
	for len(l.largest) > 0 && (len(l.slots)-len(l.free) > l.bound.Letters || l.bytes > l.bound.Bytes) {
		l.evictLocked()
	}
}

// evictLocked removes the oldest letter of the largest group. One that is being
// retried is lost only if it is refused, and stays in the file until that is
// known.
func (l *Store) evictLocked() {
	i := l.largest[0].oldest
	if c := l.slots[i].claim; c != nil {
		c.evicted = true
		l.retriedLocked(i, c)
	} else {
		l.loseLocked(l.slots[i].park, l.slots[i].dead.Stage)
	}
	l.dropLocked(i)
}

// loseLocked counts a letter of a stage that is lost, with its hold on a key.
func (l *Store) loseLocked(park *inbox.Park, stage string) {
	l.dropped++
	l.unreported.dropped++
	if park != nil {
		l.unreported.unparked++
		l.unreported.stage = stage
	}
}

// releaseLocked notes a hold that must end.
func (l *Store) releaseLocked(park *inbox.Park) {
	if park != nil {
		l.released = append(l.released, park)
	}
}

func (l *Store) takeReleasedLocked() (released []*inbox.Park) {
	released, l.released = l.released, nil
	return released
}

// release ends the holds of letters that have left. The keys go on. It is called
// without the lock, since it wakes workers.
func (l *Store) release() {
	l.mu.Lock()
	released := l.takeReleasedLocked()
	l.mu.Unlock()
	endAll(released)
}

func endAll(parks []*inbox.Park) {
	for _, p := range parks {
		p.End()
	}
}

// lostToReportLocked returns the losses to log now. A store with a file reports
// the first loss, and then each time that the number of lost letters has
// doubled. Another store reports none if some were logged within a second.
func (l *Store) lostToReportLocked(now time.Time) (lost loss) {
	switch {
	case l.unreported == lost:
		return lost
	case l.disk.codecs != nil:
		if l.unreported.cut == 0 && l.unreported.unparked == 0 && l.dropped < 2*l.said {
			return lost
		}
		l.said = l.dropped
	case !l.reported.IsZero() && now.Sub(l.reported) < time.Second:
		return lost
	}
	l.reported = now
	lost, l.unreported = l.unreported, lost
	return lost
}

// Flush logs the losses that were not logged yet. It is for the end.
func (l *Store) Flush() {
	l.mu.Lock()
	lost := l.unreported
	l.unreported = loss{}
	l.mu.Unlock()
	l.reportLost(lost)
}

func (l *Store) reportLost(lost loss) {
	if lost.dropped > 0 {
		l.log.Warn("letters dropped: the store is full",
			"store", l.name, "dropped", lost.dropped, "keeps", l.bound.Letters, "keeps_bytes", l.bound.Bytes,
			"see", "pipeline.KeepLetters")
	}
	if lost.unparked > 0 {
		l.log.Warn("parked keys go on without the commands of their letters, which were dropped: the store is full",
			"store", l.name, "keys", lost.unparked, "stage", lost.stage, "keeps", l.bound.Letters, "see", "pipeline.KeepLetters, stage.ParkOnFailure")
		if l.unparked != nil {
			l.unparked(lost.stage, lost.unparked)
		}
	}
	if lost.cut > 0 {
		l.log.Warn("letters are kept without their commands, which are larger than the store",
			"store", l.name, "letters", lost.cut, "keeps_bytes", l.bound.Bytes)
	}
}

// findLocked returns a letter's slot. It searches all slots: the store is built
// for floods, which add letters, and not for people, which look one up.
func (l *Store) findLocked(id uint64) (at int, ok bool) {
	at = slices.IndexFunc(l.slots, func(s slot) bool { return s.id == id })
	return at, at >= 0 && id > 0
}

// complete writes the command of a letter whose abandoned handler has now
// returned. It does nothing if the letter is gone or is being retried.
func (l *Store) complete(id uint64) {
	defer l.release()
	e, ok := l.incomplete(id)
	if !ok {
		return
	}
	l.encode(&e)
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.findLocked(id)
	if !ok || l.slots[i].awaits == nil || l.disk.file == nil {
		return
	}
	s := &l.slots[i]
	s.awaits, s.unwritten = nil, e.body
	s.dead.Command, s.missing = e.Command, e.missing
	l.weighLocked(s.group, 0, e.size-s.size)
	s.size = e.size
	heap.Fix(&l.largest, s.group.index)
	l.writeLocked(s)
	l.boundLocked()
	l.shrinkLocked()
}

// incomplete returns the entry of a letter whose command must still be written.
func (l *Store) incomplete(id uint64) (e Entry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.findLocked(id)
	if !ok || l.slots[i].awaits == nil || l.slots[i].claim != nil || l.disk.file == nil {
		return e, false
	}
	s := &l.slots[i]
	return Entry{DeadLetter: s.dead, Version: s.version, Fingerprint: s.group.key.fingerprint, size: s.size}, true
}

// completeAll is complete for all letters whose handlers have returned.
func (l *Store) completeAll() {
	var ids []uint64
	l.mu.Lock()
	for i := range l.slots {
		if s := &l.slots[i]; s.awaits != nil && s.awaits.Returned() {
			ids = append(ids, s.id)
		}
	}
	l.mu.Unlock()
	for _, id := range ids {
		l.complete(id)
	}
}
