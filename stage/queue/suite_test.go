package queue_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/queue"
)

// law is a discipline and a simple function that predicts its order.
type law struct {
	discipline queue.Discipline
	// next returns the index of the item that comes out next, among the waiting items in the order of their arrival.
	next func(arrived []waiting) int
	// forgets is true if the age of a command is not known after it was taken.
	forgets bool
	// every is of how many items that are taken one is the oldest of all; 0 means none.
	every int
}

// waiting is an item that was pushed, with its key.
type waiting struct {
	item int
	key  queue.Key
}

// laws are all disciplines: those that [queue.ByName] knows, and others.
var laws = map[string]law{
	"no discipline": {nil, oldest, false, 0},
	"fifo":          {queue.FIFO{}, oldest, false, 0},
	"lifo":          {queue.LIFO{}, newest, true, 0},
	"lifo-adaptive": {queue.AdaptiveLIFO{}, newestAbove(64), true, 0},
	"lifo-adaptive above one": {
		queue.AdaptiveLIFO{Above: 1}, newestAbove(1), true, 0,
	},
	"lifo-adaptive above five": {
		queue.AdaptiveLIFO{Above: 5}, newestAbove(5), true, 0,
	},
	"lifo-adaptive above all": {
		queue.AdaptiveLIFO{Above: math.MaxInt}, oldest, true, 0,
	},
	"priority":                                  {queue.Priority{}, smallest, true, 0},
	"priority by hand":                          {queue.PriorityOf(func(n int) int { return n }), smallest, true, 0},
	"priority, the oldest every second time":    {queue.Priority{}.Every(2), smallest, true, 2},
	"priority by hand, the oldest now and then": {queue.PriorityOf(func(n int) int { return n }).Every(7), smallest, true, 7},
	"deadline":                                  {queue.Deadline{}, smallest, true, 0},
	"deadline by hand ":                         {queue.DeadlineOf(func(int) time.Time { return time.Time{} }), smallest, true, 0},
}

// everyLaw is the sorted names of the laws, so that a number identifies one.
var everyLaw = slices.Sorted(maps.Keys(laws))

// forEach runs a test for every discipline.
func forEach(t *testing.T, test func(t *testing.T, l law)) {
	for _, name := range everyLaw {
		t.Run(name, func(t *testing.T) { test(t, laws[name]) })
	}
}

func oldest([]waiting) int         { return 0 }
func newest(arrived []waiting) int { return len(arrived) - 1 }

func newestAbove(above int) func([]waiting) int {
	return func(arrived []waiting) int {
		if len(arrived) > above {
			return newest(arrived)
		}
		return oldest(arrived)
	}
}

// smallest returns the first of those that have the smallest key.
func smallest(arrived []waiting) int {
	least := slices.MinFunc(arrived, func(a, b waiting) int { return cmp.Compare(a.key, b.key) })
	return slices.IndexFunc(arrived, func(w waiting) bool { return w.key == least.key })
}

// model is a slow line: two slices that are searched for the next item.
type model struct {
	law
	returned []int
	arrived  []waiting
	taken    int // since the oldest had its turn
}

func (m *model) len() int { return len(m.returned) + len(m.arrived) }

func (m *model) pop() int {
	if len(m.returned) > 0 {
		return take(&m.returned, 0)
	}
	at := m.upcoming()
	if m.taken++; m.taken >= m.every {
		m.taken = 0
	}
	return take(&m.arrived, at).item
}

// upcoming returns the index of the arrived item that comes out next.
func (m *model) upcoming() int {
	if m.every > 0 && m.taken == m.every-1 {
		return oldest(m.arrived)
	}
	return m.next(m.arrived)
}

func (m *model) drop() int {
	if len(m.returned) > 0 && (!m.forgets || len(m.arrived) == 0) {
		return take(&m.returned, 0)
	}
	return take(&m.arrived, 0).item
}

func (m *model) popAll(n int) []int {
	n = min(n, m.len())
	items := make([]int, 0, n)
	for range n {
		items = append(items, m.pop())
	}
	return items
}

// switchTo changes to another law.
func (m *model) switchTo(l law, key func(item *int) queue.Key) {
	m.law, m.taken = l, 0
	for i := range m.arrived {
		m.arrived[i].key = key(&m.arrived[i].item)
	}
}

// take removes and returns the element at an index.
func take[E any](s *[]E, at int) E {
	e := (*s)[at]
	*s = slices.Delete(*s, at, at+1)
	return e
}

// orders say which of two commands comes first, below 0 for a, in disciplines that ask for keys.
var orders = map[string]func(a, b job) int{
	"priority": func(a, b job) int { return cmp.Compare(b.importance, a.importance) },
	"deadline": func(a, b job) int { return a.due.Compare(b.due) },
}

func TestTheKeysOfCommandsAreInTheirOrder(t *testing.T) {
	for _, name := range queue.Names() {
		d, err := queue.ByName(name)
		require.NoError(t, err)
		keyed, ok := d.(queue.Keyed)
		if !ok {
			continue
		}
		require.Contains(t, orders, name, "a discipline with keys needs a line here")
		rapid.Check(t, func(t *rapid.T) {
			jobs := rapid.Custom(func(t *rapid.T) job {
				return job{rapid.IntRange(-3, 3).Draw(t, "importance"), time.Unix(rapid.Int64Range(1, 5).Draw(t, "due"), 0)}
			})
			a, b := jobs.Draw(t, "a"), jobs.Draw(t, "b")
			require.Equal(t, orders[name](a, b), cmp.Compare(keyed.Key(a), keyed.Key(b)))
		})
	}
}
