package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// slots returns the size of a line's stores.
func (l *Line[T]) slots() int {
	n := l.returned.Cap() + l.arrived.Cap()
	switch o := l.order.(type) {
	case *adaptive[T]:
		n += o.items.Cap()
	case *rank[T]:
		n += len(o.items)
	}
	return n
}

func TestALineIsAboutAsLargeAsItsContent(t *testing.T) {
	for _, d := range all() {
		t.Run(d.Name(), func(t *testing.T) {
			l := New[int](d)
			assert.Zero(t, l.slots(), "an idle line has no slots")
			l.Push(0, 0)
			assert.Positive(t, l.slots())
			assert.LessOrEqual(t, l.slots(), first)

			for i := range 1<<16 - 1 {
				l.Push(i, Key(i%10))
			}
			assert.Equal(t, 1<<16, l.slots())

			l.PopInto(make([]int, 1<<16-1<<13))
			assert.Equal(t, 1<<14, l.slots(), "half full after a burst")
			for l.Len() > 1 {
				l.Drop()
			}
			assert.Equal(t, kept, l.slots(), "a line keeps the usual size")

			l.Drain()
			assert.Zero(t, l.slots())
		})
	}
}

func TestTheCostOfResizingIsAmortized(t *testing.T) {
	for _, size := range []int{2 * kept, 16 * kept, 1 << 20} {
		n := size / 8
		less := shrunk(size, n)
		assert.Less(t, less, size)
		assert.GreaterOrEqual(t, less-n, n, "as many items must arrive as were moved before it grows again")
		assert.Equal(t, less, shrunk(less, n), "it does not shrink again")
		assert.Equal(t, size, shrunk(size, n+1))
	}
	assert.Equal(t, kept, shrunk(kept, 0))
	assert.Equal(t, first, shrunk(first, 0))
	assert.Equal(t, first, grown(0, 1))
	assert.Equal(t, 4*first, grown(first, 2*first+1))
}

// A line that changes its length again and again, by any amount, moves each item a few times at most.
func TestAChangingLengthMovesEachItemAFewTimesAtMost(t *testing.T) {
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
