package queue_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/golda-dev/golda/stage/queue"
)

// law is a discipline and what it promises, said in the plainest way.
type law struct {
	discipline queue.Discipline
	// next is the place, among those that wait in the order in which they came, of the one
	// that is to come out.
	next func(came []waiting) int
	// forgets is true if a command's age is forgotten when it is taken.
	forgets bool
}

// waiting is an item that was pushed, with its key.
type waiting struct {
	item int
	key  queue.Key
}

// laws are all disciplines, those that [queue.ByName] knows and others.
var laws = map[string]law{
	"no discipline": {nil, oldest, false},
	"fifo":          {queue.FIFO{}, oldest, false},
	"lifo":          {queue.LIFO{}, newest, true},
	"lifo-adaptive": {queue.AdaptiveLIFO{}, newestAbove(64), true},
	"lifo-adaptive above one": {
		queue.AdaptiveLIFO{Above: 1}, newestAbove(1), true,
	},
	"lifo-adaptive above five": {
		queue.AdaptiveLIFO{Above: 5}, newestAbove(5), true,
	},
	"lifo-adaptive above all": {
		queue.AdaptiveLIFO{Above: math.MaxInt}, oldest, true,
	},
	"priority":          {queue.Priority{}, smallest, true},
	"priority by hand":  {queue.PriorityOf(func(n int) int { return n }), smallest, true},
	"deadline":          {queue.Deadline{}, smallest, true},
	"deadline by hand ": {queue.DeadlineOf(func(int) time.Time { return time.Time{} }), smallest, true},
}

// everyLaw are the names of the laws, in order, so that a number means one of them.
var everyLaw = slices.Sorted(maps.Keys(laws))

// forEach runs a test for every discipline.
func forEach(t *testing.T, test func(t *testing.T, l law)) {
	for _, name := range everyLaw {
		t.Run(name, func(t *testing.T) { test(t, laws[name]) })
	}
}

func oldest([]waiting) int      { return 0 }
func newest(came []waiting) int { return len(came) - 1 }

func newestAbove(above int) func([]waiting) int {
	return func(came []waiting) int {
		if len(came) > above {
			return newest(came)
		}
		return oldest(came)
	}
}

// smallest is the first of those that have the smallest key.
func smallest(came []waiting) int {
	least := slices.MinFunc(came, func(a, b waiting) int { return cmp.Compare(a.key, b.key) })
	return slices.IndexFunc(came, func(w waiting) bool { return w.key == least.key })
}

// model is a line in slow: two slices, in which the next one is looked for.
type model struct {
	law
	given []int
	came  []waiting
}

func (m *model) len() int { return len(m.given) + len(m.came) }

func (m *model) pop() int {
	if len(m.given) > 0 {
		return take(&m.given, 0)
	}
	return take(&m.came, m.next(m.came)).item
}

func (m *model) drop() int {
	if len(m.given) > 0 && (!m.forgets || len(m.came) == 0) {
		return take(&m.given, 0)
	}
	return take(&m.came, 0).item
}

func (m *model) popAll(n int) []int {
	n = min(n, m.len())
	items := make([]int, 0, n)
	for range n {
		items = append(items, m.pop())
	}
	return items
}

// turn goes over to another law.
func (m *model) turn(l law, key func(item *int) queue.Key) {
	m.law = l
	for i := range m.came {
		m.came[i].key = key(&m.came[i].item)
	}
}

// take removes the element at a place.
func take[E any](s *[]E, at int) E {
	e := (*s)[at]
	*s = slices.Delete(*s, at, at+1)
	return e
}
