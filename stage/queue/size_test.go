package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// slots is how much room a line has.
func (l *Line[T]) slots() int {
	n := len(l.given.slots) + len(l.came.slots)
	switch o := l.order.(type) {
	case *turn[T]:
		n += len(o.items.slots)
	case *rank[T]:
		n += len(o.items)
	}
	return n
}

func TestALineIsAsLargeAsWhatItHolds(t *testing.T) {
	for _, d := range all() {
		t.Run(d.Name(), func(t *testing.T) {
			l := New[int](d)
			assert.Zero(t, l.slots(), "an idle stage costs nothing")
			l.Push(0, 0)
			assert.Equal(t, first, l.slots())

			for i := range 1<<16 - 1 {
				l.Push(i, Key(i%10))
			}
			assert.Equal(t, 1<<16, l.slots())

			l.PopInto(make([]int, 1<<16-1<<13))
			assert.Equal(t, 1<<14, l.slots(), "half full after a burst")
			for l.Len() > 1 {
				l.Drop()
			}
			assert.Equal(t, kept, l.slots(), "a usual queue is kept")

			l.Drain()
			assert.Zero(t, l.slots())
		})
	}
}

func TestSizesPayForTheirMoves(t *testing.T) {
	for _, size := range []int{2 * kept, 16 * kept, 1 << 20} {
		n := size / 8
		less := shrunk(size, n)
		assert.Less(t, less, size)
		assert.GreaterOrEqual(t, less-n, n, "as many must come as were moved before it grows again")
		assert.Equal(t, less, shrunk(less, n), "nor does it shrink again")
		assert.Equal(t, size, shrunk(size, n+1))
	}
	assert.Equal(t, kept, shrunk(kept, 0))
	assert.Equal(t, first, shrunk(first, 0))
	assert.Equal(t, first, grown(0, 1))
	assert.Equal(t, 4*first, grown(first, 2*first+1))
}

// A line whose length swings between two sizes, however wide, moves each item a few
// times at most.
func TestASwingIsPaidFor(t *testing.T) {
	for _, d := range all() {
		l := New[int](d)
		hand := make([]int, 1<<15)
		moved, slots := 0, 0
		for range 10 {
			for range hand {
				l.Push(0, 0)
				if l.slots() != slots {
					moved, slots = moved+l.Len(), l.slots()
				}
			}
			for l.Len() > 0 {
				l.PopInto(hand[:64])
				if l.slots() != slots {
					moved, slots = moved+l.Len(), l.slots()
				}
			}
		}
		assert.Less(t, moved, 2*10*len(hand), d.Name())
	}
}
