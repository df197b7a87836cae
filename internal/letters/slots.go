package letters

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Store is a bounded store of letters. When it is full, the oldest letter of the group that has the most letters is evicted
// for a new one, so that a flood of one cause leaves the letters of other causes in the store. Evictions are counted and
// logged. Any goroutine may use the store.
type Store struct {
	name   string
	bound  int
	log    *slog.Logger
	submit Submit

	mu         sync.Mutex // guards all below
	slots      []slot     // as many as are in use, or were at once
	free       []int      // slots that are not in use
	groups     map[groupKey]*group
	last       *group // of the last letter: the letters of a flood have one group
	largest    bySize // groups that have letters
	ids        uint64
	dropped    uint64
	unreported uint64    // dropped letters that were not logged yet
	reported   time.Time // when dropped letters were last logged
}

// NewStore returns a store that keeps at most bound letters. Its name is for the log.
func NewStore(name string, bound int, log *slog.Logger, submit Submit) *Store {
	return &Store{name: name, bound: bound, log: log, submit: submit, groups: map[groupKey]*group{}}
}

// Submit submits a command to the stage of that name again.
type Submit func(ctx context.Context, stage string, cmd any) error

// slot has a letter; its id is 0 if it is not in use.
type slot struct {
	id           uint64
	dead         stage.DeadLetter
	version      string
	group        *group
	older, newer int // neighbours in the group, by slot; none if there is none
	claim        *claim
}

const none = -1

// groupKey is what the letters of a group have in common.
type groupKey struct {
	stage       string
	reason      reason.Reason
	fingerprint string
}

// group has the letters of one key, linked through their slots, and counts those that were ever seen.
type group struct {
	key            groupKey
	seen           uint64
	first, last    time.Time
	oldest, newest int // slots; none if there is none
	kept           int
	oldestID       uint64 // the id of the oldest letter
	index          int    // in the heap; none if the group has no letters
}

// claim is the right to retry a letter.
type claim struct {
	evicted bool // the letter was evicted meanwhile
}

// Put adds a letter. It is called for every command that is dropped, which may be very many a second.
func (l *Store) Put(d *stage.DeadLetter, version, fingerprint string) {
	l.mu.Lock()
	g := l.groupOfLocked(groupKey{d.Stage, d.Reason, fingerprint}, d.At)
	l.ids++
	if l.bound > 0 {
		l.addLocked(d, version, g)
	} else {
		l.dropped++ // the user asked for a store that keeps none, so there is nothing to log
	}
	if len(l.slots)-len(l.free) > l.bound {
		l.evictLocked()
	}
	lost := l.lostToReportLocked(d.At)
	l.mu.Unlock()
	l.reportLost(lost)
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

// forgetGroupLocked removes the least recently seen group that has no letters, if there are too many groups for one more.
func (l *Store) forgetGroupLocked() {
	if len(l.groups) < max(l.bound, minGroups) {
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
func (l *Store) addLocked(d *stage.DeadLetter, version string, g *group) {
	i := len(l.slots)
	if n := len(l.free); n > 0 {
		i = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[i]
	s.id, s.dead, s.version, s.group = l.ids, *d, version, g
	s.older, s.newer = g.newest, none
	if g.newest != none {
		l.slots[g.newest].newer = i
	}
	g.newest = i
	if g.kept++; g.kept == 1 {
		g.oldest, g.oldestID = i, s.id
		heap.Push(&l.largest, g)
		return
	}
	heap.Fix(&l.largest, g.index)
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
	*s = slot{}
	l.free = append(l.free, i)
	if g.kept--; g.kept == 0 {
		heap.Remove(&l.largest, g.index)
		return
	}
	g.oldestID = l.slots[g.oldest].id
	heap.Fix(&l.largest, g.index)
}

// evictLocked removes the oldest letter of the largest group. One that is being retried is lost only if it is refused.
func (l *Store) evictLocked() {
	i := l.largest[0].oldest
	if c := l.slots[i].claim; c != nil {
		c.evicted = true
	} else {
		l.loseLocked()
	}
	l.removeLocked(i)
}

func (l *Store) loseLocked() {
	l.dropped++
	l.unreported++
}

// lostToReportLocked returns how many evicted letters are to be logged now: none, if some were logged within a second.
func (l *Store) lostToReportLocked(now time.Time) (lost uint64) {
	if l.unreported == 0 || !l.reported.IsZero() && now.Sub(l.reported) < time.Second {
		return 0
	}
	l.reported = now
	lost, l.unreported = l.unreported, 0
	return lost
}

// Flush logs the evictions that were not logged yet. It is for the end.
func (l *Store) Flush() {
	l.mu.Lock()
	lost := l.unreported
	l.unreported = 0
	l.mu.Unlock()
	l.reportLost(lost)
}

func (l *Store) reportLost(lost uint64) {
	if lost > 0 {
		l.log.Warn("letters dropped: the store is full", "store", l.name, "dropped", lost, "keeps", l.bound)
	}
}

// bySize is a heap of groups: the one that has the most letters first, and of those the one that has the oldest letter.
type bySize []*group

func (s *bySize) Len() int { return len(*s) }

func (s *bySize) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	return a.kept > b.kept || a.kept == b.kept && a.oldestID < b.oldestID
}

func (s *bySize) Swap(i, j int) {
	g := *s
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

// Push is for package heap.
func (s *bySize) Push(x any) {
	g := x.(*group)
	g.index = len(*s)
	*s = append(*s, g)
}

// Pop is for package heap.
func (s *bySize) Pop() any {
	n := len(*s) - 1
	g := (*s)[n]
	(*s)[n] = nil
	*s = (*s)[:n]
	g.index = none
	return g
}
