package queue_test

import (
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/queue"
)

// lineAndModel is a line and its model; every operation is done to both.
type lineAndModel struct {
	t     require.TestingT
	line  *queue.Line[int]
	model model
	made  int   // items so far; each is its own number
	taken []int // taken and not yet processed
}

func newLineAndModel(t require.TestingT, l law) *lineAndModel {
	return &lineAndModel{t: t, line: queue.New[int](l.discipline), model: model{law: l}}
}

func (w *lineAndModel) push(key queue.Key) {
	w.line.Push(w.made, key)
	w.model.arrived = append(w.model.arrived, waiting{w.made, key})
	w.made++
}

// pushAll pushes one item for each key, with or without the keys.
func (w *lineAndModel) pushAll(keys []queue.Key, keyed bool) {
	items := make([]int, 0, len(keys))
	for _, key := range keys {
		if !keyed {
			key = 0
		}
		items = append(items, w.made)
		w.model.arrived = append(w.model.arrived, waiting{w.made, key})
		w.made++
	}
	if !keyed {
		keys = nil
	}
	w.line.PushAll(items, keys)
}

// popInto takes up to n items; the items that were taken before count as processed.
func (w *lineAndModel) popInto(n int) {
	w.taken = make([]int, n)
	w.taken = w.taken[:w.line.PopInto(w.taken)]
	require.Equal(w.t, w.model.popAll(n), w.taken)
}

// giveBack puts back all taken items except the first n.
func (w *lineAndModel) giveBack(n int) {
	rest := w.taken[min(n, len(w.taken)):]
	w.line.PushFront(rest)
	w.model.returned = slices.Concat(rest, w.model.returned)
	w.taken = nil
}

func (w *lineAndModel) drop() {
	if w.model.len() == 0 {
		require.Nil(w.t, w.line.Oldest())
		require.Panics(w.t, func() { w.line.Drop() })
		return
	}
	want := w.model.drop()
	require.Equal(w.t, want, *w.line.Oldest())
	require.Equal(w.t, want, w.line.Drop())
}

// remove removes the items that a number divides.
func (w *lineAndModel) remove(divisor int) {
	is := func(item *int) bool { return *item%divisor == 0 }
	want := []int{}
	w.model.returned = slices.DeleteFunc(w.model.returned, func(item int) bool {
		if is(&item) {
			want = append(want, item)
		}
		return is(&item)
	})
	w.model.arrived = slices.DeleteFunc(w.model.arrived, func(c waiting) bool {
		if is(&c.item) {
			want = append(want, c.item)
		}
		return is(&c.item)
	})
	asked := map[int]int{}
	all := w.line.Len()
	got := w.line.Remove(func(item *int) bool { asked[*item]++; return is(item) })
	require.Equal(w.t, want, append([]int{}, got...))
	require.Len(w.t, asked, all)
	for _, n := range asked {
		require.Equal(w.t, 1, n)
	}
}

func (w *lineAndModel) drain() {
	require.Equal(w.t, w.model.popAll(w.model.len()), w.line.Drain())
	w.model.taken = 0
}

// switchTo changes to another law, with keys of its own.
func (w *lineAndModel) switchTo(l law, salt int) {
	key := func(item *int) queue.Key { return queue.Key((*item * salt) % 5) }
	w.line.Switch(l.discipline, key)
	w.model.switchTo(l, key)
}

