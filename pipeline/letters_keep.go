package pipeline

import (
	"container/heap"
	"time"

	"github.com/golda-dev/golda/stage"
)

// slot holds a letter; its id is 0 if it is not in use.
type slot struct {
	id           uint64
	dead         stage.DeadLetter
	version      string
	cause        *cause
	older, newer int // neighbours in the group, by slot; nowhere if there is none
	claim        *claim
}

const nowhere = -1

// origin is what the letters of a group have in common.
type origin struct {
	stage       string
	reason      stage.Reason
	fingerprint string
}

// cause is a group: the letters of one origin, and what was seen of them.
type cause struct {
	origin
	seen           uint64
	first, last    time.Time
	oldest, newest int // slots; nowhere if there is none
	kept           int
	born           uint64 // the id of the oldest letter
	place          int    // in the heap, nowhere if the group has no letters
}

// claim is the right to retry a letter.
type claim struct {
	evicted bool // the letter has had to give way meanwhile
}

// put keeps a letter. It is called by those who drop commands at full speed.
func (l *Letters) put(d *stage.DeadLetter, version, fingerprint string) {
	l.mu.Lock()
	g := l.groupOf(origin{d.Stage, d.Reason, fingerprint}, d.At)
	l.ids++
	if l.bound > 0 {
		l.add(d, version, g)
	} else {
		l.dropped++ // as it was asked for, so there is nothing to tell
	}
	if len(l.slots)-len(l.free) > l.bound {
		l.evict()
	}
	lost := l.lostToReport(d.At)
	l.mu.Unlock()
	l.reportLost(lost)
}

// groupOf finds a letter's group and counts the letter.
func (l *Letters) groupOf(o origin, at time.Time) *cause {
	g := l.last
	if g == nil || g.origin != o {
		g = l.groups[o]
	}
	if g == nil {
		g = &cause{origin: o, first: at, oldest: nowhere, newest: nowhere, place: nowhere}
		l.forget()
		l.groups[o] = g
	}
	l.last = g
	g.seen++
	g.last = at
	return g
}

// leastGroups is how many groups even a small store remembers.
const leastGroups = 64

// forget makes room for one more group, by forgetting what was seen of one that has no
// letters any more.
func (l *Letters) forget() {
	if len(l.groups) < max(l.bound, leastGroups) {
		return
	}
	var empty *cause
	for _, g := range l.groups {
		if g.kept == 0 && (empty == nil || g.last.Before(empty.last)) {
			empty = g
		}
	}
	if empty != nil {
		delete(l.groups, empty.origin)
	}
}

// add puts a letter into a slot, as the newest of its group.
func (l *Letters) add(d *stage.DeadLetter, version string, g *cause) {
	i := len(l.slots)
	if n := len(l.free); n > 0 {
		i = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[i]
	s.id, s.dead, s.version, s.cause = l.ids, *d, version, g
	s.older, s.newer = g.newest, nowhere
	if g.newest != nowhere {
		l.slots[g.newest].newer = i
	}
	g.newest = i
	if g.kept++; g.kept == 1 {
		g.oldest, g.born = i, s.id
		heap.Push(&l.largest, g)
		return
	}
	heap.Fix(&l.largest, g.place)
}

// remove takes the letter out of a slot.
func (l *Letters) remove(i int) {
	s := &l.slots[i]
	g := s.cause
	if s.older != nowhere {
		l.slots[s.older].newer = s.newer
	} else {
		g.oldest = s.newer
	}
	if s.newer != nowhere {
		l.slots[s.newer].older = s.older
	} else {
		g.newest = s.older
	}
	*s = slot{}
	l.free = append(l.free, i)
	if g.kept--; g.kept == 0 {
		heap.Remove(&l.largest, g.place)
		return
	}
	g.born = l.slots[g.oldest].id
	heap.Fix(&l.largest, g.place)
}

// evict drops a letter. One that is being retried is only lost if it is refused.
func (l *Letters) evict() {
	i := l.largest[0].oldest
	if c := l.slots[i].claim; c != nil {
		c.evicted = true
	} else {
		l.lose()
	}
	l.remove(i)
}

func (l *Letters) lose() {
	l.dropped++
	l.untold++
}

// lostToReport is how many dropped letters the log is to be told of now: of a flood it hears
// once a second.
func (l *Letters) lostToReport(now time.Time) (lost uint64) {
	if l.untold == 0 || !l.told.IsZero() && now.Sub(l.told) < time.Second {
		return 0
	}
	l.told = now
	lost, l.untold = l.untold, 0
	return lost
}

// rest tells of the dropped letters that the log has not heard of; it is for the end.
func (l *Letters) rest() {
	l.mu.Lock()
	lost := l.untold
	l.untold = 0
	l.mu.Unlock()
	l.reportLost(lost)
}

func (l *Letters) reportLost(lost uint64) {
	if lost > 0 {
		l.log.Warn("letters dropped: the store is full", "store", l.name, "dropped", lost, "keeps", l.bound)
	}
}

// sizes is a heap of groups: the one that has the most letters first, and of those the
// one that has the oldest.
type sizes []*cause

func (s *sizes) Len() int { return len(*s) }

func (s *sizes) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	return a.kept > b.kept || a.kept == b.kept && a.born < b.born
}

func (s *sizes) Swap(i, j int) {
	g := *s
	g[i], g[j] = g[j], g[i]
	g[i].place, g[j].place = i, j
}

// Push is for package heap.
func (s *sizes) Push(x any) {
	g := x.(*cause)
	g.place = len(*s)
	*s = append(*s, g)
}

// Pop is for package heap.
func (s *sizes) Pop() any {
	n := len(*s) - 1
	g := (*s)[n]
	(*s)[n] = nil
	*s = (*s)[:n]
	g.place = nowhere
	return g
}