// compare compares everything that can be read without changing the line.
func (w *lineAndModel) compare() {
	require.Equal(w.t, w.model.len(), w.line.Len())
	third := func(item int) bool { return item%3 == 0 }
	n := 0
	for _, item := range w.model.returned {
		n += count(third(item))
	}
	for _, c := range w.model.arrived {
		n += count(third(c.item))
	}
	require.Equal(w.t, n, w.line.Count(func(item *int) bool { return third(*item) }))
	require.Nil(w.t, w.line.At(-1))
	require.Nil(w.t, w.line.At(w.line.Len()))
	for i, item := range w.model.returned {
		if at := *w.line.At(i); at != item { // there may be many, and require is slow
			require.Equal(w.t, item, at)
		}
	}
	if w.model.len() == 0 {
		require.Nil(w.t, w.line.Oldest())
		return
	}
	if len(w.model.arrived) > 0 {
		next := w.model.arrived[w.model.upcoming()]
		require.Equal(w.t, next.item, *w.line.At(len(w.model.returned)))
	}
	m := model{w.model.law, slices.Clone(w.model.returned), slices.Clone(w.model.arrived), w.model.taken}
	require.Equal(w.t, m.drop(), *w.line.Oldest())
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// popRest takes the remaining items one at a time, and compares each with At(0) before.
func (w *lineAndModel) popRest() {
	for w.line.Len() > 0 {
		next := *w.line.At(0)
		w.popInto(1)
		require.Equal(w.t, []int{next}, w.taken)
	}
	require.Zero(w.t, w.model.len())
}

func TestALineDoesWhatTheModelDoes(t *testing.T) {
	key := rapid.Map(rapid.IntRange(-3, 3), func(n int) queue.Key { return queue.Key(n) })
	forEach(t, func(t *testing.T, l law) {
		rapid.Check(t, func(t *rapid.T) {
			w := newLineAndModel(t, l)
			t.Repeat(map[string]func(*rapid.T){
				"push": func(t *rapid.T) { w.push(key.Draw(t, "key")) },
				"push all": func(t *rapid.T) {
					w.pushAll(rapid.SliceOfN(key, 0, 90).Draw(t, "keys"), rapid.Bool().Draw(t, "keyed"))
				},
				"pop into":  func(t *rapid.T) { w.popInto(rapid.IntRange(0, 40).Draw(t, "most")) },
				"give back": func(t *rapid.T) { w.giveBack(rapid.IntRange(0, 5).Draw(t, "done")) },
				"drop":      func(*rapid.T) { w.drop() },
				"remove":    func(t *rapid.T) { w.remove(rapid.IntRange(1, 9).Draw(t, "divisor")) },
				"drain": func(t *rapid.T) {
					if rapid.IntRange(0, 9).Draw(t, "chance") == 0 {
						w.drain()
					}
				},
				"switch": func(t *rapid.T) {
					if rapid.IntRange(0, 9).Draw(t, "chance") == 0 {
						w.switchTo(laws[rapid.SampledFrom(everyLaw).Draw(t, "to")], rapid.IntRange(1, 4).Draw(t, "salt"))
					}
				},
				"": func(*rapid.T) { w.compare() },
			})
			w.popRest()
		})
	})
}

// The first byte chooses the discipline, each further one a step: what to do, and how much.
func FuzzALineDoesWhatTheModelDoes(f *testing.F) {
	for i := range everyLaw {
		f.Add([]byte{byte(i), 0, 9, 18, 0x3f, 2, 3, 1, 4, 0x7f, 0x0a, 3, 0x32, 4, 5, 0x23, 6, 2})
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) == 0 {
			return
		}
		w := newLineAndModel(t, laws[everyLaw[int(steps[0])%len(everyLaw)]])
		for _, step := range steps[1:min(len(steps), 60)] {
			w.step(int(step%8), int(step/8))
			w.compare()
		}
		w.popRest()
	})
}

func (w *lineAndModel) step(what, much int) {
	switch what {
	case 0, 1:
		w.push(queue.Key(much%7 - 3))
	case 2:
		keys := make([]queue.Key, 2*much)
		for i := range keys {
			keys[i] = queue.Key((i*much)%5 - 2)
		}
		w.pushAll(keys, much%2 == 0)
	case 3:
		w.popInto(much)
	case 4:
		w.giveBack(much % 4)
	case 5:
		w.drop()
	case 6:
		w.switchTo(laws[everyLaw[much%len(everyLaw)]], 1+much)
	default:
		if much == 0 {
			w.drain()
		} else {
			w.remove(much)
		}
	}
}

// A burst makes all stores grow, wrap around, and shrink.
func TestNoItemIsLostOrDuplicatedInABurst(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		w := newLineAndModel(t, l)
		for i := range 3000 {
			w.push(queue.Key(i * 7919 % 13))
			if i%3 == 0 {
				w.popInto(1)
			}
		}
		w.popInto(300)
		w.giveBack(100)
		for range 500 {
			w.drop()
		}
		w.compare()
		w.remove(3)
		w.compare()
		w.popInto(1000)
		w.remove(1)
		w.compare()
		w.push(1)
		w.popRest()
	})
}

func TestReturnedItemsComeOutFirstAndInOrder(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		line := queue.New[string](l.discipline)
		line.PushFront([]string{"c", "d"})
		line.Push("e", -9)
		line.PushFront([]string{"a", "b"})
		line.PushFront(nil)
		line.Push("f", -99)
		got := make([]string, 4)
		require.Equal(t, 4, line.PopInto(got))
		assert.Equal(t, []string{"a", "b", "c", "d"}, got)
	})
}

func TestReturnedItemsAreDroppedFirstOnlyIfTheirAgeIsKnown(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		line := queue.New[string](l.discipline)
		line.PushAll([]string{"old", "new"}, nil)
		line.PushFront([]string{"back"})
		want := []string{"back", "old", "new"}
		if l.forgets {
			want = []string{"old", "new", "back"}
		}
		assert.Equal(t, want, []string{line.Drop(), line.Drop(), line.Drop()})
		assert.Zero(t, line.Len())
	})
}

func TestDrainReturnsWhatPopReturns(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		fill := func() *queue.Line[int] {
			line := queue.New[int](l.discipline)
			for i := range 200 {
				line.Push(i, queue.Key(i*31%17))
			}
			line.PushFront([]int{-2, -1})
			return line
		}
		popped := make([]int, 300)
		line := fill()
		n := line.PopInto(popped)
		assert.Equal(t, popped[:n], fill().Drain())

		line = fill()
		line.Drain()
		assert.Empty(t, line.Drain())
		line.Push(7, 0)
		assert.Equal(t, []int{7}, line.Drain(), "a drained line can be used")
	})
}

func TestTheZeroLineIsFirstInFirstOut(t *testing.T) {
	var line queue.Line[int]
	assert.Zero(t, line.Len())
	assert.Zero(t, line.PopInto(make([]int, 3)))
	assert.Nil(t, line.At(0))
	assert.Nil(t, line.Oldest())
	line.PushAll(nil, nil)
	line.PushAll([]int{1, 2}, []queue.Key{5, 4})
	line.Push(3, -1)
	assert.Equal(t, []int{1, 2, 3}, line.Drain())

	line.Switch(queue.LIFO{}, nil)
	line.PushAll([]int{1, 2}, nil)
	assert.Equal(t, []int{2, 1}, line.Drain())
}

func TestASwitchReordersTheBacklog(t *testing.T) {
	urgent := func(item *int) queue.Key { return queue.Key(-*item) }
	for name, c := range map[string]struct {
		from, to queue.Discipline
		key      func(*int) queue.Key
		want     []int
	}{
		"FIFO to LIFO, the newest first":            {queue.FIFO{}, queue.LIFO{}, nil, []int{0, 5, 4, 3, 2, 1}},
		"LIFO to FIFO, the oldest first":            {queue.LIFO{}, queue.FIFO{}, nil, []int{0, 1, 2, 3, 4, 5}},
		"to Priority with keys, by key":             {queue.FIFO{}, queue.Priority{}, urgent, []int{0, 5, 4, 3, 2, 1}},
		"to Priority without keys, as they arrived": {queue.LIFO{}, queue.Priority{}, nil, []int{0, 1, 2, 3, 4, 5}},
		"FIFO to nil, unchanged":                    {queue.FIFO{}, nil, urgent, []int{0, 1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			line := queue.New[int](c.from)
			line.PushAll([]int{1, 2, 3, 4, 5}, nil)
			line.PushFront([]int{0})
			line.Switch(c.to, c.key)
			assert.Equal(t, c.want, line.Drain())
		})
	}
}

func TestPushAllPanicsIfOnlySomeItemsHaveKeys(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		line := queue.New[int](l.discipline)
		assert.Panics(t, func() { line.PushAll([]int{1, 2}, []queue.Key{1}) })
		assert.Zero(t, line.Len())
	})
}

func TestALineKeepsNoReferenceToItemsThatItReturned(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		line := queue.New[*[16]int](l.discipline)
		var seen []weak.Pointer[[16]int]
		push := func(n int) {
			for i := range n {
				item := new([16]int)
				seen = append(seen, weak.Make(item))
				line.Push(item, queue.Key(i%3))
			}
		}
		func() { // its variables are unreachable after its end
			push(100)
			batch := make([]*[16]int, 10)
			line.PopInto(batch)
			line.PushFront(batch)
			line.PopInto(batch[:5])
			line.PushFront(batch[:5]) // wraps around
			for range 20 {
				line.Drop()
			}
			line.PopInto(make([]*[16]int, 40))
			push(80) // wraps around, in the 128 slots
			line.PopInto(make([]*[16]int, 80))
		}()
		runtime.GC()
		alive := 0
		for _, p := range seen {
			if p.Value() != nil {
				alive++
			}
		}
		assert.Equal(t, 40, alive, "as many as are queued")
		assert.Equal(t, 40, line.Len())
	})
}

func TestAMillionPushesAllocateNothing(t *testing.T) {
	forEach(t, func(t *testing.T, l law) {
		line := queue.New[int](l.discipline)
		items, keys := make([]int, 600), make([]queue.Key, 600)
		for i := range keys {
			keys[i] = queue.Key(i * 31 % 101)
		}
		round := func() {
			line.PushAll(items, keys)
			line.PopInto(items[:100])
			line.PushFront(items[:50])
			for range 50 {
				line.Drop()
			}
			for line.Len() > 0 {
				line.PopInto(items[:64])
			}
		}
		round()
		assert.Zero(t, testing.AllocsPerRun(1000, func() { round(); round() }))
	})
}
